"""Every controller there is, through one kit."""

from __future__ import annotations

import dataclasses
import inspect
import re
import statistics
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests._curve import NAME, Curve, Drive, window_of, worker_knob
from trimtab import discovery
from trimtab.core import Objective, Trial
from trimtab.errors import UsageError
from trimtab.metrics import known
from trimtab.options import documented

ROOM = "trimtab.controllers"
STILL, ASKED = "static", "alternate"
"""The one that never moves, and the one that goes where it is told."""
NOISE_FREE = 1.25
"""Response time at the end of a run without noise, of the best; the issue asks for 25 %."""
NOISY = 1.5
"""Median over the seeds at a coefficient of variation of 0.3."""


def module(name: str) -> ModuleType:
    return discovery.load(ROOM, name)


def build(name: str) -> Any:
    return module(name).CONTROLLER(Objective())


def on_limits(name: str) -> bool:
    """Whether it moves a worker limit; what moves the budgets of classes has a kit of its own."""
    try:
        build(name).start((worker_knob(),), 0)
    except UsageError:
        return False
    return True


NAMES = discovery.names(ROOM)
all_there_are = pytest.mark.parametrize("name", NAMES)
LIMITS = [name for name in NAMES if on_limits(name)]
every = pytest.mark.parametrize("name", LIMITS)
PROMISING = [name for name in LIMITS if name not in (STILL, ASKED) and not getattr(build(name), "peer", False)]
"""Those that promise to find the valley; a peer of the lab promises nothing."""
moving = pytest.mark.parametrize("name", PROMISING)
values = st.floats(0, 1e9, allow_subnormal=False)
measured = st.dictionaries(
    st.sampled_from(sorted(n for n, m in known().items() if not m.per_class)), values, max_size=8
)


@all_there_are
def test_it_is_a_frozen_record_of_documented_options_with_the_objective_first(name: str) -> None:
    controller = module(name).CONTROLLER
    assert dataclasses.is_dataclass(controller)
    assert vars(controller)["__dataclass_params__"].frozen
    fields = [field.name for field in dataclasses.fields(controller)]
    assert fields[0] == "objective"
    assert set(fields) <= set(documented(module(name).CONTROLLER)), "an option is not documented"


@all_there_are
def test_its_file_states_its_equations_or_departures_and_each_equation_that_its_lines_implement(name: str) -> None:
    text = module(name).__doc__ or ""
    _, heading, rest = re.split(r"^ *(Equations|Departures)\b", text, maxsplit=1, flags=re.MULTILINE)
    assert len(rest.split()) > 5, f"{heading}, and then nothing"
    assert {number for number in implemented(name) if number not in text} == set()


def implemented(name: str) -> set[str]:
    """The equations that the lines of its file name, as `(3)` or `(T1)`."""
    code = inspect.getsource(module(name)).partition("from __future__")[2]
    return set(re.findall(r"# .*?Eq\. (\(\w+\))", code))


def test_lines_that_implement_equations_are_found() -> None:
    assert {"(T1)", "(3)"} <= implemented("trust-region") | implemented("newton")


@all_there_are
def test_it_needs_a_knob(name: str) -> None:
    with pytest.raises(UsageError, match="no knob to move"):
        build(name).start((), 0)


@every
def test_the_same_windows_give_the_same_moves_again(name: str) -> None:
    first = Drive(build(name), Curve(), seed=3).run(40)
    controller = build(name)
    state = controller.start((worker_knob(),), 3)
    for window, move in zip(first.windows, first.moves, strict=True):
        again = controller.step(state, Trial(window))
        state, replayed = controller.step(state, Trial(window))
        assert again == (state, replayed), "one step, two results"
        assert replayed == move


@every
def test_it_holds_with_a_reason_when_nothing_was_measured(name: str) -> None:
    controller = build(name)
    state = controller.start((worker_knob(),), 0)
    for index in range(5):
        state, move = controller.step(state, Trial(window_of(150, {}, index, samples=0)))
        assert not move.changes
        assert move.reason


@every
def test_it_holds_when_too_few_requests_were_completed(name: str) -> None:
    controller = build(name)
    state = controller.start((worker_knob(),), 0)
    window = dataclasses.replace(Curve().window(0, 20, 0), samples=0)
    for _ in range(5):
        state, move = controller.step(state, Trial(window))
        assert not move.changes
        assert move.reason


@every
def test_readings_that_come_and_go_do_not_stop_it(name: str) -> None:
    controller, curve, limit = build(name), Curve(), 150
    state = controller.start((worker_knob(),), 0)
    for index in range(60):
        whole = curve.window(index, limit, 0)
        names = sorted(whole.readings)
        kept = {key: whole.readings[key] for i, key in enumerate(names) if (i + index) % 4}
        state, move = controller.step(state, Trial(dataclasses.replace(whole, readings=kept)))
        limit = move.changes.get(NAME, limit)
        assert limit in worker_knob().domain


@settings(max_examples=60, deadline=None)
@given(
    step=st.sampled_from([1, 5, 25]),
    most=st.integers(1, 20),
    first=st.integers(1, 500),
    drawn=st.lists(st.tuples(measured, values), min_size=12, max_size=12),
)
def test_no_readings_lead_any_outside_the_domain(
    step: int, most: int, first: int, drawn: list[tuple[dict[str, float], float]]
) -> None:
    """All of them see the same ones: to draw these takes much longer than to decide by them."""
    knob = worker_knob(step, most * step, step)
    for name in LIMITS:
        controller, limit = build(name), knob.domain.clip(first)
        state = controller.start((knob,), 0)
        for index, (beside, time_s) in enumerate(drawn):
            readings = {**beside, "response_time_s": time_s}
            state, move = controller.step(state, Trial(window_of(limit, readings, index)))
            assert set(move.changes) <= {NAME}, name
            limit = move.changes.get(NAME, limit)
            assert limit in knob.domain, f"{name}: {move.reason}"


@every
def test_flat_noise_does_not_lead_it_outside_the_domain(name: str) -> None:
    flat = Curve(short=1e-9, cliff=1e9)
    knob = worker_knob(4, 64)
    run = Drive(build(name), flat, knob, seed=1).run(200, start=32)
    assert all(limit in knob.domain for limit in run.limits)


@moving
def test_it_finds_the_valley_without_noise(name: str) -> None:
    assert Drive(build(name), Curve(cv=0.0)).run(60).final_ratio() <= NOISE_FREE


@moving
def test_it_finds_the_valley_in_noise(name: str) -> None:
    ratios = [Drive(build(name), Curve(), seed=seed).run(60).final_ratio() for seed in range(15)]
    assert statistics.median(ratios) <= NOISY, ratios


def test_the_static_one_never_moves() -> None:
    run = Drive(build(STILL), Curve()).run(30)
    assert set(run.limits) == {150}
    assert not any(move.changes for move in run.moves)
