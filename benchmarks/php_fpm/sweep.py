"""Sweeps pm.max_children of PHP-FPM behind nginx under a memory limit; `trimtab tune php-fpm` finds it beside.

    python benchmarks/php_fpm/sweep.py --out DIR

The pool is Debian's (pm = dynamic, start 2, spare 1 to 3) and its page takes 50 ms: some of CPU to fill 12 MB, 40 of
waiting as for a database. FPM has one CPU and 192 MiB, and swaps beyond that (zram). 60 users with think times
of 0.1 s ask for more than 5 workers can serve. Each point and each run of trimtab has a server of its own; values
and seeds are shuffled. Page times are the client's; every run is kept. Where swap does not keep up, the kernel
kills a worker, and its request fails: those are counted, by FPM's log. DIR gets runs.jsonl and summary.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from trimtab.clock import SystemClock
from trimtab.host import facts
from trimtab.load import LoadRun
from trimtab.plants.php_fpm.private import FpmSpec, FpmTestbed
from trimtab.store import Store
from trimtab.testbed.content import dynamic_url
from trimtab.testbed.nginx import NginxSpec, NginxTestbed
from trimtab.testbed.setups import server_cpus
from trimtab.workloads._population import Url
from trimtab.workloads.closed_loop import ClosedLoop

VALUES = (3, 5, 8, 12, 18, 30, 60)
SEEDS = (1, 2, 3)
STARTS = (5, 60)
USERS = 60
URL = Url(dynamic_url(cpu_us=1000, memory_kb=12_000, wait_us=40_000))
SPEC = FpmSpec(
    memory_limit_bytes=192 * 2**20, swap=True, cpus=server_cpus(), cpu_weight=100, status_apart=True, timeout_s=10
)
WARM_S = 4.0
HEAD = "| {} | page time of each seed | median | pages per second | failed requests | workers killed |"
RULE = "|---|---|---|---|---|---|"


def measured(children: int, seed: int, seconds: float, tune: bool, work: Path) -> dict[str, Any]:
    """One run: with max_children as it is, or with trimtab on it from there."""
    traffic = ClosedLoop(connections=USERS, think_s=0.1, urls=(URL,))
    cpus = sorted(os.sched_getaffinity(0))
    row: dict[str, Any] = {"kind": "tune" if tune else "fixed", "max_children": children, "seed": seed}
    with FpmTestbed(replace(SPEC, max_children=children)) as bed, NginxTestbed(NginxSpec(fastcgi=bed.nginx)) as front:
        clients = traffic.populations()
        with LoadRun(
            f"127.0.0.1:{front.port}", clients, 3600.0, SystemClock(), interval_s=1.0, seed=seed, cpu=cpus[-1]
        ) as load:
            time.sleep(WARM_S)
            began_s = time.monotonic()
            if tune:
                row |= tuned(bed.pid, seed, seconds, work)
            else:
                time.sleep(seconds)
            row["took_s"] = time.monotonic() - began_s
            intervals = load.intervals_since(began_s)
            row["intervals"] = [shown(one.classes[0]) for one in intervals]
            row["errors"] = dict(load.stop().classes[0].errors)
            row["killed"] = bed.error_log().count("exited on signal 9")
    third = row["intervals"][-max(1, len(row["intervals"]) // 3) :]
    return {**row, "whole": means(row["intervals"]), "last_third": means(third)}


def tuned(pid: int, seed: int, seconds: float, work: Path) -> dict[str, Any]:
    """A run of trimtab, as a user types it, with what it did."""
    store = work / f"{time.monotonic_ns()}.sqlite"
    command = (sys.executable, "-m", "trimtab", "tune", "php-fpm", "--pid", str(pid), "--store", str(store))
    options = ("--window", "3s", "--duration", f"{seconds:g}s", "--seed", str(seed))
    said = subprocess.run((*command, *options), capture_output=True, text=True, check=False)
    moves = Store(store).moves(1)
    return {
        "exit_code": said.returncode,
        "said": said.stdout.splitlines(),
        "moves": [{"window": m.index, "state": str(m.state), "changes": dict(m.move.changes)} for m in moves],
    }


def shown(one: Any) -> dict[str, float | None]:
    """Pages and times of a second of load."""
    return {"pages": one.pages, "mean_s": one.page_intended.mean_s, "p95_s": one.page_intended.p95_s}


def means(rows: Iterable[dict[str, Any]]) -> dict[str, float | None]:
    """Means over some seconds, weighted with the pages in them."""
    found = [r for r in rows if r["pages"]]
    pages, seconds = sum(r["pages"] for r in found), len(list(rows))
    if not pages:
        return {"page_s": None, "pages_hz": 0.0}
    return {"page_s": sum(r["mean_s"] * r["pages"] for r in found) / pages, "pages_hz": pages / seconds}


def summary(rows: list[dict[str, Any]], conditions: str) -> str:
    """The tables."""
    lines = ["# pm.max_children under a memory limit", "", "    python benchmarks/php_fpm/sweep.py --out DIR", ""]
    lines += (__doc__ or "").split("\n\n", 2)[2].strip().splitlines()
    lines += ["", f"Conditions: {conditions}", "", "## Fixed", ""]
    lines += [HEAD.format("max_children"), RULE]
    for value in VALUES:
        lines.append(table_row(str(value), [r for r in rows if r["kind"] == "fixed" and r["max_children"] == value]))
    lines += ["", "## trimtab tune php-fpm", "", "Page times and rates of the last third of each run.", ""]
    lines += [HEAD.format("from"), RULE]
    for start in STARTS:
        lines.append(table_row(str(start), [r for r in rows if r["kind"] == "tune" and r["max_children"] == start]))
    lines += ["", "What each run did, whole-run page time with its own cost in it:", ""]
    for row in rows:
        if row["kind"] == "tune":
            steps = ", ".join(
                f"{m['changes'].get('max_children')} {m['state']}" for m in row["moves"] if m["changes"]
            )
            whole = row["whole"]["page_s"]
            lines.append(f"- from {row['max_children']}, seed {row['seed']}: {whole:.3f} s over the run; {steps}")
    return "\n".join([*lines, ""])


def table_row(name: str, rows: list[dict[str, Any]]) -> str:
    """One line of a table."""
    rows = sorted(rows, key=lambda r: int(r["seed"]))
    times = [r["last_third" if r["kind"] == "tune" else "whole"]["page_s"] for r in rows]
    rates = [r["last_third" if r["kind"] == "tune" else "whole"]["pages_hz"] for r in rows]
    known = [t for t in times if t is not None]
    shown_times = ", ".join("none" if t is None else f"{t:.3f} s" for t in times)
    errors, killed = sum(sum(r["errors"].values()) for r in rows), sum(r["killed"] for r in rows)
    median = f"{statistics.median(known):.3f} s" if known else "none"
    return f"| {name} | {shown_times} | {median} | {statistics.median(rates):.0f} | {errors} | {killed} |"


def main() -> None:
    """Reads the command line, runs everything, writes as it goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="measured seconds per fixed value")
    parser.add_argument("--tune-seconds", type=float, default=66.0, help="length of a run of trimtab")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    load_before = os.getloadavg()
    jobs = [(value, seed, False) for value in VALUES for seed in SEEDS]
    jobs += [(start, seed, True) for start in STARTS for seed in SEEDS]
    random.Random(1).shuffle(jobs)
    rows = []
    with (options.out / "runs.jsonl").open("w") as raw:
        for children, seed, tune in jobs:
            seconds = options.tune_seconds if tune else options.seconds
            rows.append(measured(children, seed, seconds, tune, options.out))
            raw.write(json.dumps(rows[-1]) + "\n")
            raw.flush()
            print(children, seed, "tune" if tune else "fixed", rows[-1]["last_third"], rows[-1]["errors"], flush=True)
    for store in options.out.glob("*.sqlite*"):
        store.unlink()
    conditions = f"{facts()}; load average before {load_before}, after {os.getloadavg()}"
    (options.out / "summary.md").write_text(summary(rows, conditions))


if __name__ == "__main__":
    main()
