"""A lock that a stranger can hold is not waited for without end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from trimtab import locks
from trimtab.locks import locked


class Time:
    """Time that passes when somebody sleeps, who then may do something."""

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.at_s, self._meanwhile = 0.0, meanwhile

    def monotonic(self) -> float:
        return self.at_s

    def sleep(self, duration_s: float) -> None:
        self.at_s += duration_s
        self._meanwhile()


def test_a_lock_that_somebody_holds_for_ever_is_waited_for_no_longer_than_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = Time()
    monkeypatch.setattr(locks, "time", time)
    his, ours = (os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY) for _ in range(2))
    assert locked(his) and time.at_s == 0.0
    assert not locked(ours, 3.0)
    assert 3.0 <= time.at_s < 3.1
    os.close(his)
    assert locked(ours, 0.0)
    os.close(ours)


def test_a_lock_that_is_given_up_meanwhile_is_got(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    his, ours = (os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY) for _ in range(2))
    assert locked(his)
    time = Time(lambda: os.close(his))
    monkeypatch.setattr(locks, "time", time)
    assert locked(ours)
    assert time.at_s < 1.0
    os.close(ours)
