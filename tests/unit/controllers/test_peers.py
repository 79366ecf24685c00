"""The peers of the lab do what their projects say: known answers of their equations."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests._curve import NAME, seen, worker_knob
from trimtab.controllers.apache2buddy import Apache2buddy
from trimtab.controllers.brpc import Brpc
from trimtab.controllers.cma import Cma
from trimtab.controllers.gradient2 import Gradient2
from trimtab.controllers.nelder_mead import NelderMead
from trimtab.controllers.simplex import Simplex
from trimtab.controllers.tpe import Tpe
from trimtab.controllers.vegas import Vegas
from trimtab.core import Limit, Objective, Trial
from trimtab.errors import UsageError
from trimtab.search.space import point_of

KNOB = worker_knob(maximum=1000)
MIB = 2**20


def limits(controller: Any, latencies_s: list[float], start: int = 100, busy: float = 1.0) -> list[float]:
    """The limit's estimate after each window, with that share of it busy."""
    state, found, limit = controller.start((KNOB,), 0), [], start
    for index, latency_s in enumerate(latencies_s):
        readings = {"service_time_s": latency_s, "busy_workers": busy * limit, "request_rate_hz": 100.0}
        state, move = controller.step(state, Trial(seen(limit, index, response_time_s=latency_s, **readings)))
        limit = move.changes.get(NAME, limit)
        found.append(getattr(state, "limit", float(limit)))
    return found


def test_gradient2_grows_by_its_headroom_while_latency_is_as_usual() -> None:
    assert limits(Gradient2(Objective()), [0.1] * 3) == pytest.approx([100.8, 101.6, 102.4])


def test_gradient2_falls_at_most_by_half_and_not_at_all_while_half_is_unused() -> None:
    usual = [0.1] * 10
    last, now = limits(Gradient2(Objective()), [*usual, 10.0])[-2:]
    assert now == pytest.approx(0.8 * last + 0.2 * (0.5 * last + 4))
    assert limits(Gradient2(Objective()), [*usual, 10.0], busy=0.4) == [100.0] * 11


def test_vegas_counts_the_queue_in_its_limit() -> None:
    alpha = math.log10(100)
    for latency_s, change in ((0.1, 6 * alpha), (0.104, alpha), (0.11, 0.0), (0.2, -alpha)):
        assert limits(Vegas(Objective()), [0.1, latency_s])[-1] == pytest.approx(100 + change)


def test_vegas_takes_the_latency_of_its_probe_for_that_without_load() -> None:
    """After 30 x 100 requests; a window has 200."""
    assert limits(Vegas(Objective()), [0.1] + [0.11] * 14)[-1] == 100
    assert limits(Vegas(Objective()), [0.1] + [0.11] * 20)[-1] > 100


def test_brpc_allows_what_rate_and_latency_need_and_something_to_explore() -> None:
    assert limits(Brpc(Objective()), [1.0])[-1] == math.ceil(100.0 * 1.0 * 1.3)


def test_apache2buddy_divides_once() -> None:
    controller = Apache2buddy(Objective())
    state = controller.start((KNOB,), 0)
    readings = {"response_time_s": 1.0, "memory_limit_bytes": 100.0 * MIB, "worker_memory_bytes": 3.0 * MIB}
    state, move = controller.step(state, Trial(seen(150, 0, **readings)))
    assert move.changes == {NAME: 33}
    assert not controller.step(state, Trial(seen(33, 1, **readings)))[1].changes


@pytest.mark.parametrize("controller", [NelderMead(Objective()), Tpe(Objective(), trials=25)], ids=["simplex", "tpe"])
def test_a_search_finds_the_valley_of_a_smooth_curve(controller: Any) -> None:
    state, limit = controller.start((KNOB,), 1), 800
    costs = []
    for index in range(40):
        cost = 1 + math.log(limit / 40) ** 2
        costs.append(cost)
        state, move = controller.step(state, Trial(seen(limit, index, response_time_s=cost)))
        limit = {**move.changes, **(move.incumbent or {} if move.finished else {})}.get(NAME, limit)
    assert min(costs) < 1.1
    assert costs[-1] < 1.2


def test_a_simplex_moves_off_a_setting_that_cannot_be_measured() -> None:
    controller = NelderMead(Objective(), patience=2)
    state = controller.start((KNOB,), 0)
    moved = []
    for index in range(2):
        state, move = controller.step(state, Trial(seen(150, index)))
        moved.append(bool(move.changes))
    assert moved == [False, True]


def test_nelder_mead_takes_what_was_measured_for_its_vertex() -> None:
    """Where rules among knobs let a point be reached in part only."""
    controller = NelderMead(Objective())
    state, move = controller.step(controller.start((KNOB,), 0), Trial(seen(800, 0, response_time_s=2.0)))
    reached = (800 + move.changes[NAME]) // 2
    state, _ = controller.step(state, Trial(seen(reached, 1, response_time_s=1.0)))
    assert state.simplex[0] == (1.0, point_of((KNOB,), (reached,)))


def asked(controller: Any, seed: int, count: int = 6) -> list[int]:
    """The first configurations that a search asks for, where all cost the same."""
    state, limit, found = controller.start((KNOB,), seed), 100, []
    for index in range(count):
        state, move = controller.step(state, Trial(seen(limit, index, response_time_s=1.0)))
        limit = move.changes[NAME]
        found.append(limit)
    return found


@pytest.mark.parametrize("controller", [Tpe(Objective()), Cma(Objective())], ids=["tpe", "cma"])
def test_every_seed_will_do_and_the_same_asks_for_the_same(controller: Any) -> None:
    largest = 2**64 - 1
    assert asked(controller, largest) == asked(controller, largest) != asked(controller, largest - 1)


def test_tpe_does_not_ask_in_one_run_for_what_it_has_asked_for_under_the_seed_beside() -> None:
    assert asked(Tpe(Objective()), 1)[1:] != asked(Tpe(Objective()), 2)[:-1]


@pytest.mark.parametrize("sigma", [0.0, -0.1, 1.5, math.nan])
def test_cma_says_beforehand_which_first_step_it_cannot_begin_with(sigma: float) -> None:
    with pytest.raises(UsageError, match="allowed is more than 0 and at most 1"):
        Cma(Objective(), sigma=sigma).start((KNOB,), 1)


def test_a_simplex_stands_behind_nothing_that_failed() -> None:
    """Else its incumbent would be the least of them by number."""
    limited = Objective(limits=(Limit("cpu_ratio", 0.5),))
    state, limit = Simplex(limited).start((KNOB,), 0), 100
    for index in range(6):
        state, move = Simplex(limited).step(state, Trial(seen(limit, index, response_time_s=1.0, cpu_ratio=0.9)))
        assert move.incumbent is None
        limit = move.changes[NAME]
    silent = NelderMead(Objective(), patience=1)
    _, move = silent.step(silent.start((KNOB,), 0), Trial(seen(150, 0)))
    assert move.incumbent is None
