"""Sweeps MaxRequestWorkers over a set-up of the testbed and prints what client and machine saw.

    python benchmarks/testbed/sweep.py dynamic
    python benchmarks/testbed/sweep.py static --seconds 10 --values 96,150,256

Each value has a server of its own, one after the other in one run, in shuffled order over the repeats; the first
seconds are left out. Page times are the client's, from the intended start; pages that the client gave up are
counted apart. "limit" is memory and swap used, of the memory limit.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from dataclasses import replace
from pathlib import Path

from trimtab.native import Native
from trimtab.testbed.apache import ApacheTestbed
from trimtab.testbed.setups import SETUPS, Setup, generator_prefix, setup

COLUMNS = ("page_s", "p50_s", "p95_s", "pages_hz", "failed_hz", "cpu", "limit")


def point(what: Setup, workers: int, seconds: float, warm_s: float, seed: int) -> dict[str, float]:
    """What one value gives."""
    with ApacheTestbed(replace(what.spec, max_request_workers=workers)) as bed:
        load = Native("load", generator_prefix())
        try:
            load.send(
                {
                    "target": f"127.0.0.1:{bed.port}",
                    "host": "127.0.0.1",
                    "populations": [p.to_wire() for p in what.workload.populations()],
                    "duration_s": seconds + warm_s,
                    "interval_s": 1.0,
                    "seed": seed,
                }
            )
            began, cpu_began, intervals = time.monotonic(), 0.0, []
            peak = 0.0
            for message in map(json.loads, load):
                if message["type"] != "interval":
                    break
                peak = max(peak, memory_ratio(bed))
                if message["at_s"] < warm_s + 0.5:
                    began, cpu_began = time.monotonic(), cpu_s(bed)
                else:
                    intervals.append(message["classes"][0])
            cpu = (cpu_s(bed) - cpu_began) / (time.monotonic() - began)
        finally:
            load.close()
    return summary(intervals, cpu, peak)


def summary(intervals: list[dict[str, object]], cpu: float, peak: float) -> dict[str, float]:
    """Means over the intervals, weighted with the pages in them."""
    rows = json.loads(json.dumps(intervals))
    pages = sum(r["page_intended"]["count"] for r in rows)

    def weighted(key: str) -> float:
        known = [r["page_intended"] for r in rows if r["page_intended"].get(key) is not None]
        total = sum(k["count"] for k in known)
        return sum(k[key] * k["count"] for k in known) / total if total else float("nan")

    failed = sum(sum(r["errors"].values()) for r in rows)
    return {
        "page_s": weighted("mean_s"),
        "p50_s": weighted("p50_s"),
        "p95_s": weighted("p95_s"),
        "pages_hz": pages / len(rows),
        "failed_hz": failed / len(rows),
        "cpu": cpu,
        "limit": peak,
    }


def cpu_s(bed: ApacheTestbed) -> float:
    """CPU time that the server has used; needs cgroup version 1 or 2."""
    group = bed.cgroups.get("cpuacct")
    if group is not None:
        return int((group / "cpuacct.usage").read_text()) / 1e9
    stat = (bed.cgroups["memory"] / "cpu.stat").read_text().split()
    return int(stat[stat.index("usage_usec") + 1]) / 1e6


def memory_ratio(bed: ApacheTestbed) -> float:
    """Memory and swap used, of the limit."""
    group, limit = bed.cgroups["memory"], bed.spec.memory_limit_bytes or 1
    if (group / "memory.memsw.usage_in_bytes").exists():
        return int((group / "memory.memsw.usage_in_bytes").read_text()) / limit
    used = int((group / "memory.current").read_text()) + int((group / "memory.swap.current").read_text())
    return used / limit


def main() -> None:
    """Reads the command line, sweeps, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("setup", choices=sorted(SETUPS))
    parser.add_argument("--values", help="values of MaxRequestWorkers, separated by commas")
    parser.add_argument("--seconds", type=float, default=6.0, help="measured seconds per point")
    parser.add_argument("--warm", type=float, default=6.0, help="seconds before them")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write every point to this JSON file")
    options = parser.parse_args()
    what = setup(options.setup)
    values = [int(v) for v in options.values.split(",")] if options.values else list(what.sweep)
    points: dict[int, list[dict[str, float]]] = {v: [] for v in values}
    order = random.Random(options.seed)
    for repeat in range(options.repeats):
        for workers in order.sample(values, len(values)):
            seed = options.seed + repeat
            points[workers].append(point(what, workers, options.seconds, options.warm, seed))
    print("workers  " + "  ".join(f"{c:>9}" for c in COLUMNS) + "   (medians of the repeats)")
    for workers in values:
        medians = (statistics.median(p[c] for p in points[workers]) for c in COLUMNS)
        print(f"{workers:7d}  " + "  ".join(f"{m:9.4f}" for m in medians))
    if options.out:
        options.out.write_text(json.dumps({"setup": what.name, "points": points}, indent=1))


if __name__ == "__main__":
    main()
