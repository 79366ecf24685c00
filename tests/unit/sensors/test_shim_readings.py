"""The mapped file byte for byte, and the readings of a window from its counters."""

from __future__ import annotations

import contextlib
import os
import stat
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from tests._memory_plant import FakeClock

from trimtab.errors import NotMeasured
from trimtab.sensors import _shared_file
from trimtab.sensors._eq1 import eq1
from trimtab.sensors._shared_file import MODE_AUTO, Counters, Idle, KeepAlive, SharedFile, floor_ns
from trimtab.sensors.shim import SENSOR, probe

NONE = Counters(0, 0, 0, 0, 0, 0)


def golden() -> bytearray:
    """The bytes that native/wire/src/shared_tests.rs checks, as far as Python reads them."""
    raw = bytearray(32_768 + 64 * 65_536 + 286_784)
    raw[:8] = b"TRIMTAB\0"
    struct.pack_into("<4I", raw, 8, 3, 32_768, 65_536, 64)
    struct.pack_into("<4I", raw, 40, 11, 12, 13, 1)
    struct.pack_into("<6Q", raw, 192, 21, 22, 23, 24, 25, 26)
    struct.pack_into("<QQII", raw, 256, 61, 62, 63, 64)
    struct.pack_into("<12Q", raw, 320, *range(71, 83))
    for at, count in ((12_288 + 24, 33), (20_480 + 32, 34), (24_576 + 40, 35), (28_672 + 48, 36)):
        struct.pack_into("<Q", raw, at, count)
    for number, slot in enumerate(((1, 3, 91), (2, 3, 92), (3, 3, 93), (5, 3, 94))):
        struct.pack_into("<IHxxI", raw, 32_768 + 64 * number, *slot)
    for at, taken in ((4_243_584, 41), (4_243_584 + 4224, 42)):
        struct.pack_into("<Q", raw, at, taken)
    return raw


def count(path: Path, counters: Counters) -> None:
    """Writes counters as the shim does."""
    values = (counters.connections, counters.delay_ns, counters.requests, counters.service_ns)
    with path.open("r+b") as file:
        file.seek(192)
        file.write(struct.pack("<6Q", *values, counters.sent_bytes, counters.clipped))


def test_the_golden_bytes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    path.write_bytes(golden())
    file = SharedFile(path)
    assert file.counters() == Counters(21, 22, 23, 24, 25, 26)
    assert file.senses()
    count(path, replace(NONE, connections=5))
    assert file.counters().connections == 5, "it is read each time"
    file.close()
    file.close()


def test_what_workers_have_taken_and_hold_is_read_from_the_golden_bytes(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    raw = golden()
    path.write_bytes(raw)
    with contextlib.closing(SharedFile(path)) as file:
        assert (file.lends(), file.taken(3), file.holders()) == (False, (41, 42, 0), (92, 93))
        struct.pack_into("<I", raw, 4_227_072, 1)
        path.write_bytes(raw)
        assert file.lends()


def test_idle_periods_and_the_keep_alive_time_are_read_from_the_golden_bytes(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    path.write_bytes(golden())
    file = SharedFile(path)
    assert file.keep_alive() == KeepAlive(time_ns=61, trial_ns=62, trial_every=63, mode=64)
    assert file.idle() == Idle(71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82)
    counts = file.histograms()
    assert (len(counts.intervals_50ms), counts.intervals_50ms[3], sum(counts.intervals_50ms)) == (1024, 33, 33)
    for bins, at, count_there in ((counts.intervals, 4, 34), (counts.ended, 5, 35), (counts.left, 6, 36)):
        assert (len(bins), bins[at], sum(bins)) == (512, count_there, count_there)
    with pytest.raises(NotMeasured, match="Permission denied"):
        file.set_keep_alive(KeepAlive(1, 2, 3, 1))
    file.close()


def test_a_keep_alive_time_that_is_set_is_read_back_and_nothing_else_changes(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    path.write_bytes(golden())
    file = SharedFile(path, write=True)
    wanted = KeepAlive(time_ns=(1 << 40) + 1, trial_ns=(1 << 41) + 2, trial_every=32, mode=MODE_AUTO)
    file.set_keep_alive(wanted)
    assert file.keep_alive() == wanted
    file.close()
    expected = golden()
    struct.pack_into("<QQII", expected, 256, (1 << 40) + 1, (1 << 41) + 2, 32, 2)
    assert path.read_bytes() == expected


def test_bins_begin_where_the_shim_begins_them() -> None:
    """The numbers of `bucket_floor_ns` in native/wire/src/shared.rs."""
    assert [floor_ns(i) for i in (0, 7, 8, 9, 15, 16, 17, 24, 200)] == [0, 7, 8, 9, 15, 16, 18, 32, 134_217_728]


def test_what_is_made_is_read_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    _shared_file.create(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    raw, expected = path.read_bytes(), golden()
    assert len(raw) == len(expected)
    assert raw[:24] == expected[:24]
    assert raw[24:40] != bytes(16), "the token"
    generation, gate_pid, wake_source, flags = struct.unpack_from("<4I", raw, 40)
    assert (generation, gate_pid, flags) == (0, 0, 1)
    assert 0x7F80_0002 <= wake_source <= 0x7FFF_FFF1
    assert raw[56:] == bytes(len(raw) - 56)
    file = SharedFile(path)
    assert (file.counters(), file.senses()) == (NONE, True)
    file.close()
    with pytest.raises(FileExistsError):
        _shared_file.create(path)
    _shared_file.create(other := tmp_path / "other")
    assert other.read_bytes()[24:40] != raw[24:40]


def test_the_file_has_all_its_memory_from_the_start_so_a_full_file_system_ends_no_worker(tmp_path: Path) -> None:
    """Who first touches a page of a mapped file that the file system has no room for gets SIGBUS."""
    path = tmp_path / "shared"
    _shared_file.create(path)
    assert path.stat().st_blocks * 512 >= path.stat().st_size


@pytest.mark.parametrize(
    ("at", "wrong", "said"),
    [
        (0, b"TRIMTAP\0", "it has another beginning"),
        (8, struct.pack("<I", 1), r"of this trimtab \(version 3\): its layout is version 1"),
        (12, struct.pack("<I", 4096), "is not a mapped file of this trimtab"),
        (20, struct.pack("<I", 128), "is not a mapped file of this trimtab"),
    ],
)
def test_another_layout_is_refused(tmp_path: Path, at: int, wrong: bytes, said: str) -> None:
    raw = golden()
    raw[at : at + len(wrong)] = wrong
    path = tmp_path / "shared"
    path.write_bytes(raw)
    with pytest.raises(NotMeasured, match=said):
        SharedFile(path)


def test_no_file_and_half_a_file_are_not_measured(tmp_path: Path) -> None:
    with pytest.raises(NotMeasured, match="No such file"):
        SharedFile(tmp_path / "none")
    (tmp_path / "half").write_bytes(golden()[:100])
    with pytest.raises(NotMeasured, match="too short"):
        SharedFile(tmp_path / "half")
    sensor = SENSOR(tmp_path / "none", FakeClock())
    with pytest.raises(NotMeasured):
        sensor.begin()
    with pytest.raises(NotMeasured, match="has not begun"):
        sensor.read()


def test_the_terms_of_eq1_are_exact(tmp_path: Path) -> None:
    path, clock = tmp_path / "shared", FakeClock()
    path.write_bytes(golden())
    sensor = SENSOR(path, clock)
    count(path, Counters(100, 7_000_000_000, 500, 1_000_000_000, 10_000, 0))
    sensor.begin()
    clock.sleep(10.0)
    count(path, Counters(140, 9_000_000_000, 660, 1_800_000_000, 90_000, 0))
    readings = dict(sensor.read())
    assert readings == pytest.approx(
        {
            "accept_queue_delay_s": 0.05,
            "service_time_s": 0.005,
            "burst_length": 4.0,
            "connection_rate_hz": 4.0,
            "request_rate_hz": 16.0,
            "byte_rate_bytes_hz": 8000.0,
        }
    )
    assert eq1(readings)["response_time_s"] == pytest.approx(0.07)
    sensor.begin()
    clock.sleep(10.0)
    count(path, Counters(140, 9_000_000_000, 661, 1_900_000_000, 90_000, 0))
    assert sensor.read() == pytest.approx(
        {"connection_rate_hz": 0.0, "request_rate_hz": 0.1, "byte_rate_bytes_hz": 0.0, "service_time_s": 0.1}
    )
    sensor.close()
    sensor.close()


def test_connections_that_could_not_be_followed_do_not_stand_for_the_others() -> None:
    seen = replace(NONE, connections=1000, requests=1000)
    assert SENSOR.readings(1.0, NONE, replace(seen, clipped=10))["burst_length"] == 1.0
    with pytest.raises(NotMeasured, match="could not follow 11 connections of 1000"):
        SENSOR.readings(1.0, NONE, replace(seen, clipped=11))


def test_the_doctor_is_told_whether_it_counts(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    (finding,) = probe(path)
    assert not finding.usable and "No such file" in finding.detail
    path.write_bytes(golden())
    (finding,) = probe(path)
    assert finding.usable and "21 connections so far" in finding.detail
    with path.open("r+b") as file:
        os.pwrite(file.fileno(), struct.pack("<I", 0), 52)
    (finding,) = probe(path)
    assert not finding.usable and finding.enable
