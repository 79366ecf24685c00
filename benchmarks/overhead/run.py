"""Measures what `trimtab tune` itself uses: CPU time and memory, with windows of one second unless told.

    python benchmarks/overhead/run.py --out benchmarks/results/2026-11-21-overhead
    python benchmarks/overhead/run.py --plant linux --controllers climb --window 5 --out DIR
    python benchmarks/overhead/run.py --plant linux --controllers static --against SRC --repeats 4 --out DIR

A private Apache is loaded by a closed loop; every controller tunes it for a minute. CPU time is that of the trimtab
process by /proc/PID/stat, start-up included and apart; that of the programs it starts (Apache's configuration test)
is reported beside it; memory is the peak resident set (VmHWM). No other load should run.

With `--plant linux` it is `trimtab tune linux` with the sensors of that Apache, which has 150 workers and twice as
many clients. `--against` names the `src` directory of another trimtab, which takes turns with this one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from trimtab import own
from trimtab.clock import SystemClock
from trimtab.load import LoadRun
from trimtab.store import Store
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed
from trimtab.testbed.content import WEBSTONE
from trimtab.workloads._population import Connection, Url
from trimtab.workloads.closed_loop import ClosedLoop

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
START_UP_S = 5.0
TARGET_CPU_RATIO = 0.01
WORKERS = 150
OTHER = "import sys; sys.path.insert(0, sys.argv.pop(1)); from trimtab.cli import main; sys.exit(main(sys.argv[1:]))"
TARGET_MEMORY_BYTES = 100e6


def main() -> None:
    """Runs the measurement and writes its folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--controllers", default="static,trim,fuzzy")
    parser.add_argument("--duration", type=int, default=60, help="seconds for each controller")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--window", type=int, default=1, help="seconds of a window; `tune linux` has 5 by default")
    parser.add_argument("--plant", choices=("apache", "linux"), default="apache")
    parser.add_argument("--against", type=Path, metavar="SRC", help="another trimtab's src directory")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    runs = []
    for repeat in range(args.repeats):
        for controller in args.controllers.split(","):
            # They take turns in going first.
            for source in [None, *([args.against] if args.against else ())][:: 1 if repeat % 2 else -1]:
                runs.append(measured(controller, args.duration, args.window, args.plant, source))
                print(json.dumps(runs[-1]), flush=True)
    args.out.mkdir(parents=True, exist_ok=False)
    write(args.out, runs, args.window)


def measured(controller: str, duration_s: int, window_s: int, plant: str, source: Path | None) -> dict[str, Any]:
    """What one run used.

    Args:
        controller: the controller.
        duration_s: how long it tunes, in seconds.
        window_s: length of a window, in seconds.
        plant: "apache" or "linux".
        source: the src directory of another trimtab; None for this one.
    """
    if plant == "apache":
        spec = ApacheSpec(max_request_workers=20, server_limit=64, keep_alive_timeout_ms=200)
        connections, think_s = 32, 0.1
    else:
        spec = ApacheSpec(max_request_workers=WORKERS, server_limit=WORKERS, cores=1.0)
        connections, think_s = 2 * WORKERS, 0.0
    clients = ClosedLoop(
        connections=connections, think_s=think_s, urls=(Url(WEBSTONE[0].path),), connection=Connection.PER_PAGE
    ).populations()
    trimtab = own.TRIMTAB if source is None else (sys.executable, "-I", "-c", OTHER, str(source))
    with (
        tempfile.TemporaryDirectory() as directory,
        ApacheTestbed(spec) as bed,
        LoadRun(f"127.0.0.1:{bed.port}", clients, duration_s + 60.0, SystemClock()),
    ):
        store = Path(directory) / "runs.sqlite"  # read by this trimtab, whoever wrote it
        apache = ("--status-url", bed.status_url, "--snippet-directory", str(bed.snippet_directory))
        process = subprocess.Popen(
            [
                *(*trimtab, "tune", plant, "--controller", controller, "--window", f"{window_s}s"),
                *("--duration", f"{duration_s}s", "--pid", str(bed.pid), "--store", str(store)),
                *(apache if plant == "apache" else ()),
            ],
            stdout=subprocess.DEVNULL,
        )
        used = followed(process, duration_s - window_s)
        assert process.returncode == 0
        moves = [m for m in Store(store).moves(1) if m.configuration is not None]
        windows = len(Store(store).windows(1))
    whose = {} if source is None else {"source": str(source)}
    return {"controller": controller, **whose, **used, "windows": windows, "changes": len(moves)}


def followed(process: subprocess.Popen[bytes], until_s: int) -> dict[str, float]:
    """Reads a process's use until it ends: the last figures seen are at most 50 ms old.

    It tunes from five seconds after its start to `until_s` after it: a run ends with its last whole window, and then
    loads the library that sums it up.
    """
    began = time.monotonic()
    start_up_s: float | None = None
    at_s = own_s = children_s = peak_bytes = 0.0
    while process.poll() is None:
        try:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            status = Path(f"/proc/{process.pid}/status").read_text()
        except FileNotFoundError:
            break
        if "VmHWM:" in status:
            at_s = time.monotonic() - began
            own_s = (int(fields[11]) + int(fields[12])) * TICK_S
            children_s = (int(fields[13]) + int(fields[14])) * TICK_S
            peak_bytes = int(status.partition("VmHWM:")[2].split()[0]) * 1024
            if start_up_s is None and at_s >= START_UP_S:
                start_up_s, start_up_at_s = own_s, at_s
            if at_s <= until_s:
                tuned_s, tuned_at_s = own_s, at_s
        time.sleep(0.05)
    process.wait()
    assert start_up_s is not None
    return {
        "elapsed_s": round(at_s, 2),
        "cpu_s": round(own_s, 2),
        "cpu_ratio": round(own_s / at_s, 5),
        "cpu_ratio_after_start_up": round((tuned_s - start_up_s) / (tuned_at_s - start_up_at_s), 5),
        "children_cpu_s": round(children_s, 2),
        "peak_memory_bytes": peak_bytes,
    }


def write(out: Path, runs: list[dict[str, Any]], window_s: int) -> None:
    """The raw data, and a summary that a person reads."""
    (out / "runs.json").write_text("".join(json.dumps(run) + "\n" for run in runs))
    ours = [run for run in runs if "source" not in run]
    worst_cpu = max(run["cpu_ratio_after_start_up"] for run in ours)
    start_up_s = max(run["cpu_s"] - run["cpu_ratio_after_start_up"] * run["elapsed_s"] for run in runs)
    worst_memory = max(run["peak_memory_bytes"] for run in runs)
    lines = [
        f"# What trimtab itself uses while it tunes with windows of {window_s} s",
        "",
        f"    {' '.join(['python', *sys.argv])}",
        "",
        f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, Python {platform.python_version()}; "
        f"load average at the end {os.getloadavg()[0]:.1f}.",
        "",
        "| controller | windows | changes | CPU, whole run | CPU after 5 s | CPU of its children | peak memory |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['controller']}{', the other' if 'source' in r else ''} | {r['windows']} | {r['changes']} | "
        f"{r['cpu_ratio']:.2%} | {r['cpu_ratio_after_start_up']:.2%} | {r['children_cpu_s']:.2f} s | "
        f"{r['peak_memory_bytes'] / 1e6:.1f} MB |"
        for r in runs
    ]
    kept_cpu = "met" if worst_cpu < TARGET_CPU_RATIO else "missed"
    kept_memory = "met" if worst_memory < TARGET_MEMORY_BYTES else "missed"
    lines += [
        *ratio(ours, [run for run in runs if "source" in run]),
        "",
        f"Worst CPU after start-up: {worst_cpu:.2%} of one core; target below 1 %: {kept_cpu}. Start-up costs at "
        f"most {start_up_s:.2f} s of CPU, once.",
        f"Worst peak memory: {worst_memory / 1e6:.1f} MB; target below 100 MB: {kept_memory}.",
        "",
    ]
    (out / "summary.md").write_text("\n".join(lines))


def ratio(ours: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[str]:
    """How this trimtab's CPU time compares with the other's, pair by pair."""
    if not others:
        return []
    name = "cpu_ratio_after_start_up"
    pairs = [one[name] / other[name] for one, other in zip(ours, others, strict=True)]
    middle = statistics.median(pairs)
    return [
        "",
        f"CPU after 5 s, to the other's: {middle:.2f} ({min(pairs):.2f} to {max(pairs):.2f}, {len(pairs)} pairs).",
    ]


if __name__ == "__main__":
    main()
