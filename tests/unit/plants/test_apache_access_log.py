"""Requests that failed, by access logs: formats, known counts, logs that are rotated, and what tells nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests._memory_plant import FakeClock
from trimtab.errors import NotMeasured
from trimtab.plants.apache.access_log import AccessLog, leading_to_status, logs
from trimtab.plants.apache.configuration import Configuration, Origin, evaluate

COMBINED = '%h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i"'
COMMON = r'LogFormat "%h %l %u %t \"%r\" %>s %O" common'
LINE = b'::1 - - [30/Nov/2026:12:00:00 +0000] "GET /a HTTP/1.1" %d 77 "-" "me"\n'


def told(log_format: str, line: bytes) -> bytes | None:
    pattern = leading_to_status(log_format)
    assert pattern is not None
    match = pattern.match(line)
    return None if match is None else match[1]


@pytest.mark.parametrize(
    ("log_format", "line", "status"),
    [
        (COMBINED, LINE % 503, b"503"),
        (COMBINED, rb'1.2.3.4 - - [x] "GET /\" 500 \\ HTTP/1.1" 200 77 "-" "me"', b"200"),  # what a client sent
        (COMBINED, b'1.2.3.4 - a b [x] "GET / HTTP/1.1" 500 77', None),  # a user's name of two words
        ("%v:%p " + COMBINED, b"www.example.org:80 " + LINE % 404, b"404"),
        ('%h %l %u %t "%r" %s %b', LINE % 200, b"200"),
        (r"%a\t%U%q\t%>s\t%D", b"::1\t/a?b=c\t502\t9", b"502"),
        ("%a %>s", b"::1 -", b"-"),
        (
            '{"at":"%t","uri":"%U","status":"%>s"}',
            rb'{"at":"[x]","uri":"/\"status\":\"500\"","status":"200"}',
            b"200",
        ),
        ("[%{%F %T}t] %^FU %400,501{User-Agent}i %>s", b"[2026-11-30 12:00:00] 5 - 500", b"500"),
    ],
)
def test_the_status_is_where_the_format_has_it_whatever_a_client_sends(
    log_format: str, line: bytes, status: bytes | None
) -> None:
    assert told(log_format, line) == status


@pytest.mark.parametrize("log_format", ["%h %b", "combined", 'a "%U %>s" b', '%h "%r %>s', "%h %? %>s", ""])
def test_a_format_without_a_status_or_one_that_is_not_understood_tells_nothing(log_format: str) -> None:
    assert leading_to_status(log_format) is None


def test_a_line_of_any_length_takes_one_step_along_it() -> None:
    pattern = leading_to_status("%U%q-%U-%q:%{X}i:%f %r-%U %>s")
    assert pattern is not None
    for line in (b"/" + b"a-" * 200_000, b":-" * 200_000, b"-" * 400_000):
        assert pattern.match(line) is None


class Logged:
    """An Apache with one log.

    Args:
        directory: its ServerRoot.
        clock: of the sensor.
    """

    def __init__(self, directory: Path, clock: FakeClock) -> None:
        self.path, self.clock = directory / "access.log", clock
        self.path.write_bytes(LINE % 500 * 9)
        self.config = evaluated(directory, "CustomLog access.log common\n" + COMMON)
        self.sensor = AccessLog(lambda: self.config, directory, clock, self.held)

    def held(self) -> dict[tuple[int, int], str]:
        return opened(self.path.parent)

    def add(self, *codes: int) -> None:
        with self.path.open("ab") as file:
            file.writelines(LINE % code for code in codes)

    def rate_hz(self) -> float:
        self.clock.sleep(2.0)
        return self.sensor.read()["error_rate_hz"]


def opened(directory: Path) -> dict[tuple[int, int], str]:
    """All of its logs, as if Apache held them."""
    found = {}
    for path in directory.glob("*.log"):
        seen = path.stat()
        found[seen.st_dev, seen.st_ino] = str(path)
    return found


def evaluated(directory: Path, text: str) -> Configuration:
    file = directory / "apache2.conf"
    file.write_text(text)
    return evaluate(Origin(file, directory))


@pytest.fixture
def log(tmp_path: Path, clock: FakeClock) -> Logged:
    return Logged(tmp_path, clock)


def test_errors_of_the_window_are_counted(log: Logged) -> None:
    log.sensor.begin()
    log.add(200, 500, 503, 404, 302, 504)
    assert log.rate_hz() == 3 / 2.0
    log.sensor.begin()
    assert log.rate_hz() == 0.0


def test_a_log_that_is_rotated_or_cut_is_read_from_its_start(log: Logged) -> None:
    log.sensor.begin()
    log.path.rename(log.path.with_suffix(".1"))
    log.add(500, 500, 200)
    assert log.rate_hz() == 1.0
    log.sensor.begin()
    log.path.write_bytes(LINE % 500)
    assert log.rate_hz() == 0.5


def test_of_a_log_that_grows_fast_the_last_part_stands_for_all_of_it(log: Logged) -> None:
    log.sensor.begin()
    log.add(*[500, 200, 200, 200] * 5_000)
    assert log.rate_hz() == pytest.approx(5_000 / 2.0, rel=0.01)


def test_of_many_logs_that_grow_each_has_its_part(tmp_path: Path, clock: FakeClock) -> None:
    """Each by 700 kB, a quarter of the lines with errors, of 256 KiB in all that are read."""
    names = [f"{number}.log" for number in range(20)]
    hosts = (f"<VirtualHost *:{81 + n}>\nCustomLog {name} common\n</VirtualHost>\n" for n, name in enumerate(names))
    for name in names:
        (tmp_path / name).touch(0o644)
    config = evaluated(tmp_path, "".join(hosts) + COMMON)
    sensor = AccessLog(lambda: config, tmp_path, clock, lambda: opened(tmp_path))
    sensor.begin()
    for name in names:
        (tmp_path / name).write_bytes((LINE % 500 + LINE % 200 * 3) * 2_500)
    clock.sleep(1.0)
    assert sensor.read()["error_rate_hz"] == pytest.approx(20 * 2_500, rel=0.05)


def test_a_line_that_is_half_written_counts_once_it_is_whole_or_not_at_all(log: Logged) -> None:
    log.sensor.begin()
    with log.path.open("ab") as file:
        file.write((LINE % 500)[:-20])
    assert log.rate_hz() == 0.0


def test_what_is_at_the_path_of_a_log_but_is_none_of_apaches_is_not_read(log: Logged, tmp_path: Path) -> None:
    held = log.held()
    sensor = AccessLog(lambda: log.config, tmp_path, log.clock, lambda: held)
    sensor.begin()
    log.path.rename(tmp_path / "old")
    log.add(500)
    with pytest.raises(NotMeasured, match="no access log"):
        sensor.read()


def test_a_log_that_is_gone_by_the_time_it_is_read_is_not_measured(log: Logged) -> None:
    log.sensor.begin()
    log.add(500)
    gone = {file: "/nonexistent" for file in log.held()}
    sensor = AccessLog(lambda: log.config, log.path.parent, log.clock, lambda: gone)
    sensor.begin()
    log.add(500)
    log.clock.sleep(1.0)
    with pytest.raises(NotMeasured, match="access log cannot be read"):
        sensor.read()


def test_lines_in_another_format_are_not_taken_for_requests_that_did_well(log: Logged) -> None:
    log.sensor.begin()
    with log.path.open("ab") as file:
        file.write(b"500 " + LINE % 500)
    with pytest.raises(NotMeasured, match="not in the format"):
        log.rate_hz()


def test_a_configuration_that_has_changed_names_other_logs(log: Logged) -> None:
    log.sensor.begin()
    log.config = evaluated(log.path.parent, "CustomLog new.log common\n" + COMMON)
    (log.path.parent / "new.log").write_bytes(LINE % 500)
    log.add(500, 500)
    assert log.rate_hz() == 0.0, "how far the new one was is not known"
    log.sensor.begin()
    with (log.path.parent / "new.log").open("ab") as file:
        file.write(LINE % 500)
    assert log.rate_hz() == 0.5


def test_where_no_log_is_there_nothing_is_measured(log: Logged) -> None:
    log.path.unlink()
    with pytest.raises(NotMeasured, match="no access log"):
        log.sensor.begin()


def test_of_each_virtual_host_the_first_log_that_tells_is_read(tmp_path: Path) -> None:
    text = r"""
CustomLog "|/usr/bin/rotatelogs x 86400" common
CustomLog referer.log referer
CustomLog other.log common
CustomLog again.log common
<VirtualHost *:80>
CustomLog logs/a.log "%h %>s" env=!quiet
</VirtualHost>
<VirtualHost *:81>
TransferLog logs/b.log
CustomLog syslog:local1 common
CustomLog logs/same.log common
</VirtualHost>
<VirtualHost *:82>
CustomLog logs/same.log common
</VirtualHost>
LogFormat "%{Referer}i -> %U" referer
"""
    there = logs(evaluated(tmp_path, text + COMMON), tmp_path)
    assert [path.name for path in there] == ["other.log", "a.log", "same.log"]
    assert there[tmp_path / "logs/a.log"].match(b"::1 500")


def test_a_format_that_nobody_has_named_tells_nothing(tmp_path: Path) -> None:
    assert not logs(evaluated(tmp_path, "CustomLog only.log nickname\n"), tmp_path)
