"""Measures the delay that the gate adds on an idle system: from connect to the first byte of the answer.

One client makes one connection at a time, to each of the servers in turn, with a pause between them so that
everything sleeps when the next one comes. The time is taken in the client around connect, the request and the first
byte. Goal: the median through the gate is less than 50 µs above that of bare Apache. The spread of the difference is
over ten parts of the run; "bare again" is bare Apache in a second place of each turn.
"""

from __future__ import annotations

import gc
import os
import socket
import statistics
import time
from pathlib import Path
from typing import Any

from _bench import PATH, Placement, facts, goal, options, placements, save, spread, table, told
from _stacks import KINDS, Stack, stacks
from throughput import MPMS

NUMBER = 3000
PARTS = 10
PAUSE_S = 0.0005
MOST_US = 50.0
REQUEST = f"GET {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()


def first_byte_us(port: int) -> float:
    """One connection; what follows the first bytes is read, but not timed."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        begin_ns = time.perf_counter_ns()
        client.connect(("127.0.0.1", port))
        client.sendall(REQUEST)
        first = client.recv(65_536)
        took_ns = time.perf_counter_ns() - begin_ns
        if not first.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"answered {first[:80]!r}")
        while client.recv(65_536):
            pass
    return took_ns / 1e3


def turns(servers: list[Stack], where: Placement, number: int) -> dict[str, list[float]]:
    """Delays of each server, in microseconds."""
    named = [(one.name, one.port) for one in servers]
    named.insert(len(named) // 2 + 1, ("bare again", servers[0].port))
    found: dict[str, list[float]] = {name: [] for name, _ in named}
    allowed = os.sched_getaffinity(0)
    if where.client is not None:
        os.sched_setaffinity(0, {where.client})
    gc.disable()
    try:
        for turn in range(number):
            first = turn % len(named)
            for name, port in named[first:] + named[:first]:
                time.sleep(PAUSE_S)
                found[name].append(first_byte_us(port))
    finally:
        gc.enable()
        os.sched_setaffinity(0, allowed)
    return found


def described(delays: dict[str, list[float]]) -> dict[str, dict[str, Any]]:
    """Percentiles, and the difference of medians to bare Apache."""
    found = {}
    for name, own in delays.items():
        cuts = statistics.quantiles(own, n=100)
        step = max(len(own) // PARTS, 1)
        parts = range(0, len(own), step)
        bare = delays["bare"]
        added = [statistics.median(own[at : at + step]) - statistics.median(bare[at : at + step]) for at in parts]
        found[name] = {
            "p50_us": round(statistics.median(own), 1),
            "p95_us": round(cuts[94], 1),
            "p99_us": round(cuts[98], 1),
            "added_median_us": round(statistics.median(own) - statistics.median(bare), 1),
            "added_median_of_parts_us": spread(added, 1),
        }
    return found


def measure(out: Path, quick: bool) -> None:
    """Runs all scenarios and writes the result."""
    before = facts()
    number = 100 if quick else NUMBER
    scenarios, raw, lines = [], [], [f"{number} connections to each; microseconds.", ""]
    head = ["", "p50", "p95", "p99", "median above bare", "of ten parts"]
    for where in placements():
        for mpm in MPMS:
            with stacks(mpm, KINDS, where) as servers:
                turns(servers, where, number // 10)
                delays = turns(servers, where, number)
            what = {"mpm": mpm, "placement": where.name}
            stacked = described(delays)
            scenarios.append(what | {"stacks": stacked})
            raw.append(what | {"us": {name: [round(us, 1) for us in own] for name, own in delays.items()}})
            lines += [f"### {mpm}, {where.name}", ""]
            keys = ("p50_us", "p95_us", "p99_us", "added_median_us")
            lines += table(
                head,
                (
                    [name, *(of[key] for key in keys), told(of["added_median_of_parts_us"])]
                    for name, of in stacked.items()
                ),
            )
            lines += [goal("gate adds less than 50 µs", stacked["gate"]["added_median_us"] < MOST_US), ""]
    save(out, "latency", before, {"connections": number, "figures": scenarios, "raw": raw}, lines)


if __name__ == "__main__":
    args = options(__doc__)
    measure(args.out, args.quick)
