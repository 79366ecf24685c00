"""Requests per second of Apache with the shim in it, which only measures, against the same Apache without.

50 clients in a closed loop (wrk, one thread) fetch a 10 KB file, on connections kept open and with one for each
request. The two take turns in short runs, and the ratio is taken within a round; bare Apache runs twice in each.
Goal: at most 1 % fewer requests per second.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gate"))

from _bench import facts, goal, options, save
from throughput import rows, scenarios

ROUNDS, DURATION_S = 15, 2
LEAST = 0.99


def measure(out: Path, quick: bool) -> None:
    """Runs all scenarios and writes the result."""
    before = facts()
    number, duration_s = (1, 1) if quick else (ROUNDS, DURATION_S)
    figures, raw = scenarios(("bare", "shim"), number, duration_s, not quick)
    lines = ["Median (least to most) of the rounds; ratios are taken within a round.", ""]
    for scenario in figures:
        found = scenario["stacks"]["shim"]["ratio"]["median"]
        lines += [*rows(scenario), goal(f"with the shim at least {LEAST} of bare", found >= LEAST), ""]
    result = {"rounds": number, "duration_s": duration_s, "figures": figures, "raw": raw}
    save(out, "requests", before, result, lines)


if __name__ == "__main__":
    args = options(__doc__)
    measure(args.out, args.quick)
