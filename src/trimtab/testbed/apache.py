"""A private Apache in a temporary directory, on loopback, confined where this machine allows it."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from trimtab.errors import PlantError, TrimtabError, UsageError
from trimtab.testbed import apache_config, content, launch, processes, reap, swap
from trimtab.testbed.apache_config import ApacheSpec
from trimtab.testbed.cgroup import Confinement, Limits
from trimtab.testbed.registry import Record, Registry, boot_id
from trimtab.testbed.victims import Victims

__all__ = ["ApacheSpec", "ApacheTestbed"]

MODULE_DIRECTORIES = ("/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/httpd/modules")
WORKER_USERS = (("www-data", "www-data"), ("apache", "apache"), ("nobody", "nogroup"))


class ApacheTestbed:
    """A private Apache; a context manager. It ends with the thread that starts it.

    Args:
        spec: the server and its limits.
        registry: where what it holds is written down; None for this user's own.
        start_patience_s: how long it may take to answer its first request.
        environment: what the server finds in its environment beside this process's own, from the port of its pages.

    Attributes:
        spec: as given.
        pid: its first process.
        port: port of its pages, on 127.0.0.1.
        status_url: its status page, on a port of its own, so with an accept queue of its own. The workers are
            shared: while all of them are busy the page waits for one to become free.
        directory: its server root.
        config_file: its configuration.
        snippet_directory: `*.conf` in here are included last.
        confinement: the limits in force, and those that could not be set and why.
        cgroups: its control groups by controller.
    """

    def __init__(
        self,
        spec: ApacheSpec,
        registry: Registry | None = None,
        start_patience_s: float = 20.0,
        environment: Callable[[int], Mapping[str, str]] = lambda port: {},
    ) -> None:
        self.spec = spec
        self._environment = environment
        self.pid = 0
        self.port = 0
        self.status_url = ""
        self.confinement = "none: not started"
        self.cgroups: dict[str, Path] = {}
        self._registry = registry or Registry()
        self._patience_s = start_patience_s
        self._process: subprocess.Popen[bytes] | None = None
        self._confinement: Confinement | None = None
        self._record: Record | None = None
        self._victims: Victims | None = None

    @property
    def directory(self) -> Path:
        """Its server root.

        Raises:
            TrimtabError: it is not started.
        """
        if self._record is None:
            raise TrimtabError("the testbed is not started")
        return Path(self._record.directory)

    @property
    def config_file(self) -> Path:
        """Its configuration."""
        return self.directory / "apache2.conf"

    @property
    def snippet_directory(self) -> Path:
        """Where snippets are included from."""
        return self.directory / "conf-enabled"

    def url(self, path: str) -> str:
        """The URL of one of its pages."""
        return f"http://127.0.0.1:{self.port}{path}"

    def error_log(self) -> str:
        """What Apache has logged."""
        log = self.directory / "logs" / "error.log"
        return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""

    def __enter__(self) -> ApacheTestbed:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts it and returns when it answers.

        Raises:
            UsageError: Apache or a module that is needed is not installed.
            PlantError: it did not start; the message carries what it said.
        """
        program, loaded = _program(), apache_config.modules(self.spec, _module_directory())
        owner = processes.identify(os.getpid())
        assert owner is not None
        directory = Path(tempfile.mkdtemp(prefix="trimtab-apache-"))
        self._record = Record(boot_id(), owner, os.fspath(directory))
        try:
            self._registry.write(self._record)
            confinement = self._confine()
            self._furnish(directory)
            for _ in range(5):
                if self._launch(program, loaded, confinement):
                    return
            raise PlantError("apache2 found no free port in five attempts")
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
        if self._victims is not None:
            self._victims.close()
            self._victims = None
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
            swap.release(self._registry)

    def _confine(self) -> Confinement:
        """Sets up swap and control groups, as far as they can be, and writes them down."""
        assert self._record is not None
        spec, device, missing_swap = self.spec, "", ""
        with self._registry.locked():
            reap.reap(self._registry)
            if spec.swap and spec.memory_limit_bytes is not None:
                self._record = replace(self._record, swap=True)
                self._registry.write(self._record)
                try:
                    device = swap.acquire(self._registry)
                except TrimtabError as error:
                    missing_swap = str(error)
                    self._record = replace(self._record, swap=False)
            limits = Limits(spec.memory_limit_bytes, self._record.swap, spec.cores, spec.cpus, spec.cpu_weight)
            confinement = self._confinement = Confinement(limits)
            self.cgroups = confinement.directories
            groups = tuple(sorted({os.fspath(d) for d in self.cgroups.values()}))
            self._record = replace(self._record, cgroups=groups)
            self._registry.write(self._record)
        if missing_swap:
            confinement.missing.append(missing_swap)
        elif self._record.swap:
            confinement.applied.append(f"swap on {device}")
        self.confinement = str(confinement)
        return confinement

    def _furnish(self, directory: Path) -> None:
        """Writes all that the server needs, except its configuration."""
        directory.chmod(0o755)
        for name in ("logs", "run", "php", "conf-enabled"):
            (directory / name).mkdir(mode=0o755)
        more = (*content.surge(self.spec.surge_files), *content.specweb99(self.spec.specweb99_directories))
        content.write(directory, more)
        # Empty: PHP's own defaults, whatever the machine's php.ini says.
        (directory / "php" / "php.ini").write_text("memory_limit = 512M\n", encoding="ascii")

    def _launch(self, program: str, loaded: list[tuple[str, Path]], confinement: Confinement) -> bool:
        """Starts Apache on two free ports; False when somebody else took one in between."""
        assert self._record is not None
        directory, ports = self.directory, _free_ports(2)
        user = _worker_user() if os.geteuid() == 0 else None
        config = apache_config.text(self.spec, directory, loaded, (ports[0], ports[1]), user)
        self.config_file.write_text(config, encoding="utf-8")
        command = [program, "-f", os.fspath(self.config_file), "-d", os.fspath(directory), "-DFOREGROUND"]
        output = directory / "logs" / "output.log"
        with output.open("wb") as log:
            self._process = subprocess.Popen(
                launch.argv(os.getpid(), confinement.procs_files(), command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=directory,
                env={**os.environ, **self._environment(ports[0])},
            )
        self.pid, self.port = self._process.pid, ports[0]
        if "memory" in self.cgroups:
            self._victims = Victims(self.pid)
        self.status_url = f"http://127.0.0.1:{ports[1]}/server-status"
        self._record = replace(self._record, server=processes.identify(self.pid))
        self._registry.write(self._record)
        if self._answers():
            return True
        said = " ".join((output.read_text(encoding="utf-8", errors="replace") + self.error_log()).split())
        if "Address already in use" in said:
            return False
        raise PlantError(f"apache2 did not start: {said[-500:] or 'it said nothing'}")

    def _answers(self) -> bool:
        """Waits for the first reply; False when the server ends or does not answer in time."""
        assert self._process is not None
        deadline = time.monotonic() + self._patience_s
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.status_url}?auto", timeout=5):
                return True
            time.sleep(0.02)
        return False


def _program() -> str:
    """Apache's binary; Debian keeps it where an ordinary user's PATH does not look."""
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))
    found = shutil.which("apache2", path=path) or shutil.which("httpd", path=path)
    if found is None:
        raise UsageError("apache2 is not installed; install the package apache2")
    return found


def _module_directory() -> Path:
    found = next((Path(d) for d in MODULE_DIRECTORIES if Path(d).is_dir()), None)
    if found is None:
        raise UsageError(f"Apache's modules are in none of {', '.join(MODULE_DIRECTORIES)}; install apache2")
    return found


def _worker_user() -> tuple[str, str]:
    """The user and group to drop to."""
    for user, group in WORKER_USERS:
        with contextlib.suppress(KeyError):
            pwd.getpwnam(user)
            grp.getgrnam(group)
            return user, group
    raise UsageError(f"none of the users {', '.join(u for u, _ in WORKER_USERS)} exists to run Apache's workers")


def _free_ports(number: int) -> list[int]:
    """Loopback ports that were free a moment ago; who loses the race tries again."""
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in taken]
