"""Measures how many events per second the simulator processes, and how long a 30-minute experiment takes.

    python benchmarks/sim/run.py --out benchmarks/results/2026-11-21-sim

The simulator runs on one core. Cases alternate within each repeat, so that what else the machine does falls on all of
them. Wall time is that of one `advance` order; CPU time is the time that the kernel let the simulator run meanwhile
(/proc/PID/schedstat), so it does not count the turns of other programs on the same core.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "load"))

from _common import conditions, peak_bytes

from trimtab import native
from trimtab.plants.simulated import SimulatedServer
from trimtab.workloads._population import Population, Url
from trimtab.workloads.wagon import Wagon

TARGET_EVENTS_HZ = 5e6
TARGET_WALL_S = 1.0
TUNED = SimulatedServer(max_request_workers=26)
ROOMY = replace(TUNED, memory_limit_bytes=1e15)


def wagon(rate_scale: float, time_scale: float = 30.0) -> tuple[Population, ...]:
    """WAGON sessions for a page of 2.2 ms; 0.57 keeps one core busy for 70 %."""
    return Wagon(rate_scale=rate_scale, time_scale=time_scale, urls=(Url("/", cpu_s=0.0022),)).populations()


CASES: dict[str, tuple[str, SimulatedServer, tuple[Population, ...], float]] = {
    "experiment": ("the default server and traffic, tuned, 30 min", TUNED, wagon(0.568), 1800.0),
    "default": ("the shipped default of 150 workers, swapping, 30 min", SimulatedServer(), wagon(0.568), 1800.0),
    "ten": (
        "ten cores, 300 workers, about 400 sessions, 30 min",
        replace(ROOMY, max_request_workers=300, cores=10.0),
        wagon(5.68),
        1800.0,
    ),
    "hundred": (
        "a hundred cores, 3000 workers, about 120000 sessions (unscaled think times), 15 min",
        replace(ROOMY, max_request_workers=3000, cores=100.0),
        wagon(56.8, time_scale=1.0),
        900.0,
    ),
}


def main() -> None:
    """Runs the measurement and writes its folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=False)
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True)
    known, runs = conditions() | {"rustc": rustc.stdout.strip(), "niceness": 0}, []
    for repeat in range(args.repeats):
        for name in CASES:
            runs.append({"repeat": repeat, "case": name, **measured(name, seed=repeat)})
            print(json.dumps(runs[-1]), flush=True)
    (args.out / "runs.json").write_text(json.dumps({"conditions": known, "runs": runs}, indent=1) + "\n")
    summary = summarised(runs, known, args.repeats, args.out.name)
    (args.out / "summary.md").write_text(summary)
    print(summary)


def measured(name: str, seed: int) -> dict[str, float]:
    """One run of one case in a fresh process: events, seconds of wall and of CPU time, peak memory."""
    _, server, populations, length_s = CASES[name]
    core = str(max(os.sched_getaffinity(0)))
    simulator = native.Native("sim", ("taskset", "-c", core))
    try:
        wire = [population.to_wire() for population in populations]
        ask(simulator, {"type": "start", "server": server.to_wire(), "populations": wire, "seed": seed})
        cpu_s, began = cpu_time_s(simulator.pid), time.perf_counter()
        ask(simulator, {"type": "advance", "duration_s": length_s})
        wall_s, used_s = time.perf_counter() - began, cpu_time_s(simulator.pid) - cpu_s
        answer, peak = ask(simulator, {"type": "read"}), peak_bytes(simulator.pid)
    finally:
        simulator.close()
    return {
        "virtual_s": length_s,
        "events": answer["events"],
        "wall_s": wall_s,
        "cpu_s": used_s,
        "events_per_wall_s": answer["events"] / wall_s,
        "events_per_cpu_s": answer["events"] / used_s,
        "peak_bytes": peak,
    }


def ask(simulator: native.Native, order: dict[str, Any]) -> dict[str, Any]:
    """The answer to an order."""
    simulator.send(order)
    answer = simulator.receive()
    if answer["type"] == "refused":
        raise SystemExit(answer["message"])
    return answer


def cpu_time_s(pid: int) -> float:
    """CPU time that a process has had."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def summarised(runs: list[dict[str, Any]], known: dict[str, Any], repeats: int, folder: str) -> str:
    """The page: targets, conditions and a table with median, least and greatest."""
    command = f"python benchmarks/sim/run.py --repeats {repeats} --out benchmarks/results/{folder}"
    lines = [
        "# Speed of the simulator",
        "",
        f"`{command}` on {known['date']}, commit {known['commit'][:12]}, {known['rustc']},",
        f"{known['cpu']} ({known['cores']} cores, the simulator on one), Linux {known['kernel']},",
        f"load average {os.getloadavg()[0]:.1f} of other programs at the end.",
        "",
        f"Wanted: at least {TARGET_EVENTS_HZ / 1e6:.0f} million events per second of one core, and 30 virtual",
        f"minutes within {TARGET_WALL_S:.0f} s. Each figure: median (least .. greatest) of the repeats.",
        "",
        "| case | events | wall time, s | CPU time, s | million events/s of CPU | of wall | peak, MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, (what, *_) in CASES.items():
        mine = [run for run in runs if run["case"] == name]
        cells = [
            what,
            f"{statistics.median(run['events'] for run in mine):.0f}",
            spread([run["wall_s"] for run in mine], 3),
            spread([run["cpu_s"] for run in mine], 3),
            spread([run["events_per_cpu_s"] / 1e6 for run in mine], 1),
            spread([run["events_per_wall_s"] / 1e6 for run in mine], 1),
            f"{max(run['peak_bytes'] for run in mine) / 2**20:.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    for name, (what, *_) in CASES.items():
        median_hz = statistics.median(run["events_per_cpu_s"] for run in runs if run["case"] == name)
        reached = "reached" if median_hz >= TARGET_EVENTS_HZ else "NOT reached"
        lines.append(f"- Events per second of a core, {what}: {reached}.")
    longest_s = max(run["wall_s"] for run in runs if run["case"] == "experiment")
    reached = "reached" if longest_s <= TARGET_WALL_S else "NOT reached"
    lines.append(f"- 30 minutes, slowest repeat {longest_s:.3f} s of wall time: {reached}.")
    return "\n".join(lines) + "\n"


def spread(values: list[float], digits: int) -> str:
    """Median, least and greatest."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} .. {max(values):.{digits}f})"


if __name__ == "__main__":
    main()
