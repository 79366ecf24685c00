"""Every controller that moves the process budgets of classes, through one kit."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests._classes import TWO, budget_knobs, class_window
from tests.conformance.test_controllers import NAMES, STILL, module, on_limits
from tests.conformance.test_keep_alive_controllers import on_keep_alive
from trimtab import codec
from trimtab.cli._plant import chosen_controller, stored_controller
from trimtab.core import Move, Objective, Trial, Window, of_class
from trimtab.metrics import known
from trimtab.options import options_in_force

WORKERS = 128
OBJECTIVE = Objective("connection_delay_s@premium")


def on_budgets(name: str) -> bool:
    """Whether it moves the budgets of classes, or any knob; what makes experiments moves none of these."""
    experiments = getattr(module(name).CONTROLLER, "experiments", False)
    return name == STILL or not (experiments or on_limits(name) or on_keep_alive(name))


BUDGETS = [name for name in NAMES if on_budgets(name)]

every = pytest.mark.parametrize("name", BUDGETS)
guarantees = pytest.mark.parametrize(
    "name", [n for n in BUDGETS if "desired" in {f.name for f in dataclasses.fields(module(n).CONTROLLER)}]
)
values = st.floats(0, 1e9, allow_subnormal=False)
readings = st.dictionaries(
    st.sampled_from(
        [of_class(name, one) for name in sorted(n for n, m in known().items() if m.per_class) for one in TWO]
    ),
    values,
    max_size=12,
)


def build(name: str) -> Any:
    """The controller for two classes; what guarantees nothing has no desired values."""
    kind = module(name).CONTROLLER
    known = {field.name for field in dataclasses.fields(kind)}
    return kind(OBJECTIVE, **({"desired": (10.0, 30.0)} if "desired" in known else {}))


def seen(index: int, budgets: dict[str, int], given: dict[str, float] | None = None) -> Window:
    """A window that leaves nothing to be desired, or with the given readings."""
    full = {of_class("connection_delay_s", "premium"): 8.0 + index % 5, of_class("connection_delay_s", "basic"): 40.0}
    return class_window(budgets, full if given is None else given, index, WORKERS)


def after(budgets: dict[str, int], move: Move) -> dict[str, int]:
    """The budgets once a move is applied."""
    return {name: move.changes.get(of_class("process_budget", name), value) for name, value in budgets.items()}


def test_the_kit_finds_the_papers_controllers() -> None:
    assert {"absolute-delay", "relative-delay", "hybrid-delay", "static"} <= set(BUDGETS)


@every
def test_the_same_windows_give_the_same_moves_again(name: str) -> None:
    controller, budgets = build(name), {"premium": 64, "basic": 64}
    state = controller.start(budget_knobs(), 3)
    for index in range(40):
        window = seen(index, budgets)
        again = controller.step(state, Trial(window))
        state, move = controller.step(state, Trial(window))
        assert again == (state, move), "one step, two results"
        assert move.reason and move.phase
        budgets = after(budgets, move)


@guarantees
def test_it_holds_with_a_reason_when_nothing_was_measured(name: str) -> None:
    controller, budgets = build(name), {"premium": 100, "basic": 28}
    state = controller.start(budget_knobs(), 0)
    for index in range(5):
        state, move = controller.step(state, Trial(seen(index, budgets, {})))
        assert not move.changes
        assert "no connection" in move.reason


@settings(max_examples=60, deadline=None)
@given(first=st.integers(1, WORKERS - 1), drawn=st.lists(readings, min_size=12, max_size=12))
def test_no_readings_lead_any_outside_the_domains(first: int, drawn: list[dict[str, float]]) -> None:
    """All of them see the same ones: to draw these takes much longer than to decide by them."""
    knobs = budget_knobs(TWO, WORKERS)
    for name in BUDGETS:
        controller, budgets = build(name), {"premium": first, "basic": WORKERS - first}
        state = controller.start(knobs, 0)
        for index, given_readings in enumerate(drawn):
            state, move = controller.step(state, Trial(seen(index, budgets, given_readings)))
            assert set(move.changes) <= {knob.name for knob in knobs}, name
            budgets = after(budgets, move)
            assert all(1 <= budget <= WORKERS for budget in budgets.values()), f"{name}: {move.reason}"
            assert sum(budgets.values()) <= WORKERS, f"{name}: {move.reason}"


@every
def test_it_can_be_built_again_from_what_the_store_keeps_of_it(name: str) -> None:
    controller = build(name)
    kept = json.loads(codec.encode(options_in_force(controller)))
    assert stored_controller(name, OBJECTIVE, kept) == controller


@guarantees
def test_it_can_be_built_from_what_a_user_types(name: str) -> None:
    typed = ["classes=premium,basic", "desired=10s, 30s", "minimum=2,3", "metrics=connection_delay_p95_s"]
    controller: Any = chosen_controller(name, OBJECTIVE, typed)
    assert (controller.classes, controller.desired, controller.minimum) == (TWO, (10.0, 30.0), (2, 3))
    assert controller.metrics == ("connection_delay_p95_s",)


def test_a_ratio_to_a_delay_of_next_to_nothing_teaches_self_tuning_nothing() -> None:
    controller = build("self-tuning")
    state, known = controller.start(budget_knobs(TWO, WORKERS), 0), None
    for index in range(12):
        budgets = {"premium": 1 + index % 3, "basic": WORKERS - 1 - index % 3}
        delays = {"connection_delay_s@premium": 2.3e-308 if index > 1 else 1.0, "connection_delay_s@basic": 4.0}
        state, _ = controller.step(state, Trial(seen(index, budgets, delays)))
        known = state.online.model if index == 1 else known
    assert state.online.model == known
