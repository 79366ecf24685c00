"""A smaller limit of a prefork is refused where that would lose places of the scoreboard, and nothing is reloaded."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests._memory_plant import FakeClock
from tests.unit.plants.test_standstill import Waiting
from trimtab.errors import ApplyFailed, ApplyLater
from trimtab.plants import _own_file
from trimtab.plants._program import Verdict
from trimtab.plants._standstill import Standstill
from trimtab.plants.apache import change, status
from trimtab.plants.apache.attached import Attached
from trimtab.plants.apache.change import Change, blocked
from trimtab.plants.apache.drain import Drained
from trimtab.plants.apache.process import Generations, Parent
from trimtab.plants.apache.reload import Patience

QUIET, CROWDED = "W" + "_" * 99, "W" * 100
PIPES = frozenset({"pipe:[1]"})


@dataclass
class Prefork:
    """One that has the limit that its file says in force once it is reloaded, and drains as it is told.

    Attributes:
        rooms: what comes of each drain.
        did: what was done to it, in order.
        pipes: those that it holds at the end of a drain.
        children: those that there seem to be, until it is looked at again.
    """

    path: Path
    board: str
    rooms: list[Drained]
    pipes: frozenset[str] = PIPES
    did: list[str] = field(default_factory=list)
    in_force: dict[str, int] = field(default_factory=lambda: {"max_request_workers": 100})
    limits: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(mpm="prefork", server_limit=256, threads_per_child=1, spare_servers=5)
    )
    master: Parent = field(default_factory=lambda: Parent(1 << 30, 1, Path("/bin/true"), ("apache2",), os.geteuid()))
    listeners: tuple[()] = ()
    status_url: str = ""
    standstill: Standstill | None = None
    held_s: float = 0.0
    busy_until_s: float = 0.0
    reading_s: float = 0.0
    spares: bool = False
    lost: str = ""
    children: Generations = field(default_factory=lambda: Generations((1,), ()))
    patience: list[Patience] = field(default_factory=list)

    @property
    def config(self) -> int:
        """Its limit by the file."""
        return int(_own_file.read(self.path) or 100)

    def test(self) -> Verdict:
        return Verdict(True, "")

    def read_running(self) -> None:
        self.in_force = {"max_request_workers": self.config}

    def generations(self) -> Generations:
        return self.children

    def refresh(self) -> None:
        self.children = Generations((1,), ())

    def blocked(self, ending: int) -> int:
        return 0

    def ended(self) -> str:
        return self.lost

    def drain(self, *args: object) -> Drained:
        self.did.append(f"all of {args[3]}" if args[6] else f"to {args[3]}")
        return self.rooms.pop(0)

    def reload(self, *args: object) -> Generations:
        self.patience.append(cast(Patience, args[2]))
        self.did.append(f"reload to {self.config}")
        return Generations((1,), ())


Make = Callable[..., Prefork]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes one, whose file says a limit of 100 by itself."""

    @contextlib.contextmanager
    def held(master: Parent) -> Iterator[bool]:
        yield True

    def made(board: str, *rooms: Drained, pipes: frozenset[str] = PIPES) -> Prefork:
        apache = Prefork(tmp_path / "zz.conf", board, list(rooms), pipes)
        monkeypatch.setattr(change, "drain", apache.drain)
        monkeypatch.setattr(change, "reload", apache.reload)
        monkeypatch.setattr(change, "descriptors", lambda pid, kind: apache.pipes)
        monkeypatch.setattr(status, "scoreboard", lambda url, patience_s: apache.board)
        return apache

    monkeypatch.setattr(change, "held", held)
    monkeypatch.setattr(change, "started", lambda parent, clock: None)
    monkeypatch.setattr(change, "quiet", lambda parent, clock: PIPES)
    monkeypatch.setattr(change, "children", lambda pid: [1])
    monkeypatch.setattr(change, "limits", lambda config: SimpleNamespace(max_request_workers=config))
    monkeypatch.setattr(change, "Queues", lambda listeners, pid: Waiting())
    return made


def of(apache: Prefork, text: str | None) -> Change:
    return Change(cast(Attached, apache), FakeClock(), {apache.path: text}, Patience())


def bring(apache: Prefork, limit: int) -> tuple[str, ...]:
    expected: Mapping[str, int] = {"max_request_workers": limit}
    return of(apache, str(limit)).bring(expected)


def test_a_limit_beyond_which_long_requests_are_served_is_refused_and_nothing_is_reloaded(make: Make) -> None:
    apache = make(QUIET, Drained(3, {}))
    with pytest.raises(ApplyLater, match="3 workers beyond the limit of 40 still serve long requests, whose"):
        bring(apache, 40)
    assert apache.did == ["to 40"]
    assert (apache.path.exists(), apache.in_force, apache.standstill) == (False, {"max_request_workers": 100}, None)


def test_one_such_request_is_enough_and_the_file_of_before_comes_back(make: Make) -> None:
    apache = make(QUIET, Drained(1, {}))
    apache.path.write_text("90")
    apache.in_force["max_request_workers"] = 90
    with pytest.raises(ApplyLater, match="1 worker beyond the limit of 40 still serves a long request, whose"):
        bring(apache, 40)
    assert (apache.did, apache.path.read_text()) == (["to 40"], "90")


def test_a_limit_beyond_which_all_have_finished_is_brought_into_force(make: Make) -> None:
    apache = make(QUIET, Drained(0, {}))
    assert bring(apache, 40) == ()
    assert apache.did == ["to 40", "reload to 40"]


def test_a_crowded_server_is_reloaded_all_the_same_since_that_ends_an_overload(make: Make) -> None:
    apache = make(CROWDED, Drained(9, {}), Drained(9, {}))
    assert bring(apache, 40) == (blocked(9),)
    assert apache.did == ["to 40", "all of 40", "reload to 40"]


def test_workers_that_the_parent_has_just_started_serve_nothing_and_refuse_nothing(make: Make) -> None:
    apache = make(QUIET, Drained(2, {}, fresh=True))
    assert bring(apache, 40) == (blocked(2),)
    assert apache.did == ["to 40", "reload to 40"]


def test_an_undo_brings_the_smaller_limit_of_before_back_all_the_same(make: Make) -> None:
    for board, rooms in ((QUIET, [Drained(9, {})]), (CROWDED, [Drained(9, {}), Drained(9, {})])):
        apache = make(board, *rooms)
        apache.path.write_text("150")
        apache.in_force["max_request_workers"] = 150
        of(apache, None).undo()
        assert apache.did[-1] == "reload to 100"
        assert not apache.path.exists()


def test_where_somebody_else_has_reloaded_meanwhile_what_was_before_is_reloaded(make: Make) -> None:
    apache = make(QUIET, Drained(3, {}), pipes=frozenset({"pipe:[2]"}))
    with pytest.raises(ApplyFailed, match="somebody else reloaded Apache"):
        bring(apache, 40)
    assert (apache.did, apache.path.exists()) == (["to 40", "reload to 100"], False)


def test_a_reload_of_somebody_elses_right_after_ours_makes_no_workers_too_many(make: Make) -> None:
    apache = make(QUIET, Drained(0, {}))
    apache.children = Generations(tuple(range(100)), ())  # all of both, while the parent has no pipe
    assert bring(apache, 40) == ()


def test_after_such_a_refusal_nobody_is_asked_to_finish_for_a_minute(make: Make) -> None:
    apache = make(QUIET, Drained(3, {}), Drained(0, {}))
    for said in ("3 workers beyond", "not yet tried again"):
        with pytest.raises(ApplyLater, match=said):
            bring(apache, 40)
    assert apache.did == ["to 40"]
    apache.busy_until_s = 0.0
    bring(apache, 40)
    assert apache.did == ["to 40", "to 40", "reload to 40"]


def test_a_configuration_that_takes_long_to_read_is_waited_for(make: Make) -> None:
    """It was put back by a second such reload."""
    apache = make(QUIET, Drained(0, {}))
    apache.reading_s = 25.0
    bring(apache, 40)
    assert apache.patience[-1].reload_s == Patience().reload_s + 50


def test_what_is_started_just_before_a_reload_that_would_end_it_puts_off_a_change_and_no_undo(make: Make) -> None:
    apache = make(QUIET, Drained(0, {}), Drained(0, {}))
    apache.spares, apache.lost = True, "a reload ends mod_fcgid's programs"
    with pytest.raises(ApplyLater, match="ends mod_fcgid's programs: not reloaded"):
        bring(apache, 40)
    assert (apache.did, apache.path.exists()) == (["to 40"], False)
    of(apache, None).undo()
    assert apache.did[-1] == "reload to 100"
    apache.spares = False
    bring(apache, 40)
    assert apache.did[-1] == "reload to 40"
