"""What the page of stub_status says, from recorded replies, and what follows from two of them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests._memory_plant import StillClock
from trimtab.errors import NotMeasured
from trimtab.plants.nginx import status
from trimtab.plants.nginx.configuration import Configuration
from trimtab.plants.nginx.stub_status import Counts, StubStatus, parse, readings
from trimtab.plants.nginx.syntax import directives
from trimtab.sensors._polled_page import Reply

URL = "http://127.0.0.1/nginx_status"
REPLY = (
    b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"Active connections: 4 \nserver accepts handled requests\n 16 15 31 \nReading: 1 Writing: 2 Waiting: 1 \n"
)
PAGE = Counts(4, 16, 31, 1, 2, 1)


def test_the_page_is_read() -> None:
    assert parse(REPLY, URL) == PAGE


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (b"", "did not answer in HTTP"),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", r"forbidden \(403\): 'allow 127\.0\.0\.1;'"),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", r"answered 503: .*limit_req.*add 'limit_req_dry_run on;"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", r"no page of stub_status at .* \(404\): add 'server"),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>", "no page of stub_status"),
    ],
)
def test_what_is_not_the_page_says_how_to_turn_it_on(reply: bytes, message: str) -> None:
    with pytest.raises(NotMeasured, match=message):
        parse(reply, URL)


def test_our_own_requests_are_in_no_reading() -> None:
    """Ten replies of ours in between, and nobody else's."""
    later = replace(PAGE, active=1, accepts=26, requests=41, reading=0, writing=1, waiting=0)
    found = readings(Reply(0.0, 1, PAGE), Reply(2.0, 11, later), [later, later])
    assert found == {
        "open_connections": 0,
        "idle_connections": 0,
        "requests_under_way": 0,
        "request_rate_hz": 0,
    }


def test_replies_of_an_old_and_a_new_program_in_turn_are_no_rate() -> None:
    """From the 12 requests of the new one to the 31,000,000 of the old one in 5 s is no traffic."""
    old, new = replace(PAGE, accepts=16_000_000, requests=31_000_000), replace(PAGE, accepts=6, requests=12)
    status_page = StubStatus(URL, StillClock())
    for page in (new, old, new, old):
        status_page.came(page)
    with pytest.raises(NotMeasured, match="an upgrade of nginx is under way"):
        status_page.between(Reply(0.0, 1, new), Reply(5.0, 4, old))
    status_page, out_of_order = (
        StubStatus(URL, StillClock()),
        [replace(PAGE, requests=n) for n in (100, 104, 103, 108)],
    )
    for page in out_of_order:
        status_page.came(page)
    assert (
        status_page.between(Reply(0.0, 1, out_of_order[0]), Reply(5.0, 4, out_of_order[-1]))["request_rate_hz"] == 1
    )


def test_the_time_of_a_request_follows_from_those_under_way_by_littles_law() -> None:
    seen = [replace(PAGE, reading=r, writing=w) for r, w in ((0, 3), (1, 4), (0, 4))]  # one of each is ours
    later = replace(PAGE, requests=31 + 62, accepts=46)
    found = readings(Reply(0.0, 1, PAGE), Reply(2.0, 3, later), seen)
    assert found["requests_under_way"] == pytest.approx(3.0)
    assert found["request_rate_hz"] == pytest.approx(30.0)
    assert found["service_time_s"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("inside", "pages"),
    [
        ("location = /nginx_status { stub_status; }", [("http://127.0.0.1:81/nginx_status", "here.example", False)]),
        ("stub_status; keepalive_timeout 9;", [("http://127.0.0.1:81/", "here.example", True)]),
        ("location ~ ^/status$ { stub_status; }", []),
    ],
    ids=["in a location", "in a server alone", "at no plain path"],
)
def test_the_page_is_looked_for_where_the_configuration_has_it(
    inside: str, pages: list[tuple[str, str, bool]]
) -> None:
    file = Path("/etc/nginx/nginx.conf")
    text = f"http {{ server {{ listen 127.0.0.1:81; server_name _ here.example; {inside} }} }}"
    found = status.candidates(Configuration(directives(text, file), {file: text}))
    assert [(one.url, one.host, one.own_keep_alive) for one in found] == pages


@pytest.mark.parametrize(
    ("http", "server", "location", "logged"),
    [
        ("", "", "", "nginx's own, as none is named"),
        ("access_log /var/log/nginx/access.log;", "", "", "/etc/nginx/nginx.conf:1"),
        ("access_log off;", "access_log syslog:server=unix:/dev/log main;", "", "/etc/nginx/nginx.conf:2"),
        ("access_log logs/a.log;", "access_log off;", "", ""),
        ("access_log logs/a.log;", "access_log logs/b.log;", "access_log off;", ""),
        ("", "access_log logs/a.log main if=$loggable;", "", ""),
        ("", "access_log logs/a.log main if=$loggable; access_log logs/b.log;", "", "/etc/nginx/nginx.conf:2"),
    ],
)
def test_whether_questions_for_the_page_are_logged_follows_from_the_innermost_block_that_says_so(
    http: str, server: str, location: str, logged: str
) -> None:
    """Ten a second make 80 MB a day."""
    file = Path("/etc/nginx/nginx.conf")
    inside = f"listen 127.0.0.1:81; {server} location = /s {{ stub_status; {location} }}"
    text = f"http {{ {http}\nserver {{ {inside} }} server {{ access_log off; }} }}"
    (page,) = status.candidates(Configuration(directives(text, file), {file: text}))
    assert page.logged == logged


class Peer:
    """The other end of a connection, which sends these parts, the last one again and again."""

    def __init__(self, *parts: bytes) -> None:
        self.parts = list(parts)

    def settimeout(self, timeout_s: float) -> None:
        assert timeout_s > 0

    def recv(self, size: int) -> bytes:
        return self.parts.pop(0) if len(self.parts) > 1 else self.parts[0]


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\n"


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ((HEAD, b"01234", b"56789"), True),
        ((HEAD[:20], HEAD[20:] + b"0123456789"), True),
        ((HEAD, b"0123", b""), True),
        ((HEAD, b"0123", b"4567", b"x"), True),
        ((b"x",), False),
        ((b"HTTP/1.1 200 OK\r\n\r\n", b"x"), False),
    ],
)
def test_a_page_that_never_becomes_whole_is_waited_for_no_longer_than_any(
    parts: tuple[bytes, ...], whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count(0.0, 0.1)
    monkeypatch.setattr(status, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    assert status._replied(Peer(*parts)) is whole  # type: ignore[arg-type]
