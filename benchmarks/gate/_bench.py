"""Shared parts of the benchmarks of gate and shim: options, CPU placement, and results in a folder."""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "load"))

from _common import NICENESS, conditions, cores, favoured
from scipy.stats import binom

PATH = "/file10k.html"
SIZE_BYTES = 10_240
CLIENTS = 50


@dataclass(frozen=True)
class Placement:
    """Where the processes run.

    Args:
        name: "pinned" or "unpinned".
        server: the core of the server and of what stands before it; None for any.
        client: the core of the client; None for any.
    """

    name: str
    server: int | None
    client: int | None

    def before(self, core: int | None) -> list[str]:
        """Command prefix that places a command."""
        return ["nice", "-n", str(NICENESS)] if core is None else favoured(core)

    def cpus(self) -> int:
        """Processors that the server may use."""
        return len(os.sched_getaffinity(0)) if self.server is None else 1


def placements() -> tuple[Placement, Placement]:
    """A core each for server and client, and wherever the kernel puts them."""
    server, client = cores()
    return Placement("pinned", server, client), Placement("unpinned", None, None)


def options(text: str | None) -> argparse.Namespace:
    """The command line: `--out`, `--quick` and `--setups`."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for the results; it must not exist")
    parser.add_argument("--quick", action="store_true", help="about two minutes: shows that it runs, measures little")
    parser.add_argument(
        "--setups", type=int, help="times that the servers are started to compare requests per second"
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=False)
    return args


def facts() -> dict[str, Any]:
    """The conditions, with the versions of all that takes part."""
    asked = {
        "apache": ["/usr/sbin/apache2", "-v"],
        "haproxy": ["haproxy", "-v"],
        "nginx": ["/usr/sbin/nginx", "-v"],
    }
    return conditions() | {name: _version(command) for name, command in asked.items()}


def _version(command: list[str]) -> str:
    """The first thing that looks like a version."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"\d+\.\d+[\w.+~-]*", done.stdout + done.stderr)
    return found[0] if found else "unknown"


def compiled(source: Path, directory: Path) -> Path:
    """A C program of the benchmarks, made ready in a directory."""
    binary = directory / source.stem
    subprocess.run(["cc", "-O2", "-Wall", "-o", str(binary), str(source)], check=True)
    return binary


def spread(values: Iterable[float], digits: int = 3) -> dict[str, float]:
    """Median, least and most."""
    known = list(values)
    return {
        "median": round(statistics.median(known), digits),
        "min": round(min(known), digits),
        "max": round(max(known), digits),
    }


def median_of(values: Iterable[float], digits: int = 3) -> dict[str, float]:
    """As `spread`, with the 95 % interval of the median, by order statistics, which need six values at least."""
    known = sorted(values)
    below = int(binom.ppf(0.025, len(known), 0.5))
    if below == 0:
        return spread(known, digits)
    interval = {"low": known[below - 1], "high": known[len(known) - below]}
    return spread(known, digits) | {name: round(value, digits) for name, value in interval.items()}


def told(of: dict[str, float]) -> str:
    """A spread in a cell of a table."""
    median = f"{of['median']:g}" + (f" [{of['low']:g} to {of['high']:g}]" if "low" in of else "")
    return f"{median} ({of['min']:g} to {of['max']:g})"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Lines of a table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows), ""]


def goal(wanted: str, met: bool) -> str:
    """How a goal came out."""
    return f"Goal: {wanted}: {'met' if met else 'missed'}."


def ratio_goal(what: str, least: float, of: dict[str, float]) -> str:
    """How a goal for the median of ratios came out; not decided where its interval holds it or is none."""
    if "low" in of and (of["low"] >= least or of["high"] < least):
        return goal(f"{what} at least {least} of bare", of["low"] >= least)
    return f"Goal: {what} at least {least} of bare: not decided by these set-ups."


def save(out: Path, name: str, before: dict[str, Any], result: dict[str, Any], lines: list[str]) -> None:
    """Writes one result, and its part of the summary.

    Args:
        out: the folder.
        name: of the benchmark.
        before: `facts()` from before it ran.
        result: figures and raw data.
        lines: what the summary says of it.
    """
    known = before | {"load_average_after": [round(x, 2) for x in os.getloadavg()]}
    command = "python " + " ".join([os.path.relpath(sys.argv[0]), *sys.argv[1:]])
    whole = {"benchmark": name, "command": command, "conditions": known, **result}
    (out / f"{name}.json").write_text(json.dumps(whole, indent=1) + "\n")
    said = [f"## {name}", "", f"    {command}", "", *lines, ""]
    said += ["Conditions: " + ", ".join(f"{key} {value}" for key, value in known.items()), ""]
    if known["load_average_before"][0] > 1.0:
        said += ["**The machine was busy with other work before this run (see the load averages).**", ""]
    with (out / "summary.md").open("a") as summary:
        summary.write("\n".join(said) + "\n")
    print("\n".join(said), flush=True)
