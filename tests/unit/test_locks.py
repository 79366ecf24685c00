"""A lock that a stranger can hold is not waited for without end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from trimtab import locks
from trimtab.locks import held, locked


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


def test_a_file_that_its_holder_has_removed_meanwhile_is_not_held_and_the_next_of_its_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two would hold one each."""
    path = tmp_path / "lock"
    his = held(path, 0.0)
    assert his is not None and held(path, 0.0) is None

    def ends() -> None:
        path.unlink()
        os.close(his)

    monkeypatch.setattr(locks, "time", Time(ends))
    ours = held(path, 10.0)
    monkeypatch.undo()
    assert ours is not None and os.path.samestat(os.fstat(ours), path.stat())
    assert held(path, 0.0) is None
    os.close(ours)


def test_of_many_that_remove_the_file_as_they_end_no_two_hold_it_at_a_time(tmp_path: Path) -> None:
    path, holding, most = tmp_path / "lock", list[int](), list[int]()

    def holds() -> None:
        for _ in range(50):
            lock = held(path, 60.0)
            assert lock is not None
            holding.append(lock)
            most.append(len(holding))
            holding.remove(lock)
            path.unlink()
            os.close(lock)

    threads = [threading.Thread(target=holds) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 200 and max(most) == 1
    assert not path.exists()
