from __future__ import annotations

import statistics

import pytest

from tests._curve import NAME, Curve, Drive, seen, worker_knob
from trimtab.controllers.newton import Newton
from trimtab.core import Move, Objective, Trial
from trimtab.errors import UsageError

OBJECTIVE = Objective()


def fed(newton: Newton, *points: tuple[int, float], maximum: int = 256) -> Move:
    """Newton's move after windows at these worker limits, wherever it asked to be."""
    state, move = newton.start((worker_knob(1, maximum),), 0), Move.hold("")
    for index, (limit, response_s) in enumerate(points):
        state, move = newton.step(state, Trial(seen(limit, index, response_time_s=response_s)))
    return move


def test_a_long_step_is_cut_to_its_reach_in_probe_distances() -> None:
    move = fed(Newton(OBJECTIVE, reach=2.0), (100, 9.0), (80, 8.0), (120, 10.01))
    assert move.changes == {NAME: 60}
    assert "cut to -40.0" in move.reason


def test_noise_spreads_its_moves_as_the_paper_shows_and_averaging_narrows_them() -> None:
    def spread(samples: int) -> float:
        newton = Newton(OBJECTIVE, samples=samples)
        curve = Curve(cv=0.1)
        return statistics.stdev(Drive(newton, curve, seed=s).run(3 * samples + 1, 80).limits[-1] for s in range(60))

    assert spread(1) > 5
    assert spread(4) < spread(1) / 1.5


def test_each_point_is_the_mean_of_its_samples() -> None:
    newton = Newton(OBJECTIVE, samples=2, reach=10)
    costs = {100: (4.0, 6.0), 80: (1.0, 3.0), 120: (9.0, 11.0)}
    move = fed(newton, *((limit, cost) for limit, pair in costs.items() for cost in pair))
    assert move.evidence["cost"] == 5.0
    assert move.evidence["slope"] == pytest.approx((10 - 2) / 40)


def test_probes_are_taken_inwards_at_the_end_of_the_domain() -> None:
    newton = Newton(OBJECTIVE)
    state = newton.start((worker_knob(1, 100),), 0)
    visited, limit = [], 100
    for index in range(3):
        visited.append(limit)
        state, move = newton.step(state, Trial(seen(limit, index, response_time_s=0.002 * (limit - 70) ** 2 + 1)))
        limit = move.changes[NAME]
    assert visited == [100, 80, 60]
    assert limit == 70


def test_when_a_guard_moved_its_probes_together_it_steps_downhill_by_what_it_knows() -> None:
    assert fed(Newton(OBJECTIVE), (100, 5.0), (80, 4.0), (80, 4.2)).changes == {}
    assert fed(Newton(OBJECTIVE), (100, 4.0), (80, 5.0), (80, 5.2)).changes == {NAME: 120}
    assert fed(Newton(OBJECTIVE), (100, 4.0), (100, 5.0), (100, 5.2)).changes == {NAME: 80}


def test_a_domain_of_two_values_is_said_to_have_no_third() -> None:
    newton = Newton(OBJECTIVE)
    state = newton.start((worker_knob(1, 2),), 0)
    state, move = newton.step(state, Trial(seen(1, 0, response_time_s=1.0)))
    assert move.changes == {NAME: 2}
    _, move = newton.step(state, Trial(seen(2, 1, response_time_s=1.0)))
    assert not move.changes
    assert "no third value" in move.reason


@pytest.mark.parametrize("option", [{"probe_ratio": 0.0}, {"reach": 0.5}, {"samples": 0}])
def test_options_that_cannot_be_used_are_refused_by_name(option: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(option))):
        Newton(OBJECTIVE, **option)  # type: ignore[arg-type]
