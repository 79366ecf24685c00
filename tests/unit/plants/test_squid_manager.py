"""What Squid's pages say, and what follows from two of them."""

from __future__ import annotations

import pytest

from tests._memory_plant import FakeClock
from trimtab.clock import SystemClock
from trimtab.errors import NotMeasured, UsageError
from trimtab.plants.squid.manager import CacheMemory, Counters, Memory, ServiceTimes, Times, find, times

URL = "http://127.0.0.1:3128/squid-internal-mgr/"
OK = b"HTTP/1.1 200 OK\r\nServer: squid/5.7\r\n\r\n"
HISTOGRAMS = b"""client_http.allSvcTime histogram:
\t  0/0.000000\t%d\t126.200685
\t 86/102.775413\t%d\t0.175419
client_http.missSvcTime histogram:
\t 86/102.775413\t%d\t0.175419
client_http.nearMissSvcTime histogram:
client_http.nearHitSvcTime histogram:
client_http.hitSvcTime histogram:
\t  0/0.000000\t%d\t126.200685
icp.querySvcTime histogram:
select_fds_hist histogram:
\t  1/0.000000\t2\t2.000000
"""


@pytest.mark.parametrize(("each_s", "most"), [(0.0, 32), (2.0, 11)])
def test_many_listeners_are_asked_within_one_deadline_and_said_in_few_words(
    monkeypatch: pytest.MonkeyPatch, each_s: float, most: int
) -> None:
    clock, asked = FakeClock(), list[str]()

    def ask(page: CacheMemory) -> None:
        asked.append(page.url)
        clock.sleep(each_s)
        raise NotMeasured(f"{page.url} answered {'x' * 10_000}")

    monkeypatch.setattr("trimtab.plants.squid.manager.ask", ask)
    with pytest.raises(UsageError, match="cannot be read") as said:
        find([("127.0.0.1", port) for port in range(1024, 2024)], clock)
    assert len(asked) == most
    assert len(str(said.value)) < 2000


def sensor() -> ServiceTimes:
    return ServiceTimes(URL, SystemClock())


def test_two_pages_give_rate_ratio_and_times_and_our_own_requests_are_left_out() -> None:
    page = sensor()
    first = page.understood(OK + HISTOGRAMS % (100, 10, 10, 90))
    last = page.understood(OK + HISTOGRAMS % (100 + 61, 10 + 40, 10 + 40, 90 + 60))
    found = times(first, last, 2.0)
    assert found["request_rate_hz"] == 50
    assert found["hit_ratio"] == 0.6
    assert found["service_time_s"] == pytest.approx(0.4 * 0.102775413)
    assert found["service_time_p95_s"] == pytest.approx(0.102775413)
    assert found["miss_time_s"] == pytest.approx(0.102775413)
    assert found["requests_under_way"] == pytest.approx(50 * 0.4 * 0.102775413)


def test_a_page_of_ours_that_had_to_wait_is_no_request_of_the_users() -> None:
    before = Times({"client_http.allSvcTime": {0.0: 5, 1.0: 1, 60.0: 2}}, 6)
    after = Times({"client_http.allSvcTime": {0.0: 7, 1.0: 3, 2.1: 1, 60.0: 5}}, 11)
    found = times(before, after, 1.0)
    assert found["request_rate_hz"] == 3
    assert found["service_time_s"] == pytest.approx(0.06)


def test_a_tunnel_is_no_time_of_a_request() -> None:
    """A client of a forward proxy keeps one open for minutes: nothing that a cache does changes that."""
    hit, miss = {0.0: 8}, {0.0: 2, 100.0: 2}  # two of ours are misses
    all_of_them = {0.0: 10, 100.0: 2, 600_000.0: 1}
    names = "client_http.allSvcTime", "client_http.hitSvcTime", "client_http.missSvcTime"
    before, after = Times({}, 0), Times(dict(zip(names, (all_of_them, hit, miss), strict=True)), 2)
    found = times(before, after, 1.0, tunnels=True)
    assert found["request_rate_hz"] == 11
    assert found["service_time_s"] == pytest.approx(0.02)
    assert found["service_time_p95_s"] == pytest.approx(0.1)
    assert found["hit_ratio"] == pytest.approx(0.8)
    assert found["requests_under_way"] == pytest.approx(0.2)
    assert times(before, after, 1.0)["service_time_s"] > 50


def test_nothing_that_came_has_no_times() -> None:
    page = sensor()
    first = page.understood(OK + HISTOGRAMS % (100, 10, 10, 90))
    assert times(first, page.understood(OK + HISTOGRAMS % (101, 10, 10, 90)), 1.0) == {"request_rate_hz": 0}


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 403 Forbidden\r\n\r\n",
        b"",
        b"SSH-2.0-OpenSSH",
    ],
)
@pytest.mark.parametrize("kind", [ServiceTimes, Counters, CacheMemory])
def test_what_is_not_the_page_is_not_a_reading(kind: type[ServiceTimes], reply: bytes) -> None:
    with pytest.raises(NotMeasured):
        kind(URL, SystemClock()).understood(reply)


@pytest.mark.parametrize(
    ("status", "mend"), [(401, "cachemgr_passwd none"), (404, "cachemgr_passwd none"), (403, "http_a")]
)
def test_the_mend_is_that_of_what_keeps_the_page_from_us(status: int, mend: str) -> None:
    with pytest.raises(NotMeasured, match=f"answered {status}: allow it: '{mend}"):
        sensor().understood(f"HTTP/1.1 {status} No\r\n\r\n".encode())


@pytest.mark.parametrize("value", ["nan", "-1", "1e300", "many", ""])
def test_a_counter_that_is_no_count_is_refused(value: str) -> None:
    body = f"cpu_time = 1\nclient_http.errors = 0\nclient_http.kbytes_out = {value}\nclient_http.hit_kbytes_out = 1\n"
    with pytest.raises(NotMeasured):
        Counters(URL, SystemClock()).understood(OK + body.encode())


def test_a_share_agrees_with_its_limit_within_the_rounding_and_no_further() -> None:
    memory = Memory(224 << 10, 2.7)
    assert memory.agrees(8 << 20)
    assert not memory.agrees(9 << 20) and not memory.agrees(7 << 20)
    assert Memory(0, 0.0).agrees(1) and Memory(0, 0.0).agrees(1 << 40), "an empty one says nothing"
    assert Memory(24 << 10, 0.0).agrees(0), "what is under way is in it, of a cache of none too"
    assert not memory.agrees(0)
