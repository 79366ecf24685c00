"""The kernel under running, unmodified servers: slices and policies of their threads, and swappiness.

A change is some system calls, in force at once. Every thread of the servers gets it: those there are, those that are
born of them, which inherit it, and what a control group gets from elsewhere, at the next look. What was before
is in a journal before anything is set, so that a run that is killed can be undone (`journal`, `putback`).

What the whole machine shares is moved only where that is allowed by word. SCHED_RR never stays without its watchdog:
it is taken back when trimtab ends, however it ends.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trimtab import processes
from trimtab.core import Applied, Clock, Configuration, Metric, Plant, Prepared, Readings, Sensor, Subject
from trimtab.errors import ApplyFailed, ApplyRefused, PlantGone, TrimtabError, UsageError
from trimtab.plants._edits import StoodDown
from trimtab.plants._journal import make_directory
from trimtab.plants.linux import journal, knobs, putback, watchdog
from trimtab.plants.linux.beside import plant_of
from trimtab.plants.linux.journal import Journal
from trimtab.plants.linux.scheduled import FIELD_OF, Scheduled
from trimtab.plants.linux.shared import Shared
from trimtab.plants.linux.target import Target
from trimtab.sensors.resources import Resources
from trimtab.sensors.run_queue import RunQueue

REQUEST_DELAY = Metric(
    "run_queue_request_delay_s", "s", "time that the server's threads wait for a CPU, for each request completed"
)

_RECENT_S = 0.1
"""Threads that were born since have inherited what there is to give, and are looked at the next time."""


@dataclass(frozen=True)
class Allowed:
    """Permissions that the operator gives by option.

    Args:
        machine_wide: to move settings that the whole machine shares.
        real_time: to choose SCHED_RR.
        sensors: to attach to the server by its own plant, whose sensors then stand beside.
    """

    machine_wide: bool = False
    real_time: bool = False
    sensors: bool = True


class Linux(Plant):
    """The kernel under some servers.

    Args:
        clock: for the windows.
        target: the servers.
        allowed: permissions that the operator gives.

    Attributes:
        clock: as given.
        pid: the first process of the first server; None where only control groups are named.

    Raises:
        UsageError: nothing can be moved here.
        PlantGone: a server has ended.
    """

    name = "linux"
    undoes_all = True
    metrics: tuple[Metric, ...] = (REQUEST_DELAY,)

    def __init__(self, clock: Clock, target: Target, allowed: Allowed | None = None) -> None:
        self.clock = clock
        self.pid = target.pid
        self._target, self._allowed = target, allowed or Allowed()
        if self._allowed.real_time:
            watchdog.require_bounds()
        self._journal = Journal(target)
        self._scheduled = Scheduled(target, self._journal)
        try:
            base_ns = knobs.base_slice_ns()
        except OSError as error:
            raise UsageError(f"this kernel's scheduler cannot be asked: {error.strerror}") from None
        of_threads = knobs.of_threads(base_ns, knobs.may_raise(), self._allowed.real_time)
        group, _ = knobs.own_group(target)
        files = [*([group] if group is not None else []), *(knobs.of_machine() if self._allowed.machine_wide else ())]
        self._shared = Shared(files, self._journal)
        self._knobs = {knob.name: knob for knob in (*of_threads, *(one.knob for one in files))}
        self._down = StoodDown()
        self._watchdog = watchdog.Watchdog(self._journal)
        self._first: dict[str, int] = {}
        self._walked: tuple[float, Mapping[int, putback.Thread]] = (0.0, {})
        self._born = 0
        own = plant_of(self.pid, clock, self.name) if self.pid is not None and self._allowed.sensors else None
        self._server = own
        self.metrics = (*Linux.metrics, *(own.metrics if own is not None else ()))

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """The kernel under each server."""
        return tuple(Subject(self.name, one.pid) for one in self._target.roots) or (Subject(self.name),)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user before anything is changed."""
        lines = []
        if count := self._scheduled.left_alone():
            lines.append(f"{count} threads have a policy that somebody has chosen for them; they are left alone")
        if self._allowed.real_time:
            lines.append("SCHED_RR is taken back when this run ends, whatever --on-exit says")
        if len(self._target.roots) > 1 and self._server is not None:
            lines.append(f"response times are those of pid {self.pid}, the first server named")
        return tuple(lines)

    def new_sensors(self) -> tuple[Sensor, ...]:
        """The run queue, and the sensors of the first server's own plant, or else its resources."""
        queue = RunQueue(self._threads, self.clock)
        if self._server is not None:
            return queue, *self._server.sensors()
        return (queue,) if self.pid is None else (queue, Resources(self.pid, self.clock))

    def decisive(self, metric: str, sensors: Sequence[Sensor]) -> Sensor | None:
        """As the first server's own plant decides."""
        return None if self._server is None else self._server.decisive(metric, sensors)

    def derive(self, readings: Readings) -> Readings:
        """Readings of the first server's own plant, and the wait of a request for a CPU, by Little's law."""
        found = dict(self._server.derive(readings)) if self._server is not None else {}
        # Of several servers the requests of only the first are known.
        alone = len(self._target.roots) == 1 and not self._target.groups
        rate_hz = {**found, **readings}.get("request_rate_hz", 0.0) if alone else 0.0
        if rate_hz > 0 and "waiting_threads" in readings:
            found[REQUEST_DELAY.name] = readings["waiting_threads"] / rate_hz
        return found

    def configuration(self) -> Configuration:
        """The configuration in force, which threads born since the last look get too.

        Raises:
            OperatorEdit: somebody else has set a knob of ours; said once for each.
            PlantGone: a server has ended.
        """
        there = self._recent()
        self._stand_down(there)
        self._down.tell(self._knobs)
        self._scheduled.follow(there)
        of_threads = self._scheduled.values((name for name in self._knobs if name in FIELD_OF), there)
        values = {**of_threads, **self._shared.values()}
        return {name: knob.domain.clip(values[name]) for name, knob in self._knobs.items()}

    def check_permissions(self) -> None:
        """Makes sure that every thread and file may be set.

        Raises:
            UsageError: one may not be set.
            PlantGone: a server has ended.
        """
        make_directory(journal.directory())
        if why := self._taken():
            raise UsageError(why)
        self._scheduled.check()
        self._shared.check()

    def undo_killed(self) -> None:
        """Undoes trimtabs that were killed, the last one first, whatever servers they had; what was kept stays.

        Raises:
            ApplyFailed: something could not be put back.
        """
        for one in journal.left(kept=False):
            one.undo()

    def prepare(self, changes: Mapping[str, int]) -> Prepared:
        """Checks a change.

        Raises:
            ApplyRefused: not valid, or another trimtab moves the same threads.
            OperatorEdit: somebody else has set one of the knobs.
            PlantGone: a server has ended.
        """
        if self._journal.empty and (why := self._taken()):
            raise ApplyRefused(why)
        prepared = super().prepare(changes)
        self._down.refuse(changes)
        return prepared

    def commit(self, prepared: Prepared) -> Applied:
        """Sets the values that differ on all threads and in the files, and reads them back.

        Raises:
            ApplyFailed: did not take; what was before is restored.
            PlantGone: a server has ended.
        """
        began_s, now = self.clock.now_s(), self.configuration()
        self._first = self._first or dict(now)
        # A knob that stands down by now is one of a change that is taken back, and the operator's value stays.
        mine = {name: value for name, value in prepared.changes.items() if name not in self._down}
        wanted = {name: value for name, value in mine.items() if now[name] != value}
        of_threads = {name: value for name, value in wanted.items() if name in FIELD_OF}
        if of_threads:
            self._set(of_threads)
        if files := {name: value for name, value in wanted.items() if name not in FIELD_OF}:
            try:
                self._shared.bring(files)
            except BaseException:
                if of_threads:
                    self._set({name: now[name] for name in of_threads})
                raise
        return Applied(self.configuration(), self.clock.now_s() - began_s)

    def restore(self) -> None:
        """Puts back what was in force before the first `apply`; may be called twice.

        Raises:
            ApplyFailed: something could not be put back.
        """
        with contextlib.suppress(PlantGone):  # the journal holds what is still there
            self._stand_down(self._target.threads())
        self._journal.undo()
        self._scheduled.forget()
        self._shared.forget()
        self._watchdog.stop()

    def leftover(self) -> str:
        """Settings left by earlier runs, in one line; empty for none."""
        found = journal.left()
        if not found or not self._journal.empty:
            return ""
        where = ", ".join(str(one.path) for one in found)
        return f"what an earlier run set in the kernel is in force ({where})"

    def undo_leftover(self) -> None:
        """Undoes earlier trimtabs, the last one first.

        Raises:
            ApplyFailed: something could not be put back.
        """
        for one in journal.left():
            one.undo()

    def close(self) -> None:
        """Closes the sensors; SCHED_RR is taken back, other values stay in force; may be called twice.

        Where these are what was in force before the first change, nothing is left to be undone.
        """
        super().close()
        if self._server is not None:
            self._server.close()
        try:
            if self._real_time(self._scheduled.given):
                self._set({knobs.POLICY: self._first[knobs.POLICY]})
        except (TrimtabError, OSError):
            return  # the watchdog hears no more of us and takes it back
        self._watchdog.stop()
        with contextlib.suppress(TrimtabError, OSError):
            if not self._journal.empty and self.configuration() == self._first:
                self._journal.undo()
        if not self._journal.empty:
            self._journal.keep()

    def undo_script(self) -> str:
        """A POSIX shell script that undoes `apply`, or an earlier run, with any Python 3."""
        paths = [self._journal.path] if not self._journal.empty else [one.path for one in journal.left()]
        if not paths:
            return "#!/bin/sh\n# Nothing was set that could be undone.\nexit 0\n"
        program = Path(putback.__file__).read_text(encoding="utf-8")
        words = " ".join(shlex.quote(str(path)) for path in paths)
        head = "#!/bin/sh\n# Puts back what trimtab has set in the kernel.\n"
        return f"{head}exec python3 -I - undo {words} <<'END'\n{program}END\n"

    def _stand_down(self, there: Mapping[int, putback.Thread]) -> None:
        """Leaves what somebody else has set since to him, in the journal too."""
        edited = {**self._scheduled.edited(there), **self._shared.edited()}
        self._down |= {name: f"{said}; trimtab leaves it alone now" for name, said in edited.items()}
        if knobs.POLICY in edited and self._real_time(self._scheduled.given):
            self._end_real_time()
        for part in (self._scheduled, self._shared):
            part.forget([name for name in part.given if name in self._down])
        if edited:
            with contextlib.suppress(ApplyFailed):  # then only an undo after a kill would not know of it
                self._journal.write()

    def _end_real_time(self) -> None:
        """Takes SCHED_RR back from all threads that have it of us, since no end of a run would any more."""
        none: dict[str, list[int]] = {field: [] for field in journal.FIELDS}
        putback.undo({**self._journal.data(), "ours": {**none, "policy": [putback.RR]}, "files": []})
        self._watchdog.stop()

    def _set(self, values: Mapping[str, int]) -> None:
        """Gives all threads these values; SCHED_RR under its watchdog alone.

        Raises:
            ApplyFailed: did not take; what was before is restored.
            PlantGone: a server has ended.
        """
        if self._real_time(values):
            self._scheduled.intend(values)
            self._watchdog.start()
        try:
            self._scheduled.bring(values)
        finally:
            if not self._real_time(self._scheduled.given):
                self._watchdog.stop()

    def _real_time(self, values: Mapping[str, int]) -> bool:
        return values.get(knobs.POLICY) == list(knobs.POLICIES).index("rr")

    def _taken(self) -> str:
        """Why nothing may be moved beside another trimtab; empty where there is none.

        What each had found would be what the other has set: the last one to end would leave that in force.
        """
        pid = journal.rival(self._target.threads(), self._shared.paths())
        return "" if pid is None else f"another trimtab (pid {pid}) moves the same threads or files: end it first"

    def _threads(self) -> Mapping[int, putback.Thread]:
        """The servers' threads, for the run queue; some may have ended.

        To find them reads the stat of every process of the machine, so it is not done while nothing was born. What
        is in a control group may also have come from elsewhere.

        Raises:
            PlantGone: a server has ended.
        """
        before, born = self._born, processes.last_born()
        there = self._walked[1]
        if not there or before != born or self._target.groups or not self._target.alive:
            there = self._target.threads()
        self._born, self._walked = born, (self.clock.now_s(), there)
        return there

    def _recent(self) -> Mapping[int, putback.Thread]:
        """The servers' threads, those that the run queue has just seen at the window's end where that is so.

        Raises:
            PlantGone: a server has ended.
        """
        at_s, there = self._walked
        if there and self.clock.now_s() - at_s <= _RECENT_S and self._target.alive:
            return there
        return self._target.threads()
