"""Durations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import UsageError
from trimtab.units import format_duration, parse_duration_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("400ms", 0.4), ("90s", 90.0), ("5m", 300.0), ("1h30m", 5400.0), ("1.5s", 1.5), ("1m30s", 90.0), ("0s", 0.0)],
)
def test_a_duration_is_read_with_its_unit(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "90", "s", "-5s", "5 s", "5x", "1e3s", "5s ", "nan", "infs"])
def test_anything_else_is_refused_with_the_text_and_what_is_allowed(text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration") as refused:
        parse_duration_s(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize("text", ["876001h", "9" * 400 + "h", "9" * 5000 + "ms"])
def test_more_than_a_hundred_years_is_a_slip_of_the_keyboard(text: str) -> None:
    with pytest.raises(UsageError, match="is too long a duration") as refused:
        parse_duration_s(text)
    assert len(str(refused.value)) < 120
    assert parse_duration_s("876000h") == 100 * 365 * 86400


@given(st.integers(min_value=0, max_value=10**9))
def test_what_is_written_reads_back_to_the_millisecond(milliseconds: int) -> None:
    assert parse_duration_s(format_duration(milliseconds / 1000)) == pytest.approx(milliseconds / 1000, abs=5e-4)
