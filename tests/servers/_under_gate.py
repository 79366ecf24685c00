"""A private, unmodified Apache that `trimtab run` has started, and clients whose source address says their class."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trimtab.clock import SystemClock
from trimtab.gate import run_directory
from trimtab.gate.run_directory import RunDirectory
from trimtab.gate.server import processes_of
from trimtab.plants.gate import Gate
from trimtab.processes import parent_of
from trimtab.testbed import apache_config, content
from trimtab.testbed._private import free_ports, worker_user
from trimtab.testbed.apache import module_directory, program
from trimtab.testbed.apache_config import ApacheSpec, Mpm
from trimtab.testbed.content import WEBSTONE

PAGE = WEBSTONE[0].path
PREMIUM, BASIC = "127.0.1.1", "127.0.0.1"
PATIENCE_S = 120.0
SPEC = """
listen = [{port}]
workers = {workers}
guarantee = "relative"
[[class]]
name = "premium"
match = [{{ source = "127.0.1.0/24" }}]
desired = 1
[[class]]
name = "basic"
desired = 3
"""
PEEKING = """
listen = [{port}]
workers = {workers}
[[class]]
name = "premium"
match = [{{ path = "/static/" }}]
[[class]]
name = "basic"
queue = 20000
"""
"""Classes that need a look at the request."""
_number = itertools.count()


@dataclass
class UnderGate:
    """A server under `trimtab run`.

    Args:
        process: `trimtab run`.
        run_dir: its run directory.
        port: port of the pages, gated or measured.
        status_url: the status page, on a port that is neither.
        directory: the server root.
    """

    process: subprocess.Popen[str]
    run_dir: RunDirectory
    port: int
    status_url: str
    directory: Path

    def plant(self) -> Gate:
        """trimtab attached to its gate."""
        return Gate(SystemClock(), self.run_dir)

    def client(self, source: str, timeout_s: float = PATIENCE_S) -> http.client.HTTPConnection:
        """A client that has not connected yet."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s, source_address=(source, 0))

    def pages(self, source: str, number: int = 1, path: str = PAGE) -> None:
        """Fetches pages over one connection, and closes it."""
        with contextlib.closing(self.client(source)) as client:
            for _ in range(number):
                assert fetched(client, path) == 200

    def ended(self) -> tuple[int, str]:
        """Its exit code and what it said, when it has ended."""
        _, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, err


def fetched(client: http.client.HTTPConnection, path: str = PAGE) -> int:
    """The status of one page."""
    client.request("GET", path)
    reply = client.getresponse()
    reply.read()
    return reply.status


def until(true: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    """Waits for something that has to happen."""
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a way to handle a signal: one that comes before is lost, or ends it."""
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(status.partition("SigCgt:")[2].split()[0], 16) & 1 << number - 1)


def trimtab_run(*arguments: object) -> subprocess.Popen[str]:
    """`trimtab run` with these arguments."""
    command = [sys.executable, "-m", "trimtab", "run", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def a_name() -> str:
    """The name of a run that nobody else has."""
    return f"test-{os.getpid()}-{next(_number)}"


@contextlib.contextmanager
def under_gate(
    mpm: Mpm = "prefork",
    workers: int = 8,
    gate: bool = True,
    foreground: bool = True,
    spec: str = SPEC,
    options: Sequence[object] = (),
    keep_alive_ms: int = 60_000,
    ports: bool = True,
) -> Iterator[UnderGate]:
    """Starts a small Apache under `trimtab run` with some more options; what is left at the end is ended.

    Without a gate its pages' port is named, unless `ports` says that none is.
    """
    threads = 1 if mpm == "prefork" else 4
    apache = ApacheSpec(mpm, workers, max(1, workers // threads), threads, keep_alive_timeout_ms=keep_alive_ms)
    user = worker_user()
    with tempfile.TemporaryDirectory(prefix="trimtab-under-gate-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        for part in ("logs", "run", "php", "conf-enabled"):
            (directory / part).mkdir(mode=0o755)
        content.write(directory)
        page, status = free_ports(2)
        modules = apache_config.modules(apache, module_directory())
        config = directory / "apache2.conf"
        config.write_text(apache_config.text(apache, directory, modules, (page, status), user))
        classes = directory / "classes.toml"
        classes.write_text(spec.format(port=page, workers=workers))
        named = ("--ports", page) if ports else ()
        how = ("--gate", classes) if gate else named
        ours = a_name()
        server = (program(), "-f", config, "-d", directory, *(("-DFOREGROUND",) if foreground else ()))
        process = trimtab_run("--name", ours, *how, *options, "--", *server)
        url = f"http://127.0.0.1:{status}/server-status"
        bed = UnderGate(process, run_directory.named(ours), page, url, directory)
        try:
            until(lambda: answers(status, bed), f"Apache did not start: {log(directory)}")
            yield bed
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(PATIENCE_S)
            if process.poll() is None:
                process.kill()
                process.wait()
            for left in processes_of(run_directory.named(ours)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(left.pid, signal.SIGKILL)
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


def answers(port: int, bed: UnderGate) -> bool:
    """Whether the status page answers."""
    assert bed.process.poll() is None, bed.ended()
    with contextlib.suppress(OSError):
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        with contextlib.closing(client):
            return fetched(client, "/server-status?auto") == 200
    return False


def log(directory: Path) -> str:
    """What Apache has logged."""
    path = directory / "logs" / "error.log"
    return path.read_text(errors="replace") if path.exists() else "nothing"


@contextlib.contextmanager
def standing_still(pid: int) -> Iterator[None]:
    """A process whose threads all stand still meanwhile."""
    stop(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def stop(pid: int) -> None:
    """Stops a process; each of its threads goes on until it is told, and may do and answer something meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: _states(pid) == {"T"}, "it does not stand still")


def _states(pid: int) -> set[str]:
    """The states of a process's threads, by their letters in stat."""
    states = set()
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # one that has ended since
            states.add(stat.read_text().rpartition(")")[2].split()[0])
    return states


def kill_together(pids: list[int]) -> None:
    """Kills guardian and gate as at one moment: a gate that outlives its guardian for a moment guards a next one.

    The guardian, which is the first, is stopped meanwhile and dies last: nobody sees it dead and its gate alive.
    """
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    for pid in reversed(pids):
        end = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        dead, _, _ = select.select([end], [], [], PATIENCE_S)
        os.close(end)
        assert dead, "a killed process does not end"


def gate_processes(bed: UnderGate) -> list[int]:
    """The processes of its gate, guardian first."""
    return gate_under(bed.process.pid)


def gate_under(run: int) -> list[int]:
    """The descendants of a `trimtab run` that are not the server: guardians, then gates.

    By their parents, not by their ids: those begin again from the lowest when they have come to the highest.
    """
    parents: dict[int, int] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            if words[1:2] == [b"gate"]:
                parents[int(entry)] = parent_of(int(entry))
    guardians = [pid for pid, parent in parents.items() if parent == run]
    return [*guardians, *(pid for pid, parent in parents.items() if parent in guardians)]
