"""What is said of the workers that are still beyond a limit when a drain ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests._memory_plant import FakeClock
from trimtab import processes
from trimtab.plants.apache import drain, process, status
from trimtab.plants.apache.process import Generations, Parent

PARENT = Parent(1 << 30, 1, Path("/bin/true"), ("apache2",), os.geteuid())


def drained(monkeypatch: pytest.MonkeyPatch, children: Callable[[float], list[int]]) -> drain.Drained:
    """A drain to one slot, with 10 in it and 11 in the next, while there are these children so many seconds later."""
    clock = FakeClock()
    began_s = clock.now_s()
    monkeypatch.setattr(processes, "children", lambda pid: children(clock.now_s() - began_s))
    monkeypatch.setattr(processes, "program_of", lambda pid: PARENT.exe)
    monkeypatch.setattr(process, "generations", lambda parent, present: Generations((10, 11), ()))
    monkeypatch.setattr(status, "slots", lambda url: {10: 0, 11: 1})
    monkeypatch.setattr(status, "scoreboard", lambda url, patience_s: "W")
    monkeypatch.setattr(Parent, "check", lambda self: None)
    monkeypatch.setattr(Parent, "signal_child", lambda self, pid, number: None)
    return drain.drain(PARENT, clock, "", 1, 2.0)


def test_one_that_serves_on_until_the_end_is_left_and_not_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    room = drained(monkeypatch, lambda _: [10, 11])
    assert (room.left, room.fresh) == (1, False)


def test_where_all_have_finished_none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    room = drained(monkeypatch, lambda passed_s: [10, 11] if passed_s < 0.5 else [10])
    assert (room.left, room.fresh) == (0, False)


def test_one_that_the_parent_has_just_started_is_left_and_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    def children(passed_s: float) -> list[int]:
        return [10, 11] if passed_s < 0.1 else [10, 11, 20] if passed_s < 1.0 else [10, 21]

    room = drained(monkeypatch, children)
    assert (room.left, room.fresh) == (1, True)
