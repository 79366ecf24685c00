"""Comparisons of times and rates of real processes, which other programs on the machine can spoil."""

from __future__ import annotations

import pytest


class Noise(AssertionError):
    """Two measurements differ more than they should on a quiet machine."""


def noisy(why: str) -> pytest.MarkDecorator:
    """The mark of one test that may be tried three times, for a Noise alone: any other failure counts at once.

    Args:
        why: what it is that other programs can spoil; they hardly ever make a wrong comparison right.
    """
    assert why
    return pytest.mark.flaky(reruns=2, reruns_delay=3, only_rerun=["Noise"])


def agree(found: float, expected: float, rel: float, what: str) -> None:
    """Fails unless the two are as near to each other as this ratio of the second.

    Raises:
        Noise: they are not.
    """
    if found != pytest.approx(expected, rel=rel):
        raise Noise(f"{what}: {found} against {expected}, more than {rel:.0%} apart")
