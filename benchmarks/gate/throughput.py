"""Requests per second and CPU per request through the gate, HAProxy and nginx, against the same Apache alone.

50 clients in a closed loop (turns.c) fetch a 10 KB file, on connections kept open and on one for each request. A
machine that has neighbours drifts by tenths within a second, so the servers take turns of 40 ms, in an order drawn
anew in each cycle, and every ratio is taken to the mean of two bare Apaches in the same cycle. Where a server's pages
came to lie makes it some per cent faster or slower for its whole life, so all of them are started several times: the
figure of one set-up is the median of its cycles, and what is told is the median over the set-ups with its 95 %
interval. "bare" and "bare again" say how far equal servers lie apart. A goal is decided when the interval says so.
CPU is that of the whole stack: Apache and what stands before it. The gate tells classes by source address; "gate by
path" must see the request first. The gate's goals: at least 0.98 of bare on connections kept open, 0.93 with one for
each request.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from _bench import (
    CLIENTS,
    PATH,
    SIZE_BYTES,
    Placement,
    compiled,
    facts,
    median_of,
    options,
    placements,
    ratio_goal,
    save,
    spread,
    table,
    told,
)
from _stacks import KINDS, Stack, stacks

from trimtab.testbed.apache_config import Mpm

MPMS: tuple[Mpm, ...] = ("prefork", "event")
MODES = ("keep-alive", "per connection")
GOALS = {"keep-alive": 0.98, "per connection": 0.93}
BARE = ("bare", "bare again")
SETUPS, CYCLES, SLICE_MS = 6, 60, 40
WARM_CYCLES = 3
LEGEND = (
    "Median [its 95 % interval] (least to most) of the set-ups; ratios are taken within a cycle of slices, and "
    "a set-up gives the median of its cycles."
)


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Args:
        setups: times that all servers are started.
        cycles: turns of each server in a set-up.
        slice_ms: length of a turn, in milliseconds.
    """

    setups: int = SETUPS
    cycles: int = CYCLES
    slice_ms: int = SLICE_MS


QUICK = Plan(1, 5)


def asked(
    servers: Sequence[Stack], mode: str, where: Placement, slice_ms: int, cycles: int, seed: int = 0
) -> list[list[tuple[int, float]]]:
    """Has the servers asked in turns.

    Returns:
        for each server its slices: requests, and seconds that they took.

    Raises:
        SystemExit: connections or requests failed.
    """
    with tempfile.TemporaryDirectory(prefix="trimtab-benchmark-") as name:
        turns = compiled(Path(__file__).with_name("turns.c"), Path(name))
        how = ["kept" if mode == "keep-alive" else "each", CLIENTS, slice_ms, cycles, seed, PATH, SIZE_BYTES]
        command = [*where.before(where.client), turns, *how, *(one.port for one in servers)]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{[one.name for one in servers]}, {mode}: {done.stderr}")
    found: list[list[tuple[int, float]]] = [[] for _ in servers]
    for line in done.stdout.splitlines():
        _, server, requests, took_ns = map(int, line.split())
        found[server].append((requests, took_ns / 1e9))
    return found


def setup(servers: Sequence[Stack], mode: str, where: Placement, plan: Plan, seed: int) -> dict[str, dict[str, Any]]:
    """Figures of each server in one set-up, compared with the two bare ones."""
    before_s = [one.cpu_s() for one in servers]
    slices = asked(servers, mode, where, plan.slice_ms, plan.cycles, seed)
    used_s = [one.cpu_s() - before for one, before in zip(servers, before_s, strict=True)]
    rates = [[requests / took_s for requests, took_s in own] for own in slices]
    cpu_us = [used / sum(requests for requests, _ in own) * 1e6 for used, own in zip(used_s, slices, strict=True)]
    bare = [at for at, one in enumerate(servers) if one.name in BARE]
    means = [statistics.mean(rates[at][cycle] for at in bare) for cycle in range(plan.cycles)]
    bare_us = statistics.mean(cpu_us[at] for at in bare)
    return {
        one.name: {
            "requests_per_s": statistics.median(rate),
            "ratio": statistics.median(of / mean for of, mean in zip(rate, means, strict=True)),
            "cpu_us_per_request": cpu,
            "cpu_ratio": cpu / bare_us,
            "slices_per_s": [round(of) for of in rate],
        }
        for one, rate, cpu in zip(servers, rates, cpu_us, strict=True)
    }


def compared(setups: Sequence[dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Each server over all set-ups."""

    def over(name: str, key: str) -> list[float]:
        return [one[name][key] for one in setups]

    return {
        name: {
            "requests_per_s": spread(over(name, "requests_per_s"), 0),
            "ratio": median_of(over(name, "ratio")),
            "cpu_us_per_request": spread(over(name, "cpu_us_per_request"), 1),
            "cpu_ratio": median_of(over(name, "cpu_ratio")),
        }
        for name in setups[0]
    }


def rows(scenario: dict[str, Any]) -> list[str]:
    """A scenario in the summary."""
    lines = [f"### {scenario['mpm']}, {scenario['mode']}, {scenario['placement']}", ""]
    head = ["", "requests/s", "ratio to bare", "CPU µs/request", "CPU ratio to bare"]
    keys = ("requests_per_s", "ratio", "cpu_us_per_request", "cpu_ratio")
    return lines + table(head, ([name, *(told(of[key]) for key in keys)] for name, of in scenario["stacks"].items()))


def scenarios(kinds: Sequence[str], plan: Plan) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Every placement, MPM and mode with servers of these kinds, and two bare ones.

    Returns:
        (the compared figures of each scenario, every set-up).
    """
    found, raw = [], []
    for where in placements():
        for mpm in MPMS:
            runs: dict[str, list[dict[str, dict[str, Any]]]] = {mode: [] for mode in MODES}
            for number in range(plan.setups):
                with stacks(mpm, (*BARE, *kinds), where) as servers:
                    for mode in MODES:
                        asked(servers, mode, where, plan.slice_ms, WARM_CYCLES)
                        runs[mode].append(setup(servers, mode, where, plan, number))
            for mode, setups in runs.items():
                what = {"mpm": mpm, "mode": mode, "placement": where.name}
                raw.append(what | {"setups": setups})
                found.append(what | {"stacks": compared(setups)})
    return found, raw


def measure(out: Path, quick: bool, number: int | None = None) -> None:
    """Runs all scenarios and writes the result."""
    before = facts()
    plan = QUICK if quick else Plan(setups=number or SETUPS)
    figures, raw = scenarios(KINDS[1:], plan)
    lines = [LEGEND, ""]
    for scenario in figures:
        lines += rows(scenario)
        lines += [ratio_goal("gate", GOALS[scenario["mode"]], scenario["stacks"]["gate"]["ratio"]), ""]
    save(out, "throughput", before, {"plan": asdict(plan), "clients": CLIENTS, "figures": figures, "raw": raw}, lines)


if __name__ == "__main__":
    args = options(__doc__)
    measure(args.out, args.quick, args.setups)
