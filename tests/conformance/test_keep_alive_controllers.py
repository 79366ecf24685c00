"""Every controller that moves the keep-alive time and nothing else, through one kit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests._curve import worker_knob
from tests._idle_periods import NAME, Loop, Mixture, time_knob, window_at
from tests.conformance.test_controllers import NAMES, STILL, module
from trimtab import codec
from trimtab.cli._plant import stored_controller
from trimtab.core import Objective, Trial
from trimtab.errors import UsageError
from trimtab.metrics import known
from trimtab.options import options_in_force

OBJECTIVE = Objective()
BURST_MS = (400, 650)
"""Where bursts of the default mixture, a median of 300 ms, end at the earliest and at the latest."""


def build(name: str) -> Any:
    return module(name).CONTROLLER(OBJECTIVE)


def on_keep_alive(name: str) -> bool:
    """Whether it moves the keep-alive time, and refuses other knobs."""
    try:
        build(name).start((worker_knob(),), 0)
    except UsageError:
        pass
    else:
        return False
    try:
        build(name).start((time_knob(),), 0)
    except UsageError:
        return False
    return True


TIMES = [name for name in NAMES if name != STILL and on_keep_alive(name)]
every = pytest.mark.parametrize("name", TIMES)
values = st.floats(0, 1e9, allow_subnormal=False)
keys = st.one_of(
    st.sampled_from(sorted(name for name, m in known().items() if not m.per_class)),
    st.builds(
        "{}@{}".format,
        st.sampled_from(["intervals", "intervals_ended", "intervals_left", "intervals_50ms"]),
        st.integers(0, 1100),
    ),
)
measured = st.dictionaries(keys, values, max_size=12)


def scarce(held: float) -> float:
    """The wait where idle connections may hold no more than 50 workers, in seconds."""
    return 0.002 + 2 * max(0.0, held / 50 - 1)


def test_the_kit_finds_the_papers_method_and_ours() -> None:
    assert {"keep-alive", "keep-alive-cost"} <= set(TIMES)


@every
def test_it_takes_the_keep_alive_time_among_other_knobs_and_says_what_it_needs(name: str) -> None:
    build(name).start((worker_knob(), time_knob()), 0)
    with pytest.raises(UsageError, match="the keep-alive time, and was given max_request_workers"):
        build(name).start((worker_knob(),), 0)


@every
def test_the_same_windows_give_the_same_moves_again(name: str) -> None:
    first, second = (Loop(build(name), wait_s=scarce, rate_hz=100.0, seed=3).run(25) for _ in range(2))
    assert first.moves == second.moves
    assert first.state == second.state
    assert any(move.changes for move in first.moves)


@every
def test_every_move_has_a_reason_and_a_phase(name: str) -> None:
    for move in Loop(build(name), wait_s=scarce, rate_hz=100.0).run(25).moves:
        assert len(move.reason) > 20
        assert move.phase


@every
def test_it_holds_with_a_reason_when_nothing_was_measured(name: str) -> None:
    controller = build(name)
    state = controller.start((time_knob(),), 0)
    for index in range(5):
        state, move = controller.step(state, Trial(window_at(15_000, {}, index)))
        assert not move.changes
        assert move.reason


@settings(max_examples=60, deadline=None)
@given(
    minimum=st.integers(1, 2000),
    span=st.integers(0, 100_000),
    first=st.integers(1, 100_000),
    drawn=st.lists(measured, min_size=8, max_size=8),
)
def test_no_readings_lead_any_outside_the_domain(
    minimum: int, span: int, first: int, drawn: list[dict[str, float]]
) -> None:
    """All of them see the same ones: to draw these takes much longer than to decide by them."""
    knob = time_knob(minimum, minimum + span)
    for name in TIMES:
        controller, time_ms = build(name), knob.domain.clip(first)
        state = controller.start((knob,), 0)
        for index, readings in enumerate(drawn):
            state, move = controller.step(state, Trial(window_at(time_ms, readings, index)))
            assert set(move.changes) <= {NAME}, name
            time_ms = move.changes.get(NAME, time_ms)
            assert time_ms in knob.domain, f"{name}: {move.reason}"


@every
@pytest.mark.parametrize("start_ms", [15_000, 50])
def test_where_workers_are_scarce_it_comes_to_the_end_of_the_bursts(name: str, start_ms: int) -> None:
    times_ms = Loop(build(name), time_ms=start_ms, wait_s=scarce, rate_hz=100.0).run(100).times_ms
    assert all(BURST_MS[0] <= time_ms <= BURST_MS[1] for time_ms in times_ms[-20:]), times_ms


@every
def test_it_follows_a_change_of_the_bursts(name: str) -> None:
    loop = Loop(build(name), wait_s=scarce, rate_hz=100.0).run(90)
    before_ms = loop.time_ms
    slower_ms = loop.run(60, Mixture(burst_s=0.6)).time_ms
    assert slower_ms > 1.3 * before_ms
    assert loop.run(60).time_ms < 1.25 * before_ms


@every
def test_it_can_be_built_again_from_what_the_store_keeps_of_it(name: str) -> None:
    controller = build(name)
    kept = json.loads(codec.encode(options_in_force(controller)))
    assert stored_controller(name, OBJECTIVE, kept) == controller
