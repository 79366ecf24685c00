from __future__ import annotations

import pytest

from tests._curve import NAME, Curve, Drive, seen, window_of, worker_knob
from trimtab.controllers.saturation import Saturation, existing_workers
from trimtab.core import Move, Objective, Trial, Window
from trimtab.errors import UsageError

OBJECTIVE = Objective()


def first(window: Window, maximum: int = 1024) -> Move:
    saturation = Saturation(OBJECTIVE)
    return saturation.step(saturation.start((worker_knob(1, maximum),), 0), Trial(window))[1]


def test_it_is_where_it_stays_after_one_move() -> None:
    limits = Drive(Saturation(OBJECTIVE), Curve()).run(20).limits
    assert limits == [150] + [27] * 19


def test_utilisations_belong_to_the_workers_that_exist_where_the_limit_does_not_bind() -> None:
    idle = {"response_time_s": 1.0, "memory_ratio": 0.5}
    assert first(window_of(150, {**idle, "busy_workers": 10.0, "idle_workers": 20.0})).changes == {NAME: 60}
    assert first(window_of(150, idle)).changes == {NAME: 300}


def test_workers_of_an_older_limit_that_have_not_left_yet_count() -> None:
    window = seen(26, response_time_s=9.0, busy_workers=60.0, idle_workers=4.0, memory_ratio=2.0)
    assert existing_workers(window, 26) == 64
    assert first(window).changes == {NAME: 32}


def test_a_prediction_beyond_the_domain_ends_at_its_end_and_says_so() -> None:
    move = first(seen(100, response_time_s=1.0, cpu_ratio=0.1), maximum=256)
    assert move.changes == {NAME: 256}
    assert "saturates at 1000, the domain ends at 256; memory was not measured" in move.reason


def test_an_idle_server_predicts_nothing() -> None:
    move = first(seen(100, response_time_s=1.0, cpu_ratio=0.01, memory_ratio=0.01))
    assert not move.changes
    assert "too low to predict from" in move.reason


def test_memory_over_its_limit_needs_no_answered_request_to_be_believed() -> None:
    assert first(window_of(150, {"memory_ratio": 4.5, "cpu_ratio": 0.2}, samples=0)).changes == {NAME: 33}
    assert not first(window_of(150, {"memory_ratio": 0.5, "cpu_ratio": 0.2}, samples=0)).changes


def test_without_utilisations_it_holds() -> None:
    move = first(seen(150, response_time_s=1.0))
    assert not move.changes
    assert "neither cpu_ratio nor memory_ratio was measured" in move.reason


def test_noise_below_the_threshold_is_not_a_changed_workload() -> None:
    saturation = Saturation(OBJECTIVE)
    state = saturation.start((worker_knob(),), 0)
    limit, moves = 20, 0
    for index in range(50):
        cpu = 0.9 + (0.07 if index % 2 else -0.07)
        state, move = saturation.step(state, Trial(seen(limit, index, response_time_s=1.0, cpu_ratio=cpu)))
        limit = move.changes.get(NAME, limit)
        moves += bool(move.changes)
    assert moves == 1


@pytest.mark.parametrize("option", [{"threshold": 0.0}, {"floor_ratio": 1.0}])
def test_options_that_cannot_be_used_are_refused_by_name(option: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(option))):
        Saturation(OBJECTIVE, **option)  # type: ignore[arg-type]
