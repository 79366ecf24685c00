from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests._curve import MIB, NAME, seen, window_of, worker_knob
from trimtab.core import Move, Window
from trimtab.guard.feasibility import Feasibility


def memory(limit: int, workers: float, each_mib: float = 12.0, base_mib: float = 40.0) -> Window:
    """A 400 MiB server with so many busy workers."""
    return seen(
        limit,
        busy_workers=workers,
        idle_workers=0.0,
        worker_memory_bytes=each_mib * MIB,
        memory_limit_bytes=400 * MIB,
        memory_bytes=(base_mib + each_mib * workers) * MIB,
    )


def reviewed(window: Window, wanted: int, step: int = 1) -> Move:
    guard = Feasibility()
    return guard.review(guard.start((worker_knob(step, 10 * step * 25, step),)), window, Move({NAME: wanted}, "why"))[
        1
    ]


def test_what_fits_passes_without_a_word() -> None:
    assert reviewed(memory(20, 20), 26) == Move({NAME: 26}, "why")


def test_what_does_not_fit_is_lowered_and_the_figures_are_said() -> None:
    """(0.9 * 400 - 40) / 12 = 26.7"""
    move = reviewed(memory(20, 20), 27)
    assert move.changes == {NAME: 26}
    assert "40 MiB and 12.0 MiB for each worker in 90% of 400 MiB" in move.reason


def test_the_limit_is_lowered_to_a_step_of_the_domain_that_fits() -> None:
    assert reviewed(memory(20, 20), 75, step=10).changes == {NAME: 20}


def test_the_base_is_counted_from_workers_that_exist_once_their_number_is_steady() -> None:
    guard = Feasibility()
    state, limits = guard.start((worker_knob(),)), []
    for workers in (10, 10):
        state, move = guard.review(state, memory(150, workers), Move({NAME: 100}, "why"))
        limits.append(move.changes[NAME])
    assert limits == [30, 26], "a base of 0 until it is known, 40 MiB after that"


def test_workers_that_are_leaving_do_not_make_the_base() -> None:
    """The window after a reload: 60 workers on average, 100 of them at its end."""
    guard = Feasibility()
    state, _ = guard.review(guard.start((worker_knob(),)), memory(150, 150), Move({}, "why"))
    mixed = {**memory(26, 60).readings, "memory_bytes": (40 + 12 * 100) * MIB}
    _, move = guard.review(state, window_of(26, mixed), Move({NAME: 99}, "why"))
    assert move.changes == {NAME: 26}


def test_when_nothing_fits_the_least_there_is_remains() -> None:
    move = reviewed(memory(5, 5, base_mib=380.0), 20)
    assert move.changes == {NAME: 1}
    assert "1 is the least there is" in move.reason


@pytest.mark.parametrize("missing", ["worker_memory_bytes", "memory_limit_bytes", "memory_bytes"])
def test_what_was_not_measured_holds_nothing_back_and_is_said_once(missing: str) -> None:
    guard = Feasibility()
    state = guard.start((worker_knob(),))
    readings = {name: value for name, value in memory(20, 20).readings.items() if name != missing}
    state, first = guard.review(state, window_of(20, readings), Move({NAME: 99}, "why"))
    _, second = guard.review(state, window_of(20, readings), Move({NAME: 99}, "why"))
    assert first.changes == second.changes == {NAME: 99}
    assert f"{missing} not measured" in first.reason
    assert second.reason == "why"


@given(st.integers(1, 250), st.integers(1, 250), st.floats(0.5, 100), st.floats(0, 390))
def test_what_passes_fits_or_is_the_least(workers: int, wanted: int, each_mib: float, base_mib: float) -> None:
    passed = reviewed(memory(workers, workers, each_mib, base_mib), wanted).changes[NAME]
    assert passed <= wanted
    assert passed == 1 or base_mib + passed * each_mib <= 0.9 * 400 * (1 + 1e-9)
