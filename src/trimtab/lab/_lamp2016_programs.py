"""The benchmarks of lamp2016: each function starts one run, and gives a function that waits for its result.

pts/apache 1.6.1, of the paper's year, is `ab -n 1000000 -c 100` on a page of 3064 bytes without kept connections;
here it runs by time, not by count. pts/apache 3.0.0, of today, is `wrk` with kept connections. pts/mysqlslap 1.5.0 is
`mariadb-slap` with tables that it generates, pts/mariadb 1.0.0 is sysbench's `oltp_read_write` for 200 s on 16 tables
of a million rows; here its tables are as small as a run of some seconds allows, and lie in memory either way.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from trimtab import own
from trimtab.clock import SystemClock
from trimtab.core import Readings
from trimtab.errors import NotMeasured, TrimtabError, UsageError
from trimtab.load import LoadRun
from trimtab.sensors.benchmark import Result
from trimtab.workloads._population import Population

CLIENTS = 100
PATIENCE_S = 30.0
SLAP_QUERIES, SLAP_ITERATIONS = 100, 4
"""Queries of each client in an iteration, and iterations; pts has 1000 and 100."""
SYSBENCH_TABLES, SYSBENCH_ROWS, SYSBENCH_THREADS = 4, 10_000, 16
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


def slap(database: Path, cpus: Sequence[int]) -> Result:
    """Iterations in 1000 s of mariadb-slap, which pts/mysqlslap calls queries a second; it ends by itself.

    Args:
        database: the server's socket.
        cpus: those that it may run on.
    """
    words = ["--no-defaults", f"--socket={database}", "--auto-generate-sql", "--auto-generate-sql-add-autoincrement"]
    words += ["--engine=innodb", "--number-int-cols=4", "--number-char-cols=4", f"--concurrency={CLIENTS}"]
    words += [f"--auto-generate-sql-execute-number={SLAP_QUERIES}", f"--iterations={SLAP_ITERATIONS}"]
    return _program("mariadb-slap", words, cpus, PATIENCE_S, _of_slap)


def prepare_sysbench(database: Path) -> None:
    """Makes sysbench's tables.

    Args:
        database: the server's socket.

    Raises:
        UsageError: sysbench is not installed.
        NotMeasured: the tables could not be made; the message carries what it said.
    """
    _program("sysbench", [*_sysbench_words(database), "prepare"], (), PATIENCE_S, lambda said: {})()


def sysbench(database: Path, duration_s: float, cpus: Sequence[int]) -> Result:
    """Queries a second of sysbench's oltp_read_write.

    Args:
        database: the server's socket.
        duration_s: whole seconds.
        cpus: those that it may run on.
    """
    words = [*_sysbench_words(database), f"--threads={SYSBENCH_THREADS}", f"--time={duration_s:.0f}"]
    return _program("sysbench", [*words, "--percentile=99", "run"], cpus, duration_s, _of_sysbench)


def _sysbench_words(database: Path) -> list[str]:
    user = pwd.getpwuid(os.geteuid()).pw_name
    account = [f"--mysql-socket={database}", f"--mysql-user={user}", "--mysql-db=shop"]
    return ["oltp_read_write", *account, f"--tables={SYSBENCH_TABLES}", f"--table-size={SYSBENCH_ROWS}"]


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
    """Starts a program on some CPUs, or on all where none is named.

    Raises:
        UsageError: it is not installed.
    """
    found, taskset = own.program(name), own.program("taskset")
    if found is None or taskset is None:
        raise UsageError(f"{name} is not installed: make setup-lab installs it")
    confined = [taskset, "-c", ",".join(map(str, cpus))] if cpus else []
    command = [*confined, found, *words]
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
        readings = read(said) if process.returncode == 0 else None
        if readings is None:
            raise NotMeasured(f"{name}: {' '.join(said.split())[-200:]}")
        return readings

    return result


def _of_ab(said: str) -> Readings | None:
    return _rated(said, r"Requests per second:\s+([\d.]+)", r"\s*99%\s+(\d+)", r"Failed requests:\s+(\d+)")


def _rated(said: str, *patterns: str) -> Readings | None:
    """Rate, 99th percentile in ms and failed requests, each from the line that its pattern begins."""
    found = [one[1] for pattern in patterns if (one := re.search(f"^{pattern}", said, re.MULTILINE))]
    if len(found) < len(patterns):
        return None
    rate, p99_ms, failed = map(float, found)
    return {"benchmark_score": rate, "benchmark_p99_s": p99_ms * _MS, "benchmark_errors": failed}


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


def _of_slap(said: str) -> Readings | None:
    average = re.search(r"Average number of seconds to run all queries:\s+([\d.]+) seconds", said)
    return {"benchmark_score": 1000 / float(average[1])} if average and float(average[1]) > 0 else None


def _of_sysbench(said: str) -> Readings | None:
    rate = r"\s*queries:\s+\d+\s+\(([\d.]+) per sec\.\)"
    return _rated(said, rate, r"\s*99th percentile:\s+([\d.]+)", r"\s*ignored errors:\s+(\d+)")
