"""One running FPM and one of its pools: the configuration in force, and the one on disk."""

from __future__ import annotations

import contextlib
import grp
import math
import pwd
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from trimtab import processes
from trimtab.core import Clock
from trimtab.errors import ApplyLater, NotMeasured, UsageError
from trimtab.plants._held import permitted
from trimtab.plants._in_use import in_use
from trimtab.plants._included_files import changed_ns
from trimtab.plants._included_server import IncludedServer
from trimtab.plants._php import forgotten
from trimtab.plants._vetted import same_network, vet
from trimtab.plants._view import gone, seen
from trimtab.plants.php_fpm import knobs, status
from trimtab.plants.php_fpm.configuration import GLOBAL, Configuration, read
from trimtab.plants.php_fpm.process import FpmMaster
from trimtab.plants.php_fpm.program import Program
from trimtab.plants.php_fpm.status import StatusPage
from trimtab.sensors._cgroup import tasks_left
from trimtab.sensors._tcp_listeners import listeners
from trimtab.sensors._unix_diag import unix_sockets
from trimtab.trust import printable

_PAGE_PATIENCE_S = 2.0
_LOOK_S = 0.2
"""A page that takes longer waits for a worker of a pool that is busy."""
_LOOKS_S = 2.0
"""How long a change waits for the pages of all pools, of which hundreds may be busy."""
_LONG_S = 5.0
"""Whoever waits for a page for as long has mostly gone."""
CLEAN = "process_control_timeout"
"""The setting that lets requests in progress finish in a reload."""
LEAST_S = 10
"""A time within which requests that are under way end, unless they are exports, backups or streams."""
_ACCESS: Mapping[str, Callable[[str], object]] = {
    "listen.acl_users": pwd.getpwnam,
    "listen.acl_groups": grp.getgrnam,
}
_OWNERS: Mapping[str, Callable[[str], object]] = {"listen.owner": pwd.getpwnam, "listen.group": grp.getgrnam}
_WORKERS: Mapping[str, Callable[[str], object]] = {"user": pwd.getpwnam, "group": grp.getgrnam}
"""The settings that name users and groups of which FPM's own test asks nothing, and who knows them: of the others
only an older one's, such as PHP 7.4's, and these may be numbers."""
_DAEMONIZED = (
    "PHP-FPM puts itself into the background, in every reload anew, so trimtab would lose sight of it: start it with "
    "--nodaemonize, as under systemd"
)


class Attached(IncludedServer[Configuration]):
    """A running FPM, looked at as one of its pools.

    Args:
        master: its master.
        clock: for the status page.
        pool: the pool; None when there is only one.
        options: what FPM was started with beside its configuration.
        undoes: whether only an undo is to follow, which waits for no idle worker: what keeps all of them busy may be
            just what is to be undone.

    Attributes:
        master: as given.
        program: its program.
        pool: the pool.
        loaded: the configuration as FPM has loaded it.
        in_force: knob to value.
        pending: a file, or PHP's own, that was changed after FPM loaded it; None for none.
        silent: whether that did not answer, so that `pending` is not known.
        status_page: where the pool's status page is.

    Raises:
        UsageError: it cannot be read from here; the message says what is needed.
        PlantGone: it has ended.
    """

    master: FpmMaster
    program: Program
    by_hand = "systemctl reload php-fpm, or kill -USR2"
    silent = False
    _unasked = ""
    """The pool at which the next look begins, as there was no time for it in the last one."""

    def __init__(
        self,
        master: FpmMaster,
        clock: Clock,
        pool: str | None = None,
        options: Sequence[str] = (),
        undoes: bool = False,
    ) -> None:
        vet(master)
        self.master = master
        self.clock = clock
        self.program = Program(master.exe, master.config_file, tuple(options))
        vet(master)
        self.loaded = self.read()
        self.pool = self.section = _chosen(self.loaded, pool)
        self.status_page = self._page_of(self.pool)
        self.in_force = self.values(self.loaded)
        self.pending = self._changed_since_load(undoes)
        self._generation = master.generation()

    @property
    def timeout_s(self) -> int:
        """How long a reload waits for requests in progress; 0 for not at all."""
        return self.loaded.seconds(GLOBAL, CLEAN)

    @property
    def drainable(self) -> bool:
        """Whether workers may be ended before a reload, with the master held.

        A pool that is ondemand gets its workers from the master when clients come, and has none meanwhile.
        """
        others = (pool for pool in self.loaded.pools() if pool != self.pool)
        return permitted() and all(self.loaded.text(pool, "pm") != "ondemand" for pool in others)

    @property
    def listen(self) -> str:
        """Address at which the pool listens."""
        return self.loaded.text(self.pool, "listen")

    def parsed(self) -> Configuration:
        """Parses the files on disk."""
        return read(self.program.config_file, self.program.prefix, ini=self.program.ini)

    def _fatal(self) -> str:
        """Why a reload would end FPM though its own test passes; empty where nothing is seen.

        It writes its pid file, and opens the sockets that it does not have yet, after all that `-t` looks at. So it
        does for the users of their access lists, also of those that it has (`fpm_unix_resolve_socket_permissions` in
        sapi/fpm/fpm/fpm_unix.c). And it ends where it cannot fork all that it starts with, or open
        files for their output (`fpm_run` in fpm.c).
        """
        now, held = self.parsed(), {self.loaded.text(pool, "listen") for pool in self.loaded.pools()}
        new = {now.text(pool, "listen") for pool in now.pools()} - held
        paths = sorted(one for one in {now.text(GLOBAL, "pid"), *new} if one[:1] == "/" and "${" not in one)
        view = Path(f"/proc/{self.master.pid}/root")
        why = next((f"no directory for {one}" for one in paths if gone(seen(Path(one).parent, view))), "")
        why = why or next((f"another server listens at {one}" for one in sorted(new) if self._taken(one)), "")
        why = why or _unknown(now, self.master.user == 0) or knobs.crowded(now, self.room())
        return f"PHP-FPM would end in a reload, though its own test passes: {why}" if why else ""

    def room(self) -> knobs.Room:
        """Workers of all pools that it could start once those that there are have ended.

        Raises:
            UsageError: not permitted.
            PlantGone: it has ended.
        """
        try:
            left = tasks_left(self.master.pid)
        except NotMeasured:
            left = None
        tasks = None if left is None else left + len(processes.children(self.master.pid))
        return knobs.Room(tasks, self.master.catchable())

    def _taken(self, address: str) -> bool:
        """Whether another server listens at what is an address of its own in the files only."""
        with contextlib.suppress(UsageError):  # a name that is not known
            _, at = endpoint = status.endpoint(address)
            if in_use(endpoint, self.master.pid):  # perhaps by itself, since an operator's reload
                own = self.master.generation()
                mine = (one.name for one in unix_sockets(self.master.pid) if one.listens and one.target in own)
                ports = (port for _, port in listeners(self.master.pid))
                return at not in mine if isinstance(at, str) else int(at[1]) not in ports
        return False

    def learn_start(self) -> None:
        """Learns how long it takes to start, unless that is known.

        Raises:
            UsageError: as `test`.
            PlantGone: it has ended.
        """
        if math.isinf(self.reading_s):
            self.test()
            if self.reads_long:
                self.test()  # that may have been a busy moment

    def values(self, configuration: Configuration) -> dict[str, int]:
        """Values of the pool's knobs in a configuration."""
        return knobs.values(configuration, self.pool)

    def refresh(self) -> None:
        """Notices that somebody else has reloaded FPM.

        Raises:
            PlantGone: it has ended.
        """
        self.master.check()
        if self.master.anew(self._generation):
            self.reloaded()

    def reloaded(self) -> None:
        """Called once FPM has loaded the configuration on disk."""
        self.loaded = self.read()
        self.in_force = self.values(self.loaded)
        self.status_page = self._page_of(self.pool)
        self.pending = None
        self._generation = self.master.generation()

    def _changed_since_load(self, undoes: bool = False) -> Path | None:
        """A file that was changed after FPM was started or reloaded; None where that is not known, in an undo.

        Raises:
            UsageError: the status page does not say when that was.
        """
        try:
            page = status.ask(self.status_page, self.clock, _PAGE_PATIENCE_S)
        except NotMeasured as error:
            raise UsageError(f"the status page of pool {self.pool} at {self.status_page.address}: {error}") from None
        self.silent = page is None
        if page is None and undoes:
            return None
        if page is None:
            raise UsageError(
                f"the status page of pool {self.pool} did not answer within {_PAGE_PATIENCE_S:g} s: all workers are "
                f"busy; 'pm.status_listen = 127.0.0.1:9001' in [{self.pool}] gives it a process of its own"
            )
        paths = (*self.loaded.files, *self._of_php())
        return next((path for path in paths if changed_ns(path) // 10**9 > page.started_s), None)

    def _of_php(self) -> list[Path]:
        """PHP's own files, which it reads in a reload too, and the directories in which others may come and go."""
        there = [path for path in self.loaded.stamps if path not in self.loaded.files and path.is_file()]
        return [*there, *(pattern.parent for pattern in self.program.ini if "*" in pattern.name)]

    def _page_of(self, pool: str) -> StatusPage:
        """The status page of a pool.

        Raises:
            UsageError: it has none, or it is at an address of another network, which may be another server's in ours.
        """
        page = status.status_page(self.loaded, pool)
        if not page.address.startswith("/"):
            same_network(self.master)
        return page

    def permitted(self, accept_lost: bool, ours: Path | None = None) -> None:
        """Makes sure that FPM may be reloaded, and that no request is lost by it.

        Args:
            accept_lost: whether requests may be lost.
            ours: our own file, in an undo, where it does not matter that it was not loaded yet, nor PHP's own files.

        Raises:
            UsageError: it may not; the message says what is needed.
            PlantGone: it has ended.
        """
        self.master.signal(0)
        if self.master.daemonized:
            raise UsageError(_DAEMONIZED)
        if self.pending is not None and (ours is None or self.pending not in (ours, *self._of_php())):
            raise UsageError(
                f"{self.pending} was changed after PHP-FPM loaded it, and a change would bring that into force: "
                f"reload PHP-FPM yourself ({self.by_hand}), then try again"
            )
        if self.timeout_s < (LEAST_S if ours is None else 1) and not accept_lost:  # a short time hinders no undo
            time = f"{self.timeout_s} s" if self.timeout_s else "0"
            raise UsageError(
                f"a reload would end requests in progress, because {CLEAN} is {time}: {self._how_to_reload()}, "
                "or accept it with --accept-lost-requests"
            )

    def require_no_long_request(self, usual_s: float) -> None:
        """Makes sure that no request under way, of any pool with a status page, would hold a reload up for long.

        One that has taken far longer than the slowest usual one is an export, a backup or a stream: nobody knows when
        it ends, and until then nothing is served.

        Args:
            usual_s: how long the slowest of the requests under way is expected to take.

        Raises:
            ApplyLater: one would, or be ended.
        """
        if not self.timeout_s:
            return  # it is ended at once, which was accepted
        until_s, pools, crews = self.clock.now_s() + _LOOKS_S, self.loaded.pools(), self.master.crews()
        at = pools.index(self._unasked) if self._unasked in pools else 0
        for pool in pools[at:] + pools[:at]:
            if self.clock.now_s() >= until_s:
                self._unasked = pool
                return
            if self.loaded.text(pool, "pm") == "ondemand" and pool not in crews:
                continue  # it would start one to answer, and so would each of hundreds of such pools at a time
            page = None
            with contextlib.suppress(NotMeasured, UsageError):  # without a page, which `notes` says, or it is busy
                page = status.ask(self._page_of(pool), self.clock, _LOOK_S, "json&full")
            if page is not None and page.longest_s > max(_LONG_S, 2 * usual_s):
                raise ApplyLater(
                    f"a request of pool {pool} is under way for {page.longest_s:.0f} s: a reload would serve nothing "
                    f"until it is done, and end it after {self.timeout_s} s ({CLEAN}): not reloaded"
                )

    def notes(self) -> tuple[str, ...]:
        """Notes for the user before anything is changed."""
        others = [pool for pool in self.loaded.pools() if pool != self.pool]
        found = [_DAEMONIZED] if self.master.daemonized else []
        if self.timeout_s:
            found.append(
                f"every change is a reload: PHP-FPM serves nothing until requests in progress are done, at most "
                f"{self.timeout_s} s ({CLEAN}), and ends those that take longer; what comes meanwhile waits in the "
                "queue"
            )
        else:
            found.append(f"{CLEAN} is 0: a reload ends requests in progress; {self._how_to_reload()}")
        found += forgotten(self.master.pid)
        if self.reads_long:
            found.append(
                f"PHP-FPM takes {self.reading_s:.0f} s to start ('-t'), as with opcache.preload, and serves nothing "
                "for as long or longer in every change"
            )
        if others:
            found.append(
                f"a reload is one of all pools: {', '.join(others)} too; how long their requests hold it up is not "
                "seen, so the first one may take longer than trimtab expects; one that takes very long puts "
                "changes off"
            )
        if self.silent:
            found.append(
                f"the status page of pool {self.pool} does not answer: what somebody has edited since PHP-FPM was "
                "loaded last comes into force too"
            )
        if self.pending is not None:
            found.append(
                f"{self.pending} was changed after PHP-FPM loaded it: what is in force may not be what it says"
            )
        if shortage := knobs.out_of_reach(self.loaded, self.pool):
            found.append(shortage)
        if not self.status_page.apart:
            found.append(_within(self.loaded, self.pool))
        return tuple(found)

    def _how_to_reload(self) -> str:
        """Advice on how to make reloads lose no request."""
        if self.timeout_s:
            where = self.loaded.all(CLEAN, GLOBAL)[-1].where
            return f"make it {LEAST_S} s or more in {where} and reload PHP-FPM once"
        return f"add '{CLEAN} = 30s' to [{GLOBAL}] in {self.program.config_file} and reload PHP-FPM once"


def _unknown(configuration: Configuration, root: bool) -> str:
    """Who is to have a socket or the workers and is not known here (any more); empty for nobody.

    Args:
        configuration: as it is on disk.
        root: whether root runs it: else the workers are its own user's, whatever the files say.
    """
    for pool in configuration.pools():
        listen = configuration.text(pool, "listen")
        at_path = not (":" in listen or listen.isdecimal())
        listed = any(configuration.text(pool, key) for key in _ACCESS)  # then a socket's owners are passed over
        named = (_ACCESS if listed else _OWNERS) if at_path else {}
        for key, known in {**named, **(_WORKERS if root else {})}.items():
            text = configuration.text(pool, key)
            for name in text.split(",") if key in _ACCESS else [text]:
                if not name or "${" in name or (name.isdecimal() and key not in _ACCESS):
                    continue
                try:
                    known(name)
                except KeyError:
                    return f"{key} of pool {pool} names {printable(name)}, who is not known: correct that"
    return ""


def _within(configuration: Configuration, pool: str) -> str:
    """What comes of a status page without a socket and a process of its own, whose requests no log has."""
    logged = ""
    for log in configuration.all("access.log", pool)[-1:]:
        logged = f", and each question for it, up to ten a second, is a line in access.log ({log.where})"
    return (
        f"the status page waits in the queue of pool {pool}{logged}; "
        f"'pm.status_listen = 127.0.0.1:9001' in [{pool}] (PHP 8.0 and newer) gives it a process of its own"
    )


def _chosen(configuration: Configuration, pool: str | None) -> str:
    """The pool that is meant.

    Raises:
        UsageError: there is no such pool, or several and none was named.
    """
    there = configuration.pools()
    if not there:
        raise UsageError(
            f"no pool is found in {configuration.files[0]} and what it includes; a relative include begins where "
            "PHP-FPM was built for: --fpm-option=-p --fpm-option=/usr/local names another place"
        )
    if pool is not None and pool not in there:
        raise UsageError(f"unknown pool {pool!r}; choose from: {', '.join(there)}")
    if pool is None and len(there) != 1:
        raise UsageError(f"several pools, choose one with --pool: {', '.join(there)}")
    return pool or there[0]
