"""Shared parts of the benchmarks of the load generator: cores, the responder, and results in dated folders."""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trimtab.native import program

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def cores() -> tuple[int, int]:
    """The core for the server and the one for the generator; the same one where there is only one."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[-1]


NICENESS = -10 if os.geteuid() == 0 else 0
"""For generators and servers alike, so that a figure says little about what else the machine does."""


def favoured(core: int) -> list[str]:
    """Command prefix that pins a command to a core and lets it go before its neighbours."""
    return ["nice", "-n", str(NICENESS), "taskset", "-c", str(core)]


def favour(pid: int) -> None:
    """Lets a running process go before its neighbours."""
    os.setpriority(os.PRIO_PROCESS, pid, NICENESS)


@contextmanager
def responder(core: int, reply: Path | None = None) -> Iterator[tuple[int, str]]:
    """The server that answers at once (native/load/examples/responder.rs), pinned to a core.

    Args:
        core: that core.
        reply: a file that holds the whole reply; None for a small one.

    Yields:
        its process id, and its address and port.
    """
    build = ["cargo", "build", "--quiet", "--release", "-p", "trimtab-load", "--example", "responder"]
    subprocess.run(build, cwd=ROOT / "native", check=True)
    binary = ROOT / "native" / "target" / "release" / "examples" / "responder"
    process = subprocess.Popen(
        [*favoured(core), str(binary), *([str(reply)] if reply else [])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.pid, process.stdout.readline().strip()
    finally:
        process.communicate()


def conditions() -> dict[str, Any]:
    """The machine and the programs, as far as a reader needs them to judge a figure; no names, no paths."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*:\s*(.+)", cpuinfo)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit,
        "program_bytes": program().stat().st_size,
        "cores": os.cpu_count(),
        "cpu": model[1] if model else platform.machine(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "niceness": NICENESS,
        "load_average_before": [round(x, 2) for x in os.getloadavg()],
    }


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_bytes(pid: int) -> int:
    """The most resident memory that a process has held."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("the kernel does not say VmHWM")


def save(name: str, command: str, facts: dict[str, Any], figures: dict[str, Any], raw: list[dict[str, Any]]) -> Path:
    """Writes one benchmark's result into today's folder, or into the next free one where it has a result already.

    Args:
        name: of the benchmark.
        command: that repeats it.
        facts: `conditions()` from before it ran.
        figures: what was found, with the target and whether it is met.
        raw: what it was computed from.
    """
    facts = facts | {"load_average_after": [round(x, 2) for x in os.getloadavg()]}
    folder, number = RESULTS / f"{facts['date']}-load", 1
    while (folder / f"{name}.json").exists():
        number += 1
        folder = RESULTS / f"{facts['date']}-load-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    result = {"benchmark": name, "command": command, "conditions": facts, "figures": figures, "raw": raw}
    (folder / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    _summarise(folder)
    print(json.dumps(figures, indent=1))
    return folder


def _summarise(folder: Path) -> None:
    """Writes summary.md from the results in a folder."""
    lines = ["# Load generator", ""]
    for path in sorted(folder.glob("*.json")):
        result = json.loads(path.read_text())
        facts, figures = result["conditions"], result["figures"]
        lines += [f"## {result['benchmark']}", "", f"    {result['command']}", "", "| figure | value |", "|---|---|"]
        lines += [f"| {key.replace('_', ' ')} | {value} |" for key, value in figures.items()]
        lines += ["", "Conditions: " + ", ".join(f"{key} {value}" for key, value in facts.items()), ""]
        if facts["load_average_before"][0] > 1.0:
            lines += ["**The machine was busy with other work during this run (see the load averages).**", ""]
    (folder / "summary.md").write_text("\n".join(lines))
