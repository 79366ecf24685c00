"""A private nginx in a temporary directory, on loopback, confined where this machine allows it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from trimtab.errors import PlantError, TrimtabError, UsageError
from trimtab.testbed import content, launch, nginx_config, processes, reap
from trimtab.testbed.apache import _free_ports, _worker_user
from trimtab.testbed.cgroup import Confinement, Limits
from trimtab.testbed.nginx_config import NginxSpec
from trimtab.testbed.registry import Record, Registry, boot_id

__all__ = ["NginxSpec", "NginxTestbed"]


class NginxTestbed:
    """A private nginx; a context manager. It ends with the thread that starts it.

    Args:
        spec: the server and its limits.
        registry: where what it holds is written down; None for this user's own.
        start_patience_s: how long it may take to listen.
        environment: what the server finds in its environment beside this process's own, from its port.

    Attributes:
        spec: as given.
        pid: its first process.
        port: where it listens, on 127.0.0.1.
        confinement: the limits in force, and those that could not be set and why.
    """

    def __init__(
        self,
        spec: NginxSpec,
        registry: Registry | None = None,
        start_patience_s: float = 20.0,
        environment: Callable[[int], Mapping[str, str]] = lambda port: {},
    ) -> None:
        self.spec = spec
        self.pid = 0
        self.port = 0
        self.confinement = "none: not started"
        self._environment = environment
        self._registry = registry or Registry()
        self._patience_s = start_patience_s
        self._process: subprocess.Popen[bytes] | None = None
        self._confinement: Confinement | None = None
        self._record: Record | None = None

    @property
    def directory(self) -> Path:
        """Its prefix.

        Raises:
            TrimtabError: it is not started.
        """
        if self._record is None:
            raise TrimtabError("the testbed is not started")
        return Path(self._record.directory)

    def url(self, path: str) -> str:
        """The URL of one of its pages."""
        return f"http://127.0.0.1:{self.port}{path}"

    def __enter__(self) -> NginxTestbed:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts it and returns when it listens.

        Raises:
            UsageError: nginx is not installed.
            PlantError: it did not start; the message carries what it said.
        """
        program = shutil.which("nginx", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin")))
        if program is None:
            raise UsageError("nginx is not installed; install the package nginx")
        owner = processes.identify(os.getpid())
        assert owner is not None
        self._record = Record(boot_id(), owner, tempfile.mkdtemp(prefix="trimtab-nginx-"))
        try:
            self._registry.write(self._record)
            confinement = self._confine()
            self._furnish()
            for _ in range(5):
                if self._launch(program, confinement):
                    return
            raise PlantError("nginx found no free port in five attempts")
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

    def _confine(self) -> Confinement:
        """Sets up control groups, as far as they can be, and writes them down."""
        assert self._record is not None
        with self._registry.locked():
            reap.reap(self._registry)
            confinement = self._confinement = Confinement(
                Limits(cpus=self.spec.cpus, cpu_weight=self.spec.cpu_weight)
            )
            groups = tuple(sorted({os.fspath(d) for d in confinement.directories.values()}))
            self._record = replace(self._record, cgroups=groups)
            self._registry.write(self._record)
        self.confinement = str(confinement)
        return confinement

    def _furnish(self) -> None:
        """Writes all that the server needs, except its configuration."""
        self.directory.chmod(0o755)
        for name in ("logs", "run"):
            (self.directory / name).mkdir(mode=0o755)
        content.write(self.directory, content.specweb99(self.spec.specweb99_directories))

    def _launch(self, program: str, confinement: Confinement) -> bool:
        """Starts it on a free port; False when somebody else took that in between."""
        assert self._record is not None
        directory, (port,) = self.directory, _free_ports(1)
        user = _worker_user() if os.geteuid() == 0 else None
        config, output = directory / "nginx.conf", directory / "logs" / "output.log"
        config.write_text(nginx_config.text(self.spec, directory, port, user), encoding="utf-8")
        command = [program, "-p", os.fspath(directory), "-e", os.fspath(output), "-c", os.fspath(config)]
        with output.open("wb") as log:
            self._process = subprocess.Popen(
                launch.argv(os.getpid(), confinement.procs_files(), command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=directory,
                env={**os.environ, **self._environment(port)},
            )
        self.pid, self.port = self._process.pid, port
        self._record = replace(self._record, server=processes.identify(self.pid))
        self._registry.write(self._record)
        if self._listens():
            return True
        said = " ".join(output.read_text(encoding="utf-8", errors="replace").split())
        if "Address already in use" in said:
            return False
        raise PlantError(f"nginx did not start: {said[-500:] or 'it said nothing'}")

    def _listens(self) -> bool:
        """Waits for the first connection; False when the server ends or does not listen in time."""
        assert self._process is not None
        deadline = time.monotonic() + self._patience_s
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5):
                return True
            time.sleep(0.02)
        return False
