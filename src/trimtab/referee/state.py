"""State of the referee between windows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from statistics import median

from trimtab.core import Configuration, Judgement, Knob, Move, Role
from trimtab.referee.experiment import Direction, Experiment
from trimtab.referee.measure import Measured, Workload

BUDGET_S = 30.0
RESTS, REST_S = 3, 600.0


@dataclass(frozen=True)
class RefereeState:
    """State of the referee.

    Args:
        knobs: those that may be moved.
        incumbent: the best configuration by the evidence; None before the first window.
        reference: the last windows at the incumbent.
        experiment: the change being judged.
        judgement: the last judgement on that change.
        budget_s: loss that may still be risked, in seconds of normal operation.
        change_s: what a change has cost of late, in the same unit; None before the first.
        cooldown_s: how long to keep still after the last harmful change.
        quiet_until_s: end of that time, on the run's clock.
        worse: successive harmful changes.
        refuted: knob and direction that were tried in vain on this workload.
        pardoned: those of them that were cleared once on this workload, as the cost stayed when they went back.
        refuted_at: the workload at the last of these trials.
        since_s: start of the present workload, on the run's clock.
        behind: windows in which the server fell behind, until it has caught up.
        calm: how many connections were inside before it fell behind.
        last: the previous window.
        drains: whether fewer were inside in that window than in the one before it.
        spent_s: loss by changes so far, in all, in seconds of normal operation.
        excused_s: that of it which the budget does not bear, as no setting was to blame.
        lulls: whether there were windows on this workload, at the incumbent, in which nobody came or the objective
            was 0.
        first: the configuration that the run began with.
        owed: what has to come back into force, as a knob was left to the operator before the others were judged.
        barred: knob and direction after which requests failed, and the value from which it went: beyond that it is
            not taken again in this run.
    """

    knobs: tuple[Knob, ...]
    incumbent: Configuration | None = None
    reference: tuple[Measured, ...] = ()
    experiment: Experiment | None = None
    judgement: Judgement | None = None
    budget_s: float = BUDGET_S
    change_s: float | None = None
    cooldown_s: float = 0.0
    quiet_until_s: float = 0.0
    worse: int = 0
    refuted: frozenset[Direction] = frozenset()
    pardoned: frozenset[Direction] = frozenset()
    refuted_at: Workload | None = None
    since_s: float = 0.0
    behind: int = 0
    calm: float = 0.0
    last: Measured | None = None
    drains: bool = False
    spent_s: float = 0.0
    excused_s: float = 0.0
    lulls: bool = False
    first: Configuration = field(default_factory=dict)
    owed: Configuration = field(default_factory=dict)
    barred: frozenset[tuple[str, int, int]] = frozenset()
    vain: frozenset[tuple[str, int, bool, int, float]] = frozenset()

    @property
    def overloaded(self) -> bool:
        """Whether the server has fallen behind, and has not caught up since."""
        return self.behind >= 2

    @property
    def on_trial(self) -> Experiment | None:
        """The experiment in force; None where the incumbent is."""
        return self.experiment if self.experiment is not None and self.experiment.returned is None else None

    def gain_of(self, move: Move) -> float:
        """Share of the cost that a change can save at most; below 0 where it is sure to cost more.

        With a shorter keep-alive time what clients wait to connect is a part of it: of that nothing is saved, and
        more is lost, which is reckoned for a quarter of the time.
        """
        gain, now = move.gain or 0.1, self.in_force
        kept = [knob.name for knob in self.knobs if knob.role is Role.KEEP_ALIVE]
        if not any(move.changes.get(name, math.inf) < now.get(name, 0) for name in kept):
            return gain
        opening, more = (median(getattr(w, what) for w in self.reference) for what in ("opening", "reopening"))
        return float((gain - more) / (1 + opening))

    def limit_of(self, configuration: Configuration) -> int:
        """The limit of workers in a configuration; 0 where it has several: which the readings count is not known."""
        names = [knob.name for knob in self.knobs if knob.role is Role.WORKER_LIMIT]
        return configuration.get(names[0], 0) if len(names) == 1 else 0

    @property
    def in_force(self) -> Configuration:
        """The configuration that was in force so far."""
        return self.incumbent or {} if self.on_trial is None else self.on_trial.configuration

    @property
    def onward(self) -> bool:
        """Whether another change may be made on top of the one in force, which has done nothing that can be seen."""
        experiment = self.on_trial
        if experiment is None:
            return False
        if self.overloaded:
            return experiment.idle
        limits = {knob.name for knob in self.knobs if knob.role is Role.WORKER_LIMIT}
        fewer = all(name in limits and way < 0 for name, way in experiment.taken)
        return fewer and experiment.without_effect

    @property
    def closed(self) -> frozenset[Direction]:
        """Ways not to take now: tried on this workload, resting; or under overload turned back from, or up once."""
        now = self.in_force
        ends = frozenset((name, way) for name, way, at in self.barred if (now.get(name, at) - at) * way >= 0)
        if not self.onward or self.experiment is None:
            return self.refuted | ends | self.resting
        if not self.overloaded:  # only further the same way
            ways = {(knob.name, way) for knob in self.knobs for way in (-1, 1)}
            return frozenset(ways - self.experiment.taken) | ends
        return self.experiment.turned | {(name, way) for name, way in self.experiment.taken if way > 0} | ends

    @property
    def resting(self) -> frozenset[Direction]:
        """Ways that were tried in vain so often that they are not tried now, on whatever workload.

        Under overload capacity counts, of which trials for the cost say nothing, nor it of them.
        """
        now_s = 0.0 if self.last is None else self.last.at_s
        return frozenset(one[:2] for one in self.vain if one[2] == self.overloaded and now_s < one[4])

    def tried(self, ways: frozenset[Direction], experiment: Experiment, at_s: float) -> RefereeState:
        """This state once a change was not better.

        Args:
            ways: which way it moved each knob.
            experiment: it.
            at_s: the end of its last window, on the run's clock.
        """
        before = self.incumbent or {}
        barred = self.barred | {(name, way, before[name]) for name, way in ways if experiment.fails}
        so = {(*one, experiment.overloaded) for one in ways}
        vain = {one for one in self.vain if one[:3] not in so}
        for one in so:
            count = 1 + sum(times for *other, times, _ in self.vain if tuple(other) == one)
            vain.add((*one, count, at_s + REST_S * 2.0 ** (count - RESTS) if count >= RESTS else at_s))
        refuted, at = self.refuted | ways, experiment.workload
        return replace(self, refuted=refuted, refuted_at=at, barred=barred, vain=frozenset(vain))

    def within(self, changes: Configuration) -> Configuration:
        """The changes, none of them further than requests are known not to fail for it."""
        found = dict(changes)
        for name, way, at in self.barred:
            if (found.get(name, at) - at) * way > 0:
                found[name] = at
        return found

    @property
    def behind_reference(self) -> tuple[Measured, ...]:
        """The windows of the reference since the server began to fall behind; those before are of another load."""
        return self.reference[-max(2, self.behind) :]

    def charged(self, stop_s: float, window_s: float) -> RefereeState:
        """This state once a standstill, or the backlog that it left, was paid for.

        It is spent, whatever is done now: it is no reason to go back, which would cost another. So the budget keeps
        enough for a window in which all takes twice as long.
        """
        budget_s = min(self.budget_s, max(self.budget_s - stop_s, window_s))
        return replace(self, budget_s=budget_s, spent_s=self.spent_s + stop_s)

    def followed(self, now: Measured) -> RefereeState:
        """This state with a window in the count of those in which the server falls behind."""
        drains = now.drains(self.last)
        if now.behind(self.last):
            calm = self.calm if self.behind or self.last is None else self.last.inside or 0.0
            # Under overload capacity counts, of which trials for the cost say nothing.
            begins = self.behind == 1 and self.experiment is None
            refuted, worse = (frozenset(), 0) if begins else (self.refuted, self.worse)
            behind = self.behind + 1
            return replace(self, behind=behind, calm=calm, last=now, drains=drains, refuted=refuted, worse=worse)
        if not self.overloaded:
            return replace(self, behind=0, last=now, drains=drains)
        most = self.calm + 2 * math.sqrt(max(1.0, self.calm))
        drained = now.inside is not None and now.inside <= most and not now.refused
        return replace(self, behind=0 if drained else self.behind + 1, last=now, drains=drains)
