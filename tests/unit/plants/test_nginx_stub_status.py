"""What the page of stub_status says, from recorded replies, and what follows from two of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trimtab.errors import NotMeasured
from trimtab.plants.nginx.stub_status import Counts, parse, readings
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


def test_the_time_of_a_request_follows_from_those_under_way_by_littles_law() -> None:
    seen = [replace(PAGE, reading=r, writing=w) for r, w in ((0, 3), (1, 4), (0, 4))]  # one of each is ours
    later = replace(PAGE, requests=31 + 62, accepts=46)
    found = readings(Reply(0.0, 1, PAGE), Reply(2.0, 3, later), seen)
    assert found["requests_under_way"] == pytest.approx(3.0)
    assert found["request_rate_hz"] == pytest.approx(30.0)
    assert found["service_time_s"] == pytest.approx(0.1)
