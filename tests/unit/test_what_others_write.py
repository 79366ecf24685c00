"""What reads what others write raises trimtab's own errors, whatever stands there, and does not hang or die."""

from __future__ import annotations

import contextlib
import json
import math
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests._fake_gate import counters, read
from tests._memory_plant import FakeClock
from trimtab.errors import NotMeasured, TrimtabError
from trimtab.gate.keep_alive import DOMAIN, InCharge, KeepAliveTime
from trimtab.plants import _own_file
from trimtab.plants.apache import syntax
from trimtab.sensors import _shared_file, _status_page
from trimtab.sensors.gate import differences
from trimtab.sensors.keep_alive import KeepAlive
from trimtab.sensors.shim import Shim

AGAIN = settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
WORD = st.integers(0, 2**64 - 1)
TEXT = st.text(max_size=60) | st.text(alphabet=' "\\#\n<>=!~./0123456789[(*+', max_size=30)
SHORTENED = """
import os, sys
from pathlib import Path
from trimtab.errors import NotMeasured
from trimtab.sensors._shared_file import KeepAlive, SharedFile
path = Path(sys.argv[1])
file = SharedFile(path, write=True)
os.truncate(path, 0)
write = lambda: file.set_keep_alive(KeepAlive(1, 2, 3, 1))
for read in (file.counters, file.idle, file.histograms, file.senses, write):
    try:
        read()
    except NotMeasured as error:
        print(error)
"""


def scribbled(path: Path, words: list[tuple[int, int]]) -> None:
    """Writes words over the file as a process of the server can: anywhere behind its beginning."""
    with path.open("r+b") as file:
        for at, value in words:
            file.seek(24 + 8 * at)
            file.write(struct.pack("=Q", value))


@AGAIN
@given(
    st.lists(st.tuples(st.integers(0, 4093), WORD), max_size=40),
    st.lists(st.tuples(st.integers(0, 4093), WORD), max_size=40),
)
def test_readings_of_a_mapped_file_are_finite_and_not_below_zero_whatever_is_written_there(
    tmp_path: Path, before: list[tuple[int, int]], after: list[tuple[int, int]]
) -> None:
    path = tmp_path / "shared"
    path.unlink(missing_ok=True)
    _shared_file.create(path)
    scribbled(path, before)
    clock = FakeClock()
    for kind in (Shim, KeepAlive):
        sensor = kind(path, clock)
        sensor.begin()
        clock.sleep(1.0)
        scribbled(path, after)
        try:
            readings = sensor.read()
        except NotMeasured:
            continue
        finally:
            sensor.close()
        assert all(math.isfinite(value) and value >= 0 for value in readings.values()), readings


@AGAIN
@given(mode=st.integers(0, 2**32 - 1), time_ns=WORD, every=st.integers(0, 2**32 - 1))
def test_a_keep_alive_time_that_nobody_has_set_is_of_the_domain_and_in_somebodys_charge(
    tmp_path: Path, mode: int, time_ns: int, every: int
) -> None:
    path = tmp_path / "shared"
    path.unlink(missing_ok=True)
    _shared_file.create(path)
    time = KeepAliveTime(path)
    with path.open("r+b") as file:
        file.seek(_shared_file.SETTINGS_AT)
        file.write(_shared_file.SETTINGS.pack(time_ns, 0, every, mode))
    setting = time.setting()
    time.close()
    assert setting.in_charge in list(InCharge)
    assert setting.time_ms is None or setting.time_ms in DOMAIN
    assert str(setting)


def test_a_file_that_is_shortened_under_its_reader_is_not_measured_and_kills_nobody(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    _shared_file.create(path)
    child = subprocess.run(
        [sys.executable, "-P", "-c", SHORTENED, path], capture_output=True, text=True, check=False, timeout=300
    )
    assert (child.returncode, child.stderr) == (0, "")
    assert child.stdout.count("has been shortened") == 5


def test_a_pipe_in_the_files_place_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "shared")
    with pytest.raises(NotMeasured, match="is not a file"):
        _shared_file.SharedFile(tmp_path / "shared")


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file away: needs root")
def test_a_file_of_another_user_is_read_and_not_written_through_a_mapping(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    _shared_file.create(path)
    os.chown(path, 65_534, 65_534)
    _shared_file.SharedFile(path).close()
    with pytest.raises(NotMeasured, match="belongs to uid 65534, who could shorten it"):
        _shared_file.SharedFile(path, write=True)


@given(st.binary(max_size=200) | TEXT.map(lambda text: f"HTTP/1.1 200 OK\r\n\r\nBusyWorkers: {text}".encode()))
@example(b"HTTP/1.1 200 OK\r\n\r\nBusyWorkers: nan")
@example(b"HTTP/1.1 200 OK\r\n\r\nBusyWorkers: 1e999")
def test_a_number_of_a_status_page_is_finite_or_absent(reply: bytes) -> None:
    try:
        page = _status_page.parse(reply, "http://127.0.0.1/")
    except NotMeasured:
        return
    numbers = [page.number(name) for name in page.text]
    assert all(number is None or math.isfinite(number) for number in numbers)


@given(TEXT, st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 99)))
@example(">= 2.x", (2, 4, 1))
@example("~ (", (2, 4, 1))
@example("", (2, 4, 1))
def test_configuration_files_of_apache_are_read_whatever_stands_there(text: str, version: tuple[int, ...]) -> None:
    for number, line in syntax.lines(text):
        assert number > 0
        assert line.strip()
        syntax.words(line)
    assert syntax.version_holds(text, version) in (True, False)


@given(TEXT)
@example('{"before": "\\ud800", "sha256": ""}')
def test_a_snippet_that_trimtab_has_not_written_is_not_its_own(state: str) -> None:
    mine = _own_file.compose("", None).split("\n", 2)
    prefix = mine[1][: mine[1].index("{")]
    try:
        ours = json.loads(mine[1].removeprefix(prefix)) == json.loads(state)
    except (ValueError, RecursionError):
        ours = False
    assert ours or _own_file.leftover("\n".join([mine[0], prefix + state, mine[2]])) is None


def test_a_snippet_whose_state_is_nested_without_end_is_not_its_own() -> None:
    mine = _own_file.compose("", None).split("\n", 2)
    prefix = mine[1][: mine[1].index("{")]
    assert _own_file.leftover("\n".join([mine[0], prefix + 100_000 * "[", mine[2]])) is None


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2**64)), max_size=4))
def test_delays_that_a_worker_has_written_over_are_not_measured(buckets: list[tuple[int, int]]) -> None:
    first, last = (
        read(now_s, counters("a", delay_buckets=seen)) for now_s, seen in ((1.0, [(1, 5)]), (2.0, buckets))
    )
    with contextlib.suppress(TrimtabError):
        found = differences(first, last)
        assert all(math.isfinite(value) and value >= 0 for value in found.values())
