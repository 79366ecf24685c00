"""Base of plants that are steered by files and reloads.

It changes in two phases, and stands a knob down that somebody else has set.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from trimtab.core import Applied, Clock, Configuration, Knob, Metric, Prepared, Readings, give_up
from trimtab.errors import ApplyFailed, ApplyRefused, UsageError
from trimtab.plants import _unloaded
from trimtab.plants._change import Change, Debt, NotBack, Server, Texts
from trimtab.plants._edits import StoodDown
from trimtab.plants._returning_plant import ReturningPlant
from trimtab.sensors import _eq1
from trimtab.sensors._metrics import STANDSTILL, STANDSTILL_WAIT


class ReloadedPlant(ReturningPlant):
    """The base of such plants, whose response time is that of Eq. (1) unless they say otherwise.

    Before the first change a standstill is expected by the workers that a reload has to end,

        k = s0 + w (s1 + s2 x the share of memory that is swapped out) + r

    with the server's own s0, s1 and s2, measured on a machine of two cores (docs/trim-measured.md), and r the time
    that requests under way hold it up: until they are done, or by their share of the CPU.

    Args:
        clock: for the waits of a reload.
        server: the running server.
        knobs: its knobs.
    """

    metrics: tuple[Metric, ...] = (*_eq1.METRICS, STANDSTILL, STANDSTILL_WAIT)
    _server: Server
    _accept_lost = False
    """Whether requests or connections may be lost in a reload."""

    def __init__(self, clock: Clock, server: Server, knobs: Iterable[Knob]) -> None:
        self.clock = clock
        self.pid: int = server.master.pid
        self._server = server
        self._knobs = {knob.name: knob for knob in knobs}
        self._down = StoodDown()
        self._debt: Debt | None = None
        self._chosen = self._previous = dict(server.in_force)

    def derive(self, readings: Readings) -> Readings:
        """Burst length and response time, Eq. (1) of liu2003, and how long the last change stopped the server."""
        return {**_eq1.eq1(readings), **self.stood_still(readings)}

    def expected_stop(self) -> tuple[float, float, float] | None:
        """Terms s0, s1 and s2 of a first change's standstill, in seconds; None where they are not known."""
        return None

    def ended_at_once(self, workers: float, busy: float) -> float:
        """How many of these workers, so many of them busy, a reload has to end while nothing is served."""
        return workers

    def held_up_s(self, readings: Readings) -> float:
        """How long requests under way are expected to hold up a first reload, beyond that by itself, in seconds.

        Args:
            readings: those of the sensors, and what is derived of them.
        """
        return 0.0

    def stood_still(self, readings: Readings) -> Readings:
        """How long the last change stopped the server and clients waited, or the first one can, as far as known."""
        if (last := self._server.standstill) is not None:
            waited = {} if last.waited_s is None else {STANDSTILL_WAIT.name: last.waited_s}
            return {STANDSTILL.name: last.duration_s, **waited}
        if (expected := self.expected_stop()) is None or "idle_workers" not in readings:
            return {}
        first_s, worker_s, swapped_s = expected
        busy = readings.get("busy_workers", 0.0)
        workers = self.ended_at_once(readings["idle_workers"] + busy, busy)
        swapped = min(1.0, readings.get("swap_bytes", 0.0) / max(1.0, readings.get("memory_bytes", 0.0)))
        ending_s = workers * (worker_s + swapped_s * swapped)
        return {STANDSTILL.name: first_s + ending_s + self.held_up_s(readings)}

    @property
    @abstractmethod
    def set_to(self) -> Mapping[str, int]:
        """Knob to the value that we have set."""

    @abstractmethod
    def change(self, texts: Texts) -> Change[Any]:
        """The change that brings texts for files into force; None removes a file."""

    @abstractmethod
    def look_for_edits(self, knobs: Iterable[str]) -> Mapping[str, str]:
        """The knobs that somebody else has set, each with a message.

        Args:
            knobs: those to look at beside ours.

        Raises:
            UsageError: the configuration cannot be read.
        """

    def not_loaded(self) -> str:
        """That its files were put back and not loaded, as by an undo that was killed; empty where they are."""
        master = self._server.master
        said = f"{master} may still run with what was on trial: it has not loaded the files that were put back"
        return "" if _unloaded.marked(master) is None else said

    def outdated(self) -> bool:
        """Whether the server may run with something else than its files say."""
        return bool(self.not_loaded())

    def undo_killed(self) -> None:
        """Has the server load files that were put back and not loaded.

        Raises:
            UsageError: it may not be done from here, or the server would end; the message says what is needed.
            ApplyFailed: the reload did not take.
            PlantGone: it has ended.
        """
        if self.not_loaded():
            self.check_reload(accept_lost=True)
            self.change({}).undo()
            self._chosen = self._previous = dict(self._server.in_force)

    def check_permissions(self) -> None:
        """Makes sure, before anything is changed, that a change could be made, and that it loses nothing.

        Raises:
            UsageError: it could not, or would; the message says what is needed.
            PlantGone: the server has ended.
        """
        self.check_reload(self._accept_lost)
        self.check_alone()

    def check_alone(self, knobs: Iterable[str] = ()) -> None:
        """Makes sure that no other server reads what a change writes; not asked on a way back (`goes_back`).

        Args:
            knobs: those that it sets; none before the first change, when they are not known.

        Raises:
            UsageError: one does.
        """

    @abstractmethod
    def check_reload(self, accept_lost: bool) -> None:
        """Makes sure that a change can be made, that the server outlives its reload, and that nothing is lost by it.

        Args:
            accept_lost: whether something may be lost, as it may on a way back (`goes_back`).

        Raises:
            UsageError: not so; the message says what is needed.
            PlantGone: the server has ended.
        """

    def check_moment(self, values: Mapping[str, int]) -> None:
        """Makes sure that nothing speaks against a reload just now; not asked on a way back (`goes_back`).

        Args:
            values: knob to value, of all knobs that are ours then.

        Raises:
            ApplyLater: something does.
            UsageError: a file cannot be read.
        """
        return

    @abstractmethod
    def composed(self, values: Mapping[str, int]) -> Any:
        """Arguments of `bring` and `rollback` for a change; nothing is touched.

        Args:
            values: knob to value, of all knobs that are ours then.

        Raises:
            UsageError: the change cannot be made.
        """

    @abstractmethod
    def bring(self, prepared: Prepared) -> tuple[str, ...]:
        """Brings a prepared change into force by one reload, or puts everything back.

        Returns:
            What the user should know, one line each.
        """

    def configuration(self) -> Configuration:
        """The configuration in force.

        Raises:
            OperatorEdit: somebody else has set a knob of ours; said once for each.
            PlantGone: the server has ended.
        """
        self._server.refresh()
        if self._debt is None:  # else the files hold what a failed change has left
            with contextlib.suppress(
                UsageError
            ):  # in the middle of an edit it may make no sense, and is not in force
                self._down |= self.look_for_edits(())
        self._down.tell(self.set_to)
        return {knob: self._server.in_force[knob] for knob in self._knobs}

    def prepare(self, changes: Mapping[str, int]) -> Prepared:
        """Checks a change: its values, who else has set them, and whether it may be made; nothing is touched.

        What is on trial may do harm, so a way back (`goes_back`) waits for nobody: for no edit and no long request,
        nor for leave to lose what a reload loses, which the end of the run would lose all the same. Nor is it
        measured anew against memory or connections, which it had room for and others may have taken since. It is
        refused only where it surely does more harm: where the server would end or have nobody who serves, its own
        test fails, or the rights are missing.

        Raises:
            ApplyRefused: not valid, against a rule among the knobs, or not permitted.
            OperatorEdit: somebody else has set one of the knobs.
            PlantGone: the server has ended.
        """
        wanted = self.validated(changes)
        try:
            self.settle()
            self._server.refresh()
            self._down |= self.look_for_edits(wanted)
            self._down.refuse(wanted)
            now = {knob: self._server.in_force[knob] for knob in wanted}
            if now == wanted:
                return Prepared(wanted, now)
            values = {knob: value for knob, value in {**self.set_to, **wanted}.items() if knob not in self._down}
            back = self.goes_back(values)
            if not back and (why := self.objection({**self._server.in_force, **wanted})):
                raise ApplyRefused(why)
            self.check_reload(self._accept_lost or back)
            if not back:
                self.check_alone(values)
                self.check_moment(values)
            return Prepared(wanted, now, self.composed(values))
        except (UsageError, ApplyFailed) as error:
            raise ApplyRefused(str(error)) from None

    def commit(self, prepared: Prepared) -> Applied:
        """Brings a prepared change into force by one reload: all of it or nothing.

        Raises:
            ApplyRefused: the server does not accept it, or may not be reloaded now; nothing changed.
            ApplyFailed: did not take; what was before is restored.
            PlantGone: the server has ended.
        """
        if prepared.detail is None:
            return Applied(self.configuration(), 0.0, ("already in force; not reloaded",))
        started_s, before = self.clock.now_s(), dict(self._server.in_force)
        try:
            notes = self.bring(prepared)
        except NotBack as error:
            self._debt = error.debt
            give_up(error.why, str(error.why), [error.said])
        self.went(before, self.set_to)
        return Applied(self.configuration(), self.clock.now_s() - started_s, notes)

    def settle(self) -> None:
        """Puts back what a change or an undo that failed could not.

        Raises:
            UsageError: somebody has edited a file meanwhile, which is left alone, or it cannot be read.
            ApplyFailed: it fails again.
        """
        if self._debt is not None:
            self._debt.pay()
            self._debt = None

    def settle_files(self) -> None:
        """The same for the files alone, before what was there first is put in their place and reloaded to.

        A server that does not answer would not reload to the trial before either, whose files would then stay.

        Raises:
            UsageError: as for `settle`.
            ApplyFailed: as for `settle`.
        """
        if self._debt is not None:
            self._debt.put()
            self._debt = None

    def undo(self, texts: Texts, ours: Texts) -> None:
        """Brings earlier texts of files back into force; where that fails, `settle` tries again.

        Args:
            texts: the earlier texts.
            ours: those that we have written.

        Raises:
            UsageError: somebody has edited a file meanwhile, which is left alone, or it cannot be read.
            ApplyFailed: it fails.
        """
        self._debt = Debt(self.change(texts), ours)
        self.settle()
