"""A running nginx as trimtab reads it: its configuration on disk and the one in force."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from trimtab import processes
from trimtab.clock import SystemClock
from trimtab.core.memory import Room
from trimtab.errors import NotMeasured, UsageError
from trimtab.gate.server import shared_of
from trimtab.plants import _own_file
from trimtab.plants._edits import require_unedited
from trimtab.plants._included_files import changed_after
from trimtab.plants._program import Verdict
from trimtab.plants._standstill import Standstill
from trimtab.plants._vetted import same_files, same_network, vet
from trimtab.plants.nginx import api, edits, status
from trimtab.plants.nginx.configuration import Configuration, evaluate
from trimtab.plants.nginx.finishing import Finishing
from trimtab.plants.nginx.knobs import CUT, LEAST_CUT_MS, SETTINGS, counted, cut_ms, kept_bytes, knobs, value_of
from trimtab.plants.nginx.locations import NAME, QUIC, chosen, locations
from trimtab.plants.nginx.process import Master, Worker, serving
from trimtab.plants.nginx.program import Program
from trimtab.sensors._memory import rooms
from trimtab.sensors._tcp_listeners import listeners
from trimtab.trust import printable

_SETTLE_S, _POLL_S = 1.0, 0.05
_AT_ONCE_S = 1.0
"""Within which all processes of one generation are started."""
_LONGEST_PID = 32


class Attached:
    """The reading half of the plant.

    Args:
        master: nginx's master process.
        status_url: its page of stub_status; None to look for it.
        edit: whether values in the operator's own files may be changed.

    Attributes:
        master: as given.
        program: its program with what it was started with.
        page: its page of stub_status; None where it has none and the shim stands in for it.
        shared: the mapped file of the shim; None where it runs without.
        listeners: addresses and ports on which it listens.
        possible: where each knob can be set, or why not.
        knobs: the knobs that can be moved.
        in_force: knob name to the value with which it runs, of all knobs.
        cut_ms: the time after which old processes end with what they have; None for never.
        quic: where it listens for HTTP/3; empty where it does not.
        udp: where it passes datagrams on (`stream {}`); empty where it does not.
        live: where it takes live streams (RTMP); empty where it does not.
        checked: where health checks of servers behind it begin anew in a reload; empty where there are none.
        finishing: processes that still finish since changes of ours.
        rooms: the limits of its memory and what is there, as when it was looked at last; none where they cannot be
            read.
        notes: notes for the user, one line each.
        standstill: None: its new workers serve before the old ones leave.
        by_hand: how an operator reloads it.

    Raises:
        UsageError: it cannot be read from here; the message says what is needed.
        PlantGone: it has ended.
    """

    standstill: Standstill | None = None
    by_hand = "nginx -s reload"
    page: status.Page | None = None
    checked = ""
    _config = Configuration()
    """As it was read last: a server may have a thousand hosts, and is looked at in every window."""
    _cpus = 0

    def __init__(self, master: Master, status_url: str | None = None, edit: bool = False) -> None:
        self.master = master
        vet(master)
        self.program = Program.of(master)
        vet(master)
        same_files(master, [self.program.config_file])
        config = self.config
        same_files(master, config.read())
        _require_its_own(master, self.program, config)
        same_network(master)
        self.listeners = listeners(master.pid)
        self.shared = shared_of(master.pid)
        try:
            self.page = status.find(config, status_url)
        except UsageError:
            if status_url is not None or self.shared is None:
                raise
        self.in_force: dict[str, int] = {}
        self.rooms: tuple[Room, ...] = ()
        self.cut_ms: int | None = None
        self.quic = self.udp = self.live = ""
        self.notes: list[str] = []
        self._workers: frozenset[Worker] = frozenset()
        self.read_running()
        self.finishing = Finishing(master, self.in_force)
        self.possible = locations(config, edit)
        files = min((n for pid, _ in self._workers if (n := processes.open_files(pid))), default=None)
        movable = chosen(self.possible)
        self.knobs = {
            n: k for n, k in knobs(self.in_force, len(self.listeners), files, self.cut_ms).items() if n in movable
        }
        if self.in_force["keepalive_timeout_ms"] == 0:
            self.knobs.pop("keepalive_timeout_ms", None)
        self._cautions(config)

    @property
    def config(self) -> Configuration:
        """The configuration as it is on disk now.

        Raises:
            UsageError: it cannot be read, or somebody else can change it.
        """
        if not (self._config.stamps and self._config.unchanged()):
            self._config = evaluate(self.program)
            self._config.cpus = self._cpus
        return self._config

    def test(self) -> Verdict:
        """Has nginx check its configuration, once it is known that nobody else can have changed it.

        Raises:
            UsageError: somebody else could, or the program cannot be run.
            PlantGone: it has ended.
        """
        vet(self.master)
        upgraded = self._upgraded(evaluate(self.program))
        return Verdict(False, upgraded) if upgraded else self.program.test()

    def read_running(self) -> None:
        """Reads the configuration in force: the files as of the last reload, and the number of processes."""
        self._read_bytes = processes.read_bytes(self.master.pid)
        config = self._loaded = self.config
        values = {knob: value_of(config, knob) for knob in SETTINGS}
        clock, wanted = SystemClock(), values["worker_processes"]
        deadline = clock.now_s() + _SETTLE_S
        while len(now := serving(self.master)) != wanted and clock.now_s() < deadline:
            clock.sleep(_POLL_S)
        # One that crashed was replaced later; an old one that is slow to leave may be there beyond their number.
        first = (min if len(now) == wanted else max)((start for _, start in now), default=0)
        if now and (edited := changed_after(config.texts, first)):
            note = (
                f"{edited} was edited after nginx last read it: a reload by trimtab brings all such edits into force"
            )
            self.notes += [note] if note not in self.notes else []
            values["worker_processes"] = len(now)
        elif counted(config) and _together(now):  # CPUs may have come or gone since its start
            self._cpus = config.cpus = values["worker_processes"] = len(now)
        self._workers, self.in_force, self.cut_ms = now, values, cut_ms(config)
        self.quic = next((one.where for one in config.anywhere("listen") if not QUIC.isdisjoint(one.args)), "")
        self.udp = next((one.where for one in config.anywhere("listen") if "udp" in one.args), "")
        streams = (one for one in config.anywhere("live") if one.context[:1] == ("rtmp",))
        self.live = next((one.where for one in streams if [word.lower() for word in one.args] == ["on"]), "")
        checks = (one for one in config.anywhere("health_check") if "persistent" not in one.args)
        self.checked = next((one.where for one in checks), "")
        self._look_around()

    def permitted(self, paths: Iterable[Path], accept_lost: bool) -> None:
        """Makes sure that nginx may be signalled and these files written, and that no ordinary request is cut by it.

        Args:
            paths: our own files, or the operator's that are to be edited.
            accept_lost: whether requests may be cut.

        Raises:
            UsageError: not by us, or what stands there is not ours, or they would be cut; the message says which.
            PlantGone: it has ended.
        """
        self.master.signal(0)
        if upgraded := self._upgraded(self.config):
            raise UsageError(upgraded)
        if self.cut_ms is not None and self.cut_ms < LEAST_CUT_MS and not accept_lost:
            raise UsageError(
                f"a reload would cut requests in progress, because {CUT} is {self.cut_ms / 1000:g} s: make it "
                f"{LEAST_CUT_MS / 1000:g} s or more and reload nginx, or accept it with --accept-lost-requests"
            )
        if (drops := self._drops()) and not accept_lost:
            raise UsageError(f"{drops}: accept it with --accept-lost-requests")
        for path in paths:
            _own_file.writable(path if path.name == NAME else edits.beside(path), None)

    def require_loaded(self) -> None:
        """Makes sure that a reload would bring nothing into force that was edited in mid-run, but our own settings.

        Raises:
            ApplyLater: somebody has edited a file since nginx read it.
            UsageError: one cannot be read, as in the middle of an edit.
        """
        require_unedited(self._loaded.says(NAME), self.config.says(NAME), "nginx", self.by_hand)

    def refresh(self) -> None:
        """Reads the configuration in force again, if somebody has reloaded nginx since.

        Raises:
            PlantGone: it has ended.
        """
        self.master.check()
        now = serving(self.master)
        if now and now.isdisjoint(self._workers):
            # A reload replaces them all, and so do crashes, for which the master reads no file.
            if self._read_bytes is None or self._read_bytes != processes.read_bytes(self.master.pid):
                self.read_running()
                return
            self._workers = now
        self._look_around()

    def _look_around(self) -> None:
        """Learns what else needs memory now, beside what the processes of this configuration keep for connections."""
        held = kept_bytes(self.in_force)
        with contextlib.suppress(NotMeasured, OSError):  # what was known stands
            self.rooms = tuple(room._replace(held_bytes=held) for room in rooms(self.master.pid))

    def _upgraded(self, config: Configuration) -> str:
        """Why it may not be reloaded while another program takes over from it (USR2); empty where none does.

        Its file is renamed for that time (`ngx_exec_new_binary` in src/core/nginx.c). SIGHUP would have it start as
        many workers again beside those that there are, and read nothing (`ngx_master_process_cycle` in
        src/os/unix/ngx_process_cycle.c).
        """
        path = _pid_file(self.program, config)
        with contextlib.suppress(OSError):
            if _process_id(path.with_name(f"{path.name}.oldbin")) == str(self.master.pid):
                return "nginx is being upgraded (USR2): end the old or the new one with QUIT, and reload the other"
        return ""

    def _cautions(self, config: Configuration) -> None:
        own = [d.where for d in config.anywhere("keepalive_timeout") if d.context[:1] == ("http",) and d.context[1:]]
        if own and "keepalive_timeout_ms" in self.knobs:
            self.notes.append(f"keepalive_timeout is overridden at {', '.join(own)}")
        if self.in_force["keepalive_timeout_ms"] == 0:
            self.notes.append("keepalive_timeout is 0, so connections are not kept, and it is not a knob here")
        local = [d.args[0] for d in config.anywhere("listen") if d.args and d.args[0].startswith("unix:")]
        if local:
            self.notes.append(
                f"what waits to be accepted at {', '.join(dict.fromkeys(local))} is in no reading: TCP alone is seen"
            )
        if (one := config.named("worker_cpu_affinity")) and one[-1].args[:1] != ("auto",):
            self.notes.append(
                f"worker_cpu_affinity in {one[-1].where} has {len(one[-1].args)} masks: processes beyond them share "
                "the last"
            )
        if self.knobs and (drops := self._drops()):
            self.notes.append(drops)
        passenger = (d.where for d in config.anywhere("passenger_enabled") if d.args == ("on",))
        if self.knobs and (where := next(passenger, "")):  # ended before nginx reads its files anew
            self.notes.append(
                f"applications that Passenger runs ({where}) begin anew at every change, trials and an undo too: "
                "their first requests take longer, and what they keep in memory is lost"
            )
        if self.knobs and (lost := api.forgotten(config)):
            self.notes.append(lost)
        if self.page is not None and self.page.logged:
            self.notes.append(
                f"each question of trimtab's for the status page, some ten a second, is a line in its access log "
                f"({self.page.logged}): 'access_log off;' beside stub_status spares it that"
            )
        if self.knobs and self.cut_ms is not None:
            self.notes.append(
                f"{CUT} is {self.cut_ms / 1000:g} s: so long after each change downloads, WebSockets and streams "
                "that still last are cut; they count in request_time_s, which looks better for a while after that"
            )
        if self.knobs:
            self.notes.append(
                "a reload closes idle kept connections: a client that sends on one just then has to send again, as "
                "browsers do"
            )

    def _drops(self) -> str:
        """What a reload does to connections that the new processes know nothing of; empty where there are none.

        Packets of connections over HTTP/3 come to the new ones (https://github.com/nginx/nginx/issues/425 and 1399),
        as do viewers of a live stream, whose publisher stays with an old one
        (https://github.com/arut/nginx-rtmp-module/issues/580). A reply to a datagram leaves by its listener, which
        the old ones close at once (`ngx_close_listening_sockets` in src/core/ngx_connection.c). Health checks begin
        anew (https://nginx.org/en/docs/http/ngx_http_upstream_hc_module.html#health_check).
        """
        found = []
        if self.quic:
            found.append(f"breaks connections over HTTP/3 ({self.quic}), with their requests, and new ones may fail")
        if self.udp:
            found.append(f"loses replies that are still to come to datagrams ({self.udp})")
        if self.live:
            found.append(f"hides live streams ({self.live}) from new viewers until they are published anew")
        if self.checked:
            found.append(
                f"forgets what health checks ({self.checked}) have found: servers that fail them get requests until "
                "the next one, or with 'mandatory' none gets any ('mandatory persistent' keeps it)"
            )
        return f"a reload {' and '.join(found)}" if found else ""


def _together(workers: Iterable[Worker]) -> bool:
    """Whether there are some, and all of one generation, of which none has crashed and was replaced."""
    starts = [start for _, start in workers]
    return bool(starts) and max(starts) - min(starts) <= _AT_ONCE_S * processes.TICKS_HZ


def _require_its_own(master: Master, program: Program, config: Configuration) -> None:
    """Makes sure that this is the configuration it was started with: it writes its process id where that says.

    Raises:
        UsageError: it does not seem to be.
    """
    line, path = config.named("pid"), _pid_file(program, config)
    if line and line[-1].args == ("off",):
        return
    try:
        said = _process_id(path)
    except OSError as error:
        said = f"nothing ({error.strerror})"
    if said != str(master.pid):
        raise UsageError(
            f"{master} does not seem to run with {printable(str(program.config_file))}: its pid file "
            f"{printable(str(path))} says {printable(said)}; start nginx anew, with its options and paths in full"
        )


def _pid_file(program: Program, config: Configuration) -> Path:
    """Where its process id stands by this configuration."""
    line = config.named("pid")
    return program.prefix / line[-1].args[0] if line and line[-1].args else program.pid_file


def _process_id(path: Path) -> str:
    """The process id in a file; its directory may be another user's, who may have put anything there.

    Raises:
        OSError: it cannot be read, or is a link.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        said = os.read(fd, _LONGEST_PID).strip() if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    finally:
        os.close(fd)
    return said.decode() if said.isdigit() else "no process id"


def configuration_of(other: Master) -> Configuration:
    """The configuration of another nginx that runs, as it is on disk.

    Raises:
        UsageError: it cannot be told, as where its command line was cut short.
        PlantGone: it has ended.
    """
    program = Program.of(other)
    config = evaluate(program)
    _require_its_own(other, program, config)
    return config


def included_by(configuration: Configuration) -> list[Path]:
    """The directories of which a configuration has all files read with such a name as ours."""
    return [pattern.parent for pattern, _ in configuration.patterns if fnmatchcase(NAME, pattern.name)]
