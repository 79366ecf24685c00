"""How clients fared in a run."""

from __future__ import annotations

import pytest

from trimtab.core import Window
from trimtab.lab._clients import in_all, later, level, page_time_s, time_text, waited_s
from trimtab.lab.demo import NORMAL_S, RUSH_S, summary


def window(start_s: float, **readings: float) -> Window:
    """Two seconds of what clients saw."""
    return Window(0, start_s, 2.0, {}, readings)


BUSY = window(0.0, client_page_rate_hz=10.0, client_page_time_s=0.1, client_outstanding_requests=3.0)
SLOW = window(2.0, client_page_rate_hz=1.0, client_page_time_s=2.0, client_error_rate_hz=4.0)


def test_the_mean_time_of_a_page_is_over_pages_not_over_windows() -> None:
    assert page_time_s([BUSY, SLOW]) == pytest.approx((20 * 0.1 + 2 * 2.0) / 22)
    assert page_time_s([window(0.0)]) is None


def test_the_time_waited_is_that_of_all_clients_together() -> None:
    assert waited_s([BUSY, SLOW]) == 6.0
    assert in_all("alone", [BUSY, SLOW]) == "alone: 22 pages, 8 requests given up, clients waited 6 s together"


def test_while_a_change_is_made_clients_wait_as_in_the_worse_of_the_windows_around_it() -> None:
    late = window(7.0, client_outstanding_requests=10.0)
    assert waited_s([BUSY, late]) == 2 * 3.0 + 5 * 10.0 + 2 * 10.0
    assert waited_s([late, window(12.0, client_outstanding_requests=1.0)]) == 20.0 + 3 * 10.0 + 2 * 1.0


def test_what_clients_waited_while_a_change_was_made_is_counted_where_they_say_it() -> None:
    before = window(0.0, client_outstanding_requests=3.0, client_waited_s=106.0)
    after = window(15.0, client_outstanding_requests=1.0, client_waited_s=150.0)
    assert waited_s([before, after]) == 2 * 3.0 + 150.0 - 106.0


def test_a_request_that_failed_counts_until_its_time_out_also_in_the_first_window() -> None:
    failed = {"client_outstanding_requests": 0.0, "client_patience_left_s": 30.0}
    before = window(0.0, client_waited_s=130.0, **failed)
    after = window(15.0, client_waited_s=175.0, **failed)
    assert waited_s([before, after]) == 30.0 + 175.0 - 130.0
    assert waited_s([window(0.0, **failed), window(2.0, **failed)]) == 60.0, "where the sum is not known"


def test_a_server_that_turns_all_away_lets_clients_wait_longer_than_one_that_serves_them_late() -> None:
    turned_away = [window(2.0 * i, client_waited_s=100.0 * (i + 1), client_patience_left_s=100.0) for i in range(4)]
    late = [window(2.0 * i, client_outstanding_requests=10.0, client_waited_s=20.0 * (i + 1)) for i in range(4)]
    assert waited_s(turned_away) == 400.0 > waited_s(late) == 80.0
    assert level(turned_away) == 50.0 > level(late) == 10.0


def test_what_a_visit_given_up_would_still_have_asked_for_counts_like_the_other_requests() -> None:
    asked = {"client_request_rate_hz": 8.0, "client_error_rate_hz": 2.0, "client_outstanding_requests": 3.0}
    kept = [window(2.0 * i, client_waited_s=6.0 * (i + 1), **asked) for i in range(4)]
    given_up = [window(one.start_s, **one.readings, client_unasked_rate_hz=5.0) for one in kept]
    assert waited_s(kept) == 24.0
    assert waited_s(given_up) == 36.0
    assert waited_s([window(0.0, **asked, client_unasked_rate_hz=5.0)]) == 9.0, "where the sum is not known"


def test_the_second_half_is_that_of_the_time_not_of_the_windows() -> None:
    crowd = [window(2.0 * i, client_outstanding_requests=1.0, client_waited_s=2.0 * (i + 1)) for i in range(6)]
    change = window(22.0, client_outstanding_requests=1.0, client_waited_s=84.0)
    assert later([*crowd, change]) == [crowd[-1], change]
    assert level(later([*crowd, change])) == (2 * 1.0 + 84.0 - 12.0) / 14.0
    assert level([]) == 0.0


def test_the_demonstration_tells_its_three_parts_apart() -> None:
    rush = window(NORMAL_S + 1, client_page_rate_hz=1.0, client_page_time_s=2.0)
    after = window(NORMAL_S + RUSH_S + 1)
    assert summary("trim", [BUSY, rush, after])[1].endswith("before 100 ms, rush 2.0 s, after no page")
    assert time_text(0.0123) == "12.3 ms"
