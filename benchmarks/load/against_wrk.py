"""CPU seconds per request in the closed loop, against wrk: the same Apache, 50 keep-alive connections, a 10 KB file.

The two take turns; each pair gives one ratio. Both are one thread on one core, the server is on another, and CPU time
is what the kernel charges to each process from start to end. Target: the median ratio is at most 1.
"""

from __future__ import annotations

import http.client
import os
import re
import resource
import signal
import statistics
import subprocess
import time
from typing import Any

from _common import conditions, cores, favour, favoured, save

from trimtab.clock import SystemClock
from trimtab.load import LoadRun
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed
from trimtab.workloads._population import Url
from trimtab.workloads.closed_loop import ClosedLoop

PAIRS = 7
DURATION_S = 5
CONNECTIONS = 50
PATH = "/file10k.html"


def children_cpu_s() -> float:
    """CPU seconds of all ended children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def by_trimtab(port: int, core: int) -> dict[str, Any]:
    """One run of ours."""
    before_s = children_cpu_s()
    populations = ClosedLoop(connections=CONNECTIONS, urls=(Url(PATH),)).populations()
    with LoadRun(f"127.0.0.1:{port}", populations, DURATION_S, SystemClock(), interval_s=1, cpu=core) as run:
        favour(run.pid)
        (one,) = run.wait().classes
    if one.errors or one.connections != CONNECTIONS:
        raise SystemExit(f"trimtab: errors {one.errors}, {one.connections} connections")
    return {"tool": "trimtab", "requests": one.requests, "cpu_s": children_cpu_s() - before_s}


def by_wrk(port: int, core: int) -> dict[str, Any]:
    """One run of wrk."""
    before_s = children_cpu_s()
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{DURATION_S}s", f"http://127.0.0.1:{port}{PATH}"]
    said = subprocess.run([*favoured(core), *command], capture_output=True, text=True, check=True).stdout
    count = re.search(r"(\d+) requests in", said)
    lost = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", said)
    # A wrk "timeout" is a reply that took over 2 s, which a busy machine does; the others would spoil the comparison.
    if count is None or (lost and any(int(n) for n in lost.groups()[:3])) or "Non-2xx" in said:
        raise SystemExit(f"wrk: {said}")
    slow = int(lost[4]) if lost else 0
    return {"tool": "wrk", "requests": int(count[1]), "cpu_s": children_cpu_s() - before_s, "slow": slow}


def await_endless_connections(port: int) -> None:
    """Waits until the reloaded server no longer counts the requests of a connection."""
    good = 0
    for _ in range(300):
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        client.request("GET", PATH)
        offered = client.getresponse().getheader("Keep-Alive") or ""
        client.close()
        good = 0 if "max=" in offered else good + 1
        if good == 20:
            return
        time.sleep(0.1)
    raise SystemExit("Apache still limits the requests of a connection")


def wrk_version() -> str:
    """Version of wrk."""
    said = subprocess.run(["wrk", "--version"], capture_output=True, text=True).stdout
    return " ".join(said.split()[:3])


def main() -> None:
    """Runs the pairs and writes the result."""
    facts = conditions() | {"wrk": wrk_version()}
    server, client = cores()
    raw: list[dict[str, Any]] = []
    # A thread for every connection in every process: the event MPM drops idle connections when all its threads work.
    spec = ApacheSpec(
        mpm="event",
        max_request_workers=128,
        threads_per_child=64,
        keep_alive_timeout_ms=60_000,
        cpus=(server,),
        cpu_weight=20,
    )
    with ApacheTestbed(spec) as bed:
        (bed.directory / "htdocs" / PATH[1:]).write_bytes(b"x" * 10_240)
        (bed.snippet_directory / "benchmark.conf").write_text("MaxKeepAliveRequests 0\n")
        os.kill(bed.pid, signal.SIGUSR1)
        await_endless_connections(bed.port)
        by_wrk(bed.port, client)
        for pair in range(PAIRS):
            # Each goes first in every other pair, so that a drift of the machine favours neither.
            tools = (by_trimtab, by_wrk) if pair % 2 else (by_wrk, by_trimtab)
            raw += [{"pair": pair, **tool(bed.port, client)} for tool in tools]
    per_request = [one["cpu_s"] / one["requests"] * 1e6 for one in raw]
    ratios = []
    for pair in range(PAIRS):
        cost = {one["tool"]: us for one, us in zip(raw, per_request, strict=True) if one["pair"] == pair}
        ratios.append(cost["trimtab"] / cost["wrk"])
    figures: dict[str, Any] = {
        "ratio_median": round(statistics.median(ratios), 3),
        "ratio_min": round(min(ratios), 3),
        "ratio_max": round(max(ratios), 3),
        "pairs": PAIRS,
        "target": "ratio_median <= 1",
        "met": statistics.median(ratios) <= 1,
    }
    for tool in ("trimtab", "wrk"):
        ours = [(one, us) for one, us in zip(raw, per_request, strict=True) if one["tool"] == tool]
        figures[f"{tool}_cpu_us_per_request"] = round(statistics.median(us for _, us in ours), 2)
        figures[f"{tool}_requests_per_s"] = round(statistics.median(one["requests"] for one, _ in ours) / DURATION_S)
    save("against_wrk", "python benchmarks/load/against_wrk.py", facts, figures, raw)


if __name__ == "__main__":
    main()
