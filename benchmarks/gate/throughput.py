"""Requests per second and CPU per request through the gate, HAProxy and nginx, against the same Apache alone.

50 clients in a closed loop (wrk, one thread) fetch a 10 KB file, on connections kept open and on one for each
request. The servers take turns in short runs, each round begins with another one, and every ratio is taken to bare
Apache in the same round. Bare Apache runs twice in a round: ratios are to the mean of both, and those of "bare" and
"bare again" say how far two equal runs lie apart. A goal is decided when the 95 % interval of the median says so. CPU
is that of the whole stack: Apache and what stands before it. The gate tells classes by source address; "gate by path"
must see the request first. The gate's goals: at least 0.98 of bare on connections kept open, 0.93 with one for each
request.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from _bench import (
    CLIENTS,
    PATH,
    Placement,
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
ROUNDS, DURATION_S = 15, 1
WARM_S = 1
LEGEND = "Median [95 % interval of a median ratio] (least to most) of the rounds; ratios are taken within a round."


def asked(one: Stack, mode: str, where: Placement, duration_s: int) -> dict[str, Any]:
    """One run of wrk.

    Raises:
        SystemExit: connections or requests failed.
    """
    close = ["-H", "Connection: close"] if mode == "per connection" else []
    url = f"http://127.0.0.1:{one.port}{PATH}"
    command = ["wrk", "-t1", f"-c{CLIENTS}", f"-d{duration_s}s", *close, url]
    before_s = one.cpu_s()
    said = subprocess.run([*where.before(where.client), *command], capture_output=True, text=True, check=True).stdout
    cpu_s = one.cpu_s() - before_s
    count, rate = re.search(r"(\d+) requests in", said), re.search(r"Requests/sec:\s*([\d.]+)", said)
    lost = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", said)
    # A wrk "timeout" is a reply that took over 2 s, which a busy machine does; the others would spoil the comparison.
    failed = lost is not None and any(int(n) for n in lost.groups()[:3])
    if count is None or rate is None or int(count[1]) == 0 or failed or "Non-2xx" in said:
        raise SystemExit(f"{one.name}, {mode}: {said}")
    requests = int(count[1])
    return {
        "stack": one.name,
        "requests": requests,
        "requests_per_s": float(rate[1]),
        "cpu_us_per_request": cpu_s / requests * 1e6,
        "slow": int(lost[4]) if lost else 0,
    }


def rounds(
    servers: Sequence[Stack], mode: str, where: Placement, number: int, duration_s: int
) -> list[dict[str, Any]]:
    """Runs that take turns; the first of the servers comes twice in each round."""
    runs = []
    for this in range(number):
        turn: list[tuple[str, Stack]] = [(one.name, one) for one in servers]
        turn.insert(len(turn) // 2 + 1, (f"{servers[0].name} again", servers[0]))
        first = this % len(turn)
        for name, one in turn[first:] + turn[:first]:
            runs.append({"round": this, **asked(one, mode, where, duration_s), "stack": name})
    return runs


def compared(runs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What each server did, and how it compares with bare Apache in the same round."""
    found = {}

    def bare(this: int, key: str) -> float:
        return mean(one[key] for one in runs if one["round"] == this and one["stack"].startswith("bare"))

    for name in dict.fromkeys(one["stack"] for one in sorted(runs, key=lambda one: one["round"])):
        own = [one for one in runs if one["stack"] == name]

        ratios = {
            key: median_of(one[key] / bare(one["round"], key) for one in own)
            for key in ("requests_per_s", "cpu_us_per_request")
        }
        found[name] = {
            "requests_per_s": spread((one["requests_per_s"] for one in own), 0),
            "ratio": ratios["requests_per_s"],
            "cpu_us_per_request": spread((one["cpu_us_per_request"] for one in own), 1),
            "cpu_ratio": ratios["cpu_us_per_request"],
        }
    return found


def rows(scenario: dict[str, Any]) -> list[str]:
    """A scenario in the summary."""
    lines = [f"### {scenario['mpm']}, {scenario['mode']}, {scenario['placement']}", ""]
    head = ["", "requests/s", "ratio to bare", "CPU µs/request", "CPU ratio to bare"]
    keys = ("requests_per_s", "ratio", "cpu_us_per_request", "cpu_ratio")
    return lines + table(head, ([name, *(told(of[key]) for key in keys)] for name, of in scenario["stacks"].items()))


def scenarios(
    kinds: Sequence[str], number: int, duration_s: int, warm: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Every placement, MPM and mode with servers of these kinds.

    Args:
        kinds: what stands side by side, as `stacks` knows it.
        number: rounds.
        duration_s: length of one run, in seconds.
        warm: whether each server is asked once before the rounds.

    Returns:
        (the compared figures of each scenario, every run).
    """
    found, raw = [], []
    for where in placements():
        for mpm in MPMS:
            with stacks(mpm, kinds, where) as servers:
                for one in servers if warm else []:
                    asked(one, MODES[0], where, WARM_S)
                for mode in MODES:
                    runs = rounds(servers, mode, where, number, duration_s)
                    what = {"mpm": mpm, "mode": mode, "placement": where.name}
                    raw += [what | one for one in runs]
                    found.append(what | {"stacks": compared(runs)})
    return found, raw


def measure(out: Path, quick: bool, number: int | None = None) -> None:
    """Runs all scenarios and writes the result."""
    before = facts()
    number, duration_s = number or (1 if quick else ROUNDS), DURATION_S
    figures, raw = scenarios(KINDS, number, duration_s, not quick)
    lines = [LEGEND, ""]
    for scenario in figures:
        lines += rows(scenario)
        lines += [ratio_goal("gate", GOALS[scenario["mode"]], scenario["stacks"]["gate"]["ratio"]), ""]
    result = {"rounds": number, "duration_s": duration_s, "clients": CLIENTS, "figures": figures, "raw": raw}
    save(out, "throughput", before, result, lines)


if __name__ == "__main__":
    args = options(__doc__)
    measure(args.out, args.quick, args.rounds)
