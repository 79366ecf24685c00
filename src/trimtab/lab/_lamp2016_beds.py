"""Servers of lamp2016 with the kernel's knobs under them at the levels of a cell."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import resources
from pathlib import Path

from trimtab import launcher, own
from trimtab.clock import SystemClock
from trimtab.errors import UsageError
from trimtab.lab import Arm, Context, World
from trimtab.lab import _lamp2016_programs as programs
from trimtab.plants._stack import Stack
from trimtab.plants.linux import target
from trimtab.plants.linux.plant import Allowed, Linux
from trimtab.plants.mariadb.private import MariadbSpec, MariadbTestbed
from trimtab.sensors.benchmark import Benchmark, Result
from trimtab.testbed._swapped import SwappedServer
from trimtab.testbed.apache import ApacheTestbed
from trimtab.testbed.apache_config import ApacheSpec
from trimtab.testbed.cgroup import Limits
from trimtab.testbed.content import body, dynamic_url
from trimtab.testbed.setups import DYNAMIC
from trimtab.workloads._population import ConstantRate, Population, Url
from trimtab.workloads._specweb99_files import File

MIB = 1 << 20
PAGE = File("/test.html", 3064, 1.0)
"""The page of pts/apache."""
WARM_S = 1.0
PTS_WORKERS = 150
STACK_RATE_HZ = 60.0
"""Open arrivals of the dynamic page: with 3 ms of CPU each, a fifth of a core that a batch job wants whole."""
STACK_CPU_US, STACK_MEMORY_KB = 3000, 400
HOGS = 2
MEMORY_WORKERS = 64


@dataclass(frozen=True)
class Machine:
    """A set-up: what server and clients may use together, as the paper's two laptops differed.

    Args:
        name: what it is called.
        cpus: the CPUs of both.
        memory_bytes: of the server.
    """

    name: str
    cpus: tuple[int, ...]
    memory_bytes: int


ONE = Machine("one core", (0,), 256 * MIB)
TWO = Machine("two cores", (0, 1), 1024 * MIB)


@dataclass(frozen=True, kw_only=True)
class PhpSpec(Limits):
    """PHP's interpreter alone."""

    cpu_weight: int = 2


class PhpBench(SwappedServer[PhpSpec]):
    """The set of small PHP functions, on a port."""

    program_name = "php"
    _program = ""

    def require_installed(self) -> None:
        """Finds the interpreter.

        Raises:
            UsageError: it is not installed.
        """
        found = own.program("php8.2") or own.program("php")
        if found is None:
            raise UsageError("php is not installed; install the package php8.2-cli")
        self._program = found

    def furnish(self) -> None:
        """Writes its program."""
        (self.directory / "logs").mkdir(mode=0o755)
        text = (resources.files("trimtab.testbed") / "pages" / "benchmark.php").read_bytes()
        (self.directory / "benchmark.php").write_bytes(text)

    def configured(self, ports: Sequence[int]) -> list[str]:
        """Its command; without php.ini."""
        return [self._program, "-n", os.fspath(self.directory / "benchmark.php"), str(ports[0])]

    def answers(self) -> bool:
        """One empty run.

        Raises:
            OSError: it does not listen yet.
        """
        with socket.create_connection(("127.0.0.1", self.port), 2.0) as client, client.makefile() as said:
            client.sendall(b"0\n")
            return said.readline() == "ready\n"


class _Pts(ApacheTestbed):
    """Apache with the page of pts/apache."""

    def furnish(self) -> None:
        """Adds the page."""
        super().furnish()
        path = self.directory / "htdocs" / PAGE.path.lstrip("/")
        path.write_bytes(body(PAGE))
        path.chmod(0o644)


@dataclass(frozen=True)
class Cell:
    """A benchmark on a set-up, with some of the kernel's knobs set.

    Args:
        program: ab, wrk, php, slap, sysbench, stack or memory.
        machine: the set-up.
        values: knob names of the plant linux to their values; those not named stay as they are.
    """

    program: str
    machine: Machine
    values: tuple[tuple[str, int], ...] = ()

    @contextlib.contextmanager
    def open(self, arm: Arm, context: Context) -> Iterator[World]:
        """Starts the server, sets the knobs, and lets the benchmark run in each window."""
        absent = set(self.machine.cpus) - os.sched_getaffinity(0)
        if absent:
            raise UsageError(f"{self.machine.name} needs the CPUs {self.machine.cpus}, which are not all here")
        beds = {"php": self._php, "stack": self._stack, "memory": self._memory}
        beds |= {"slap": self._mariadb, "sysbench": self._mariadb}
        with beds.get(self.program, self._static)(arm) as (pid, confinement, start):
            allowed = Allowed(machine_wide=True, sensors=False)
            linux = Linux(SystemClock(), target.find([], [pid], []), allowed)
            try:
                missing = {name for name, _ in self.values} - {knob.name for knob in linux.knobs()}
                if missing:
                    raise UsageError(f"this kernel or machine has no {', '.join(sorted(missing))} that can be set")
                if self.values:
                    linux.apply(dict(self.values))
                whole = Stack(linux, extra=(Benchmark(start),))
                linux.clock.sleep(WARM_S)
                context.heed_stop()
                yield World(whole, {"confinement": confinement, "machine": self.machine.name})
            finally:
                linux.restore()
                linux.close()

    @contextlib.contextmanager
    def _static(self, arm: Arm) -> Iterator[Bed]:
        """Apache's event MPM, as Debian ships it, with a small page."""
        spec = ApacheSpec(
            mpm="event",
            max_request_workers=PTS_WORKERS,
            start_servers=2,
            spare_workers=(25, 75),
            memory_limit_bytes=self.machine.memory_bytes,
            cpus=self.machine.cpus,
            cpu_weight=2,
        )
        program = programs.ab if self.program == "ab" else programs.wrk
        with _Pts(spec) as bed:
            url = bed.url(PAGE.path)
            yield bed.pid, bed.confinement, lambda: program(url, arm.window_s, self.machine.cpus)

    @contextlib.contextmanager
    def _php(self, arm: Arm) -> Iterator[Bed]:
        """PHP's interpreter."""
        with PhpBench(PhpSpec(cpus=self.machine.cpus, memory_limit_bytes=self.machine.memory_bytes)) as bed:
            yield bed.pid, bed.confinement, lambda: programs.php(bed.port, arm.window_s)

    @contextlib.contextmanager
    def _mariadb(self, arm: Arm) -> Iterator[Bed]:
        """MariaDB with a buffer pool of three quarters of its memory, as pts/mysqlslap asks."""
        memory = self.machine.memory_bytes
        spec = MariadbSpec(
            buffer_pool_bytes=memory * 3 // 4, memory_limit_bytes=memory, cpus=self.machine.cpus, cpu_weight=2
        )
        with MariadbTestbed(spec) as bed:
            if self.program == "slap":
                yield bed.pid, bed.confinement, lambda: programs.slap(bed.socket, self.machine.cpus)
            else:
                programs.prepare_sysbench(bed.socket)
                start = partial(programs.sysbench, bed.socket, arm.window_s, self.machine.cpus)
                yield bed.pid, bed.confinement, start

    @contextlib.contextmanager
    def _stack(self, arm: Arm) -> Iterator[Bed]:
        """Apache with PHP in it beside a batch job that wants the same CPU, both in one group of the scheduler's."""
        spec = ApacheSpec(
            max_request_workers=64,
            keep_alive_timeout_ms=0,
            php=True,
            memory_limit_bytes=self.machine.memory_bytes,
            cpus=self.machine.cpus,
            cpu_weight=2,
        )
        page = Url(dynamic_url(STACK_CPU_US, STACK_MEMORY_KB))
        clients = (Population(class_name="pages", pages=(page,), arrivals=ConstantRate(STACK_RATE_HZ)),)
        with ApacheTestbed(spec) as bed, _hogs([bed.cgroups[name] for name in ("cpu", "cpuset")], HOGS):
            yield bed.pid, bed.confinement, self._arrivals(bed, clients, arm)

    def _arrivals(self, bed: ApacheTestbed, clients: Sequence[Population], arm: Arm) -> Callable[[], Result]:
        """Starts clients on a CPU beside the server's, where there is one."""
        rest = os.sched_getaffinity(0) - set(self.machine.cpus)
        cpu = max(rest, default=None)
        return lambda: programs.arrivals(bed.port, clients, arm.window_s, arm.seed, cpu)

    @contextlib.contextmanager
    def _memory(self, arm: Arm) -> Iterator[Bed]:
        """liu2003's dynamic page with half as many workers again as memory holds."""
        spec = replace(DYNAMIC.spec, max_request_workers=MEMORY_WORKERS, cpus=self.machine.cpus)
        clients = DYNAMIC.workload.populations()
        with ApacheTestbed(spec) as bed:
            yield bed.pid, bed.confinement, self._arrivals(bed, clients, arm)


Bed = tuple[int, str, Callable[[], Result]]
"""First process of a server, its limits in words, and what starts a run of the benchmark."""


@contextlib.contextmanager
def _hogs(groups: Sequence[Path], count: int) -> Iterator[None]:
    """Batch jobs that compute without end, in these control groups; they end with this process."""
    files = [os.fspath(path / "cgroup.procs") for path in groups]
    command = launcher.argv(os.getpid(), files, [sys.executable, "-c", _HOG])
    with contextlib.ExitStack() as held:
        for _ in range(count):
            hog = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            held.callback(hog.wait)
            held.callback(hog.kill)
        yield


_HOG = "while True: pass"
