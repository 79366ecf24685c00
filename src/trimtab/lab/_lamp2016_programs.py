"""The benchmarks of lamp2016, each as what starts one run: ab and wrk as pts/apache has them, PHP, open arrivals.

pts/apache 1.6.1, of the paper's year, is `ab -n 1000000 -c 100` on a page of 3064 bytes without kept connections;
here it runs by time, not by count. pts/apache 3.0.0, of today, is `wrk` with kept connections.
"""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Callable, Sequence

from trimtab import own
from trimtab.clock import SystemClock
from trimtab.core import Readings
from trimtab.errors import NotMeasured, TrimtabError, UsageError
from trimtab.load import LoadRun
from trimtab.sensors.benchmark import Result
from trimtab.workloads._population import Population

CLIENTS = 100
PATIENCE_S = 30.0
_MS = 1e-3
_UNITS = {"us": 1e-6, "ms": _MS, "s": 1.0}
Read = Callable[[str], Readings | None]
"""Reads what a program has printed; None where that is no result."""


def ab(url: str, duration_s: float, cpus: Sequence[int]) -> Result:
    """Requests a second of ab, without kept connections.

    Args:
        url: the page.
        duration_s: whole seconds.
        cpus: those that it may run on.
    """
    words = ["-q", "-t", f"{duration_s:.0f}", "-n", "100000000", "-c", str(CLIENTS), url]
    return _program("ab", words, cpus, duration_s, _of_ab)


def wrk(url: str, duration_s: float, cpus: Sequence[int]) -> Result:
    """Requests a second of wrk, with kept connections.

    Args:
        url: the page.
        duration_s: whole seconds.
        cpus: those that it may run on.
    """
    words = ["-t", str(len(cpus)), "-c", str(CLIENTS), "-d", f"{duration_s:.0f}s", "--latency", url]
    return _program("wrk", words, cpus, duration_s, _of_wrk)


def php(port: int, duration_s: float) -> Result:
    """Rounds a second of the set of small PHP functions that listens on a port (`benchmark.php`)."""
    client = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
    client.sendall(f"{duration_s}\n".encode())

    def result() -> Readings:
        with client, client.makefile() as said:
            client.settimeout(duration_s + PATIENCE_S)
            try:
                return {"benchmark_score": float(said.readline())}
            except (OSError, ValueError) as error:
                raise NotMeasured(f"the PHP benchmark gave no score: {error}") from None

    return result


def arrivals(port: int, clients: Sequence[Population], duration_s: float, seed: int, cpu: int | None) -> Result:
    """Pages a second and the 99th percentile of open arrivals, from when each was to begin."""
    run = LoadRun(f"127.0.0.1:{port}", clients, duration_s, SystemClock(), seed=seed, cpu=cpu)

    def result() -> Readings:
        with run:
            try:
                (found,) = run.wait().classes
            except TrimtabError as error:
                raise NotMeasured(f"load generator: {error}") from None
        readings = {
            "benchmark_score": found.pages / duration_s,
            "benchmark_errors": float(sum(found.errors.values())),
        }
        if found.page_intended.p99_s is not None:
            readings["benchmark_p99_s"] = found.page_intended.p99_s
        return readings

    return result


def _program(name: str, words: Sequence[str], cpus: Sequence[int], duration_s: float, read: Read) -> Result:
    """Starts a program on some CPUs.

    Raises:
        UsageError: it is not installed.
    """
    found, taskset = own.program(name), own.program("taskset")
    if found is None or taskset is None:
        raise UsageError(f"{name} is not installed: make setup-lab installs it")
    command = [taskset, "-c", ",".join(map(str, cpus)), found, *words]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )

    def result() -> Readings:
        with process:
            try:
                said, _ = process.communicate(timeout=duration_s + PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise NotMeasured(f"{name} did not end") from None
        assert callable(read)
        readings: Readings | None = read(said) if process.returncode == 0 else None
        if readings is None:
            raise NotMeasured(f"{name}: {' '.join(said.split())[-200:]}")
        return readings

    return result


def _of_ab(said: str) -> Readings | None:
    rate = re.search(r"^Requests per second:\s+([\d.]+)", said, re.MULTILINE)
    p99 = re.search(r"^\s*99%\s+(\d+)", said, re.MULTILINE)
    failed = re.search(r"^Failed requests:\s+(\d+)", said, re.MULTILINE)
    if rate is None or p99 is None or failed is None:
        return None
    return {
        "benchmark_score": float(rate[1]),
        "benchmark_p99_s": int(p99[1]) * _MS,
        "benchmark_errors": float(failed[1]),
    }


def _of_wrk(said: str) -> Readings | None:
    rate = re.search(r"^Requests/sec:\s+([\d.]+)", said, re.MULTILINE)
    p99 = re.search(r"^\s*99%\s+([\d.]+)(us|ms|s)$", said, re.MULTILINE)
    if rate is None or p99 is None:
        return None
    bad = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", said)
    wrong = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    errors = sum(map(int, bad.groups())) if bad else 0
    return {
        "benchmark_score": float(rate[1]),
        "benchmark_p99_s": float(p99[1]) * _UNITS[p99[2]],
        "benchmark_errors": float(errors + (int(wrong[1]) if wrong else 0)),
    }
