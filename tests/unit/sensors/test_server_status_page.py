"""What the status page of mod_status says, from recorded replies, and what follows from two of them."""

from __future__ import annotations

import pytest
from tests._memory_plant import StillClock

from trimtab.errors import NotMeasured, UsageError
from trimtab.sensors._polled_page import Reply
from trimtab.sensors._status_page import Page, parse
from trimtab.sensors.server_status import ServerStatus, _difference

URL = "http://127.0.0.1/server-status"
PREFORK = b"""HTTP/1.1 200 OK\r
Server: Apache/2.4.71 (Debian)\r
Connection: close\r
Content-Type: text/plain; charset=ISO-8859-1\r
\r
127.0.0.1
ServerVersion: Apache/2.4.71 (Debian)
ServerMPM: prefork
RestartTime: Saturday, 21-Nov-2026 20:14:58 UTC
ServerUptimeSeconds: 38
Total Accesses: 23
Total kBytes: 7
Total Duration: 2076
BusyWorkers: 2
GracefulWorkers: 0
IdleWorkers: 3
Scoreboard: ___W
"""


def changed(page: Page, **fields: str) -> Page:
    named = {name.replace("_", " "): value for name, value in fields.items()}
    return Page({**page.text, **named}, page.size_bytes)


def test_the_fields_are_read_by_name() -> None:
    page = parse(PREFORK, URL)
    assert page.number("Total Accesses") == 23
    assert page.number("BusyWorkers") == 2
    assert page.number("ConnsTotal") is None
    assert page.number("Scoreboard") is None
    assert page.size_bytes == len(PREFORK)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (b"", "did not answer in HTTP"),
        (b"SSH-2.0-OpenSSH\r\n", "did not answer in HTTP"),
        (b"HTTP/1.1 403 Forbidden\r\n\r\nno", "answered 403 Forbidden: allow it: 'Require local'"),
        (b"HTTP/1.1 404 Not Found\r\n\r\nno", "answered 404 Not Found: turn it on: 'a2enmod status'"),
        (b"HTTP/1.1 301 Moved Permanently\r\n\r\n", "301 Moved Permanently: its virtual host sends it elsewhere"),
        (b"HTTP/1.1 200 OK\r\n\r\n<p>It works!</p>", "is not the page of mod_status: the site answers there"),
        (
            b"HTTP/1.1 404 Not Found\r\n\r\n<p>A page of the site</p>",
            "where it is on, the site answers there, perhaps",
        ),
    ],
)
def test_what_is_no_status_page_is_not_measured(reply: bytes, message: str) -> None:
    with pytest.raises(NotMeasured, match=message):
        parse(reply, URL)


def test_the_readings_are_differences_without_our_own_requests() -> None:
    first = parse(PREFORK, URL)
    last = changed(first, Total_Accesses="45", Total_kBytes="1007", Total_Duration="4176")
    readings = _difference(Reply(10.0, 1, first), Reply(12.0, 2, last))
    assert readings["request_rate_hz"] == (22 - 1) / 2
    assert readings["byte_rate_bytes_hz"] == (1000 * 1024 - len(PREFORK)) / 2
    assert readings["busy_workers"] == 1
    assert readings["idle_workers"] == 3


@pytest.mark.parametrize(("mpm", "stops"), [("prefork", 2), ("worker", 2), ("event", 1)])
def test_the_duration_counts_as_often_as_the_mpm_adds_it(mpm: str, stops: int) -> None:
    first = changed(parse(PREFORK, URL), ServerMPM=mpm)
    last = changed(first, Total_Accesses="34", Total_Duration="3076")
    readings = _difference(Reply(0.0, 1, first), Reply(1.0, 2, last))
    assert readings["service_time_s"] == pytest.approx(1.0 / 10 / stops)


@pytest.mark.parametrize(("mpm", "held"), [("prefork", 2.0), ("worker", 2.0), ("event", 0.0)])
def test_workers_that_an_idle_connection_holds_are_those_in_k_and_none_with_event(mpm: str, held: float) -> None:
    page = changed(parse(PREFORK, URL), ServerMPM=mpm, Scoreboard="WK_K.W")
    readings = _difference(Reply(0.0, 1, page), Reply(1.0, 2, changed(page, Total_Accesses="99")))
    assert readings["idle_held_workers"] == held


def served(sensor: ServerStatus, number: int, accesses: int, duration_ms: int) -> Reply[Page]:
    """A reply that the sensor gets."""
    page = changed(parse(PREFORK, URL), Total_Accesses=str(accesses), Total_Duration=str(duration_ms))
    sensor._within.append(Reply(number / 2, number, page))
    sensor._latency_s = 0.003
    sensor.came(page)
    return sensor._within[-1]


def test_what_our_own_requests_take_is_no_time_of_users_requests() -> None:
    """Each of ours takes 2 ms, counted twice; then ten of users take 3 ms each beside twenty of ours."""
    sensor = ServerStatus(URL, StillClock())
    for number in range(1, 12):
        first = served(sensor, number, 100 + number, 1000 + 4 * number)
    last = served(sensor, 31, 100 + 31 + 10, 1000 + 4 * 31 + 2 * 3 * 10)
    readings = sensor.between(first, last)
    assert readings["request_rate_hz"] == 1
    assert readings["service_time_s"] == pytest.approx(0.003)


def test_a_request_of_users_that_ends_in_place_of_ours_is_not_taken_for_it() -> None:
    """Ours has been replied to and is yet to be counted."""
    sensor = ServerStatus(URL, StillClock())
    for number in range(1, 12):
        served(sensor, number, 100 + number, 1000 + 4 * number)
    first = served(sensor, 12, 100 + 12, 1000 + 4 * 11 + 2 * 60_000)
    last = served(sensor, 32, 100 + 32 + 10, 1000 + 4 * 31 + 2 * 60_000 + 2 * 3 * 10)
    assert sensor.between(first, last)["service_time_s"] == pytest.approx(0.003)


def test_a_time_that_cannot_be_told_from_that_of_our_own_requests_is_absent() -> None:
    sensor = ServerStatus(URL, StillClock())
    for number in range(1, 12):
        first = served(sensor, number, 100 + number, 1000 + 4 * number)
    last = served(sensor, 31, 100 + 31 + 1, 1000 + 4 * 31)
    readings = sensor.between(first, last)
    assert readings["request_rate_hz"] == pytest.approx(0.1)
    assert "service_time_s" not in readings


def test_without_requests_there_is_no_service_time() -> None:
    first = parse(PREFORK, URL)
    readings = _difference(Reply(0.0, 1, first), Reply(1.0, 2, changed(first, Total_Accesses="24")))
    assert readings["request_rate_hz"] == 0
    assert "service_time_s" not in readings


def test_with_extended_status_off_there_are_only_workers() -> None:
    fields = {k: v for k, v in parse(PREFORK, URL).text.items() if not k.startswith("Total")}
    page = Page(fields, 100)
    assert set(_difference(Reply(0.0, 1, page), Reply(1.0, 2, page))) == {
        "busy_workers",
        "idle_workers",
        "idle_held_workers",
    }


def test_a_restart_shows_in_its_time_or_in_a_counter_that_fell() -> None:
    first = parse(PREFORK, URL)
    later = changed(first, RestartTime="Saturday, 21-Nov-2026 20:15:40 UTC", Total_Accesses="99")
    assert ServerStatus.reset(first, later)
    assert ServerStatus.reset(first, changed(first, Total_Accesses="2"))
    assert not ServerStatus.reset(first, changed(first, Total_Accesses="24"))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("https://127.0.0.1/server-status", "must be an http:// URL"),
        ("127.0.0.1/server-status", "must be an http:// URL"),
        ("http:///server-status", "must be an http:// URL"),
        ("http://127.0.0.1:99999/server-status", "Port out of range"),
        ("http://127.0.0.1:http/server-status", "Port could not be cast"),
        ("http://[::1/server-status", "Invalid IPv6 URL"),
        ("http://a..b/server-status", r"status page http://a\.\.b/"),
        ("http://127.0.0.1/st\u00e5tus", "has to be escaped"),
        ("http://192.0.2.7/server-status", "192.0.2.7, outside this machine: name it by a loopback address"),
    ],
)
def test_a_page_elsewhere_is_refused(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ServerStatus(url, StillClock())
