"""Every guard there is, through one kit, and all of them in their order."""

from __future__ import annotations

import dataclasses
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests._curve import NAME, window_of, worker_knob
from trimtab import discovery
from trimtab.core import Move, Objective, Window
from trimtab.guard import review_all, standard

ROOM = "trimtab.guard"
NAMES = discovery.names(ROOM)
every = pytest.mark.parametrize("name", NAMES)
READINGS = (
    "response_time_s",
    "accept_queue_delay_s",
    "accept_queue_length",
    "busy_workers",
    "idle_workers",
    "memory_ratio",
    "memory_bytes",
    "memory_limit_bytes",
    "worker_memory_bytes",
)
values = st.floats(0, 1e12, allow_subnormal=False)
measured = st.dictionaries(st.sampled_from(READINGS), values)
counts = st.none() | st.integers(0, 500)
ends = st.sampled_from(["", "cut short"])
asked = st.dictionaries(st.sampled_from([NAME, "listen_backlog"]), st.integers(-999, 999))


def module(name: str) -> ModuleType:
    return discovery.load(ROOM, name)


def build(name: str) -> Any:
    return next(guard for guard in standard(Objective()) if isinstance(guard, module(name).GUARD))


@st.composite
def windows(draw: st.DrawFn, knob_step: int, maximum: int) -> Window:
    limit = draw(st.integers(1, maximum // knob_step)) * knob_step
    return window_of(limit, draw(measured), samples=draw(counts), aborted=draw(ends))


@st.composite
def runs(draw: st.DrawFn) -> tuple[int, list[tuple[Window, dict[str, int]]]]:
    """The step of a knob, and windows of it with what is asked for after each."""
    step = draw(st.sampled_from([1, 25]))
    return step, draw(st.lists(st.tuples(windows(step, 10 * step), asked), min_size=5, max_size=5))


@every
def test_it_is_a_frozen_record_of_documented_options(name: str) -> None:
    guard = module(name).GUARD
    assert dataclasses.is_dataclass(guard)
    assert vars(guard)["__dataclass_params__"].frozen
    for field in dataclasses.fields(guard):
        assert f"{field.name}:" in (guard.__doc__ or ""), f"option {field.name} is not documented"


@every
def test_it_is_among_the_standard_guards(name: str) -> None:
    assert build(name) is not None


@every
def test_it_leaves_a_hold_a_hold(name: str) -> None:
    guard = build(name)
    _, move = guard.review(
        guard.start((worker_knob(),)), window_of(150, {"memory_ratio": 4.5}), Move.hold("nothing to do")
    )
    assert not move.changes


@settings(max_examples=80, deadline=None)
@given(drawn=st.lists(st.tuples(windows(1, 256), st.integers(-1000, 1000)), min_size=4, max_size=4))
def test_each_is_a_pure_step_that_explains_each_amendment(drawn: list[tuple[Window, int]]) -> None:
    """All of them see the same windows: to draw these takes much longer than to review a move."""
    for name in NAMES:
        guard = build(name)
        state = guard.start((worker_knob(),))
        for window, value in drawn:
            move = Move({NAME: value}, "because")
            assert guard.review(state, window, move) == guard.review(state, window, move), name
            assert isinstance(guard.abort(state, window), str), name
            state, reviewed = guard.review(state, window, move)
            assert reviewed.reason.startswith("because"), name
            if reviewed.changes != move.changes:
                assert len(reviewed.reason) > len("because; guard: "), name


@settings(max_examples=200, deadline=None)
@given(run=runs())
def test_together_they_pass_only_values_of_the_domain(run: tuple[int, list[tuple[Window, dict[str, int]]]]) -> None:
    step, drawn = run
    knob = worker_knob(step, 10 * step, step)
    guards = standard(Objective())
    states: tuple[Any, ...] = tuple(guard.start((knob,)) for guard in guards)
    for window, changes in drawn:
        states, move = review_all(guards, states, window, Move(changes, "because"))
        assert set(move.changes) <= {NAME}
        assert all(value in knob.domain for value in move.changes.values())
