"""Base of every private server of the testbed: a directory, a record, limits, a process, an end without a trace."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import random
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Generic, Self, TypeVar

from trimtab import launcher, processes
from trimtab.errors import PlantError, TrimtabError, UsageError
from trimtab.files import read_regular
from trimtab.sensors._tcp_listeners import listening
from trimtab.testbed import reap
from trimtab.testbed.cgroup import Confinement, Limits
from trimtab.testbed.registry import Record, Registry
from trimtab.trust import printable

WORKER_USERS = (("www-data", "www-data"), ("apache", "apache"), ("nobody", "nogroup"))
_ATTEMPTS = 5
_ANSWER_S = 5.0
_LEAST_PORT = 10_000
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Asks for pages of this machine, whatever proxy its environment names."""
Spec = TypeVar("Spec")


class PrivateServer(ABC, Generic[Spec]):
    """A private server; a context manager. It ends with the thread that starts it.

    Args:
        spec: the server and its limits.
        registry: where what it holds is written down; None for this user's own.
        start_patience_s: how long it may take to answer for the first time.
        environment: what it finds in its environment beside this process's own, from the port of its pages.

    Attributes:
        spec: as given.
        pid: its first process.
        port: port of its pages, on 127.0.0.1.
        confinement: the limits in force, and those that could not be set and why.
        cgroups: its control groups by controller.
    """

    program_name: str
    """Its name in messages and in the name of its directory."""
    ports_wanted = 1
    log = ""
    """Its log within its directory; empty where its output is its log."""

    def __init__(
        self,
        spec: Spec,
        registry: Registry | None = None,
        start_patience_s: float = 60.0,
        environment: Callable[[int], Mapping[str, str]] = lambda port: {},
    ) -> None:
        self.spec = spec
        self.pid = 0
        self.port = 0
        self.confinement = "none: not started"
        self.cgroups: dict[str, Path] = {}
        self._environment = environment
        self._registry = registry or Registry()
        self._patience_s = start_patience_s
        self._process: subprocess.Popen[bytes] | None = None
        self._confinement: Confinement | None = None
        self._record: Record | None = None

    @property
    def directory(self) -> Path:
        """Its files.

        Raises:
            TrimtabError: it is not started.
        """
        return Path(self._held().directory)

    def status(self, path: str) -> int:
        """Status with which it answers for one of its pages; 0 for what is no HTTP.

        Raises:
            OSError: nothing listens yet.
        """
        connection = HTTPConnection("127.0.0.1", self.port, timeout=_ANSWER_S)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except HTTPException:
            return 0
        finally:
            connection.close()

    def url(self, path: str) -> str:
        """The URL of one of its pages."""
        return f"http://127.0.0.1:{self.port}{path}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts it and returns when it answers.

        Raises:
            UsageError: something that it needs is not installed.
            PlantError: it did not start; the message carries what it said.
        """
        self.require_installed()
        owner = processes.identify(os.getpid())
        assert owner is not None
        directory = tempfile.mkdtemp(prefix=f"trimtab-{self.program_name}-")
        self._record = Record(processes.boot_id(), owner, directory)
        try:
            self._registry.write(self._record)
            confinement = self._confine()
            self.directory.chmod(0o755)
            with usual_modes():
                self.furnish()
                for _ in range(_ATTEMPTS):
                    if self._launch(confinement):
                        return
            raise PlantError(f"{self.program_name} found no free port in {_ATTEMPTS} attempts")
        except BaseException:
            self.stop()
            raise

    def stop(self, patience_s: float = 5.0) -> None:
        """Ends it and removes all that it holds; may be called twice.

        Raises:
            TrimtabError: something could not be removed; the next testbed tries again.
        """
        record = self._record
        if record is None:
            return
        self.ending()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                self._process.send_signal(signal.SIGTERM)
                self._process.wait(patience_s)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._confinement is not None:
            self._confinement.remove()
            self._confinement = None
        with self._registry.locked():
            reap.clear(self._registry, record)
            self._record = None
            self.released()

    def running(self) -> bool:
        """Whether its first process has not ended."""
        return self._process is not None and self._process.poll() is None

    @abstractmethod
    def require_installed(self) -> None:
        """Makes sure that it can be started.

        Raises:
            UsageError: something is not installed.
        """

    @abstractmethod
    def limits(self) -> Limits:
        """Its limits; anything else they need is acquired here, with the registry locked."""

    @abstractmethod
    def furnish(self) -> None:
        """Writes all that it needs, except its configuration; `logs` belongs to this user alone, who writes there."""

    @abstractmethod
    def configured(self, ports: Sequence[int]) -> list[str]:
        """Writes its configuration for these ports, and gives its command."""

    @abstractmethod
    def answers(self) -> bool:
        """Tries once to reach it.

        Raises:
            OSError: it cannot be reached yet.
        """

    def confined(self, confinement: Confinement) -> None:
        """Called once the limits are set, to add to their description."""
        return

    def launched(self, ports: Sequence[int]) -> None:
        """Called once its process runs, on these ports."""
        return

    def error_log(self) -> str:
        """Text of its log beside its output; empty before there is one."""
        return _text(self.directory / self.log) if self.log else ""

    def ending(self) -> None:
        """Called before it is ended."""
        return

    def released(self) -> None:
        """Called once all that its record names is gone; the registry is locked."""
        return

    def _held(self) -> Record:
        if self._record is None:
            raise TrimtabError("the testbed is not started")
        return self._record

    def hold(self, record: Record) -> None:
        """Records all that it holds from now on."""
        self._record = record
        self._registry.write(record)

    def _confine(self) -> Confinement:
        """Sets up control groups, as far as they can be, and writes them down."""
        with self._registry.locked():
            reap.reap(self._registry)
            confinement = self._confinement = Confinement(self.limits())
            self.cgroups = confinement.directories
            groups = tuple(sorted({os.fspath(d) for d in self.cgroups.values()}))
            self.hold(replace(self._held(), cgroups=groups))
        self.confined(confinement)
        self.confinement = str(confinement)
        return confinement

    def _launch(self, confinement: Confinement) -> bool:
        """Starts it on free ports; False when somebody else took one in between, and it has ended."""
        ports = free_ports(self.ports_wanted)
        command, output = self.configured(ports), self.directory / "logs" / "output.log"
        with output.open("wb") as log:
            self._process = subprocess.Popen(
                launcher.argv(os.getpid(), confinement.procs_files(), command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **self._environment(ports[0])},
            )
        self.pid, self.port = self._process.pid, ports[0]
        self.launched(ports)
        self.hold(replace(self._held(), server=processes.identify(self.pid), users=_worker()))
        answered = self._await_answer()
        if answered and not self._taken(ports):
            self._note_users()
            return True
        said = " ".join((_text(output) + self.error_log()).split())
        if answered or "Address already in use" in said:
            self._process.kill()  # some go on without their port
            self._process.wait()
            return False
        raise PlantError(f"{self.program_name} did not start: {printable(said[-500:]) or 'it said nothing'}")

    def _taken(self, ports: Sequence[int]) -> bool:
        """Whether somebody else listens on one of its ports, and has answered in its place."""
        server = self._held().server
        if server is None or not server.alive() or "LD_PRELOAD" in self._environment(ports[0]):
            return False  # with the shim in it a gate may listen for it
        there = {name for name, (_, port) in listening(server.pid).items() if port in ports}
        family = {*processes.family(server.pid), *(one.pid for one in processes.session(server))}
        try:
            return not there <= frozenset().union(*(processes.descriptors(pid, "socket") for pid in family))
        except UsageError:
            return False  # not to be seen from here

    def _note_users(self) -> None:
        """Records the users that its processes have dropped to, while nobody else can have its session's id."""
        if (server := self._held().server) is not None and server.alive():
            users = {user for one in processes.session(server) for user in processes.users_of(one.pid)}
            self.hold(replace(self._held(), users=tuple(sorted({*users, *_worker()}))))

    def _await_answer(self) -> bool:
        """Waits for the first answer; False when it ends or does not answer in time."""
        assert self._process is not None
        deadline = time.monotonic() + self._patience_s
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError):
                if self.answers():
                    return True
            time.sleep(0.02)
        return False


@contextlib.contextmanager
def usual_modes() -> Iterator[None]:
    """Lets others read what root makes meanwhile, as far as its mode says so, whatever the umask.

    What servers serve is read by the users that they drop to. The umask is that of the whole process.
    """
    before = os.umask(0o022) if os.geteuid() == 0 else None
    try:
        yield
    finally:
        if before is not None:
            os.umask(before)


def _text(log: Path) -> str:
    """Text of a log; empty before there is one, and why where its server's user has put something else there."""
    try:
        return read_regular(log) or ""
    except (OSError, UsageError) as error:
        return str(error)


def worker_user() -> tuple[str, str] | None:
    """The user and group that workers drop to; None where this process could not change them.

    Raises:
        UsageError: none of the usual ones exists.
    """
    if os.geteuid() != 0:
        return None
    for user, group in WORKER_USERS:
        with contextlib.suppress(KeyError):
            pwd.getpwnam(user)
            grp.getgrnam(group)
            return user, group
    raise UsageError(f"none of the users {', '.join(u for u, _ in WORKER_USERS)} exists to run the server's workers")


def _worker() -> tuple[int, ...]:
    """Id of the user that workers drop to, where there is one."""
    worker = worker_user()
    return () if worker is None else (pwd.getpwnam(worker[0]).pw_uid,)


def free_ports(number: int) -> list[int]:
    """Loopback ports that were free a moment ago; the caller tries again where they are taken since.

    They are below those that the kernel gives to clients: under load it would soon give one of these away.
    """
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    found: list[int] = []
    while len(found) < number:
        port = random.randrange(_LEAST_PORT, first) if first > 2 * _LEAST_PORT else 0
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            if one.getsockname()[1] not in found:
                found.append(int(one.getsockname()[1]))
    return found
