"""White noise on two classes' budgets."""

from __future__ import annotations

import pytest

from tests._classes import budget_knob, budget_knobs, class_window
from tests._curve import worker_knob
from tests._white_noise import binary
from trimtab.controllers.excitation import Excitation
from trimtab.core import Domain, How, Knob, Objective, Role, Trial, Window
from trimtab.errors import UsageError

OBJECTIVE = Objective("connection_delay_s@premium")


def budgets(controller: Excitation, seed: int, windows: int, start: tuple[int, int] = (64, 64)) -> list[int]:
    """The first budget after each window; nothing is ever measured."""
    state, now, seen = controller.start(budget_knobs(), seed), dict(zip(("premium", "basic"), start, strict=True)), []
    for index in range(windows):
        state, move = controller.step(state, Trial(class_window(now, {}, index)))
        now |= {name.partition("@")[2]: value for name, value in move.changes.items()}
        assert sum(now.values()) == sum(start), "other classes would be touched"
        seen.append(now["premium"])
    return seen


def test_it_switches_between_the_papers_two_configurations_by_the_white_bits() -> None:
    bits = binary(3, 40)
    assert budgets(Excitation(OBJECTIVE), 3, 40) == [96 if bit else 64 for bit in bits]


def test_other_budgets_can_be_asked_for() -> None:
    assert set(budgets(Excitation(OBJECTIVE, low=20, high=100), 3, 40)) == {20, 100}


def test_the_share_is_of_what_the_two_classes_have() -> None:
    assert set(budgets(Excitation(OBJECTIVE), 3, 40, start=(10, 30))) == {20, 30}


def test_where_m_was_lowered_below_the_budgets_m_is_shared_out() -> None:
    controller = Excitation(OBJECTIVE)
    state, now, seen = controller.start(budget_knobs(), 3), {"premium": 96, "basic": 32}, set()
    for index in range(40):
        state, move = controller.step(state, Trial(class_window(now, {}, index, workers=40)))
        now |= {name.partition("@")[2]: value for name, value in move.changes.items()}
        seen.add((now["premium"], now["basic"]))
    assert seen == {(30, 10), (20, 20)}


def test_another_seed_is_another_signal() -> None:
    assert budgets(Excitation(OBJECTIVE), 3, 40) != budgets(Excitation(OBJECTIVE), 4, 40)


def test_it_warms_up_at_the_low_configuration() -> None:
    seen = budgets(Excitation(OBJECTIVE, warm=10), 3, 50)
    assert seen[:10] == [64] * 10
    assert seen[10:] == budgets(Excitation(OBJECTIVE), 3, 40)


def test_both_budgets_stay_in_their_domains() -> None:
    lower = Knob(
        "process_budget@basic", "b", "processes", Domain(50, 128), 64, How.LIVE, "", "", Role.PROCESS_BUDGET, "basic"
    )
    controller = Excitation(OBJECTIVE)
    state = controller.start((budget_knob("premium"), lower), 3)
    now = {"premium": 64, "basic": 64}
    for index in range(30):
        state, move = controller.step(state, Trial(class_window(now, {}, index)))
        now |= {name.partition("@")[2]: value for name, value in move.changes.items()}
        assert now["basic"] >= 50
    assert sum(now.values()) == 128


def test_it_holds_when_the_budgets_in_force_are_not_known() -> None:
    controller = Excitation(OBJECTIVE)
    state = controller.start(budget_knobs(), 3)
    after, move = controller.step(state, Trial(Window(0, 0.0, 30.0, {"process_budget@premium": 64}, {})))
    assert after == state
    assert not move.changes
    assert "not known" in move.reason


def test_it_needs_the_budgets_of_two_classes() -> None:
    three = (*budget_knobs(), budget_knob("third"))
    for knobs in ((), (worker_knob(),), budget_knobs()[:1], three):
        with pytest.raises(UsageError, match="no knob to move: excitation needs the budgets of two classes"):
            Excitation(OBJECTIVE).start(knobs, 0)


@pytest.mark.parametrize(
    ("options", "why"),
    [({"low": -1}, "low"), ({"high": -1}, "high"), ({"warm": -1}, "warm"), ({"low": 9, "high": 9}, "less than high")],
)
def test_what_makes_no_sense_is_refused(options: dict[str, int], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Excitation(OBJECTIVE, **options)


def test_a_budget_outside_the_domain_is_refused_before_the_start() -> None:
    with pytest.raises(UsageError, match=r"outside 1\.\.128"):
        Excitation(OBJECTIVE, high=200).start(budget_knobs(), 0)


@pytest.mark.parametrize(("total", "options"), [(2, {}), (3, {}), (128, {"low": 96}), (128, {"high": 64})])
def test_two_configurations_that_are_one_are_refused_before_the_start(total: int, options: dict[str, int]) -> None:
    controller, half = Excitation(OBJECTIVE, **options), total // 2
    there = {"process_budget@premium": total - half, "process_budget@basic": half}
    with pytest.raises(UsageError, match=f"both .*, so no model .* {total} processes together"):
        controller.require_two(controller.start(budget_knobs(), 0), there)


def test_three_processes_are_enough_where_it_is_said_how_they_are_shared() -> None:
    controller = Excitation(OBJECTIVE, low=1, high=2)
    controller.require_two(
        controller.start(budget_knobs(), 0), {"process_budget@premium": 2, "process_budget@basic": 1}
    )
    assert set(budgets(controller, 3, 40, start=(2, 1))) == {1, 2}
