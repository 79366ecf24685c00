"""Requests per second of Apache with the shim in it, which only measures, against the same Apache without.

50 clients in a closed loop (wrk, one thread) fetch a 10 KB file, on connections kept open and with one for each
request. The two take turns in short runs, and the ratio is taken within a round; bare Apache runs twice in each.
Goal: at most 1 % fewer requests per second.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gate"))

from _bench import facts, options, ratio_goal, save
from throughput import DURATION_S, LEGEND, rows, scenarios

ROUNDS = 30
LEAST = 0.99


def measure(out: Path, quick: bool, number: int | None = None) -> None:
    """Runs all scenarios and writes the result."""
    before = facts()
    number = number or (1 if quick else ROUNDS)
    figures, raw = scenarios(("bare", "shim"), number, DURATION_S, not quick)
    lines = [LEGEND, ""]
    for scenario in figures:
        found = scenario["stacks"]["shim"]["ratio"]
        lines += [*rows(scenario), ratio_goal("with the shim", LEAST, found), ""]
    result = {"rounds": number, "duration_s": DURATION_S, "figures": figures, "raw": raw}
    save(out, "requests", before, result, lines)


if __name__ == "__main__":
    args = options(__doc__)
    measure(args.out, args.quick, args.rounds)
