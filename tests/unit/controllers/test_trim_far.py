"""trim's shortest keep-alive time: three round trips to the clients, or what a proxy in front needs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests._curve import NAME, window_of, worker_knob
from tests.unit.controllers.test_trim import TIME, TRIM
from trimtab.core import Domain, Trial


@pytest.mark.parametrize(
    ("now_ms", "away_s", "to_ms"),
    [
        (5000, 0.0, 1250),
        (5000, 0.4, 1250),
        (5000, 0.5, 1500),
        (5000, 0.9, None),
        (1250, 0.1, 313),
        (313, 0.1, None),
        (313, 0.0001, 78),
    ],
)
def test_a_connection_is_kept_for_longer_than_the_next_request_takes_to_come(
    now_ms: int, away_s: float, to_ms: int | None
) -> None:
    """Three round trips at least: with less each request needs one of its own, and holds a worker all the same."""
    held = {"busy_workers": 30.0, "idle_held_workers": 27.0, "idle_workers": 0.0, "cpu_ratio": 0.2}
    waiting = {"accept_queue_length": 30.0, "accept_queue_delay_s": 1.0, "response_time_s": 1.1}
    window = window_of(30, {**held, **waiting})
    state = TRIM.start((worker_knob(), TIME), 0)
    for readings in ({**window.readings, "handshake_s": away_s}, window.readings):  # as it was last known
        seen_now = replace(window, configuration={NAME: 30, "keep": now_ms}, readings=readings)
        state, move = TRIM.step(state, Trial(seen_now))
        assert move.changes.get("keep") == to_ms
    fewer = {**held, "memory_pressure_ratio": 0.6, "idle_held_workers": 20.0, "handshake_s": away_s}
    window = replace(window_of(30, fewer), configuration={NAME: 30, "keep": now_ms})
    assert TRIM.step(state, Trial(window))[1].changes.get("keep") == to_ms


def test_a_time_that_may_be_no_shorter_is_left_and_what_is_lost_is_a_reason_for_the_limit_alone() -> None:
    """As behind a proxy that keeps idle connections for as long."""
    fixed = replace(TIME, domain=Domain(5000, 60_000))
    waiting = {"accept_queue_length": 30.0, "accept_queue_delay_s": 1.0, "response_time_s": 1.1}
    held = {"busy_workers": 30.0, "idle_held_workers": 27.0, "idle_workers": 0.0, "cpu_ratio": 0.2}
    memory = {"memory_pressure_ratio": 0.6, "worker_memory_bytes": 1e6, "swap_free_bytes": 1e9}
    for readings, way in (({**held, **waiting}, 1), ({**held, **memory, "idle_held_workers": 20.0}, -1)):
        window = window_of(30, readings)
        window = replace(window, configuration={**window.configuration, "keep": 5000})
        _, move = TRIM.step(TRIM.start((worker_knob(), fixed), 0), Trial(window))
        assert set(move.changes) == {NAME} and (move.changes[NAME] - 30) * way > 0, move.reason
        assert "keep" not in move.reason
