"""The time of a request from nginx's page of stub_status against nginx's own log, and what it costs to ask.

    PYTHONPATH=. python benchmarks/sensors/nginx.py OUTPUT_DIRECTORY

Starts a private nginx with Debian's configuration, which logs how long each request took, and runs windows of 2 s
under each load: pages that wait 50 ms, with independent arrivals and with clients in step; and a file from the page
cache, with one process and with two. Of each window: the sensor's service time and the log's mean. The cost to this
process is its CPU time in the sensor; that to nginx the CPU time of its processes without traffic, with the sensor
less without, in alternation.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.servers._private_nginx import Bed, private

from trimtab.clock import SystemClock
from trimtab.load import LoadRun
from trimtab.plants.nginx.stub_status import StubStatus
from trimtab.testbed.content import WEBSTONE
from trimtab.workloads._population import Connection, ConstantRate, Population, Url
from trimtab.workloads.closed_loop import ClosedLoop

WINDOWS, WINDOW_S = 20, 2.0
TIMES = "log_format times '$request_uri $request_time'; access_log logs/times.log times;"
FILE = WEBSTONE[0].path
TICKS_HZ = os.sysconf("SC_CLK_TCK")


def once(path: str, rate_hz: float) -> tuple[Population, ...]:
    """Independent arrivals, a connection each."""
    return (
        Population(
            class_name="once",
            pages=(Url(path),),
            arrivals=ConstantRate(rate_hz),
            connection=Connection.PER_REQUEST,
        ),
    )


def loads() -> dict[str, tuple[str, int, tuple[Population, ...]]]:
    """Path, processes and clients of each load."""
    in_step = ClosedLoop(connections=16, think_s=0.02, urls=(Url("/wait"),)).populations()
    return {
        "waits 50 ms, 200/s independent": ("/wait", 2, once("/wait", 200.0)),
        "waits 50 ms, 16 clients in step": ("/wait", 2, in_step),
        "file, 500/s, one process": (FILE, 1, once(FILE, 500.0)),
        "file, 500/s, two processes": (FILE, 2, once(FILE, 500.0)),
    }


def logged(bed: Bed, path: str) -> list[float]:
    """The times that nginx logged for a path, in seconds."""
    rows = (line.split() for line in (bed.testbed.directory / "logs" / "times.log").read_text().splitlines())
    return [float(time_s) for uri, time_s in rows if uri == path]


def cpu_s(bed: Bed) -> float:
    """CPU time of nginx's processes so far."""
    pids = [bed.pid, *map(int, Path(f"/proc/{bed.pid}/task/{bed.pid}/children").read_text().split())]
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(f[11]) + int(f[12]) for f in fields) / TICKS_HZ


def window(sensor: StubStatus, length_s: float) -> tuple[dict[str, float], float]:
    """The readings of a window, and the CPU time of this process in the sensor."""
    began_s, end_s = time.process_time(), time.monotonic() + length_s
    sensor.begin()
    while time.monotonic() < end_s:
        time.sleep(sensor.sampling_period_s)
        sensor.sample()
    return dict(sensor.read()), time.process_time() - began_s


def accuracy(bed: Bed) -> dict[str, list[dict[str, Any]]]:
    """Windows of every load."""
    clock, found = SystemClock(), dict[str, list[dict[str, Any]]]()
    nginx = bed.attach()
    for name, (path, processes, clients) in loads().items():
        nginx.apply({"worker_processes": processes})
        sensor = StubStatus(bed.testbed.url("/nginx_status"), clock)
        found[name] = []
        with LoadRun(f"127.0.0.1:{bed.testbed.port}", clients, 600.0, clock, seed=1):
            clock.sleep(1.0)
            for _ in range(WINDOWS):
                before = len(logged(bed, path))
                readings, _ = window(sensor, WINDOW_S)
                times = logged(bed, path)[before:]
                found[name].append({"log_s": statistics.mean(times), "requests": len(times), **readings})
        sensor.close()
    nginx.restore()
    return found


def cost(bed: Bed) -> dict[str, float]:
    """Shares of a core, here and in nginx, without traffic."""
    sensor = StubStatus(bed.testbed.url("/nginx_status"), SystemClock())
    ours, theirs = 0.0, {True: 0.0, False: 0.0}
    for _ in range(5):
        for asks in (True, False):
            before_s = cpu_s(bed)
            if asks:
                ours += window(sensor, 5.0)[1]
            else:
                time.sleep(5.0)
            theirs[asks] += cpu_s(bed) - before_s
    sensor.close()
    return {"here_ratio": ours / 25, "nginx_ratio": (theirs[True] - theirs[False]) / 25}


def summary(raw: dict[str, Any], out: Path) -> str:
    """The page."""
    rows = []
    for name, windows in raw["accuracy"].items():
        log = [w["log_s"] * 1000 for w in windows]
        ours = [w["service_time_s"] * 1000 for w in windows]
        nine = statistics.quantiles(ours, n=10)
        rows.append(
            f"| {name} | {statistics.mean(log):.3g} ms | {statistics.mean(ours):.3g} ms | "
            f"{nine[0]:.3g} to {nine[-1]:.3g} ms |"
        )
    return "\n".join(
        (
            "# The time of a request from stub_status against nginx's log",
            "",
            f"Debian's nginx, {WINDOWS} windows of {WINDOW_S:g} s for each load. nginx logs steps of 1 ms, cut off.",
            "",
            "| load | log, mean | sensor, mean | sensor, 10th to 90th percentile of the windows |",
            "|---|---|---|---|",
            *rows,
            "",
            f"It costs {raw['cost']['here_ratio']:.2%} of a core here and {raw['cost']['nginx_ratio']:.2%} in nginx.",
            "",
            f"Load average before the run: {raw['load_average']:.1f} on {os.cpu_count()} cores.",
            "",
            f"    PYTHONPATH=. python benchmarks/sensors/nginx.py benchmarks/results/{out.name}",
            "",
            json.dumps(raw["conditions"]),
            "",
        )
    )


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True)
    version = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=True).stderr.strip()
    raw: dict[str, Any] = {"load_average": os.getloadavg()[0]}
    raw["conditions"] = {"kernel": platform.release(), "python": platform.python_version(), "nginx": version}
    with private() as bed:
        bed.replace("access_log [^;]*;", TIMES)
        os.kill(bed.pid, signal.SIGHUP)
        time.sleep(1.0)
        raw["accuracy"] = accuracy(bed)
        raw["cost"] = cost(bed)
    (out / "windows.json").write_text(json.dumps(raw, indent=1) + "\n")
    (out / "summary.md").write_text(summary(raw, out))
    print(summary(raw, out))


if __name__ == "__main__":
    main()
