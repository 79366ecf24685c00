"""What the processes of a server write: known counts, processes that come and go, and what cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests._memory_plant import FakeClock

from trimtab.errors import NotMeasured
from trimtab.sensors.written import Written


class Family:
    """A server and its workers, with the counts that a test gives them.

    Args:
        proc: where their files are written.
    """

    def __init__(self, proc: Path) -> None:
        self.proc = proc
        self.told = 0
        self.write({7: 100, 8: 1000, 9: 2000})

    def write(self, written: dict[int, int]) -> None:
        children = self.proc / "7/task/7/children"
        children.parent.mkdir(parents=True, exist_ok=True)
        children.write_text("".join(f"{pid} " for pid in written if pid != 7))
        for pid, count in written.items():
            (self.proc / str(pid)).mkdir(exist_ok=True)
            self.state(pid, "S")
            (self.proc / f"{pid}/io").write_text(f"rchar: 5\nwchar: {count}\nsyscr: 1\nsyscw: 2\nread_bytes: 0\n")

    def state(self, pid: int, letter: str) -> None:
        (self.proc / f"{pid}/stat").write_text(f"{pid} (x) {letter} {'1 ' * 20}")

    def ours(self) -> int:
        return self.told


@pytest.fixture
def family(tmp_path: Path) -> Family:
    return Family(tmp_path)


@pytest.fixture
def sensor(family: Family, clock: FakeClock) -> Written:
    return Written(7, clock, family.ours, family.proc)


def test_known_counts_come_out_without_what_was_written_to_us(
    family: Family, clock: FakeClock, sensor: Written
) -> None:
    sensor.begin()
    family.told = 500
    family.write({7: 100, 8: 4000, 9: 7000})
    clock.sleep(2.0)
    assert sensor.read() == {"byte_rate_bytes_hz": (3000 + 5000 - 500) / 2.0}


def test_a_worker_that_has_ended_counts_with_its_parent(family: Family, clock: FakeClock, sensor: Written) -> None:
    sensor.begin()
    family.write({7: 100 + 1500, 9: 2000, 10: 300})
    clock.sleep(1.0)
    assert sensor.read() == {"byte_rate_bytes_hz": 500 + 300}


def test_a_worker_that_ends_while_all_are_read_has_them_read_again(
    family: Family, clock: FakeClock, sensor: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trimtab.sensors import written

    listed = iter([[8, 9, 11], [8, 9], [8, 9, 12], [8, 9], [8, 9]])
    monkeypatch.setattr(written, "children", lambda pid, proc: next(listed))
    sensor.begin()  # 11 has ended by the time that it is read; 12 has come since all were read
    assert list(listed) == []


def test_workers_that_never_stay_and_counts_that_become_less_are_not_measured(
    family: Family, clock: FakeClock, sensor: Written
) -> None:
    sensor.begin()
    family.write({7: 100, 8: 900, 9: 2000})
    clock.sleep(1.0)
    with pytest.raises(NotMeasured, match="become less"):
        sensor.read()
    (family.proc / "7/task/7/children").write_text("8 9 11 ")
    with pytest.raises(NotMeasured, match="come and go"):
        Written(7, clock, family.ours, family.proc).begin()


def test_a_server_that_has_ended_and_is_only_waited_for_has_not_written_nothing(
    family: Family, sensor: Written
) -> None:
    family.state(7, "Z")
    with pytest.raises(NotMeasured, match="has ended"):
        sensor.begin()


def test_one_who_may_not_read_them_is_told_so(
    family: Family, sensor: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trimtab.sensors import written

    def refuse(path: str) -> bytes:
        raise PermissionError(path)

    monkeypatch.setattr(written, "contents", refuse)
    with pytest.raises(NotMeasured, match="no permission"):
        sensor.begin()
