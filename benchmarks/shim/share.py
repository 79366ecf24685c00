"""How much of a server's CPU time is spent in the shim, by profile: what requests per second are too noisy to show.

50 clients keep a core busy with a 10 KB file, while perf takes 8,000 samples a second of that core. Of the samples in
the server's processes, the share in the shim's library and in the kernel's clock (the vDSO, which servers read too:
the bare server shows how often) is counted. The servers take turns: bare; with the shim, which only measures; with
a keep-alive time set, when it follows every byte of requests and answers. Cache misses that the shim causes elsewhere
are not seen here; `requests.py` has all there is. Needs the Debian package linux-perf. Goal: at most 1 %.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gate"))

from _bench import Placement, facts, goal, median_of, options, placements, save, table, told
from _stacks import Stack, stacks
from throughput import MODES, MPMS, asked

KINDS = ("bare", "shim", "shim, time set")
ROUNDS, DURATION_S, LEAD_S = 5, 4, 1
HZ = 8000
MOST = 1.0
PARTS = {"library": "trimtab", "clock": "[vdso]"}


def profiled(one: Stack, mode: str, where: Placement, duration_s: int) -> dict[str, Any]:
    """Shares of one server under load, in per cent of its CPU time."""
    failed: list[BaseException] = []

    def load() -> None:
        try:
            asked(one, mode, where, duration_s + 2 * LEAD_S)
        except SystemExit as error:
            failed.append(error)

    with tempfile.NamedTemporaryFile(prefix="trimtab-benchmark-", suffix=".perf") as data:
        client = threading.Thread(target=load)
        client.start()
        time.sleep(LEAD_S)
        what = ["-q", "-e", "cpu-clock", "-F", str(HZ), "-C", str(where.server), "-o", data.name]
        subprocess.run(["perf", "record", *what, "sleep", str(duration_s)], check=True)
        client.join()
        if failed:
            raise failed[0]
        how = ["--comm", "apache2", "--sort", "dso", "--percentage", "relative", "--stdio"]
        said = subprocess.run(["perf", "report", "-i", data.name, *how], capture_output=True, text=True, check=True)
    shares = re.findall(r"^\s*([\d.]+)%\s+(\S+)", said.stdout, re.MULTILINE)
    if not shares:
        raise SystemExit(f"perf saw nothing of {one.name}: {said.stdout}{said.stderr}")
    return {part: sum(float(share) for share, dso in shares if name in dso) for part, name in PARTS.items()}


def said(runs: list[dict[str, Any]]) -> list[str]:
    """A scenario in the summary."""

    def share(name: str, part: str) -> dict[str, float]:
        return median_of(one[part] for one in runs if one["stack"] == name)

    rows = ([name, *(told(share(name, part)) for part in PARTS)] for name in KINDS)
    met = share("shim", "library")["median"] <= MOST
    lines = table(["", "in the library", "in the kernel's clock"], rows)
    return [*lines, goal(f"the shim, which only measures, at most {MOST:g} %", met), ""]


def measure(out: Path, quick: bool) -> None:
    """Runs every MPM and mode with all servers and writes the result."""
    before, where = facts(), placements()[0]
    rounds, duration_s = (1, 1) if quick else (ROUNDS, DURATION_S)
    raw: list[dict[str, Any]] = []
    lines = ["Median [its 95 % interval] (least to most) of the rounds, in per cent of the server's CPU time.", ""]
    for mpm in MPMS:
        with stacks(mpm, KINDS, where) as servers:
            for mode in MODES:
                what = {"mpm": mpm, "mode": mode}
                for this in range(rounds):
                    first = this % len(servers)
                    for one in servers[first:] + servers[:first]:
                        shares = profiled(one, mode, where, duration_s)
                        raw.append(what | {"round": this, "stack": one.name} | shares)
                lines += [f"### {mpm}, {mode}", "", *said(raw[-rounds * len(KINDS) :])]
    save(out, "share", before, {"rounds": rounds, "duration_s": duration_s, "raw": raw}, lines)


if __name__ == "__main__":
    args = options(__doc__)
    measure(args.out, args.quick)
