"""How often the accept queue has to be sampled: error of its mean length over 1 s, by period.

    python benchmarks/sensors/sampling_period.py RATE_HZ [OUTPUT_DIRECTORY]

A private Apache with four workers serves pages of about 0.13 s to Poisson arrivals, so at 20 Hz the queue comes and
goes, and at 35 Hz it is always long. Its length is taken every 1.4 ms or so; thinning the samples shows what a longer
period loses against the spread from window to window that no sampling can remove.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trimtab.clock import SystemClock
from trimtab.load import LoadRun
from trimtab.sensors._inet_diag import Address, InetDiag
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed
from trimtab.workloads._population import Connection, Poisson, Population, Url

WINDOWS = 29
PERIODS_S = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
PHASES = 4

Series = NDArray[np.float64]


def watched(rate_hz: float) -> tuple[Series, Series]:
    """Times in seconds and lengths of the queue."""
    users = Population(
        class_name="all",
        arrivals=Poisson(rate_hz),
        pages=(Url("/cgi-bin/service.cgi?service_ms=120"),),
        connection=Connection.PER_REQUEST,
    )
    times: list[float] = []
    lengths: list[int] = []
    spec = ApacheSpec("event", max_request_workers=4, server_limit=1, threads_per_child=4)
    with ApacheTestbed(spec) as apache:
        target, clock = f"127.0.0.1:{apache.port}", SystemClock()
        address, diag = Address(socket.AF_INET, socket.inet_aton("127.0.0.1"), apache.port), InetDiag()
        with LoadRun(target, [users], WINDOWS + 10, clock) as run:
            time.sleep(2)
            end_s = time.monotonic() + WINDOWS + 1
            while (now_s := time.monotonic()) < end_s:
                times.append(now_s)
                lengths.append(diag.find(address).length)
                time.sleep(0.001)
            run.stop()
        diag.close()
    return np.array(times) - times[0], np.array(lengths, dtype=np.float64)


def mean(times: Series, lengths: Series) -> float:
    """The time average by the trapezoidal rule, as the sensor has it."""
    return float(np.sum((lengths[1:] + lengths[:-1]) / 2 * np.diff(times)) / (times[-1] - times[0]))


def error(times: Series, lengths: Series, period_s: float) -> float:
    """Root mean square error of a window's mean when it is sampled at its edges and every `period_s`."""
    errors = []
    for window in range(WINDOWS):
        within = (times >= window) & (times < window + 1)
        full = mean(times[within], lengths[within])
        for phase_s in np.arange(PHASES) * period_s / PHASES:
            due = np.r_[window, np.arange(window + phase_s, window + 0.999, period_s), window + 0.999]
            chosen = np.unique(np.searchsorted(times, due).clip(0, len(times) - 1))
            errors.append(mean(times[chosen], lengths[chosen]) - full)
    return float(np.sqrt(np.mean(np.square(errors))))


def main() -> None:
    """Measures, prints, and writes to a directory when one is given."""
    rate_hz = float(sys.argv[1])
    times, lengths = watched(rate_hz)
    edges = [(times >= w) & (times < w + 1) for w in range(WINDOWS)]
    means = [mean(times[e], lengths[e]) for e in edges]
    figures = {
        "rate_hz": rate_hz,
        "samples": len(times),
        "mean": float(np.mean(means)),
        "spread_of_windows": float(np.std(means)),
        "rms_error_by_period_s": {str(p): error(times, lengths, p) for p in PERIODS_S},
    }
    print(json.dumps(figures, indent=1))
    if len(sys.argv) > 2:
        directory = Path(sys.argv[2])
        directory.mkdir(parents=True, exist_ok=True)
        figures |= {
            "command": f"python benchmarks/sensors/sampling_period.py {sys.argv[1]} {sys.argv[2]}",
            "versions": {"kernel": platform.release(), "python": platform.python_version()},
            "load_average": os.getloadavg()[0],
        }
        name = f"sampling_period_{rate_hz:g}_hz.json"
        (directory / name).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
