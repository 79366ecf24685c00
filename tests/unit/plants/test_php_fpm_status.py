"""FastCGI as bytes, and what of FPM's status page is taken: numbers within bounds, from a whole reply, or nothing."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.clock import SystemClock
from trimtab.errors import NotMeasured, UsageError
from trimtab.plants.php_fpm import fastcgi, status
from trimtab.plants.php_fpm.response import derived

FIELDS = {
    "pool": "www",
    "process manager": "dynamic",
    "start time": 1_795_375_537,
    "accepted conn": 12,
    "idle processes": 1,
    "active processes": 2,
    "max children reached": 0,
    "slow requests": 0,
}


def record(kind: int, content: bytes, padding: int = 0) -> bytes:
    return struct.pack(">BBHHBx", 1, kind, 1, len(content), padding) + content + bytes(padding)


def answered(body: bytes, head: bytes = b"Content-Type: application/json\r\n") -> bytes:
    return record(6, head + b"\r\n" + body[:10], 3) + record(6, body[10:]) + record(3, bytes(8))


def test_a_request_is_as_the_specification_has_it() -> None:
    long = "x" * 200
    assert fastcgi.request({"A": "b"}) == (
        record(1, b"\0\1\0\0\0\0\0\0") + record(4, b"\1\1Ab") + record(4, b"") + record(5, b"")
    )
    assert b"\x01\x80\x00\x00\xc8A" + long.encode() in fastcgi.request({"A": long})


def test_a_reply_is_put_together_from_its_records() -> None:
    assert fastcgi.reply(answered(b"a body of more than ten bytes")) == (200, b"a body of more than ten bytes")
    assert fastcgi.reply(answered(b"", b"Status: 404 Not Found\r\n"))[0] == 404


@given(st.binary(max_size=200))
def test_whatever_comes_is_a_reply_or_is_not_measured(data: bytes) -> None:
    for whole in (data, answered(data), answered(json.dumps(FIELDS).encode())[: len(data)]):
        try:
            status.parse(whole)
        except NotMeasured as why:
            assert "\n" not in str(why)


def test_the_page_is_read() -> None:
    page = status.parse(answered(json.dumps(FIELDS).encode()))
    assert page is not None
    assert (page.pm, page.started_s, page.numbers["accepted conn"]) == ("dynamic", 1_795_375_537, 12)


@pytest.mark.parametrize("value", [None, "12", -1, 1.5, True, 10**15, [1]])
def test_what_is_no_number_or_none_that_can_be_is_not_measured(value: object) -> None:
    with pytest.raises(NotMeasured, match="no number for 'accepted conn'"):
        status.parse(answered(json.dumps({**FIELDS, "accepted conn": value}).encode()))


def test_a_page_of_something_else_is_not_the_status_page() -> None:
    with pytest.raises(NotMeasured, match="status 404 and not with its status page"):
        status.parse(answered(b"File not found.\n", b"Status: 404 Not Found\r\n"))
    with pytest.raises(NotMeasured, match="not with its status page"):
        status.parse(answered(b"[1, 2, 3, 4, 5, 6]"))


def test_what_a_reload_spoils_is_passed_over() -> None:
    assert status.parse(answered(b"", b"Status: 500\r\n")) is None


@pytest.mark.parametrize(
    ("address", "where"),
    [
        ("/run/php/www.sock", "/run/php/www.sock"),
        ("9000", ("127.0.0.1", 9000)),
        ("*:9000", ("127.0.0.1", 9000)),
        ("[::1]:9000", ("::1", 9000)),
        ("10.0.0.1:9000", ("10.0.0.1", 9000)),
    ],
)
def test_a_listen_is_where_to_connect(address: str, where: object) -> None:
    assert status.endpoint(address)[1] == where


def test_a_pool_that_listens_at_ipv6_alone_is_asked() -> None:
    """As `listen = [::]:9000` is where net.ipv6.bindv6only is 1."""
    with socket.socket(socket.AF_INET6) as listener:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(("::", 0))
        listener.listen()
        address = f"[::]:{listener.getsockname()[1]}"
        page = status.PoolStatus(status.StatusPage(address, "/status", False), SystemClock(), patience_s=1.0)
        with contextlib.closing(page):
            page.begin()
            listener.settimeout(60)
            asked, peer = listener.accept()
            asked.close()
            assert peer[0] == "::1"


def test_a_listen_with_a_name_is_the_first_of_its_addresses_as_fpm_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sensors go by addresses: a name ended them with a ValueError."""
    assert ipaddress.ip_address(status.endpoint("localhost:9000")[1][0]).is_loopback
    both = [(socket.AF_INET6, 1, 6, "", ("::1", 9000, 0, 0)), (socket.AF_INET, 1, 6, "", ("127.0.0.1", 9000))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    assert status.endpoint("localhost:9000") == (socket.AF_INET6, ("::1", 9000))


def test_a_listen_that_cannot_be_understood_is_said() -> None:
    with pytest.raises(UsageError, match="cannot be understood"):
        status.endpoint("fpm.sock")
    with pytest.raises(UsageError, match=r"listen = 'a\.\.b:9000'"):
        status.endpoint("a..b:9000")


def test_waits_follow_from_littles_law() -> None:
    found = derived({"request_rate_hz": 20.0, "accept_queue_length": 2.0, "busy_workers": 4.0})
    assert found == {
        "accept_queue_delay_s": pytest.approx(0.1),
        "service_time_s": pytest.approx(0.2),
        "response_time_s": pytest.approx(0.3),
    }


@pytest.mark.parametrize("missing", ["request_rate_hz", "accept_queue_length", "busy_workers"])
def test_what_was_not_measured_gives_no_response_time(missing: str) -> None:
    readings = {"request_rate_hz": 20.0, "accept_queue_length": 2.0, "busy_workers": 4.0}
    del readings[missing]
    assert "response_time_s" not in derived(readings)
    assert derived({**readings, "request_rate_hz": 0.0}) == {}
