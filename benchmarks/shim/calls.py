"""Nanoseconds that the shim adds to a call: read, write, a whole request, a page, accept with close.

The same program (calls.c, compiled here) runs with the shim and without in alternating pairs; what is added is the
difference within a pair. "followed" are connections on a port that the shim measures, "other" those on another port,
"device" is /dev/zero and /dev/null: the dearest a call on somebody else's descriptor can seem, as it takes the least
itself. A followed request is one read and one write, with its time and bytes counted; a page is the same in HTTP as
browsers and servers speak it, with the interval before it. The program is pinned to one core.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gate"))

from _bench import compiled, cores, facts, favoured, options, save, spread, table, told

from trimtab import native
from trimtab.gate.launch import loadable, preloaded, require_active
from trimtab.gate.run_directory import RunDirectory
from trimtab.sensors import _shared_file
from trimtab.testbed._private import free_ports

PAIRS, COUNT = 15, 200_000
SOURCE = Path(__file__).with_name("calls.c")


def measured(binary: Path, ports: tuple[int, int], count: int, environment: Mapping[str, str]) -> dict[str, float]:
    """Nanoseconds per call of each kind."""
    command = [*favoured(cores()[0]), str(binary), *map(str, ports), str(count)]
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=True)
    return {name: float(ns) for name, ns in (line.split() for line in done.stdout.splitlines())}


def measure(out: Path, quick: bool) -> None:
    """Runs the pairs and writes the result."""
    before = facts()
    pairs, count = (3, 20_000) if quick else (PAIRS, COUNT)
    raw = []
    with tempfile.TemporaryDirectory(prefix="trimtab-benchmark-") as name:
        run_dir = RunDirectory("benchmark", Path(name))
        _shared_file.create(run_dir.shared)
        binary = compiled(SOURCE, run_dir.directory)
        shim = loadable(native.shim_path())
        for pair in range(pairs):
            first, second = free_ports(2)
            loaded = preloaded(os.environ, shim, run_dir, (first,), gated=False)
            require_active(loaded)
            # Each goes first in every other pair, so that a drift of the machine favours neither.
            turn = [("without", os.environ), ("with", loaded)]
            for which, environment in turn[:: -1 if pair % 2 else 1]:
                raw.append({"pair": pair, "shim": which, "ns": measured(binary, (first, second), count, environment)})
        counted = _shared_file.SharedFile(run_dir.shared).counters()
    least = pairs * count
    if counted.requests < least:
        raise SystemExit(f"the shim has counted {counted.requests} requests of at least {least}")
    figures = {}
    for call in raw[0]["ns"]:
        cost = {(one["pair"], one["shim"]): one["ns"][call] for one in raw}
        figures[call] = {
            "without_ns": spread((cost[pair, "without"] for pair in range(pairs)), 1),
            "with_ns": spread((cost[pair, "with"] for pair in range(pairs)), 1),
            "added_ns": spread((cost[pair, "with"] - cost[pair, "without"] for pair in range(pairs)), 1),
        }
    head = ["call", "without, ns", "with the shim, ns", "added, ns"]
    lines = [f"Median (least to most) of {pairs} pairs, {count} calls each.", ""]
    lines += table(head, ([call.replace("_", " "), *map(told, of.values())] for call, of in figures.items()))
    save(out, "calls", before, {"pairs": pairs, "calls": count, "figures": figures, "raw": raw}, lines)


if __name__ == "__main__":
    args = options(__doc__)
    measure(args.out, args.quick)
