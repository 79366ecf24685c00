from __future__ import annotations

from typing import Any

from tests._classes import budget_knobs, class_window
from tests._curve import MIB, NAME, seen, worker_knob
from trimtab.core import Move, Objective, Window
from trimtab.guard import of_knobs, review_all, standard
from trimtab.guard.domain import Domain
from trimtab.plants.keep_alive import KNOB
from trimtab.plants.keep_alive.knobs import KEEP_ALIVE

SWAPPING = seen(
    150,
    response_time_s=9.0,
    busy_workers=150.0,
    idle_workers=0.0,
    accept_queue_length=100.0,
    memory_ratio=4.5,
    memory_bytes=1800 * MIB,
    memory_limit_bytes=400 * MIB,
    worker_memory_bytes=12 * MIB,
)


def passed(wanted: int, window: Window = SWAPPING) -> Move:
    guards = standard(Objective())
    states: tuple[Any, ...] = tuple(guard.start((worker_knob(),)) for guard in guards)
    return review_all(guards, states, window, Move({NAME: wanted}, "why"))[1]


def test_a_first_timid_step_down_from_a_swapping_limit_ends_at_what_fits() -> None:
    """0.9 * 400 / 12 = 30; the factor of four would have ended at 38."""
    assert passed(90).changes == {NAME: 30}


def test_a_bold_step_below_what_fits_is_cut_to_it() -> None:
    assert passed(1).changes == {NAME: 30}


def test_every_guard_that_amended_says_so_in_order() -> None:
    reason = passed(5000).reason
    assert reason.index("outside 1..256") < reason.index("do not fit")


def test_what_does_not_fit_goes_at_once_however_large_the_step() -> None:
    """12 workers of 30 MiB fit, of 100 allowed; the factor of four would have ended at 25."""
    window = seen(
        100,
        worker_memory_bytes=30 * MIB,
        memory_bytes=300 * MIB,
        memory_limit_bytes=400 * MIB,
        busy_workers=10.0,
        idle_workers=0.0,
    )
    assert passed(90, window).changes == {NAME: 12}


def test_the_return_from_a_bad_window_is_made_although_the_limit_does_not_bind() -> None:
    guards = standard(Objective())
    states: tuple[Any, ...] = tuple(guard.start((worker_knob(),)) for guard in guards)
    good, bad = (
        seen(m, response_time_s=t, busy_workers=5.0, idle_workers=20.0, accept_queue_length=0.0)
        for m, t in ((32, 0.02), (24, 0.9))
    )
    states, _ = review_all(guards, states, good, Move({NAME: 24}, "probe"))
    assert review_all(guards, states, bad, Move.hold("why"))[1].changes == {NAME: 32}


def test_budgets_of_classes_pass_their_domains_alone_and_a_worker_limit_all_guards() -> None:
    """A budget may grow a hundredfold in a step: the others pay for it, not the memory."""
    budgets = budget_knobs()
    assert of_knobs(Objective(), budgets) == (Domain(),)
    assert of_knobs(Objective(), (*budgets, worker_knob())) == standard(Objective())
    assert of_knobs(Objective(), ()) == standard(Objective())
    guards = of_knobs(Objective(), budgets)
    window = class_window({"premium": 1, "basic": 127}, {})
    states: tuple[Any, ...] = tuple(guard.start(budgets) for guard in guards)
    changes = {"process_budget@premium": 120, "process_budget@basic": 500}
    move = review_all(guards, states, window, Move(changes, "why"))[1]
    assert move.changes == {"process_budget@premium": 120, "process_budget@basic": 128}


def test_a_keep_alive_time_moves_in_bounded_steps_within_its_domain_whatever_its_window_measured() -> None:
    assert of_knobs(Objective(), (KNOB, worker_knob())) == standard(Objective())
    guards = of_knobs(Objective(), (KNOB,))
    states: tuple[Any, ...] = tuple(guard.start((KNOB,)) for guard in guards)

    def passed(window: Window, wanted: int) -> int:
        nonlocal states
        states, move = review_all(guards, states, window, Move({KEEP_ALIVE: wanted}, "why"))
        return move.changes[KEEP_ALIVE]

    good, bad = (
        Window(i, float(i), 2.0, {KEEP_ALIVE: 8000}, {"response_time_s": t}) for i, t in ((0, 0.01), (1, 9.0))
    )
    assert passed(good, 4000) == 4000
    assert passed(bad, 3000) == 3000, "a slow window is no reason to go back"
    assert passed(good, 100) == 2000
    assert passed(good, 99_999_999) == 32_000
