"""A running Apache as trimtab reads it: its configuration on disk and the one in force."""

from __future__ import annotations

import contextlib
import math
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from trimtab import processes
from trimtab.clock import SystemClock
from trimtab.errors import NotMeasured, UsageError
from trimtab.plants._edits import require_unedited
from trimtab.plants._included_files import changed_after
from trimtab.plants._php import forgotten
from trimtab.plants._program import Verdict
from trimtab.plants._standstill import Standstill
from trimtab.plants._vetted import same_files, same_network, vet
from trimtab.plants.apache import hazards, snippet, status, tls
from trimtab.plants.apache.configuration import Configuration, evaluate
from trimtab.plants.apache.knobs import limits
from trimtab.plants.apache.process import Generations, Parent, generations, programs
from trimtab.plants.apache.program import Program
from trimtab.sensors._cgroup import tasks_left
from trimtab.sensors._tcp_listeners import listeners

_BRIEF_S = 1.0
"""A program that takes longer to read its configuration is not only slow to start."""
_INSTANCE = re.compile(r"/etc/apache2-([\w.-]+)/apache2\.conf")
"""The main file of one of several on Debian, each with a command of its own (`setup-instance`)."""
_ALONE = {"ONE_PROCESS", "DEBUG"}
"""With one of these defined Apache starts no workers (`prefork_pre_config` and its like)."""
STARTED_WITH = "it keeps the ServerLimit and ThreadLimit with which it was started: stop and start it for other ones"
"""AH00179 in its log, "changing ServerLimit to 400 from original value of 150 not allowed during restart"."""


class Attached:
    """The reading half of the plant.

    Args:
        parent: Apache's parent process.
        status_url: its status page; None to look for it.

    Attributes:
        master: that process.
        program: its program with what it was started with.
        origin: where the evaluation of its configuration starts.
        limits: the limits of this installation, with the values in force at the start.
        listeners: addresses and ports on which it listens.
        status_url: its status page.
        board: the scoreboard of its status page; None when that did not reply.
        in_force: knob name to the value with which it runs.
        notes: notes for the user, one line each.
        standstill: that of its last reload by us; None before the first.
        held_s: how long all of them lasted so far.
        busy_until_s: when workers that served long requests may be asked to finish once more.
        reading_s: the least time that its program took to read its configuration; infinite where that is not known.
        spares: whether the next change is put off while it would end requests that processes of modules serve.

    Raises:
        UsageError: it cannot be read from here; the message says what is needed.
    """

    standstill: Standstill | None = None
    held_s = 0.0
    busy_until_s = 0.0
    reading_s = math.inf
    spares = False

    def __init__(self, parent: Parent, status_url: str | None = None) -> None:
        self.master = parent
        vet(parent)
        self.program = Program.of(parent)
        vet(parent)
        self.origin = self.program.origin()
        same_files(parent, [self.origin.config_file])
        self._config = evaluate(self.origin)
        same_files(parent, self._config.read())
        self.limits = limits(self._config)
        same_network(parent)
        self.listeners = listeners(parent.pid)
        known = [status_url] if status_url else status.candidates(self._config, self.listeners)
        self.status_url = status.find(status.askable(self._config, known))
        self._pipes = processes.descriptors(parent.pid, "pipe")
        self.board: str | None = None
        self.in_force: dict[str, int] = {}
        self.notes: list[str] = []
        self.read_running()
        self._cautions()
        self.notes += forgotten(parent.pid)
        self.notes += [why] if (why := self._fatal()) else []
        self.notes += [lost] if (lost := self.ended()) else []

    @property
    def by_hand(self) -> str:
        """How an operator reloads it."""
        instance = _INSTANCE.fullmatch(str(self.origin.config_file))
        return f"apache2ctl-{instance[1]} graceful" if instance else "apachectl graceful"

    @property
    def config(self) -> Configuration:
        """The configuration as it is on disk now."""
        if not self._config.unchanged():
            self._config = evaluate(self.origin)
        return self._config

    def held(self) -> dict[tuple[int, int], str]:
        """The files that its first process holds open, as far as that can be seen, by device and inode.

        Each has a path that opens it.
        """
        found = {}
        with contextlib.suppress(OSError):
            for number, target in processes.opened(self.master.pid):
                path = f"/proc/{self.master.pid}/fd/{number}"
                if target.startswith("/") and stat.S_ISREG((seen := os.stat(path)).st_mode):
                    found[seen.st_dev, seen.st_ino] = path
        return found

    def test(self) -> Verdict:
        """Has Apache check its configuration, once it is known that nobody else can have changed it.

        Raises:
            UsageError: somebody else could, or the program cannot be run.
            PlantGone: it has ended.
        """
        vet(self.master)
        self._config, clock = evaluate(self.origin), SystemClock()
        began_s = clock.now_s()
        verdict = self.program.test(self._config.variables)
        if verdict.valid:  # else it may have stopped at the first line
            self.reading_s = min(self.reading_s, clock.now_s() - began_s)
        return Verdict(False, why, verdict.files) if verdict.valid and (why := self._fatal()) else verdict

    def permitted(self) -> None:
        """Makes sure that Apache may be signalled, and that it would outlive a reload.

        Raises:
            UsageError: not by us, or it would not.
            PlantGone: it has ended.
        """
        self.master.signal(0)
        if why := self._fatal():
            raise UsageError(why)
        if math.isinf(self.reading_s):
            self.test()
            if self.reads_long:
                self.test()  # that may have been a busy moment
        if self.reads_long:
            self._say(
                f"Apache takes {self.reading_s:.0f} s to read its configuration ('-t'), and accepts no connection "
                "for as long or longer in every reload"
            )

    @property
    def reads_long(self) -> bool:
        """Whether it is known to take long to read its configuration."""
        return _BRIEF_S < self.reading_s < math.inf

    def require_loaded(self, ours: Path) -> None:
        """Makes sure that a reload would bring nothing into force that was edited in mid-run, but our own file.

        Raises:
            ApplyLater: somebody has edited another one since Apache read it.
            UsageError: it cannot be read, as in the middle of an edit.
        """
        require_unedited(self._loaded.says(ours), self.config.says(ours), "Apache", self.by_hand)

    def require_nothing_ended(self) -> None:
        """Makes sure that a reload ends no processes that serve requests.

        Raises:
            UsageError: it does.
        """
        if lost := self.ended():
            raise UsageError(f"{lost}: accept it with --accept-lost-requests")

    def ended(self) -> str:
        """What a reload would end now; empty for nothing."""
        return hazards.ended(self.config, self.master.buckets, bool(programs(self.master)))

    def _fatal(self) -> str:
        """Why a reload would end Apache, as far as its own test does not tell; empty where nothing is seen.

        Where its first process serves, as for debugging, prefork ends at SIGUSR1, and the others do nothing.
        """
        defined = {*self.origin.defines, *(one.args[0] for one in self.config.named("define") if one.args)}
        if not _ALONE.isdisjoint(defined) and not generations(self.master, frozenset()).workers:
            return "Apache serves in its first process alone (-X, ONE_PROCESS or DEBUG), and cannot be reloaded so"
        found = hazards.fatal(self.config, self.origin.server_root, self.master)
        pid = self.master.pid
        if not found and hazards.taken(self.config, {port for _, port in self.listeners}, pid):  # or there since
            found = hazards.taken(self.config, {port for _, port in listeners(pid)}, pid)
        found = found or hazards.unopened(self.config, self.origin.server_root, Path(f"/proc/{pid}/root"))
        if found:
            return f"Apache would end in a reload, though its own test passes: {found}"
        unread = hazards.unread(self.config, self.origin.server_root)
        if unread and (edited := self._changed(unread)):
            return (
                f"{edited} was changed after Apache last read it, and a mistake in it would end Apache in a reload, "
                f"though its own test passes: reload Apache yourself ({self.by_hand})"
            )
        return ""

    def read_running(self) -> None:
        """Reads the configuration in force: the files as of the last reload, checked with the status page."""
        self._loaded = self.config
        values = limits(self._loaded).values
        self._pipes = processes.descriptors(self.master.pid, "pipe")
        self.board = status.scoreboard(self.status_url)
        filed = values["max_request_workers"]
        edited = self._pending()
        if self.board is not None and not status.agrees(self.board, filed):
            running = values["max_request_workers"] = status.limit(self.board, self.limits.threads_per_child)
            why = "edited and not reloaded; a reload by trimtab brings all such edits into force"
            # A directory tells of a file that was taken away, or linked to, since (a2disconf, a2enconf).
            read = self._changed(self._config.read()) is None and not self._config.uncertain
            if read and running < filed:
                why = f"read by it, but {STARTED_WITH}"
                self.limits = replace(self.limits, server_limit=max(1, running // self.limits.threads_per_child))
            self._say(
                f"MaxRequestWorkers is {running} in the running Apache and {filed} in its files: they were {why}"
            )
        elif edited is not None:
            gone = f"files may have been taken out of {edited} since Apache last read it"
            what = gone if edited.is_dir() else f"{edited} was changed after Apache last read it"
            self._say(f"{what}: a reload by trimtab brings it into force")
        self.in_force = values

    def _say(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    def _pending(self) -> Path | None:
        """A file that was changed after the present generation was started, or a directory, as by a2dissite.

        PHP's own files too, which mod_php reads in a reload. Not ours as a run has left it: that differs from what
        was loaded in StartServers alone; nor the directory of that.
        """
        ours, read = snippet.places(self._config), sorted(self._config.read(), key=Path.is_dir)
        return self._changed(one for one in read if not (one in ours or snippet.is_lasting(one)))

    def _changed(self, paths: Iterable[Path]) -> Path | None:
        """One that was changed after the present generation was started; of worker processes the first tells."""
        starts = [processes.start_of(worker) for worker in self.generations().workers]
        known = [start for start in starts if start is not None]
        return changed_after(paths, min(known)) if known else None

    def refresh(self) -> None:
        """Reads the configuration in force again, if somebody has reloaded Apache since.

        Raises:
            PlantGone: it has ended.
        """
        self.master.check()
        pipes = processes.descriptors(self.master.pid, "pipe")
        if pipes and pipes != self._pipes:  # it has none for a moment in the middle of a reload
            self.read_running()

    def generations(self) -> Generations:
        """The children that there are now."""
        return generations(self.master, self._pipes)

    def room(self) -> int | None:
        """Processes and threads that control groups let it have for its workers; None where nothing limits them.

        Raises:
            PlantGone: it has ended.
        """
        try:
            left = tasks_left(self.master.pid)
        except NotMeasured:
            self.master.check()
            return None
        workers = self.generations().workers
        return None if left is None else left + sum(map(processes.threads_of, workers))

    def blocked(self, ending: int) -> int:
        """Slots below the limit that prefork can no longer use, as far as the status page tells.

        A prefork parent that reloads to a lower limit does not notice the end of children in the slots beyond it
        (AH00167 "long lost child came home" in its log). These slots stay taken, also under a larger limit, until
        Apache is stopped and started.

        Args:
            ending: processes of earlier generations that are there or not yet noticed as ended.
        """
        if self.limits.mpm != "prefork" or self.board is None:
            return 0
        return max(0, self.board[: self.in_force["max_request_workers"]].count("G") - ending)

    def _cautions(self) -> None:
        if self.limits.vhost_keep_alive:
            hosts = ", ".join(self.limits.vhost_keep_alive)
            self.notes.append(f"KeepAliveTimeout is overridden for the virtual hosts at {hosts}")
        if not self.limits.keep_alive:
            self.notes.append("KeepAlive is Off, so KeepAliveTimeout is not a knob here: 'KeepAlive On' makes it one")
        extended = [d for d in self._config.named("extendedstatus") if d.args]
        if extended and extended[-1].args[0].lower() == "off":
            self.notes.append(
                f"requests and their times are not on the status page: ExtendedStatus is Off in "
                f"{extended[-1].where}; without that line it is On"
            )
        if "cgid_module" in self._config.modules:
            self.notes.append(
                "mod_cgid's daemon is replaced at every reload: a CGI request that is handed to it just then gets "
                "a 500 (AH10246)"
            )
        if proxied := self.limits.proxied:
            fewer = (
                "; a change to fewer workers while many are busy lets none begin for a second or two, within which "
                "its health checks must not take this server out"
            )
            self.notes.append(
                f"requests come through a proxy ({proxied}): the keep-alive time is made no shorter, as it may send "
                f"requests into connections that it takes for open{fewer if self.limits.mpm == 'prefork' else ''}"
            )
        if (waiting_s := tls.stapling_s(self._config)) is not None:
            self.notes.append(
                "stapled OCSP answers (SSLUseStapling) are lost by every change, trials and an undo too: browsers "
                "that come next wait until they are fetched anew, one certificate's after the other's, each for at "
                f"most {waiting_s} s where its responder does not answer (SSLStaplingResponderTimeout)"
            )
        if applications := hazards.restarted(self._config):
            self.notes.append(
                f"applications that Apache runs, {applications}, begin anew at every change, trials and an undo too: "
                "their first requests take longer, and what they keep in memory is lost"
            )
        self.notes += self._forgotten()
        if unsure := self._config.uncertain:  # hundreds of hosts may be written by one macro
            more = f", and {len(unsure) - 1} more" if len(unsure) > 1 else ""
            self.notes.append(f"could not be decided without Apache: {unsure[0]}{more}")

    def _forgotten(self) -> Iterator[str]:
        """What is known of servers behind it and their answers, and of who has logged in, and lost by a reload."""
        managers = [d for d in self._config.named("sethandler") if d.args[:1] == ("balancer-manager",)]
        if managers and not hazards.keeps_members(self._config):
            yield (
                f"what was set at balancer-manager ({managers[0].where}), such as a member out of service, is lost "
                "by every change: 'BalancerPersist On' in each virtual host that uses one keeps it"
            )
        if members := hazards.tried_again(self._config):
            yield (
                f"which members of balancers ({members}) do not answer is forgotten by every change: as after their "
                "'retry', requests are sent to them again and wait until the connection fails; 'BalancerPersist On' "
                "in each virtual host that uses them keeps it"
            )
        if "jk_module" in self._config.modules:
            yield (
                "what was set at a status worker of mod_jk, such as a member out of service, is lost by every "
                "change: 'activation' in workers.properties keeps it"
            )
        if where := hazards.cached(self._config):
            yield (
                f"answers that mod_cache_socache keeps in memory ({where}) are lost by every change, trials and an "
                "undo too: who makes them has to once more ('CacheEnable disk' keeps them)"
            )
        for module, avoided in hazards.logged_in(self._config):
            yield f"who has logged in by {module} has to again after every change, trials and an undo too{avoided}"
