"""Numbers in summaries."""

from __future__ import annotations

import pytest

from trimtab.cli.lab import numbers as numbers_of
from trimtab.lab._tables import ranges


@pytest.mark.parametrize(
    ("numbers", "text"), [((), ""), ((3,), "3"), ((1, 2, 3, 7), "1-3,7"), ((9, 8, 2, 2, 1), "1-2,8-9")]
)
def test_numbers_are_written_as_the_command_line_takes_them(numbers: tuple[int, ...], text: str) -> None:
    assert ranges(numbers) == text
    assert not numbers or set(numbers_of("--seeds", text)) == set(numbers)
