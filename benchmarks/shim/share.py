"""How much of a server's core the shim takes, by profile: where its part of the time goes.

50 clients keep a core busy with a 10 KB file, while perf takes 8,000 samples a second of that core. Counted are those
in the shim's library, in the kernel's clock (the vDSO, which servers read too: the bare server shows how often), and
in the gate's process, its system calls included. The servers take turns: bare; with the shim, which only measures;
with a keep-alive time set, when it follows every byte of requests and answers; under a gate. Cache misses that these
cause elsewhere are not seen here; `requests.py` has all there is. Needs the Debian package linux-perf. Goal: the shim
that only measures takes at most 1 %.
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

KINDS = ("bare", "shim", "shim, time set", "gate")
ROUNDS, DURATION_S, LEAD_S = 5, 4, 1
HZ = 8000
MOST = 1.0
PARTS = {"library": "in the library", "clock": "in the kernel's clock", "gate": "in the gate's process"}


def profiled(one: Stack, mode: str, where: Placement, duration_s: int) -> dict[str, Any]:
    """Shares of one server under load, in per cent of its core's time."""
    failed: list[BaseException] = []

    def load() -> None:
        try:
            asked([one], mode, where, (duration_s + 2 * LEAD_S) * 1000, 1)
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
        how = ["--sort", "comm,dso", "--stdio"]
        said = subprocess.run(["perf", "report", "-i", data.name, *how], capture_output=True, text=True, check=True)
    found = re.findall(r"^\s*([\d.]+)%\s+(\S+)\s+(\S+)", said.stdout, re.MULTILINE)
    if not any(comm == "apache2" for _, comm, _ in found):
        raise SystemExit(f"perf saw nothing of {one.name}: {said.stdout}{said.stderr}")
    shares = dict.fromkeys(PARTS, 0.0)
    for share, comm, dso in found:
        if comm.startswith("trimtab"):
            shares["gate"] += float(share)
        elif comm == "apache2" and "trimtab" in dso:
            shares["library"] += float(share)
        elif comm == "apache2" and dso == "[vdso]":
            shares["clock"] += float(share)
    return {part: round(share, 2) for part, share in shares.items()}


def said(runs: list[dict[str, Any]]) -> list[str]:
    """A scenario in the summary."""

    def share(name: str, part: str) -> dict[str, float]:
        return median_of(one[part] for one in runs if one["stack"] == name)

    rows = ([name, *(told(share(name, part)) for part in PARTS)] for name in KINDS)
    met = share("shim", "library")["median"] <= MOST
    lines = table(["", *PARTS.values()], rows)
    return [*lines, goal(f"the shim, which only measures, at most {MOST:g} %", met), ""]


def measure(out: Path, quick: bool) -> None:
    """Runs every MPM and mode with all servers and writes the result."""
    before, where = facts(), placements()[0]
    rounds, duration_s = (1, 1) if quick else (ROUNDS, DURATION_S)
    raw: list[dict[str, Any]] = []
    lines = ["Median [its 95 % interval] (least to most) of the rounds, in per cent of the server's core.", ""]
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
