"""A page of counters that comes late, and windows between which somebody changes something."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests._memory_plant import StillClock

from trimtab.core import Readings
from trimtab.errors import NotMeasured
from trimtab.plants.nginx.stub_status import StubStatus
from trimtab.plants.php_fpm.fastcgi import record
from trimtab.plants.php_fpm.status import PoolStatus, StatusPage
from trimtab.sensors import _polled_page
from trimtab.sensors._polled_page import Polled, Reply

RATE_HZ, WINDOW_S, SAMPLING_S = 100.0, 10.0, 0.2
POOL = StatusPage("/run/php/www.sock", "/status", False)
STDOUT, END = 6, 3


class Page(Polled[float]):
    """The count of a server that serves at one rate all the time."""

    name = "counted"

    def understood(self, reply: bytes) -> float:
        return float(reply)

    def between(self, first: Reply[float], last: Reply[float]) -> Readings:
        return {"request_rate_hz": (last.page - first.page) / (last.at_s - first.at_s)}


class Server:
    """It answers a page after a time, with the count of that moment, whoever looks."""

    def __init__(self, clock: StillClock, latency_s: float) -> None:
        self.clock, self.latency_s = clock, latency_s

    def fetch(self, addresses: object, request: bytes, clock: object) -> Fetch:
        return Fetch(self, self.clock.now_s() + self.latency_s)


class Fetch:
    def __init__(self, server: Server, due_s: float) -> None:
        self.clock, self.due_s = server.clock, due_s

    def advance(self, patience_s: float = 0.0) -> bytes | None:
        return None if self.clock.now_s() < self.due_s else str(RATE_HZ * self.due_s).encode()

    def close(self) -> None:
        pass


def asked(monkeypatch: pytest.MonkeyPatch, latency_s: float) -> tuple[Page, Server]:
    server = Server(StillClock(), latency_s)
    monkeypatch.setattr(_polled_page, "Fetch", server.fetch)
    return Page([], b"", server.clock, 0.02), server


def seen(page: Page, clock: StillClock) -> float:
    """The rate that a window has."""
    page.begin()
    for _ in range(round(WINDOW_S / SAMPLING_S)):
        page.sample()
        clock.seconds += SAMPLING_S
    return page.read()["request_rate_hz"]


@pytest.mark.parametrize("latency_s", [0.0, 0.05, 0.3, 3.0])
@pytest.mark.parametrize("change_s", [0.0, 0.2, 1.5, 6.0])
def test_what_is_served_during_a_change_is_not_counted_as_served_in_the_window_after_it(
    monkeypatch: pytest.MonkeyPatch, latency_s: float, change_s: float
) -> None:
    page, server = asked(monkeypatch, latency_s)
    for _ in range(4):
        # A reply is up to as old as the samples are apart, and the two are half a window apart at least.
        assert seen(page, server.clock) == pytest.approx(RATE_HZ, rel=SAMPLING_S / (WINDOW_S / 2))
        server.clock.seconds += change_s


def test_what_others_collect_of_it_before_a_window_begins_is_passed_over_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the sensor of a pool's queue does, which counts how many of those who wait are ours."""
    page, server = asked(monkeypatch, 0.05)
    seen(page, server.clock)
    server.clock.seconds += 6.0
    page._collect()
    assert seen(page, server.clock) == pytest.approx(RATE_HZ, rel=SAMPLING_S / WINDOW_S)


def test_a_page_that_takes_longer_than_a_window_is_read_in_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    page, server = asked(monkeypatch, 0.0)
    seen(page, server.clock)
    server.latency_s = 1.2 * WINDOW_S
    with pytest.raises(NotMeasured):
        seen(page, server.clock)
    server.clock.seconds += 1.5
    assert seen(page, server.clock) == pytest.approx(RATE_HZ, rel=SAMPLING_S / (WINDOW_S / 2))


def answering(monkeypatch: pytest.MonkeyPatch, reply: bytes) -> StillClock:
    """The clock of a server that gives this reply at once, always."""

    class Answered:
        def __init__(self, addresses: object, request: bytes, clock: object) -> None:
            pass

        def advance(self, patience_s: float = 0.0) -> bytes:
            return reply

        def close(self) -> None:
            pass

    monkeypatch.setattr(_polled_page, "Fetch", Answered)
    return StillClock()


def stub_status(active: bytes) -> bytes:
    counts = b"server accepts handled requests\n 16 15 31 \nReading: 1 Writing: 2 Waiting: 1 \n"
    return b"HTTP/1.1 200 OK\r\n\r\nActive connections: " + active + b" \n" + counts


def test_a_count_of_thousands_of_digits_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    page = StubStatus("http://127.0.0.1/", answering(monkeypatch, stub_status(5000 * b"9")))
    with pytest.raises(NotMeasured, match="cannot be understood"):
        page.begin()


def test_a_count_that_no_float_holds_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = answering(monkeypatch, stub_status(400 * b"9"))
    page = StubStatus("http://127.0.0.1/", clock)
    page.begin()
    clock.seconds += WINDOW_S
    with pytest.raises(NotMeasured, match="too large to be true"):
        page.read()


@pytest.mark.parametrize("said", [b"\r\n\r\n" + 60_000 * b"[", b"Status: " + 5000 * b"9" + b"\r\n\r\n"])
def test_a_page_of_a_pool_that_no_parser_takes_is_not_measured(monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    page = PoolStatus(POOL, answering(monkeypatch, record(STDOUT, said) + record(END, bytes(8))))
    with pytest.raises(NotMeasured, match="cannot be understood"):
        page.begin()


@pytest.mark.parametrize(
    ("pm", "busy", "apart", "asked"),
    [
        ("ondemand", 2, False, range(2, 6)),
        ("ondemand", 20, False, range(40, 102)),
        ("ondemand", 2, True, range(40, 102)),
        ("dynamic", 2, False, range(40, 102)),
    ],
    ids=["most may end", "most are busy", "the page has a process of its own", "workers end whoever asks"],
)
def test_workers_that_end_when_nobody_asks_them_are_asked_seldom(
    monkeypatch: pytest.MonkeyPatch, pm: str, busy: int, apart: bool, asked: range
) -> None:
    """A pool of twenty; each question would be answered by the worker that has waited longest."""
    numbers = {"accepted conn": 9, "max children reached": 0, "slow requests": 0, "start time": 5}
    said = {"process manager": pm, "active processes": busy, "idle processes": 20 - busy, **numbers}
    reply = record(STDOUT, b"\r\n\r\n" + json.dumps(said).encode()) + record(END, bytes(8))
    clock = answering(monkeypatch, reply)
    page = PoolStatus(StatusPage("/run/php/www.sock", "/status", apart), clock)
    for _ in range(2):
        before = page.connections
        page.begin()
        for _ in range(200):
            clock.seconds += WINDOW_S / 200
            page.sample()
        assert "busy_workers" in page.read()
    assert page.connections - before in asked


@pytest.mark.root
def test_a_page_at_any_address_of_this_machine_is_asked_and_none_elsewhere() -> None:
    """Of two addresses of an interface what is sent to the second comes from the first: a server is told that one."""
    program = """
from trimtab.clock import SystemClock
from trimtab.errors import NotMeasured, UsageError
from trimtab.plants.nginx.stub_status import StubStatus
from trimtab.plants.squid.manager import CacheMemory
from trimtab.sensors._status_page import advice
for host in "192.0.2.7 192.0.2.8 [2001:db8::8] 127.0.0.1 192.0.2.9 198.51.100.1".split():
    try:
        StubStatus(f"http://{host}/status", SystemClock())
    except UsageError as error:
        print(error)
    else:
        print("here", advice("403", f"http://{host}/status").split("'")[1])
for page in (StubStatus("http://192.0.2.8/status", SystemClock()), CacheMemory("http://192.0.2.8/", SystemClock())):
    try:
        page.understood(b"HTTP/1.1 403 No\\r\\n\\r\\n")
    except NotMeasured as error:
        print(error)
"""
    addresses = " && ".join(f"ip address add {one} dev v0" for one in ("192.0.2.7/24", "192.0.2.8/24"))
    up = f"ip link add v0 type veth peer name v1 && {addresses} && ip address add 2001:db8::8/64 dev v0 nodad"
    up += " && ip link set lo up && ip link set v0 up && ip link set v1 up"
    alone = ["unshare", "--net", "sh", "-c", f'{up} && exec "$@"', "sh", sys.executable, "-c", program]
    said = subprocess.run(alone, check=True, capture_output=True, text=True).stdout.splitlines()
    assert said[:4] == ["here Require local", "here Require ip 192.0.2.7", *2 * ["here Require local"]]
    assert [line.partition(",")[2] for line in said[4:6]] == 2 * [
        " outside this machine: name it by a loopback address"
    ]
    assert "'allow 192.0.2.7;' in its location" in said[6]
    assert "'acl trimtab src 192.0.2.7' and 'http_access allow trimtab manager'" in said[7]
