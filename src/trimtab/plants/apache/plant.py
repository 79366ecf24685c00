"""Apache httpd 2.4 as a plant: prefork, worker and event, the user's own or a private one.

It is steered by one small file of trimtab's own in a directory that the configuration includes, and by graceful
reloads, which let the requests in progress finish (what is known to escape that is in `notes`). A change is read back
from the running server: the parent has opened a new generation of children, that generation keeps the limit, and the
scoreboard on the status page is as long as the limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from trimtab.core import Clock, Readings, Sensor
from trimtab.errors import ApplyLater
from trimtab.gate.server import shared_of
from trimtab.plants._change import Texts
from trimtab.plants._master import Master
from trimtab.plants._own_file import put_back
from trimtab.plants._own_file_plant import OwnFilePlant, Standing
from trimtab.plants.apache import knobs, process, snippet, tls
from trimtab.plants.apache.access_log import AccessLog
from trimtab.plants.apache.attached import Attached
from trimtab.plants.apache.change import Change
from trimtab.plants.apache.configuration import evaluate
from trimtab.plants.apache.places import lacking
from trimtab.plants.apache.process import Parent
from trimtab.plants.apache.program import Program
from trimtab.plants.apache.reload import Patience
from trimtab.sensors.accept_queue import AcceptQueue
from trimtab.sensors.connections import Connections, Worker
from trimtab.sensors.held_back import HeldBack
from trimtab.sensors.pages import Pages
from trimtab.sensors.resources import Resources
from trimtab.sensors.server_status import ServerStatus
from trimtab.sensors.shim import Shim

LOOKS_S = 1.0
"""Between two looks of Apache's first process for children that have ended (SCOREBOARD_MAINTENANCE_INTERVAL)."""


class Apache(OwnFilePlant):
    """A running Apache.

    Args:
        clock: for the waits of a reload.
        attached: the running Apache.
        snippet_directory: where our file shall go; None to look for one.
        patience: how long a reload may take.
        accept_lost: whether requests may be lost that processes of modules serve.

    Attributes:
        status_url: its status page.
        listeners: addresses and ports on which it listens.
    """

    name = "apache"
    _server: Attached
    own_sensors = (AccessLog,)

    def __init__(
        self,
        clock: Clock,
        attached: Attached,
        snippet_directory: Path | None = None,
        patience: Patience | None = None,
        accept_lost: bool = False,
    ) -> None:
        self.status_url = attached.status_url
        self.listeners = attached.listeners
        self._patience = patience or Patience()
        self._accept_lost = accept_lost
        super().__init__(clock, attached, knobs.knobs(attached.limits, attached.room()), snippet_directory)
        self._settings = snippet.settings(attached.config)

    @staticmethod
    def attach(
        clock: Clock,
        pid: int | None = None,
        status_url: str | None = None,
        snippet_directory: Path | str | None = None,
        accept_lost: bool = False,
    ) -> Apache:
        """Finds a running Apache and attaches to it.

        Args:
            clock: for the waits of a reload.
            pid: its parent process; None when only one Apache runs.
            status_url: its status page; None to look for it.
            snippet_directory: an included directory for trimtab's own file; None to look for one.
            accept_lost: whether requests may be lost that processes of modules serve.

        Raises:
            UsageError: none or several run, or it cannot be read from here; the message says what is needed.
        """
        if status_url is not None:
            ServerStatus(status_url, clock)  # refuses a page outside this machine before it is asked
        chosen = None if snippet_directory is None else Path(snippet_directory).absolute()
        return Apache(clock, Attached(Parent.find(pid), status_url), chosen, None, accept_lost)

    @property
    def server(self) -> str:
        """The server's name, such as "Apache 2.4.66 prefork"."""
        return f"Apache {'.'.join(map(str, self._server.origin.version))} {self._server.limits.mpm}"

    @property
    def config_file(self) -> Path:
        """Its main configuration file."""
        return self._server.origin.config_file

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on this Apache for the user, one line each."""
        return tuple(self._server.notes)

    def new_sensors(self) -> tuple[Sensor, ...]:
        """Those of the kernel, the status page, access logs that tell anything, and the shim where it is loaded."""
        clock, pid, limits = self.clock, self.pid, self._server.limits
        status, shared = ServerStatus(self.status_url, clock), shared_of(pid)
        secure = tls.ports(self._server.config, [port for _, port in self.listeners])
        logs = AccessLog(lambda: self._server.config, self._server.origin.server_root, clock, self._server.held)
        return (
            AcceptQueue(self.listeners, clock, pid, status),
            Resources(pid, clock, limits.threads_per_child),
            HeldBack(self._server),
            Connections(self.listeners, clock, pid, Worker.of(limits.mpm), shared, secure, self._kept_ms),
            status,
            *((logs,) if logs.there() else ()),
            # Last, so that its exact terms of Eq. (1) stand in place of those seen from outside.
            *(() if shared is None else (Shim(shared, clock, status), Pages(shared, clock, status))),
        )

    def _kept_ms(self) -> float:
        """The keep-alive time in force, in ms; 0 where that is not known."""
        return self._server.in_force.get("keep_alive_timeout_ms", 0)

    def expected_stop(self) -> tuple[float, float, float]:
        """It reads its configuration again while idle processes end; the others finish what they have begun."""
        apache, threads = self._server, self._server.limits.threads_per_child
        return apache.reading_s if apache.reads_long else 0.05, 0.002 / threads, 0.007 / threads

    def held_up_s(self, readings: Readings) -> float:
        """What requests under way add: for none that waits a process ends at once, and they take of the CPU.

        Its first process looks once a second whether one has ended, in whose place it starts another. While it reads
        a configuration that takes long, it gets what they leave, or its share as one more of them, whichever is more.
        """
        none_idle = readings["idle_workers"] < 1 or readings.get("accept_queue_length", 0.0) >= 1
        looked_s = LOOKS_S if none_idle else 0.0
        if not self._server.reads_long:
            return looked_s
        cores, under_way = readings.get("cpu_cores", 1.0), readings.get("requests_under_way", 0.0)
        left = cores * (1 - readings.get("cpu_ratio", 0.0))
        share = min(1.0, max(left, cores / (1 + under_way)))
        return looked_s + self._server.reading_s * (1 / share - 1)

    def find_location(self, directory: Path | None) -> Path:
        """Path of our file.

        Raises:
            UsageError: there is no place where it would take effect.
        """
        values = {knob: self._server.in_force[knob] for knob in self._knobs}
        return snippet.location(self._server.origin, self._server.config, directory, values)

    def included_by(self, other: Master) -> Iterable[Path]:
        """The directories of which another Apache reads all files with such a name as ours."""
        assert isinstance(other, Parent)
        return snippet.directories(evaluate(Program.of(other).origin()))

    def check_reload(self, accept_lost: bool) -> None:
        """Makes sure that Apache may be reloaded and outlives it, that no request is lost, and our file writable."""
        super().check_reload(accept_lost)
        self._server.spares = not accept_lost
        if not accept_lost:
            self._server.require_nothing_ended()

    def permitted(self, accept_lost: bool) -> None:
        """Makes sure that Apache may be reloaded, and would not end by it, whatever may be lost."""
        self._server.permitted()

    def check_moment(self, values: Mapping[str, int]) -> None:
        """Makes sure that a reload brings no edit into force, and that as many processes as now find a place."""
        apache = self._server
        apache.require_loaded(self.location())
        limit = values.get("max_request_workers", apache.in_force["max_request_workers"])
        if why := lacking(apache, limit):
            raise ApplyLater(why)

    def text(self, values: Mapping[str, int], before: str | None) -> str:
        """The text of our file."""
        return snippet.compose(values, before, self._start_servers(values))

    def change(self, texts: Texts) -> Change:
        """The change that brings a text for our file into force."""
        return Change(self._server, self.clock, texts, self._patience)

    def left_text(self, ours: Standing) -> str | None:
        """The text of our file once a run has ended, which leaves StartServers to the operator.

        What was written for our reloads would hold for all of his: after a rush a pool would be started whole.
        """
        return super().left_text(ours) and snippet.compose(ours.values, ours.original)

    def outdated(self) -> bool:
        """Whether Apache may run with something else than its files say."""
        apache = self._server
        return super().outdated() or apache.in_force != knobs.limits(apache.config).values

    def edits(self, knobs: Iterable[str]) -> Mapping[str, str]:
        """The knobs that somebody else has set outside of our file."""
        return snippet.edits(self._server.config, self._settings, knobs, self.set_to)

    def kept(self, path: Path) -> Iterable[str]:
        """The knobs that our file sets as an earlier run has left it."""
        return snippet.kept(self._server.config, path, self._server.in_force)

    def script(self, path: Path, before: str | None) -> str:
        """A shell script that puts a text back in our file's place."""
        apache = self._server
        return apache.master.undo_script([put_back(path, before)], apache.program.shell_test, "USR1")

    def _start_servers(self, values: Mapping[str, int]) -> int:
        """Processes that the reload shall start at once: as many as run now, if the limit allows them.

        Apache starts StartServers processes after a reload (5 on a shipped prefork), then for ten seconds one each
        (server/mpm/prefork/prefork.c, hold_off_on_exponential_spawning): a loaded server would be short of workers
        after every change.
        """
        threads = self._server.limits.threads_per_child
        running = len(process.generations(self._server.master, frozenset()).workers)
        allowed = self._server.in_force["max_request_workers"] // threads
        wanted = values.get("max_request_workers", allowed * threads) // threads
        return max(1, min(running, wanted))
