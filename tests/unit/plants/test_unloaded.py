"""A server whose files were put back, and that has not loaded them: whoever comes next is told, and has it done."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests._memory_plant import FakeClock
from tests.unit.plants.test_change import MASTER, Change, Server
from trimtab.errors import ApplyFailed, ApplyRefused
from trimtab.plants import _unloaded
from trimtab.plants._master import Master
from trimtab.plants._program import Verdict
from trimtab.processes import start_of


class Killed(BaseException):
    """trimtab is killed here."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """One whose first process is this one, with a 5 on trial."""
    monkeypatch.setattr("trimtab.own.transient", lambda name: tmp_path / name)
    started = start_of(os.getpid())
    assert started is not None
    found = Server(tmp_path / "zz.conf", master=Master(os.getpid(), started, Path("/bin/true"), (), os.geteuid()))
    change(found, 5).bring({"size": 5})
    assert _unloaded.marked(found.master) is None
    return found


def change(server: Server, value: int | None) -> Change:
    return Change(server, FakeClock(), {server.path: None if value is None else str(value)})


def killed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on a kill comes before the reload."""

    def dies(_: Server) -> None:
        raise Killed

    monkeypatch.setattr(Server, "reload", dies)


@pytest.mark.parametrize("brought", [True, False], ids=["by a change", "by an undo"])
def test_a_kill_between_the_file_and_the_reload_is_seen_until_that_is_made_good(
    server: Server, brought: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(Killed):
        killed(server, patch)
        if brought:
            patch.setattr(Change, "_go_back", lambda *_: None)
            change(server, None).bring({"size": 1})
        else:
            change(server, None).undo()
    assert not server.path.exists() and _unloaded.marked(server.master) == {"size": 5}
    change(server, None).undo()
    assert server.in_force == {"size": 1} and _unloaded.marked(server.master) is None


def test_an_undo_whose_reload_failed_is_not_forgotten_once_it_was_said(server: Server) -> None:
    """Asked again, `runs undo` found nothing left, and the run counted as undone with its trial in force."""
    server.says = lambda _: Verdict(False, "some other line")
    with pytest.raises(ApplyFailed, match="was not reloaded to it"):
        change(server, None).undo()
    assert _unloaded.marked(server.master) == {"size": 5}
    server.says = lambda _: Verdict(True, "")
    change(server, None).undo()
    assert _unloaded.marked(server.master) is None


def test_a_change_that_is_refused_leaves_no_mark(server: Server) -> None:
    server.says = lambda text: Verdict(text is not None, "no file")
    with pytest.raises(ApplyRefused, match="no file"):
        change(server, None).bring({"size": 1})
    assert server.path.read_text() == "5" and _unloaded.marked(server.master) is None


def test_of_a_process_that_has_ended_nothing_is_marked(server: Server, tmp_path: Path) -> None:
    _unloaded.mark(MASTER, {"size": 5})
    assert _unloaded.marked(MASTER) is None and not (tmp_path / "runs").exists()


def test_where_no_mark_can_be_made_all_is_put_back_the_same(server: Server, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("no directory")
    change(server, None).undo()
    assert not server.path.exists() and server.in_force == {"size": 1}
