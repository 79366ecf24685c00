"""The referee: every change is an experiment on a live server, and ends in a verdict.

What it promises. A change is made only when it can be judged, can earn back what it costs, and its possible loss
fits into a budget. One that makes things worse is taken back by one change, to what was measured good as it was.
What was not measured is not good. A run ends with a server that is better by the evidence, or as it was.

The verdict follows from `estimate` (the effect at equal load) and from what the change has cost so far. The unit of
loss is a second of the server's normal operation: E seconds of excess are as bad for the clients as if all that
they wait in E normal seconds came on top.

    excess = T max(cost / expected - 1, (inside - inside before) / (arrivals x expected cost))        (R7)
             where the cost is no time, or arrivals are not known, that denominator is the mean inside before;
             where the cost is only told by Little's law, the second term alone counts
    K = k (1 + k / (2 n expected cost)) min(1 / (1 - rho), 1 + N)   what a change that stops service for k s costs
         (R8) with n requests of a connection, which come one after the other, and N inside: in a queue that
         strangers come to N is rho / (1 - rho) at least, and where clients wait for their replies it says how few
         there are; before it was made, rho is what the capacity that it adds leaves of it, and a pool that has to
         grow again stands still for longer (`regrowth_s`); once it was made and seen, what connections waited
         longer for it / (arrivals x expected cost)
    worse:   by its effect (`estimate`), after another keep-alive time also by what that is if the connections that
             it makes itself are no more load (no better either where that leans to worse), or it has spent the last
             of the budget (not by a backlog, nor by that of its own standstill: `Experiment.own_backlog`, nor while
             a pool grows again: `regrowing`), or more requests fail (`Experiment.failing`), or nothing was measured
             in two windows while the queue grows (those in which nobody came do not count where there were such)
    better:  by its effect
             (not by the time of a connection after another keep-alive time, while no fewer are inside)
    limits:  one that was kept and is broken is worse, one that is mended better, whatever the effect (`limits`)
    same:    by its effect
    neither: after 12 windows with an effect above 0, after 36 with one less than an error below it

| constant          | why                                                                                       |
|-------------------|-------------------------------------------------------------------------------------------|
| 3 to 6 windows    | before a change: as many as tell the promised gain from noise; more than 6 change little  |
| BUDGET_S, EARNED  | 30 s at the start, 5 % of the time after: what is blamed costs at most 1.05 in the end;   |
|                   | no trial may lose more than 30 s, but a known standstill may take all that is left        |
| COOLDOWN_S        | 60 s after a harmful change, doubled by each further one up to an hour                    |
| AFTER, A-B-A      | three windows after a return: a rise that stays was the load's: it blames no setting, and |
|                   | takes nothing from the budget; once for each way on a workload                            |
| MOVED             | what was refuted is open again when arrivals or the demand of a request move by 1.5, and  |
|                   | nothing is tried while arrivals move by as much within the reference: that is no one load |
| RESTS, REST_S     | a way that was in vain three times rests for 600 s, as long as a workload is taken to     |
|                   | last, then twice as long each time, whatever the workload: a rush that comes each hour is |
|                   | no reason to try the same each hour; what was tried under overload by itself              |
| LEAST_HORIZON_S   | a workload is taken to last as long as it has, at least a minute: its first windows say   |
|                   | nothing of its age, and a change that is worth it is worth most at once                   |
| (spare)           | what nobody uses may go whether the gain can be told or not: it loses the change's own cost |
| STOP_S            | a prior for k until the first change was measured, where the plant expects none itself    |

Under overload (connections refused, or more inside than before by more than chance, twice in a row) the backlog
and not the setting makes the cost. Then only what adds capacity may be changed: at once where it is live, by a reload
only where the backlog does not drain by itself. A change after which no more is completed stays, because to go back
would be one more reload, and another may be made on top of it: both are judged together, and go back together. What
was raised in vain is not raised further.

What is completed says nothing of a limit before the workers beyond it have ended and those that it allows are there.
Where that takes more than six windows, because some hang, another change may follow all the same. Where requests are
not counted, because the status page waits too, they can only be told to be fewer: fewer connections come in, which is
as many as end (not after another keep-alive time), or more pile up in a second than before the change.

A lower limit of workers of which nothing is seen in three windows (its effect is less than one standard error either
way) may go further down, where what proposed it still shows: the whole is judged against the same reference, and goes
back as one. So a limit may come down from 354 workers, by a quarter at a time, where even 89 swap. Other knobs do not
go on like that: simulated, more workers and shorter keep-alive times taken so brought as much harm as gain.

The way back to what the run began with needs no budget and no pause, only a reference and a gain that can be seen: a
user without trimtab would have that. But where it was in vain often it rests like any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from trimtab.core import Configuration, How, Judgement, Knob, Move, Objective, Role, Verdict, Window
from trimtab.referee import limits, reasons
from trimtab.referee.estimate import UNDECIDED, verdict_of, windows_needed
from trimtab.referee.experiment import LATELY, Direction, Experiment, expected
from trimtab.referee.measure import MOVED, Measured, Workload, alike, ending, growing, measured, regrowing
from trimtab.referee.state import BUDGET_S, RefereeState

LEAST_REFERENCE, REFERENCE, MOST_REFERENCE = 3, 6, 36
EARNED = 0.05
COOLDOWN_S, LONGEST_COOLDOWN_S = 60.0, 3600.0
STOP_S = 0.25
LEAST_HORIZON_S, HORIZON_S = 60.0, 600.0
PAYS = 3.0
LONGEST = 36
AFTER = 3


@dataclass(frozen=True)
class Referee:
    """Judges the changes of one run.

    Args:
        objective: the objective compared.
    """

    objective: Objective
    judges_changes: ClassVar[bool] = True

    def start(self, knobs: tuple[Knob, ...]) -> RefereeState:
        """The state before the first window."""
        return RefereeState(knobs)

    def withdraw(self, state: RefereeState, knobs: tuple[Knob, ...]) -> RefereeState:
        """The state once only these knobs are left.

        What was measured was at another setting of what is left to the operator. What has been lost, and what was
        refuted of the other knobs, stays. A change of theirs without a verdict gets none: what was before it is owed.
        """
        before = state.incumbent or state.owed
        owed = {knob.name: before[knob.name] for knob in knobs if knob.name in before}
        state = replace(state, knobs=knobs, incumbent=None, reference=(), experiment=None, judgement=None, owed=owed)
        return replace(state, behind=0, calm=0.0, last=None)

    def judge(self, state: RefereeState, window: Window) -> tuple[RefereeState, Mapping[str, int]]:
        """Takes one more window.

        Returns:
            The new state, with what is to be said in `judgement`; and what has to be put back at once, empty when
            nothing has.
        """
        per_connection = Workload.of(state.reference).per_connection
        now, was_behind = measured(window, self.objective, per_connection), state.overloaded
        held = {k.name: window.configuration[k.name] for k in state.knobs if k.name in window.configuration}
        state = state.followed(now)
        if back := _differing(state.owed, held):
            given_up = Judgement(Verdict.OPEN, state.owed, None, None, 0, reasons.stood_down(), True)
            return replace(state, judgement=state.judgement or given_up), back
        if state.incumbent is None:
            went_back, first = state.judgement is not None, {**held, **state.first}
            state = replace(state, incumbent=held, owed={}, judgement=None, since_s=window.start_s, first=first)
            if went_back:
                return state, {}  # the first window pays for the change
        if held == state.incumbent:
            return self._at_rest(state, now, window), {}
        if state.experiment is None or state.experiment.configuration != held:
            begun = self._begun(state, held, now, was_behind)
            left_s = min(BUDGET_S, _earned_s(state, window.start_s))
            state = replace(state, experiment=begun, judgement=None, budget_s=max(state.budget_s, left_s))
        return self._judged(state, now, window, was_behind or state.overloaded)

    def review(self, state: RefereeState, window: Window, move: Move) -> Move:
        """The move, or why it may not be made now."""
        now = window.configuration
        changes = {name: value for name, value in move.changes.items() if now.get(name) != value}
        if not changes:
            return move
        within = {name: value for name, value in state.within(changes).items() if now.get(name) != value}
        if why := self._objection(state, window, within or changes, move):
            return move.amended({}, why)
        return move if within == changes else move.amended(within, reasons.within())

    def abort(self, state: RefereeState, partial: Window) -> str:
        """Reason to cut the window under way short: its cost so far exceeds the budget."""
        held = {k.name: partial.configuration[k.name] for k in state.knobs if k.name in partial.configuration}
        if state.incumbent is None or held == dict(state.incumbent) or not state.reference:
            return ""
        now = measured(partial, self.objective, Workload.of(state.reference).per_connection)
        experiment = state.experiment or self._begun(state, held, now, False)
        lost_s = experiment.excess_s(now)
        if failing := experiment.followed_by(now).failing:
            return reasons.failing(*failing)
        if state.overloaded or experiment.own_backlog(now, lost_s):
            return ""  # the backlog makes the cost: the window is worth its counts
        return "" if lost_s <= max(0.0, state.budget_s) else reasons.spent(lost_s)

    def final(self, state: RefereeState) -> Configuration:
        """The configuration that the evidence stands behind, without any change that has no verdict yet."""
        return state.incumbent or state.owed

    # At the incumbent.

    def _at_rest(self, state: RefereeState, now: Measured, window: Window) -> RefereeState:
        """A window at the incumbent: more reference, and the last part of an experiment that was taken back."""
        state = replace(state, budget_s=min(_cap_s(now), state.budget_s + EARNED * now.duration_s))
        if state.experiment is not None:
            return self._returned(state, state.experiment, now)
        if state.judgement is not None:
            state = replace(state, judgement=None)
        state = replace(state, lulls=state.lulls or now.deserted or now.nothing)
        counts = now.log_cost is not None or state.overloaded
        reference = (*state.reference, now)[-MOST_REFERENCE:] if counts else state.reference
        recent = reference[-AFTER:]
        known = len(reference) >= LEAST_REFERENCE + AFTER and not state.overloaded
        then = state.refuted_at if state.refuted else None
        if then is not None and len(recent) == AFTER and not state.overloaded and then.moved(recent, MOVED):
            state = replace(state, refuted=frozenset(), pardoned=frozenset(), worse=0)
        if known and Workload.of(reference[:-AFTER]).moved(recent, MOVED):
            return replace(
                state,
                reference=recent,
                lulls=False,
                refuted=frozenset(),
                pardoned=frozenset(),
                worse=0,
                cooldown_s=0.0,
                quiet_until_s=0.0,
                since_s=window.start_s,
            )
        return replace(state, reference=reference)

    def _returned(self, state: RefereeState, experiment: Experiment, now: Measured) -> RefereeState:
        """After a return: three windows tell whether the setting was to blame (A-B-A)."""
        if experiment.returned is None:
            stop_s = self._stop_s(state, experiment, experiment.configuration, state.incumbent or {}, now)
            state = state.charged(stop_s, now.duration_s)
            return replace(state, experiment=replace(experiment, returned=()))  # the first pays for the change
        after = (*experiment.returned, *((now,) if now.log_cost is not None else ()))
        if len(after) < AFTER:
            return replace(state, experiment=replace(experiment, returned=after))
        refuted = state.refuted
        found = experiment.effect_by_return(after)
        stayed = found is not None and found.size - found.error <= 0
        ways = _directions(state.incumbent or {}, experiment.configuration)
        worse = state.judgement is not None and state.judgement.verdict is Verdict.WORSE
        if stayed and worse and not ways & state.pardoned:
            refuted -= ways
            state = _cleared(state, experiment, ways)
        if state.overloaded and not experiment.overloaded:  # now capacity counts, of which this trial said nothing
            refuted = frozenset()
        if replace(experiment, windows=after, late=(), lately=after[-2:]).fails:  # as many do without the change
            state = replace(state, barred=frozenset(one for one in state.barred if one[:2] not in ways))
        # Where the cost has stayed high after the return, the windows before the change are of another load.
        reference = (*(() if stayed else experiment.reference), *after)[-MOST_REFERENCE:]
        return replace(state, experiment=None, refuted=refuted, reference=reference)

    # With a change in force.

    def _begun(self, state: RefereeState, held: Configuration, now: Measured, behind: bool) -> Experiment:
        """A change in its first window, with what its standstill has cost.

        Args:
            state: the state before it.
            held: the knobs with it.
            now: its first window, as far as it has gone.
            behind: whether the server was overloaded when it was made.
        """
        reference = state.behind_reference if behind else state.reference
        begun = Experiment(
            held,
            reference,
            Workload.of(reference),
            overloaded=behind,
            on_limits=limits.mostly_broken(reference),
            in_seconds=self._in_seconds(),
            lulls=state.lulls,
        )
        unseen = replace(now, standstill_wait_s=None)
        stop_s, back_s = (self._stop_s(state, begun, state.in_force, held, one) for one in (now, unseen))
        return replace(_walked(begun, state), stop_s=stop_s, back_s=back_s)

    def _judged(
        self, state: RefereeState, now: Measured, window: Window, backlog: bool
    ) -> tuple[RefereeState, Mapping[str, int]]:
        """Adds a window with a change in force: its cost, and the verdict where there is one.

        Args:
            state: the state so far.
            now: the window.
            window: the same, as it was seen.
            backlog: whether what was waiting at its start had waited since before the change.
        """
        experiment = state.experiment
        assert experiment is not None
        backlog = backlog and experiment.overloaded
        lost_s = 0.0 if backlog else experiment.excess_s(now)
        experiment = experiment.followed_by(now)
        limit, r = state.limit_of(experiment.configuration), window.readings
        told = not limit or not (ending(r, limit) or growing(r, limit))
        experiment = experiment if told else replace(experiment, untold=experiment.untold + 1)
        some = experiment.untold <= LATELY
        grows = not told and some and regrowing(r, limit, state.limit_of(state.incumbent or {}))
        if pays := grows or experiment.own_backlog(now, lost_s):
            state = state.charged(lost_s, now.duration_s)
        else:
            state = replace(state, budget_s=state.budget_s - lost_s, spent_s=state.spent_s + lost_s)
        if experiment.first is None:
            state = state.charged(experiment.stop_s, now.duration_s)
        # Some hang for as long as the overload lasts: it is no reason to go back, but another change may follow.
        if told or not backlog or experiment.first is None or not some:
            experiment = experiment.with_window(now, lost_s, backlog, pays)
        state = replace(state, experiment=experiment)
        verdict, why = self._verdict(state, experiment, now, backlog, told)
        found = experiment.effect()
        judgement = Judgement(
            verdict or (Verdict.SAME if state.onward else Verdict.OPEN),
            state.incumbent or {},
            None if found is None else found.size,
            None if found is None else found.error,
            len(experiment.windows),
            why,
            verdict is not None,
        )
        if judgement.verdict is Verdict.SAME and verdict is None and backlog:
            refuted = state.refuted | _directions(judgement.against, experiment.configuration)
            state = replace(state, refuted=refuted, refuted_at=experiment.workload)
        return self._concluded(replace(state, judgement=judgement), experiment, verdict, window)

    def _verdict(
        self, state: RefereeState, experiment: Experiment, now: Measured, backlog: bool, told: bool
    ) -> tuple[Verdict | None, str]:
        """The verdict, None while there is none, and why."""
        grown = told or experiment.untold > LATELY  # or it is not that setting yet that was measured
        more = experiment.gained >= (2 if grown else 1)  # then what it costs is the backlog's
        if state.budget_s < 0 and not (backlog or more) and experiment.first_s + experiment.lost_s > 0:
            return Verdict.WORSE, reasons.spent(BUDGET_S - state.budget_s)
        if failing := experiment.failing:
            return Verdict.WORSE, reasons.failing(*failing)
        if (other := experiment.other_work) and len((*experiment.late, *experiment.windows)) >= 2:
            return Verdict.UNMEASURED, reasons.other_work(other)
        if more and not other:
            return (Verdict.BETTER if grown else None), reasons.more_completed()
        if backlog:
            less = told and experiment.completes < 0
            return (Verdict.WORSE if less else None), reasons.backlog(less, experiment.idle)
        if experiment.unmeasured >= 2 and not experiment.blind:
            grows = now.inside is None or state.behind > 0
            said = reasons.unmeasured(experiment.unmeasured, now.missing, grows)
            return (Verdict.WORSE if grows else Verdict.UNMEASURED), said
        before, after = experiment.reference, experiment.windows
        if limits.newly_broken(before, after):
            return Verdict.WORSE, reasons.broken(limits.names(after))
        if limits.mended(before, after):
            return Verdict.BETTER, reasons.mended(limits.names(before))
        found = experiment.effect()
        if found is None:
            over = experiment.silent >= UNDECIDED
            return (Verdict.UNMEASURED if over else None), reasons.new_here(len(experiment.reference))
        said = reasons.estimated(found, len(experiment.windows), experiment.on_limits)
        count = len(experiment.windows)
        verdict, by_requests = verdict_of(found, count), experiment.effect_by_requests()
        if by_requests is not None and verdict_of(by_requests, count) is Verdict.WORSE:
            return Verdict.WORSE, reasons.estimated(by_requests, count, experiment.on_limits)
        leans = by_requests is not None and by_requests.size > by_requests.error
        doubted = not grown or experiment.crowded or other or limits.doubted(before, after) or leans
        if verdict is not None and not (verdict is Verdict.BETTER and doubted):
            return verdict, said
        over = (count >= UNDECIDED and found.size > 0) or (count >= LONGEST and found.size + found.error > 0)
        return (Verdict.OPEN if over else None), said

    def _concluded(
        self, state: RefereeState, experiment: Experiment, verdict: Verdict | None, window: Window
    ) -> tuple[RefereeState, Mapping[str, int]]:
        """State after a verdict: a new incumbent, or the values to put back."""
        incumbent = state.incumbent or {}
        if verdict is None:
            return state, {}
        state = replace(state, change_s=experiment.alone_s(state.change_s))
        if verdict is Verdict.BETTER:
            kept, known = dict(experiment.configuration), experiment.kept[-MOST_REFERENCE:]
            state = replace(state, incumbent=kept, reference=known, experiment=None, refuted=frozenset(), worse=0)
            return replace(state, budget_s=BUDGET_S, cooldown_s=0.0, vain=frozenset()), {}
        end_s = window.start_s + window.duration_s
        state = state.tried(_directions(incumbent, experiment.configuration), experiment, end_s)
        if verdict is Verdict.WORSE:
            cooldown_s = min(LONGEST_COOLDOWN_S, max(COOLDOWN_S, 2 * state.cooldown_s))
            state = replace(state, cooldown_s=cooldown_s, quiet_until_s=end_s + cooldown_s, worse=state.worse + 1)
        return state, _differing(incumbent, experiment.configuration)

    # Before a change.

    def _objection(self, state: RefereeState, window: Window, changes: Mapping[str, int], move: Move) -> str:
        """Why a change may not be made now; empty when it may."""
        incumbent, count = state.incumbent or {}, len(state.reference)
        if state.experiment is not None and not state.onward:
            return "the last change is still being judged"
        now = state.experiment.configuration if state.experiment else incumbent
        if shut := _directions(now, {**now, **changes}) & state.closed:
            on_top = state.onward and not state.overloaded
            return reasons.only_further() if on_top else reasons.tried(shut <= state.resting - state.refuted)
        as_it_was = not state.overloaded and all(state.first.get(name) == value for name, value in changes.items())
        if state.worse >= 2 and not as_it_was:
            return "two changes in a row made things worse: nothing more is tried on this workload"
        end_s = window.start_s + window.duration_s
        if end_s < state.quiet_until_s and not as_it_was:
            return f"no change for another {state.quiet_until_s - end_s:.0f} s: the last one made things worse"
        missing = "" if state.last is None else state.last.missing
        if count < LEAST_REFERENCE:
            return reasons.too_few(count, LEAST_REFERENCE, missing)
        if state.behind == 1:
            return "one more window will show whether the server is falling behind"
        live = _live(state, changes)
        stop_s = 0.0 if live else window.readings.get("standstill_s", STOP_S)
        if state.overloaded:
            lost_s = stop_s and stop_s + window.readings.get("regrowth_s", 0.0)
            soon = (move.capacity - 1) * _age_s(state, window) >= PAYS * lost_s
            return reasons.overloaded(state.drains, live, move.capacity, "" if soon else f"{lost_s:.2g} s")
        return self._worth(state, window, move, stop_s, as_it_was)

    def _worth(self, state: RefereeState, window: Window, move: Move, stop_s: float, as_it_was: bool) -> str:
        """Why a change would cost more than it can bring; empty when it would not."""
        if (gain := state.gain_of(move)) <= 0:
            return reasons.opened_anew()
        work = Workload.of(state.reference)
        noise = work.noise_of(alike(state.reference), window.duration_s)
        needed = 0.0 if move.spare else windows_needed(-math.log1p(-min(0.99, gain)), noise)
        if needed > LONGEST:
            return f"a gain of at most {gain:.0%} would take {min(needed, 9999):.0f} windows to see"
        reference = max(LEAST_REFERENCE, min(REFERENCE, math.ceil(needed)))
        if len(state.reference) < reference:
            return reasons.too_few(len(state.reference), reference, "")
        if state.reference[-1].came_otherwise(state.reference[-reference], MOVED):
            return "the load is still changing: a change now could not be told from it"
        cost_s = self._cost_s(state, work, stop_s, window.readings.get("regrowth_s", 0.0), move.capacity)
        if gain * _age_s(state, window) < PAYS * cost_s:
            return f"a gain of at most {gain:.0%} does not yet earn back what a change costs ({cost_s:.2g} s)"
        budget_s = max(state.budget_s, _earned_s(state, window.start_s + window.duration_s))
        if cost_s + 1.5 * window.duration_s > budget_s and not as_it_was:
            both = f"a change ({cost_s:.2g} s) and judging it ({1.5 * window.duration_s:.2g} s)"
            return f"the budget of {budget_s:.0f} s does not cover {both}"
        return ""

    def _cost_s(
        self, state: RefereeState, work: Workload, stop_s: float, regrowth_s: float, capacity: float
    ) -> float:
        """Cost of a change by itself: as of late, or expected before the first, and until a pool has grown again."""
        if not stop_s:  # it takes effect live
            return state.change_s or 0.0
        usual_s = self._usual_s(state.reference)
        if state.change_s is None:
            return work.cost_of_standstill_s(stop_s + regrowth_s, usual_s, capacity=capacity)
        return state.change_s + work.cost_of_standstill_s(regrowth_s, usual_s, capacity=capacity)

    def _stop_s(
        self, state: RefereeState, experiment: Experiment, before: Configuration, after: Configuration, now: Measured
    ) -> float:
        """Cost of the standstill before the first window of a change or of its return, by its reference.

        Under overload the backlog makes the cost, and none where what was changed takes effect without a reload.
        """
        if experiment.overloaded or state.overloaded or _live(state, _differing(after, before)):
            return 0.0
        usual_s = self._usual_s(experiment.reference)
        return experiment.workload.cost_of_standstill_s(now.standstill_s, usual_s, now.standstill_wait_s)

    def _usual_s(self, reference: tuple[Measured, ...]) -> float | None:
        """Usual cost of a request, in seconds; None where the cost is no time."""
        return math.exp(expected(reference)) if self._in_seconds() else None

    def _in_seconds(self) -> bool:
        return self.objective.minimize and self.objective.metric.endswith("_s")


def _age_s(state: RefereeState, window: Window) -> float:
    """How long the present workload is taken to last from now on, in seconds."""
    return min(HORIZON_S, max(LEAST_HORIZON_S, window.start_s + window.duration_s - state.since_s))


def _cap_s(now: Measured) -> float:
    """Most that the budget may hold: the cost of two bad windows of this length, at least the usual."""
    return max(BUDGET_S, 3 * now.duration_s)


def _earned_s(state: RefereeState, at_s: float) -> float:
    """What the whole run may still lose: a long one that has tried little has more than its last windows earned."""
    return BUDGET_S + EARNED * at_s - (state.spent_s - state.excused_s)


def _cleared(state: RefereeState, experiment: Experiment, ways: frozenset[Direction]) -> RefereeState:
    """The state once a change is not blamed for what was lost after it: that was the load's, and no reason to wait.

    So the trial has cost its standstill. And where it was not the load, but the trial tipped a server over that had
    held out until then, to keep still now would leave that server as it is.
    """
    lost_s = experiment.first_s + experiment.lost_s
    budget_s, excused_s = min(BUDGET_S, state.budget_s + lost_s), state.excused_s + lost_s
    state = replace(state, pardoned=state.pardoned | ways, budget_s=budget_s, excused_s=excused_s)
    return replace(state, worse=max(0, state.worse - 1), cooldown_s=0.0, quiet_until_s=0.0)


def _live(state: RefereeState, changes: Mapping[str, int]) -> bool:
    """Whether all of these changes take effect without a reload."""
    return all(knob.how is How.LIVE for knob in state.knobs if knob.name in changes)


def _walked(begun: Experiment, state: RefereeState) -> Experiment:
    """A change with the ways it takes, and those of the changes before it that were tried on the same backlog."""
    last = state.on_trial
    ways = _directions(state.in_force, begun.configuration)
    taken, turned = (last.taken, last.turned) if last else (frozenset(), frozenset())
    back = frozenset((name, -way) for name, way in ways)
    kept = {knob.name for knob in state.knobs if knob.role is Role.KEEP_ALIVE}
    reconnects = any(name in kept for name, _ in taken | ways)
    return replace(begun, taken=taken | ways, turned=turned | (taken & back), reconnects=reconnects)


def _directions(one: Configuration, other: Configuration) -> frozenset[Direction]:
    """Which way each knob that differs has moved from the first configuration to the second."""
    return frozenset(
        (name, 1 if value > one[name] else -1) for name, value in other.items() if one.get(name, value) != value
    )


def _differing(wanted: Configuration, now: Configuration) -> dict[str, int]:
    """Wanted values that are not in force."""
    return {name: value for name, value in wanted.items() if now.get(name) != value}
