"""Requests per second of Apache with the shim in it, against the same Apache without.

50 clients fetch a 10 KB file, on connections kept open and with one for each request, in short turns between two bare
Apaches, one whose shim only measures, and one in which a keep-alive time is set: see `gate/throughput.py` for how the
ratio is taken. Goal: the shim that only measures costs at most 1 % of the requests per second.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gate"))

from _bench import facts, options, ratio_goal, save
from _stacks import SHIMS
from throughput import LEGEND, QUICK, Plan, rows, scenarios

PLAN = Plan(setups=10, cycles=100)
LEAST = 0.99


def measure(out: Path, quick: bool, number: int | None = None) -> None:
    """Runs all scenarios and writes the result."""
    before = facts()
    plan = QUICK if quick else Plan(number or PLAN.setups, PLAN.cycles)
    figures, raw = scenarios(tuple(SHIMS), plan)
    lines = [LEGEND, ""]
    for scenario in figures:
        found = scenario["stacks"]["shim"]["ratio"]
        lines += [*rows(scenario), ratio_goal("with the shim", LEAST, found), ""]
    save(out, "requests", before, {"plan": asdict(plan), "figures": figures, "raw": raw}, lines)


if __name__ == "__main__":
    args = options(__doc__)
    measure(args.out, args.quick, args.setups)
