"""How far the sensors of an untouched server are off: the terms of Eq. (1) of liu2003 against the shim's exact ones.

    python benchmarks/sensors/against_shim.py [OUTPUT_DIRECTORY] [WINDOWS]

Starts a private Apache (prefork, worker, event; 8 workers) with the shim in it and no gate, so that the kernel's
accept queue is as it was, and reads both in the same windows of 1 s (20 unless told). The ratio of a term is that of
the accept queue and the status page to that of the shim, window by window. Needs root, as the accept queue's arrivals
do. The loads:

| load   | clients                                                                                                |
|--------|--------------------------------------------------------------------------------------------------------|
| light  | 40 pages/s, Poisson, CGI of 120 ms, one connection each: 60 % of the workers                            |
| queued | 16 users without pauses, CGI of 120 ms, one connection each: two for each worker                        |
| bursts | 16 users without pauses, pages of 4 such requests over one connection                                   |
| static | 300 pages/s, Poisson, a file of 500 bytes, one connection each: a request takes less than a millisecond |
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from trimtab import native
from trimtab.clock import SystemClock
from trimtab.core import Readings, Sensor
from trimtab.errors import NotMeasured
from trimtab.gate import run_directory
from trimtab.gate.launch import loadable, preloaded
from trimtab.load import LoadRun
from trimtab.report.text import seconds
from trimtab.sensors import _shared_file
from trimtab.sensors._eq1 import eq1
from trimtab.sensors.accept_queue import AcceptQueue
from trimtab.sensors.server_status import ServerStatus
from trimtab.sensors.shim import Shim
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed
from trimtab.testbed.apache_config import Mpm
from trimtab.testbed.content import WEBSTONE, cgi_url
from trimtab.workloads._distribution import Constant
from trimtab.workloads._population import Closed, Connection, Poisson, Population, Url

WORKERS = 8
WINDOWS = 20
WINDOW_S = 1.0
WARM_S = 2.0
TERMS = {
    "accept_queue_delay_s": "AQT",
    "service_time_s": "ST",
    "burst_length": "BL",
    "response_time_s": "RT",
}
_CGI = (Url(cgi_url(120)),)
LOADS: Mapping[str, Mapping[str, Any]] = {
    "light": {"arrivals": Poisson(40.0), "pages": _CGI},
    "queued": {"arrivals": Closed(2 * WORKERS), "session_pages": Constant(1e9), "pages": _CGI},
    "bursts": {
        "arrivals": Closed(2 * WORKERS),
        "session_pages": Constant(1e9),
        "burst_requests": Constant(4),
        "pages": _CGI,
        "objects": _CGI,
    },
    "static": {"arrivals": Poisson(300.0), "pages": (Url(WEBSTONE[0].path),)},
}


@contextlib.contextmanager
def sensed(mpm: Mpm) -> Iterator[tuple[ApacheTestbed, Path]]:
    """A private Apache with the shim in it and without a gate, and the shim's mapped file."""
    shim = loadable(native.shim_path())
    run_dir = run_directory.claim(f"against-shim-{os.getpid()}")
    try:
        _shared_file.create(run_dir.shared)
        spec = ApacheSpec(mpm, max_request_workers=WORKERS, server_limit=WORKERS, threads_per_child=WORKERS)
        with ApacheTestbed(spec, environment=lambda port: preloaded({}, shim, run_dir, (port,), gated=False)) as bed:
            yield bed, run_dir.shared
    finally:
        run_dir.release()


def window(sensors: Sequence[Sensor], period_s: float) -> tuple[list[Readings], list[str]]:
    """One window, sampled as the sensors ask; what each of them read, and why one could not."""
    for sensor in sensors:
        sensor.begin()
    end_s = time.monotonic() + WINDOW_S
    while (left_s := end_s - time.monotonic()) > 0:
        time.sleep(min(period_s, left_s))
        for sensor in sensors:
            sensor.sample()
    found: list[Readings] = []
    problems = []
    for sensor in sensors:
        try:
            found.append(sensor.read())
        except NotMeasured as error:
            found.append({})
            problems.append(f"{sensor.name}: {error}")
    return found, problems


def terms(readings: Readings) -> dict[str, float]:
    """The terms of Eq. (1) among readings and what follows from them."""
    known = {**readings, **eq1(readings)}
    return {name: known[name] for name in TERMS if name in known}


def compared(mpm: Mpm, load: str, windows: int) -> list[dict[str, Any]]:
    """The terms of each window, of the untouched sensors and of the shim, and what could not be measured."""
    clock = SystemClock()
    users = Population(class_name="all", connection=Connection.PER_PAGE, **LOADS[load])
    found = []
    with sensed(mpm) as (bed, shared):
        status = ServerStatus(bed.status_url.partition("?")[0], clock)
        queue = AcceptQueue([("127.0.0.1", bed.port)], clock, bed.pid, status)
        sensors: list[Sensor] = [queue, status, Shim(shared, clock)]
        try:
            with LoadRun(f"127.0.0.1:{bed.port}", [users], WARM_S + 2 * windows * WINDOW_S + 10, clock) as run:
                time.sleep(WARM_S)
                for _ in range(windows):
                    (of_queue, of_status, of_shim), problems = window(sensors, AcceptQueue.sampling_period_s)
                    untouched = terms({**of_queue, **of_status})
                    found.append({"untouched": untouched, "exact": terms(of_shim), "problems": problems})
                run.stop()
        finally:
            for sensor in sensors:
                sensor.close()
    return found


def ratios(windows: Sequence[Mapping[str, Any]], term: str) -> list[float]:
    """Untouched over exact in the windows in which both measured a term."""
    pairs = [(w["untouched"].get(term), w["exact"].get(term)) for w in windows]
    return [seen / exact for seen, exact in pairs if seen is not None and exact is not None and exact > 0]


def cell(windows: Sequence[Mapping[str, Any]], term: str) -> str:
    """The mean of a term by the shim and by the untouched sensors, and the median ratio with its spread."""
    found = ratios(windows, term)
    absent = len(windows) - len(found)
    if len(found) < 2:
        return f"absent in {absent} of {len(windows)} windows"
    both = [w for w in windows if term in w["untouched"] and term in w["exact"]]
    means = [statistics.fmean(w[source][term] for w in both) for source in ("exact", "untouched")]
    exact, seen = (seconds(mean) if term.endswith("_s") else f"{mean:.2f}" for mean in means)
    low, *_, high = statistics.quantiles(found, n=10, method="inclusive")
    spread = f"{statistics.median(found):.2f} ({low:.2f} to {high:.2f})"
    return f"{exact}, {seen}: {spread}" + (f", {absent} absent" if absent else "")


def summary(figures: Mapping[str, Any], windows: int, load_average: float) -> str:
    """The figures as a page of Markdown."""
    rows = []
    for mpm, loads in figures.items():
        rows += [f"| {mpm} | {load} | {' | '.join(cell(w, t) for t in TERMS)} |" for load, w in loads.items()]
    return "\n".join(
        [
            "# Eq. (1) of the untouched sensors against the shim",
            "",
            f"Private Apache, {WORKERS} workers, {windows} windows of {WINDOW_S:g} s for each load (the first lines "
            "of the script say which). Of each term: its mean by the shim, that by accept queue and status page, and "
            "the ratio of the second to the first in the same window, median (10th to 90th percentile). Without a "
            "gate the shim's AQT is in steps of the kernel's clock, right on average.",
            "",
            f"| MPM | load | {' | '.join(TERMS.values())} |",
            f"|---|---|{'---|' * len(TERMS)}",
            *rows,
            "",
            f"Load average before the run: {load_average:.1f} on {os.cpu_count()} cores"
            + (": the machine was busy, so take these again on an idle one." if load_average > 1 else "."),
            "",
        ]
    )


def main() -> None:
    """Measures, prints, and writes to a directory when one is given."""
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    windows = int(sys.argv[2]) if len(sys.argv) > 2 else WINDOWS
    load_average = os.getloadavg()[0]
    figures = {mpm: {load: compared(mpm, load, windows) for load in LOADS} for mpm in get_args(Mpm)}
    text = summary(figures, windows, load_average)
    print(text)
    if directory is None:
        return
    apache = subprocess.run(["apache2", "-v"], capture_output=True, text=True, check=False).stdout.splitlines()[:1]
    versions = {"kernel": platform.release(), "python": platform.python_version(), "apache": apache}
    command = f"python benchmarks/sensors/against_shim.py {' '.join(sys.argv[1:])}"
    raw = {"command": command, "load_average": load_average, "versions": versions, "windows": figures}
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "against_shim.json").write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
    (directory / "summary.md").write_text(f"{text}\n    {command}\n\n{json.dumps(versions)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
