from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests._curve import worker_knob
from tests._idle_periods import bin_of, time_knob
from trimtab.controllers._intervals import BINS, EDGES_S, Tally, counted, floor_s, keep_alive_knob
from trimtab.errors import UsageError

counts = st.dictionaries(st.integers(0, BINS - 1), st.floats(0.01, 1e6), min_size=1, max_size=20)


def readings_of(name: str, of: dict[int, float]) -> dict[str, float]:
    return {f"{name}@{index}": count for index, count in of.items()}


def test_the_bins_are_those_of_the_mapped_file() -> None:
    """Golden values of native/wire/src/shared.rs: exact below 8 ns, then eight to the octave."""
    golden = {
        0: 0,
        7: 7,
        8: 8,
        15: 15,
        16: 16,
        17: 18,
        24: 32,
        200: 8 << 24,
        201: 9 << 24,
        207: 15 << 24,
        208: 8 << 25,
    }
    assert {index: round(floor_s(index) * 1e9) for index in golden} == golden
    assert sorted(EDGES_S) == list(EDGES_S)


@given(st.integers(8, 280))
def test_a_bin_begins_where_the_one_before_it_ends(index: int) -> None:
    begins_s = floor_s(index)
    assert bin_of(begins_s + 1e-10) == index
    assert bin_of(begins_s - 1e-10) == index - 1 or index == 8


def test_counts_are_taken_by_name_and_index_and_nothing_else() -> None:
    readings = {"intervals@7": 2.0, "intervals@3": 1.0, "intervals_left@4": 9.0, "intervals@x": 5.0}
    readings |= {"intervals@512": 4.0, "intervals@9": 0.0, "intervals": 3.0, "intervals@": 3.0, "intervals@-1": 3.0}
    assert list(counted(readings, "intervals").items()) == [(3, 1.0), (7, 2.0)]


def test_a_tally_adds_up_by_how_the_periods_ended() -> None:
    readings = readings_of("intervals", {1: 5.0}) | readings_of("intervals_left", {2: 3.0})
    tally = Tally().seen(readings | readings_of("intervals_ended", {3: 2.0}), 15.0, 1000.0, 1.0)
    assert (tally.asked[1], tally.left[2], tally.ended[3], tally.total) == (5.0, 3.0, 2.0, 10.0)


def test_a_window_without_idle_periods_leaves_the_tally() -> None:
    tally = Tally().seen({"intervals@5": 3.0}, 15.0, 100.0, 0.5)
    assert tally.seen({"request_rate_hz": 5.0}, 15.0, 100.0, 0.5) is tally


@given(st.lists(counts, min_size=1, max_size=8))
def test_it_never_holds_more_than_the_memory(windows: list[dict[int, float]]) -> None:
    tally = Tally()
    for window in windows:
        tally = tally.seen(readings_of("intervals", window), 15.0, 1000.0, 0.2)
        assert 0 < tally.total <= 1000.0 * (1 + 1e-9)


def test_one_window_weighs_no_more_than_its_share() -> None:
    tally = Tally().seen({"intervals@5": 1000.0}, 15.0, 1000.0, 1.0)
    crowd = tally.seen({"intervals@9": 50_000.0}, 15.0, 1000.0, 0.2)
    assert (crowd.asked[5], crowd.asked[9]) == pytest.approx((800.0, 200.0))


def test_what_is_old_fades_by_what_is_new_and_not_by_windows() -> None:
    tally = Tally().seen({"intervals@5": 1000.0}, 15.0, 1000.0, 1.0)
    for _ in range(10):
        tally = tally.seen({"intervals@9": 10.0}, 15.0, 1000.0, 0.2)
    assert tally.asked[5] == pytest.approx(1000 * 0.99**10)
    assert (
        Tally()
        .seen({"intervals@5": 100.0}, 15.0, 1000.0, 1.0)
        .seen({"intervals@9": 100.0}, 15.0, 1000.0, 1.0)
        .asked[5]
        == 100
    )


def test_what_fades_fades_alike() -> None:
    counts = readings_of("intervals", {1: 4.0}) | readings_of("intervals_ended", {2: 8.0})
    tally = Tally().seen(counts, 15.0, 1000.0, 1.0).faded(0.25)
    assert (tally.asked[1], tally.ended[2], tally.missed[2], tally.total) == (1.0, 2.0, 1.0, 3.0)


def test_a_period_that_the_time_in_force_ended_misses_what_is_left_of_its_bin() -> None:
    at = bin_of(0.42)
    share = (floor_s(at + 1) - 0.42) / (floor_s(at + 1) - floor_s(at))
    tally = Tally().seen(readings_of("intervals_ended", {at: 100.0, at + 8: 10.0}), 0.42, 1000.0, 1.0)
    assert (tally.missed[at], tally.missed[at + 8]) == pytest.approx((100 * share, 5.0))


def test_the_knob_is_found_or_asked_for_by_name() -> None:
    assert keep_alive_knob((worker_knob(), time_knob()), "keep-alive") == time_knob()
    with pytest.raises(UsageError, match="no knob to move: keep-alive moves the keep-alive time, and was given none"):
        keep_alive_knob((), "keep-alive")
