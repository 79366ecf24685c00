"""Measures the cost of the sensors: CPU time per call, and of all together with windows of one second.

    python benchmarks/sensors/overhead.py [OUTPUT_DIRECTORY]

Starts a private Apache (prefork, 150 workers), calls each sensor many times and prints the CPU time of this process
per call; then runs the sensors as the loop does, in windows of 1 s, and prints the share of a core. The cost to the
server is the CPU time of its control group with the sensors less that without, in alternation. Needs root.

After a sleep the caches are cold, the more so on a machine that is busy with other things: the load average is
written down too, and what it costs to wake up and do nothing.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from trimtab.clock import SystemClock
from trimtab.core.sensor import Sensor
from trimtab.sensors.accept_queue import AcceptQueue
from trimtab.sensors.connections import Connections, Worker
from trimtab.sensors.resources import Resources
from trimtab.sensors.server_status import ServerStatus
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed

WORKERS = 150
WINDOWS = 20
CALLS = 500
SHORT_WINDOWS = 40


def per_call_us(call: Callable[[], object], calls: int = CALLS) -> float:
    """CPU time of this process per call, the median of five rounds, in microseconds."""
    rounds = []
    for _ in range(5):
        began_s = time.process_time()
        for _ in range(calls):
            call()
        rounds.append((time.process_time() - began_s) / calls * 1e6)
    return statistics.median(rounds)


def short_window(sensor: Sensor) -> None:
    """A window that is just long enough for the status page to be asked for at both edges."""
    sensor.begin()
    time.sleep(0.025)
    sensor.read()


def windows(sensors: list[Sensor], count: int) -> list[float]:
    """CPU time of this process in each of some windows of 1 s, sampled as they ask, in seconds."""
    costs = []
    for _ in range(count):
        began_s, end_s = time.process_time(), time.monotonic() + 1.0
        for sensor in sensors:
            sensor.begin()
        next_s = time.monotonic()
        while (now_s := time.monotonic()) < end_s:
            if now_s >= next_s:
                for sensor in sensors:
                    if sensor.sampling_period_s > 0:
                        sensor.sample()
                next_s += AcceptQueue.sampling_period_s
            time.sleep(max(0.0, min(next_s, end_s) - time.monotonic()))
        for sensor in sensors:
            sensor.read()
        costs.append(time.process_time() - began_s)
    return costs


def server_cpu_s(apache: ApacheTestbed) -> float:
    """CPU time of the server so far."""
    group = apache.cgroups.get("cpuacct")
    if group is not None:
        return int((group / "cpuacct.usage").read_text(encoding="ascii")) / 1e9
    text = (apache.cgroups["cpu"] / "cpu.stat").read_text(encoding="ascii")
    return int(text.split()[1]) / 1e6


def measure() -> dict[str, Any]:
    """All figures."""
    clock = SystemClock()
    spec = ApacheSpec("prefork", max_request_workers=WORKERS, server_limit=WORKERS, cores=1.0)
    with ApacheTestbed(spec) as apache:
        status = ServerStatus(apache.status_url.partition("?")[0], clock)
        queue = AcceptQueue([("127.0.0.1", apache.port)], clock, apache.pid, status)
        resources = Resources(apache.pid, clock)
        held = Connections([("127.0.0.1", apache.port)], clock, apache.pid, Worker.CONNECTION)
        sensors: list[Sensor] = [queue, resources, held, status]
        calls = {}
        for sensor in sensors:
            sensor.begin()
            calls[sensor.name] = {
                "sample_us": per_call_us(sensor.sample),
                "begin_and_read_us": per_call_us(partial(short_window, sensor), SHORT_WINDOWS),
            }
        status.close()
        with_sensors, without = [], []
        costs = []
        for _ in range(WINDOWS // 5):
            before_s = server_cpu_s(apache)
            costs += windows(sensors, 5)
            between_s = server_cpu_s(apache)
            time.sleep(5.0)
            with_sensors.append((between_s - before_s) / 5)
            without.append((server_cpu_s(apache) - between_s) / 5)
        for sensor in sensors:
            sensor.close()
    waiting = windows([], 5)  # Wakes up as often and does nothing.
    return {
        "calls": calls,
        "window_cpu_s": costs,
        "loop_alone_cpu_s": waiting,
        "server_cpu_s_per_s": {"with": with_sensors, "without": without},
    }


def summary(figures: dict[str, Any]) -> str:
    """The figures as a page of Markdown."""
    share = statistics.mean(figures["window_cpu_s"])
    largest = max(figures["window_cpu_s"])
    alone = statistics.mean(figures["loop_alone_cpu_s"])
    server = figures["server_cpu_s_per_s"]
    added = statistics.mean(server["with"]) - statistics.mean(server["without"])
    rows = [
        f"| {name} | {cost['sample_us']:.1f} | {cost['begin_and_read_us']:.0f} |"
        for name, cost in figures["calls"].items()
    ]
    return "\n".join(
        [
            "# What the sensors cost",
            "",
            f"Private Apache, prefork, {WORKERS} workers; {len(figures['window_cpu_s'])} windows of 1 s; "
            f"samples every {AcceptQueue.sampling_period_s * 1000:.0f} ms.",
            "",
            "| sensor | CPU per sample, us | CPU per begin and read, us |",
            "|---|---|---|",
            *rows,
            "",
            f"All together: {share:.2%} of a core in windows of 1 s (largest {largest:.2%}); "
            f"a loop of such windows without sensors: {alone:.2%}. Target: 0.6 %.",
            "",
            f"The server's own CPU rises by {added:.2%} of a core, for its status page.",
            "",
        ]
    )


def main() -> None:
    """Measures, prints, and writes to a directory when one is given."""
    figures = measure()
    text = summary(figures)
    print(text)
    if len(sys.argv) > 1:
        apache = subprocess.run(["apache2", "-v"], capture_output=True, text=True, check=False).stdout.splitlines()[
            :1
        ]
        load = os.getloadavg()[0]
        versions = {
            "load_average": load,
            "kernel": platform.release(),
            "python": platform.python_version(),
            "apache": apache,
        }
        command = f"python benchmarks/sensors/overhead.py {sys.argv[1]}"
        directory = Path(sys.argv[1])
        directory.mkdir(parents=True, exist_ok=True)
        raw = {"command": command, "versions": versions, **figures}
        (directory / "overhead.json").write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
        (directory / "summary.md").write_text(f"{text}\n    {command}\n\n{json.dumps(versions)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
