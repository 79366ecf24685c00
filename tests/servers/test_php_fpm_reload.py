"""No request may fail because of a reload: ten in mid-traffic, behind nginx and Apache, by both kinds of socket."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers._private_fpm import PATIENCE_S, Bed, private, until
from tests.servers._traffic import changed_in_mid_traffic, once, users
from trimtab.clock import SystemClock
from trimtab.plants._held import permitted
from trimtab.plants.php_fpm import fastcgi, status
from trimtab.plants.php_fpm.drain import LEFT
from trimtab.plants.php_fpm.plant import PhpFpm
from trimtab.plants.php_fpm.process import FpmMaster
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed
from trimtab.testbed.content import dynamic_url
from trimtab.testbed.nginx import NginxSpec, NginxTestbed
from trimtab.workloads._population import Population, Url

pytestmark = [pytest.mark.server, pytest.mark.apache]

holds = pytest.mark.skipif(not permitted(), reason="the master can only be held with CAP_SYS_PTRACE")
HOLDS = """
import sys, time
from trimtab.clock import SystemClock
from trimtab.plants.php_fpm.drain import drained
from trimtab.plants.php_fpm.process import FpmMaster

with drained(FpmMaster.find(int(sys.argv[1])), "www", 0, SystemClock(), 30.0):
    print("held", flush=True)
    time.sleep(60)
"""
TRACES = """
import ctypes, os, sys
ptrace, pid = ctypes.CDLL(None).ptrace, int(sys.argv[1])
assert ptrace(0x4206, pid, None, None) == 0
print("traced", flush=True)
while os.WIFSTOPPED(status := os.waitpid(pid, 0x40000000)[1]):
    ptrace(7, pid, None, ctypes.c_void_p(os.WSTOPSIG(status)))
"""
CHILDREN = (7, 4, 9, 5, 3, 8, 6, 10, 5, 4)


def clients() -> tuple[Population, ...]:
    """Kept connections, one connection per request, and pages of 50 ms, of which PHP computes for 5."""
    short, slow = Url(dynamic_url(1000, 100)), Url(dynamic_url(cpu_us=5000, memory_kb=2000, wait_us=45_000))
    return users("busy", [short], 2, 0.01), once([short], 15.0), users("slow", [slow], 2, 0.1)


def nginx(bed: Bed) -> NginxTestbed:
    return NginxTestbed(NginxSpec(fastcgi=bed.testbed.nginx))


def apache(bed: Bed) -> ApacheTestbed:
    return ApacheTestbed(ApacheSpec("event", fastcgi=bed.testbed.apache))


LAST_RECORD_REFUSED = "(sending empty stdin)"
"""What Apache logs when FPM ended a worker that had replied, before Apache had sent the request's last record."""


@pytest.mark.parametrize("tcp", [False, True], ids=["unix", "tcp"])
@pytest.mark.parametrize("front", [nginx, apache])
def test_ten_reloads_in_mid_traffic_lose_no_request(
    front: Callable[[Bed], NginxTestbed | ApacheTestbed], tcp: bool
) -> None:
    changes = ({"max_children": number, "pm": turn % 3} for turn, number in enumerate(CHILDREN))
    with private(tcp=tcp) as bed, front(bed) as before:
        said = changed_in_mid_traffic(bed.attach(), before.port, clients(), changes)
        found = sum((Counter(c.errors) for c in said.classes), Counter())
        refused = before.error_log().count(LAST_RECORD_REFUSED) if front is apache and not tcp else 0
        assert found == Counter(http_5xx=refused) + Counter(), "no error but FPM's own, which the next test shows"


def test_a_worker_that_has_replied_is_ended_before_the_request_is_all_sent() -> None:
    """FPM's own: over a Unix socket a web server that sends the last, empty record late finds nobody there.

    Apache sends that record by a write of its own, so on a busy machine it may come late: it then says 503.
    """
    with private() as bed:
        family, address = status.endpoint(bed.testbed.listen)
        whole = fastcgi.page("/status")
        last = fastcgi.record(fastcgi.STDIN, b"")
        assert whole.endswith(last)
        with socket.socket(family) as front:
            front.settimeout(PATIENCE_S)
            front.connect(address)
            front.sendall(whole.removesuffix(last))
            until(lambda: b"pool:" in front.recv(1 << 16, socket.MSG_PEEK), "no reply")
            bed.restart_pool()
            with pytest.raises(BrokenPipeError):
                front.sendall(last)


def served_by_few(bed: Bed, changes: dict[str, int]) -> list[int]:
    """Old workers that there were when one of them served a page, with the master held, in the course of a change."""
    master = FpmMaster.find(bed.testbed.pid)
    until(lambda: len(master.workers("www")) == 100, "the pool is not whole")
    before, old = master.generation(), set(master.workers("www"))
    done, served = threading.Event(), list[int]()

    def stopped() -> bool:
        return Path(f"/proc/{master.pid}/stat").read_text().rpartition(")")[2].split()[0] == "t"

    def look() -> None:
        while not done.is_set() and master.generation() == before:
            held, there = stopped(), len(old & set(master.workers("www")))
            if bed.ask(1) == "done" and held and stopped():
                served.append(there)

    looking, fpm = threading.Thread(target=look), bed.attach()
    looking.start()
    try:
        fpm.apply(changes)
    finally:
        done.set()
        looking.join()
    assert len(master.workers("www")) == changes["max_children"]
    return served


@holds
def test_idle_workers_of_a_large_pool_end_before_the_reload_and_the_others_serve() -> None:
    with private(pm="static", max_children=100) as bed:
        assert min(served_by_few(bed, {"max_children": 90})) <= 3 * LEFT


@holds
def test_none_end_before_it_where_another_pool_gets_its_workers_from_the_master() -> None:
    with private(pm="static", max_children=100, pools=("www", "late")) as bed:
        bed.write("zz-late.conf", "[late]\npm = ondemand\n")
        bed.restart_pool()
        fpm = PhpFpm.attach(SystemClock(), bed.testbed.pid, "www")
        seen = {"idle_workers": 100.0, "busy_workers": 0.0}
        assert fpm.ended_at_once(100.0, 0.0) == 100.0
        assert fpm.stood_still(seen)["standstill_s"] > 0.5
        assert served_by_few(bed, {"max_children": 90}) == []


@holds
def test_a_master_that_is_held_goes_on_where_trimtab_is_killed_and_has_all_workers_again() -> None:
    with private(pm="static", max_children=100) as bed:
        master = FpmMaster.find(bed.testbed.pid)
        until(lambda: len(master.workers("www")) == 100, "the pool is not whole")
        old = set(master.workers("www"))
        killed = subprocess.Popen([sys.executable, "-c", HOLDS, str(bed.testbed.pid)], stdout=subprocess.PIPE)
        try:
            assert killed.stdout is not None
            assert killed.stdout.readline() == b"held\n"
            assert len(old & set(master.workers("www"))) == len(master.workers("www")) == LEFT
            assert bed.ask(1) == "done"
        finally:
            killed.kill()
            killed.wait()
            killed.stdout.close()  # type: ignore[union-attr]
        until(lambda: len(master.workers("www")) == 100, "the pool has not grown again")
        assert bed.ask(1) == "done"


def test_a_master_that_somebody_else_holds_is_reloaded_all_the_same() -> None:
    with private(pm="static", max_children=70) as bed:
        holder = subprocess.Popen([sys.executable, "-c", TRACES, str(bed.testbed.pid)], stdout=subprocess.PIPE)
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"traced\n"
            assert bed.attach().apply({"max_children": 65}).configuration["max_children"] == 65
        finally:
            holder.kill()
            holder.wait()
            holder.stdout.close()  # type: ignore[union-attr]
