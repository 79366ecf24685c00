"""A backup that copies a MariaDB: what would end it waits, whenever it has begun and whatever locks it takes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.plants.test_mariadb_change import STACK, START, Link, World, attach, fresh
from trimtab.errors import ApplyLater
from trimtab.plants.mariadb import backup
from trimtab.plants.mariadb.link import Rejected

__all__ = ["fresh"]

WAITS = "a backup is under way, and would fail if thread_handling, thread_stack were changed"


class Backup:
    """One that takes its lock when it is begun."""

    def __init__(self) -> None:
        self.under_way = False
        self.asked = self.begins_after = 0

    def begin(self, after: int = 0) -> None:
        """Begins it, once trimtab has asked so often whether one is under way."""
        self.under_way, self.asked, self.begins_after = True, 0, after


@pytest.fixture
def copying(monkeypatch: pytest.MonkeyPatch) -> Backup:
    """A backup that has not begun."""
    usual, found = Link.ask, Backup()

    def ask(link: Link, statement: str, values: Sequence[Any] = ()) -> tuple[tuple[Any, ...], ...]:
        if "BACKUP STAGE START" in statement:
            found.asked += 1
            if found.under_way and found.asked > found.begins_after:
                raise Rejected("Lock wait timeout exceeded")
        return usual(link, statement, values)

    monkeypatch.setattr(Link, "ask", ask)
    return found


def test_one_that_begins_once_a_change_is_prepared_is_not_ended_by_its_restart(
    fresh: Callable[[], World], copying: Backup
) -> None:
    world = fresh()
    plant = attach(world)
    state = world.state()
    copying.begin(after=1)
    with pytest.raises(ApplyLater, match=WAITS):
        plant.apply({"thread_stack": STACK, "table_open_cache": 1600})
    assert copying.asked == 2
    assert (world.restarts, world.state()) == (0, state)
    copying.under_way = False
    assert plant.apply({"thread_stack": STACK}).configuration["thread_stack"] == STACK


def test_the_end_of_a_run_puts_back_what_takes_no_restart_and_an_undo_does_the_rest_later(
    fresh: Callable[[], World], copying: Backup
) -> None:
    world = fresh()
    plant = attach(world)
    plant.apply({"thread_stack": STACK, "table_open_cache": 1600})
    copying.begin()
    with pytest.raises(ApplyLater, match=WAITS):
        plant.restore()
    assert (world.restarts, world.values()["thread_stack"], world.values()["table_open_cache"]) == (1, STACK, 2000)
    later = attach(world)
    assert "thread_stack" in later.leftover()
    with pytest.raises(ApplyLater, match=WAITS):
        later.undo_leftover()
    assert world.restarts == 1 and "thread_stack" in later.leftover()
    copying.under_way = False
    later.undo_leftover()
    assert (world.state(), later.leftover()) == (START, "")


def test_what_a_killed_run_had_set_live_is_undone_beside_it(fresh: Callable[[], World], copying: Backup) -> None:
    world = fresh()
    attach(world).apply({"thread_stack": STACK, "table_open_cache": 1600})
    copying.begin()
    with pytest.raises(ApplyLater, match=WAITS):
        attach(world).undo_leftover()
    assert (world.restarts, world.values()["thread_stack"], world.values()["table_open_cache"]) == (1, STACK, 2000)


@pytest.fixture
def holds() -> Iterator[Callable[[Path], int]]:
    """Starts processes, each of which has a file open."""
    begun: list[subprocess.Popen[bytes]] = []

    def held(path: Path) -> int:
        with path.open("rb") as file:
            begun.append(subprocess.Popen(["sleep", "600"], stdin=file))
        return begun[-1].pid

    yield held
    for one in begun:
        one.kill()
        one.wait()


def test_whoever_has_the_same_redo_log_open_is_found_whatever_locks_he_takes(
    tmp_path: Path, holds: Callable[[Path], int]
) -> None:
    for name in ("own", "another", "link"):
        (tmp_path / name).mkdir()
    log, others = tmp_path / "own/ib_logfile0", tmp_path / "another/ib_logfile0"
    log.touch()
    others.touch()
    server: Any = SimpleNamespace(pid=holds(log))
    holds(others)
    assert backup.copied_by(server) is None
    (tmp_path / "link/ibdata1").hardlink_to(log)
    copier = holds(tmp_path / "link/ibdata1")
    assert backup.copied_by(server) == copier
    log.unlink()  # as where another log takes its place
    assert backup.copied_by(server) == copier


def test_of_a_server_without_such_a_file_nothing_is_said(tmp_path: Path, holds: Callable[[Path], int]) -> None:
    (tmp_path / "data").touch()
    server: Any = SimpleNamespace(pid=holds(tmp_path / "data"))
    assert backup.copied_by(server) is None


def test_a_change_that_would_end_its_copy_waits(fresh: Callable[[], World], monkeypatch: pytest.MonkeyPatch) -> None:
    world = fresh()
    plant = attach(world)
    monkeypatch.setattr(backup, "copied_by", lambda server: 4711)
    with pytest.raises(ApplyLater, match="if thread_stack were changed: pid 4711 has the redo log or the system"):
        plant.apply({"thread_stack": STACK})
    assert world.restarts == 0
    plant.apply({"table_open_cache": 1600})
