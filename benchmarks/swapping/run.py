"""What memory that does not fit costs a request, on a real Apache and on the simulated one.

    python benchmarks/swapping/run.py --out DIR

Each case is a prefork with mod_php under a memory limit, with swap, all of whose workers are there from the start. A
number of users keep it busy: all of its workers at once, or a quarter of them. A user asks for 20 pages in the mean
on a connection, and pauses for a millisecond between them. What is given is CPU seconds of a request, which is what
the server used over what it completed, in 8 s after 6 s of load: on the real server, and on the simulated one with
the CPU time that a request takes where all fits (the first two cases of each server) and the same users.

Swap in is what a request brought back. This is what the simulator's memory was fitted to
(native/sim/src/memory.rs), so it says how well its law describes these servers, not others. DIR gets runs.jsonl and
summary.md; about nine minutes, as root.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory

from trimtab.core import Objective, Window
from trimtab.host import facts
from trimtab.lab import Arm, Context, harm
from trimtab.lab._applications import urls
from trimtab.lab._battery_draw import server_of
from trimtab.lab._beds import WARM_S
from trimtab.lab._drawn import Drawn
from trimtab.lab._engine import run_lab
from trimtab.lab._scenario import MIB, Scenario, draw
from trimtab.plants.simulated import Simulated
from trimtab.report.track import tracks
from trimtab.store import Store
from trimtab.workloads._distribution import Constant, Exponential
from trimtab.workloads._population import Closed, Population, Url

PAGE_BYTES = 4096
LENGTH_S, WINDOW_S = 10.0, 2.0
PAGES, PAUSE_S, PATIENCE_S = 20.0, 0.001, 60.0
SHARES = (1.0, 0.25)
SERVERS = {
    "12 MiB in 400 MiB": (12, 0.0, 0.002, 400, (8, 20, 30, 40, 60, 90, 140, 200)),
    "28 MiB in 192 MiB": (28, 0.0, 0.0012, 192, (4, 8, 16, 32, 64, 128)),
    "16 MiB, 70 % of it cold, in 300 MiB": (16, 0.7, 0.004, 300, (20, 40, 80, 160)),
}
"""A worker's memory in MiB, its cold share, CPU seconds of a request, the limit in MiB, and the workers."""


@dataclass(frozen=True)
class Row:
    """One case.

    Args:
        server: the server.
        workers: its workers.
        users: users that keep it busy.
        times: memory that it takes, as a multiple of its limit.
        swap_in_bytes: what a request brought back.
        real_s: CPU seconds of a request on the real server.
        simulated_s: the same on the simulated one.
    """

    server: str
    workers: int
    users: int
    times: float
    swap_in_bytes: float
    real_s: float
    simulated_s: float


@dataclass(frozen=True)
class Busy(Drawn):
    """A server and users who hardly pause.

    Args:
        users: how many.
    """

    users: int = 1

    def clients(self, duration_s: float) -> tuple[Population, ...]:
        """The users."""
        return (replace(asking(self.users), pages=urls(self.scenario)),)


def asking(users: int) -> Population:
    """The users of both servers."""
    return Population(
        class_name="users",
        arrivals=Closed(users),
        session_pages=Exponential(PAGES),
        burst_requests=Constant(1.0),
        think_s=Constant(PAUSE_S),
        pages=(Url("/"),),
        timeout_s=PATIENCE_S,
    )


def scenario(name: str) -> Scenario:
    """The server of that name, on the battery's testbed."""
    worker_mib, cold_ratio, cpu_s, limit_mib, _ = SERVERS[name]
    return replace(
        draw(2),
        memory_limit_bytes=limit_mib * MIB,
        worker_bytes=worker_mib * MIB,
        cold_ratio=cold_ratio,
        cpu_s=cpu_s,
        wait_s=0.0,
        lock_ratio=0.0,
        keep_alive_s=1.0,
        pool="full",
        application="page",
        php="module",
        mpm="prefork",
    )


def arms(name: str) -> Sequence[Arm]:
    """The runs of a server."""
    *_, sizes = SERVERS[name]
    beds = [
        Busy(scenario(name), workers=workers, users=max(1, round(share * workers)))
        for workers in sizes
        for share in SHARES
    ]
    return [
        Arm(
            harm.PART,
            f"{bed.workers} {bed.users}",
            1,
            bed,
            "static",
            LENGTH_S,
            WINDOW_S,
            Objective(bed.defaults.minimize),
            roles=bed.defaults.roles,
            guarded=False,
        )
        for bed in beds
    ]


def simulated_s(name: str, workers: int, users: int, cpu_s: float) -> float:
    """CPU seconds of a request on the simulated server, which has one core as the real one."""
    server = server_of(scenario(name), workers)
    plant = Simulated(server, [replace(asking(users), pages=(Url("/", cpu_s=cpu_s),))], 1)
    try:
        plant.clock.sleep(WARM_S + WINDOW_S)
        (sensor,) = plant.sensors()
        sensor.begin()
        plant.clock.sleep(LENGTH_S - WINDOW_S)
        return _cpu_s([sensor.read()])
    finally:
        plant.close()


def _cpu_s(readings: Sequence[dict[str, float]]) -> float:
    return fmean(r["cpu_ratio"] for r in readings) / fmean(r.get("request_rate_hz", 0.0) for r in readings)


def rows(name: str, found: dict[str, Sequence[Window]]) -> list[Row]:
    """A server's cases, from the windows of its runs."""
    real = {label: [dict(w.readings) for w in windows[1:]] for label, windows in found.items()}
    fits_s = median(_cpu_s(real[label]) for label in list(real)[: len(SHARES)])
    made = []
    for label, readings in real.items():
        workers, users = map(int, label.split())
        mean = {n: fmean(r.get(n, 0.0) for r in readings) for n in ("memory_bytes", "memory_limit_bytes")}
        rate_hz, back_hz = (fmean(r.get(n, 0.0) for r in readings) for n in ("request_rate_hz", "swap_in_rate_hz"))
        made.append(
            Row(
                name,
                workers,
                users,
                mean["memory_bytes"] / mean["memory_limit_bytes"],
                back_hz * PAGE_BYTES / rate_hz,
                _cpu_s(readings),
                simulated_s(name, workers, users, fits_s),
            )
        )
    return made


def summary(found: Sequence[Row], conditions: str) -> str:
    """The table."""
    lines = ["# What memory that does not fit costs", "", "    python benchmarks/swapping/run.py --out DIR", ""]
    lines += (__doc__ or "").split("\n\n", 2)[2].strip().splitlines()
    ratios = [row.simulated_s / row.real_s for row in found]
    near = sum(abs(math.log(ratio)) <= math.log(2) for ratio in ratios)
    middle = math.exp(fmean(map(math.log, ratios)))
    lines += ["", f"Simulated over real: {middle:.2f} in the geometric mean, within a factor of two in {near} of"]
    lines += [f"{len(found)} cases, {min(ratios):.2f} to {max(ratios):.2f}.", "", f"Conditions: {conditions}", ""]
    lines.append("| server | workers | users | memory, to its limit | swap in a request | real | simulated | ratio |")
    lines.append("|---|---:|---:|---:|---:|---:|---:|---:|")
    lines += [
        f"| {row.server} | {row.workers} | {row.users} | {row.times:.2f} | {row.swap_in_bytes / MIB:.1f} MiB "
        f"| {1000 * row.real_s:.2f} ms | {1000 * row.simulated_s:.2f} ms | {ratio:.2f} |"
        for row, ratio in zip(found, ratios, strict=True)
    ]
    return "\n".join([*lines, ""])


def main() -> None:
    """Reads the command line, runs every server, writes as it goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder for the results")
    options = parser.parse_args()
    options.out.mkdir(parents=True)
    found: list[Row] = []
    with TemporaryDirectory() as work:
        for number, name in enumerate(SERVERS):
            lab = replace(harm.LAB, arms=lambda part, seed, name=name: arms(name))  # type: ignore[misc]
            with contextlib.closing(Store(Path(work) / f"{number}.sqlite")) as store:
                run_lab(lab, (), Context(store, seeds=(1,), say=lambda text: print(text, flush=True)))
                made = {t.label: t.windows for t in tracks(store, [run.id for run in store.runs()])}
            found += rows(name, made)
            (options.out / "runs.jsonl").write_text("".join(json.dumps(asdict(row)) + "\n" for row in found))
            (options.out / "summary.md").write_text(summary(found, str(facts())))
    print(f"results: {options.out}")


if __name__ == "__main__":
    main()
