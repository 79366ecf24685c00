"""What a reload makes of the children that it sees."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

import pytest

from tests._memory_plant import FakeClock
from tests.unit.plants.test_standstill import Waiting
from trimtab.errors import ApplyFailed
from trimtab.plants._standstill import Standstill
from trimtab.plants.apache import reload
from trimtab.plants.apache.process import Generations, Parent

NOBODY = Generations((), ())
PIPES = frozenset({"pipe:[1]"})


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch) -> Parent:
    """One that opens a new pipe when it is told to reload."""
    pipes = chain([PIPES], repeat(frozenset({"pipe:[2]"})))
    monkeypatch.setattr(reload, "descriptors", lambda pid, kind: next(pipes))
    monkeypatch.setattr(Parent, "check", lambda self: None)
    monkeypatch.setattr(Parent, "signal", lambda self, number: None)
    return Parent(812, 1, Path("/usr/sbin/apache2"), ("apache2", "-k", "start"), os.geteuid())


def looks(monkeypatch: pytest.MonkeyPatch, *first: Generations) -> None:
    """What is seen look by look; the last again and again."""

    def seen() -> Iterator[Generations]:
        yield from first
        while True:
            yield first[-1]

    series = seen()
    monkeypatch.setattr(reload, "generations", lambda parent, present: next(series))


def test_a_helper_that_looked_like_a_worker_does_not_end_the_wait(
    monkeypatch: pytest.MonkeyPatch, parent: Parent
) -> None:
    helper, worker = Generations((6124,), (6097,)), Generations((6125,), ())
    looks(monkeypatch, helper, helper, NOBODY, NOBODY, NOBODY, worker)
    assert reload.reload(parent, FakeClock(), reload.Patience(), Standstill(FakeClock(), Waiting), PIPES) == worker


def test_a_standstill_lasts_from_the_signal_until_a_worker_of_the_new_generation(
    monkeypatch: pytest.MonkeyPatch, parent: Parent
) -> None:
    clock, worker = FakeClock(), Generations((6125,), ())
    looks(monkeypatch, NOBODY, NOBODY, NOBODY, worker)
    began_s, standstill = clock.now_s(), Standstill(clock, Waiting)
    reload.reload(parent, clock, reload.Patience(), standstill, PIPES)
    assert 0 < standstill.duration_s <= clock.now_s() - began_s


def test_a_reload_without_any_child_failed_after_all_of_the_wait(
    monkeypatch: pytest.MonkeyPatch, parent: Parent
) -> None:
    clock = FakeClock()
    looks(monkeypatch, Generations((6124,), ()), NOBODY)
    began_s = clock.now_s()
    with pytest.raises(ApplyFailed, match="no new worker within 20 s"):
        reload.reload(parent, clock, reload.Patience(), Standstill(clock, Waiting), PIPES)
    assert clock.now_s() - began_s >= 20.0


@pytest.mark.parametrize("his_s", [0.05, 0.5], ids=["before a worker of ours", "after it"])
def test_a_reload_of_somebody_elses_within_the_wait_is_as_good_as_ours(
    monkeypatch: pytest.MonkeyPatch, parent: Parent, his_s: float
) -> None:
    """As logrotate's: his workers seemed to be of before ours, which were waited for and had gone."""
    clock, told_s = FakeClock(), list[float]()

    def since_s() -> float:
        return clock.now_s() - told_s[0]

    def held(pid: int, kind: str) -> frozenset[str]:
        if not told_s:
            return PIPES
        if since_s() < his_s:
            return frozenset({"pipe:[2]"})
        return frozenset() if since_s() < his_s + 0.2 else frozenset({"pipe:[3]"})

    def generations(parent: Parent, present: frozenset[str]) -> Generations:
        there = {6097: "pipe:[1]"}  # serves a long request
        there |= {6125: "pipe:[2]"} if 0.1 <= since_s() < his_s else {}
        there |= {6200: "pipe:[3]"} if since_s() >= his_s + 0.3 else {}
        workers = tuple(pid for pid, pipe in there.items() if pipe in present)
        return Generations(workers, tuple(there.keys() - {*workers}))

    monkeypatch.setattr(Parent, "signal", lambda self, number: told_s.append(clock.now_s()))
    monkeypatch.setattr(reload, "descriptors", held)
    monkeypatch.setattr(reload, "generations", generations)
    seen = reload.reload(parent, clock, reload.Patience(), Standstill(clock, Waiting), PIPES)
    assert seen == Generations((6200,), (6097,))
    assert since_s() < reload.Patience().serve_s
