"""Eq. (1) of liu2003: RT = AQT + BL x ST."""

from __future__ import annotations

import pytest

from trimtab.sensors._eq1 import eq1

WHOLE = {
    "accept_queue_delay_s": 0.25,
    "connection_rate_hz": 20.0,
    "request_rate_hz": 100.0,
    "service_time_s": 0.03,
}


def test_the_response_time_is_the_wait_and_one_service_time_per_request_of_the_page() -> None:
    assert eq1(WHOLE) == {
        "burst_length": 5.0,
        "response_time_s": pytest.approx(0.25 + 5 * 0.03),
        "request_time_s": pytest.approx(0.25 / 5 + 0.03),
    }


def test_a_queue_that_was_empty_while_connections_came_is_a_wait_of_zero() -> None:
    assert eq1({**WHOLE, "accept_queue_delay_s": 0.0})["response_time_s"] == pytest.approx(0.15)


@pytest.mark.parametrize("term", WHOLE)
def test_a_term_that_is_absent_leaves_the_response_time_absent(term: str) -> None:
    derived = eq1({name: value for name, value in WHOLE.items() if name != term})
    assert "response_time_s" not in derived
    assert ("burst_length" in derived) == (term in ("accept_queue_delay_s", "service_time_s"))


def test_without_connections_there_is_no_burst() -> None:
    assert eq1({**WHOLE, "connection_rate_hz": 0.0}) == {"request_time_s": 0.03}


def test_a_window_of_kept_connections_alone_has_a_time_per_request_and_none_per_connection() -> None:
    kept = {"request_rate_hz": 50.0, "connection_rate_hz": 0.0, "service_time_s": 0.05}
    assert eq1(kept) == {"request_time_s": 0.05}
    assert eq1({"request_rate_hz": 50.0, "service_time_s": 0.05}) == {}, "who came is not known"
