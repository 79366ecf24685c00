"""liu2003, section IV: the controllers against figures worked by hand."""

from __future__ import annotations

import pytest

from tests._curve import NAME, seen, worker_knob
from trimtab.controllers.fuzzy import NEG, POS, RULES, Fuzzy, infer, membership
from trimtab.controllers.newton import Newton, derivatives
from trimtab.controllers.saturation import Saturation
from trimtab.core import Move, Objective, Trial

OBJECTIVE = Objective()


def parabola(x: int, best: float, a: float = 0.002, b: float = 0.5) -> float:
    """y = a (x - x*)^2 + b, the paper's approximation of response time."""
    return a * (x - best) ** 2 + b


@pytest.mark.parametrize("best", [37, 180])
def test_newton_lands_on_the_minimum_of_a_parabola_after_three_samples(best: int) -> None:
    newton = Newton(OBJECTIVE, reach=10)
    state = newton.start((worker_knob(),), 0)
    x, visited = 100, []
    for index in range(3):
        visited.append(x)
        state, move = newton.step(state, Trial(seen(x, index, response_time_s=parabola(x, best))))
        x = move.changes[NAME]
    assert visited == [100, 80, 120]
    assert x == best
    assert move.evidence["curvature"] == pytest.approx(2 * 0.002)
    assert move.evidence["slope"] == pytest.approx(2 * 0.002 * (100 - best))


def test_newtons_derivatives_are_those_of_the_parabola_at_unequal_distances() -> None:
    points = [(x, parabola(x, 20)) for x in (10, 37, 41)]
    slope, curvature = derivatives((points[0], points[1], points[2]), 37)
    assert slope == pytest.approx(0.004 * 17)
    assert curvature == pytest.approx(0.004)


def test_newton_does_not_climb_where_the_curve_is_concave_downward() -> None:
    newton = Newton(OBJECTIVE)
    state = newton.start((worker_knob(),), 0)
    for index, (x, y) in enumerate([(100, 1.0), (80, 0.5), (120, 1.2)]):
        state, move = newton.step(state, Trial(seen(x, index, response_time_s=y)))
    assert move.evidence["curvature"] < 0
    assert move.changes == {NAME: 80}


def test_newtons_curvature_errs_by_the_root_of_six_times_the_noise() -> None:
    """The coefficients of the second difference are 1, -2, 1: sqrt(6) s / h^2, as the docstring says."""
    flat = [(80, 1.0), (100, 1.0), (120, 1.0)]
    errors = []
    for i in range(3):
        bumped = [(x, y + (0.1 if i == j else 0.0)) for j, (x, y) in enumerate(flat)]
        errors.append(derivatives((bumped[0], bumped[1], bumped[2]), 100)[1])
    assert sum(error**2 for error in errors) ** 0.5 == pytest.approx(6**0.5 * 0.1 / 20**2)


def test_table_iii_is_the_papers() -> None:
    words = {NEG: "neglarge", POS: "poslarge"}
    assert [tuple(words[term] for term in rule) for rule in RULES] == [
        ("neglarge", "neglarge", "neglarge"),
        ("neglarge", "poslarge", "poslarge"),
        ("poslarge", "neglarge", "poslarge"),
        ("poslarge", "poslarge", "neglarge"),
    ]


@pytest.mark.parametrize(
    ("rule", "dx", "dy", "output"),
    [(1, -1.0, -1.0, -1.0), (2, -1.0, 1.0, 1.0), (3, 1.0, -1.0, 1.0), (4, 1.0, 1.0, -1.0)],
)
def test_each_fuzzy_rule_alone_gives_its_own_consequent(rule: int, dx: float, dy: float, output: float) -> None:
    assert infer(dx, dy) == (output, rule)


def test_fuzzy_inference_between_the_rules_by_hand() -> None:
    """dx = 1, dy = 1/2: rule 3 holds 1/4 and rule 4 holds 3/4, so the output is 1/4 - 3/4."""
    assert membership(NEG, 0.5) == 0.25
    assert membership(POS, 0.5) == 0.75
    output, rule = infer(1.0, 0.5)
    assert output == pytest.approx(-0.5)
    assert rule == 4


def climb(first: int, y_first: float, second: int, y_second: float) -> Move:
    """The fuzzy controller's move after two windows; its own first step is a fifth."""
    fuzzy = Fuzzy(OBJECTIVE, step_ratio=0.2)
    state = fuzzy.start((worker_knob(),), 0)
    state, _ = fuzzy.step(state, Trial(seen(first, 0, response_time_s=y_first)))
    return fuzzy.step(state, Trial(seen(second, 1, response_time_s=y_second)))[1]


@pytest.mark.parametrize(
    ("first", "second", "y_first", "y_second", "up", "rule"),
    [
        (100, 80, 4.0, 1.0, False, "rule 1"),
        (100, 80, 1.0, 4.0, True, "rule 2"),
        (80, 100, 4.0, 1.0, True, "rule 3"),
        (80, 100, 1.0, 4.0, False, "rule 4"),
    ],
)
def test_each_fuzzy_rule_moves_maxclients_as_fig_9_shows(
    first: int, second: int, y_first: float, y_second: float, up: bool, rule: str
) -> None:
    move = climb(first, y_first, second, y_second)
    assert rule in move.reason
    assert (move.changes[NAME] > second) is up


@pytest.mark.parametrize("unit", [0.03, 30.0])
def test_fuzzy_control_does_the_same_at_30_ms_and_at_30_s(unit: float) -> None:
    assert climb(100, 2 * unit, 80, unit).changes == climb(100, 2.0, 80, 1.0).changes


@pytest.mark.parametrize(
    ("cpu", "memory", "limit", "binds"),
    [(0.5, 0.25, 200, "CPU binds"), (0.4, 0.8, 125, "memory binds"), (0.1, 4.0, 25, "memory binds")],
)
def test_the_heuristic_predicts_the_lesser_of_mc0_by_cpu0_and_mc0_by_mem0(
    cpu: float, memory: float, limit: int, binds: str
) -> None:
    saturation = Saturation(OBJECTIVE)
    state = saturation.start((worker_knob(1, 1024),), 0)
    window = seen(100, response_time_s=1.0, cpu_ratio=cpu, memory_ratio=memory)
    _, move = saturation.step(state, Trial(window))
    assert move.changes == {NAME: limit}
    assert binds in move.reason
    assert move.evidence["cpu_saturates_at"] == pytest.approx(100 / cpu)
    assert move.evidence["memory_saturates_at"] == pytest.approx(100 / memory)


def test_the_heuristic_goes_back_to_step_2_when_utilisations_vary_significantly() -> None:
    saturation = Saturation(OBJECTIVE)
    state = saturation.start((worker_knob(1, 1024),), 0)
    utilisations = [(0.5, 0.25), (0.95, 0.5), (0.9, 0.5), (0.99, 0.52), (0.4, 0.2)]
    limits = []
    limit = 100
    for index, (cpu, memory) in enumerate(utilisations):
        window = seen(limit, index, response_time_s=1.0, cpu_ratio=cpu, memory_ratio=memory)
        state, move = saturation.step(state, Trial(window))
        limit = move.changes.get(NAME, limit)
        limits.append(limit)
    assert limits == [200, 200, 200, 200, 500]
    assert "CPU (0.95 to 0.40)" in move.reason
