"""Guards in a stack: each tier's workers are held against its own memory and its own idle workers."""

from __future__ import annotations

from dataclasses import replace

from tests._curve import MIB, worker_knob
from trimtab import codec
from trimtab.core import Knob, Move, Objective, Reading, Window
from trimtab.guard import of_knobs, review_all
from trimtab.guard._tier import OfTier
from trimtab.guard.feasibility import Feasibility
from trimtab.guard.not_binding import NotBinding

OBJECTIVE = Objective()


def knob(tier: str) -> Knob:
    return replace(worker_knob(), name=f"{tier}.workers", tier=tier)


def measured(tier: str, busy: float, memory_mib: float) -> tuple[Reading, ...]:
    """A tier of 12 MiB a worker and 40 MiB beside them, with so much memory."""
    found = {
        "busy_workers": busy,
        "idle_workers": 0.0,
        "accept_queue_length": 0.0,
        "worker_memory_bytes": 12 * MIB,
        "memory_limit_bytes": memory_mib * MIB,
        "memory_bytes": (40 + 12 * busy) * MIB,
    }
    return tuple(Reading(name, value, f"{tier}/resources") for name, value in found.items())


def window(web: tuple[float, float], app: tuple[float, float]) -> Window:
    """A window in which decisions go by the first tier, of both with 20 workers allowed.

    Args:
        web: busy workers, and MiB of memory.
        app: the same of the other tier.
    """
    seen = (*measured("web", *web), *measured("app", *app))
    readings = {one.metric: one.value for one in reversed(seen)}
    return Window(0, 0.0, 10.0, {"web.workers": 20, "app.workers": 20}, readings, 1000, measured=seen)


def reviewed(window: Window, *tiers: str) -> Move:
    knobs = tuple(map(knob, tiers))
    guards = of_knobs(OBJECTIVE, knobs)
    wanted = Move({one.name: 40 for one in knobs}, "why")
    return review_all(guards, tuple(guard.start(knobs) for guard in guards), window, wanted)[1]


def test_each_tier_is_held_against_its_own_memory() -> None:
    seen = window(web=(20, 4000), app=(20, 400))
    assert reviewed(seen, "web", "app").changes == {"web.workers": 40, "app.workers": 26}
    other = window(web=(20, 400), app=(20, 4000))
    assert reviewed(other, "web", "app").changes == {"web.workers": 26, "app.workers": 40}


def test_a_tier_that_moves_alone_is_not_judged_by_the_first() -> None:
    assert reviewed(window(web=(20, 400), app=(20, 4000)), "app").changes == {"app.workers": 40}


def test_only_the_tier_whose_workers_idle_is_held() -> None:
    assert reviewed(window(web=(2, 4000), app=(20, 4000)), "web", "app").changes == {"app.workers": 40}
    assert reviewed(window(web=(20, 4000), app=(2, 4000)), "web", "app").changes == {"web.workers": 40}


def test_its_state_is_that_of_the_guard_and_comes_back() -> None:
    guard = OfTier(Feasibility(), "app")
    state = guard.start((knob("web"), knob("app")))
    assert state.knob == knob("app")
    assert codec.convert(codec.builtins(state), codec.state_of(guard)) == state
    assert OfTier(NotBinding(), "db").start((knob("web"),)) is None


def test_each_tier_is_stepped_down_from_its_own_workers() -> None:
    seen = window(web=(4, 4000), app=(16, 4000))
    knobs = tuple(map(knob, ("web", "app")))
    guards = of_knobs(OBJECTIVE, knobs)
    states = tuple(guard.start(knobs) for guard in guards)
    wanted = Move({"web.workers": 1, "app.workers": 1}, "why")
    assert review_all(guards, states, seen, wanted)[1].changes == {"web.workers": 1, "app.workers": 4}
