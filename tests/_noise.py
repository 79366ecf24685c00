"""Comparisons of times and rates of real processes, which other programs on the machine can spoil."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])


class Noise(AssertionError):
    """Two measurements differ more than they should on a quiet machine."""


def noisy(why: str) -> Callable[[Test], Test]:
    """Marks one test that runs beside one other at most and may be tried three times, for a Noise only.

    All else counts at once.

    Args:
        why: what it is that other programs can spoil, which is said of every rerun; they hardly ever make a wrong
            comparison right.
    """
    assert why
    again = pytest.mark.flaky(reruns=2, reruns_delay=3, only_rerun=["Noise"])

    def marked(test: Test) -> Test:
        for mark in (pytest.mark.quiet, pytest.mark.noisy(why), again):
            test = mark(test)
        return test

    return marked


def agree(found: float, expected: float, rel: float, what: str) -> None:
    """Fails unless the two are as near to each other as this ratio of the second.

    Raises:
        Noise: they are not.
    """
    if found != pytest.approx(expected, rel=rel):
        raise Noise(f"{what}: {found} against {expected}, more than {rel:.0%} apart")
