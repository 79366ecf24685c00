"""A search by trials: any controller, stopped after so many windows, its winner measured again before it stays.

It stands around a controller as a guard stands behind it: the method proposes, window by window, and knows nothing of
it. What it promises: the search ends after its trials, or when the method says so, or when clients have lost more
than the budget of harm; then the incumbent is measured in turn with the start configuration, and stays only if these
windows show that it is better. Else, and when the run is stopped before, the start configuration comes back.

    loss of a trial = max(0, 1 - v / v_0), 1 where it was not measured or broke a limit that the start keeps  (H1)
    lost            = sum over the trials of loss times length, in seconds of the start's work               (H2)

with v how good a trial was and v_0 the mean of the windows at the start configuration, those of the re-measurement
too, all at one pace of the machine (`trimtab.search.pace`). To what is lost comes the time in which a change let no
request begin, `held_s`. Gains do not pay for losses: they are others' pages.

A server that was started a moment ago gets better by itself, as its caches fill and its code is compiled, and all
that is tried first would look good. So as long as a window of the start is better than all before it by `WARMER`, it
and they are no trials, and the method begins anew; after `_COLD` windows in turn that are not, never again.

Nothing is tried before the start was measured once: without it no trial could be told to be worse. Where `_WARMING`
windows measure nothing, as where nobody uses the server, the search ends, and has changed nothing.

What is measured again is what the method recommends (`Move.recommended`), else its incumbent; where nothing is, the
incumbent is believed. A move to the start, or to what was measured and was no worse, passes no guard: to measure a
configuration again means this one and no other near it. Only where a rule among the knobs refuses the winner by now
(memory that more connections hold, say) it goes as far as the rules let it, and what they leave of it is the winner
from there on. The incumbent is what the method names; of one that names none, the configuration with the best mean.
One that recommends nothing cannot tell loads apart: its incumbent has to be better than the start in the mean of all
trials, or nothing is measured again.

A knob that is left to the operator leaves the search to the others. Trials made, and what was lost and gained in
them, stay counted. Windows in which that knob had the value that is in force now stay evidence, no others: they
measured another configuration. Until the start is measured beside the new value, v_0 is what it was before. A
re-measurement begins again, since all of its windows have to be of two configurations.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from trimtab import codec
from trimtab.core import Configuration, Controller, Knob, Move, MoveState, Objective, Trial, Verdict, Window
from trimtab.core.controller import restarts
from trimtab.referee.turns import (
    Claim,
    Seen,
    at_one_pace,
    better,
    candidates_turns,
    claimed,
    slope_in,
    spread,
    without,
)

S = TypeVar("S")
Key = tuple[tuple[str, int], ...]
EXTRA = "search"
"""Under which a run's plan keeps its search."""
MEASURE = "measure again"
WARMER = 1.03
"""How many times better than all windows before it one of the start is while the server still warms up."""
_COLD, _WARMING = 3, 12
"""Windows at the start in turn after which it is warm; the most for which warmth, or first traffic, is waited for."""
_MISSES = 2
"""Windows in which a configuration that is to be measured again may fail to come into force."""


@dataclass(frozen=True)
class Search:
    """How a search goes.

    Args:
        trials: windows that the method is given.
        remeasure: how often start and winner are measured in turn at the end; 0 to believe the method.
        budget: the share of the start's work in all trials that may be lost; None for no bound.
        trial_s: length of a trial, in seconds.
        rounds: how many such rounds of turns there may be, where the first leaves open what may be a gain.
    """

    trials: int
    remeasure: int
    budget: float | None
    trial_s: float
    rounds: int = 1

    @property
    def budget_s(self) -> float | None:
        """The work that may be lost, in seconds of the start's; None for no bound."""
        return None if self.budget is None else self.budget * self.trials * self.trial_s


@dataclass(frozen=True)
class SearchState(Generic[S]):
    """State of a search by trials.

    Args:
        knobs: those that are moved.
        seed: source of the method's randomness.
        inner: the method's state.
        start: the configuration in the first window.
        trials: the windows of the search.
        warming: windows before it in which the server warmed up.
        warmest: the best value in these; None where there was none.
        forgotten: trials in which a knob that was left to the operator had another value; counted and not believed.
        settled: how many of the first trials `lost_s` and `gained_s` stand for, beside those that are forgotten.
        lost_s: work lost in these, in seconds of the start's.
        gained_s: work gained in these.
        usual: the start's mean before a knob was left to the operator; None where none was.
        left: names of the knobs that are left to the operator.
        winner: the configuration measured again; empty while the search goes on.
        turns: the windows of the re-measurement.
        rounds: rounds of turns that it has so far.
        misses: windows in a row in which the wanted configuration was not in force.
        nearing: whether the winner was refused, and was asked for as far as rules let it.
        bent: whether the winner is what the rules left of it.
        claim: outcome of these turns; None before the end.
        ended: why the search ended; empty before.
    """

    knobs: tuple[Knob, ...]
    seed: int
    inner: S
    start: Mapping[str, int] = field(default_factory=dict)
    trials: tuple[Seen, ...] = ()
    warming: int = 0
    warmest: float | None = None
    forgotten: int = 0
    settled: int = 0
    lost_s: float = 0.0
    gained_s: float = 0.0
    usual: float | None = None
    left: tuple[str, ...] = ()
    winner: Mapping[str, int] = field(default_factory=dict)
    turns: tuple[Seen, ...] = ()
    rounds: int = 1
    misses: int = 0
    nearing: bool = False
    bent: bool = False
    claim: Claim | None = None
    ended: str = ""

    @property
    def made(self) -> int:
        """Trials made so far."""
        return self.forgotten + len(self.trials)


@dataclass(frozen=True)
class Searching:
    """A controller that searches by trials.

    Args:
        objective: the objective.
        inner: the method.
        search: how the search goes.
    """

    objective: Objective
    inner: Controller
    search: Search

    @property
    def experiments(self) -> bool:
        """Whether a referee judges each change of the method."""
        return bool(getattr(self.inner, "experiments", False))

    @property
    def searches(self) -> bool:
        """Whether its method goes as far as rules among knobs let it."""
        return bool(getattr(self.inner, "searches", False))

    @property
    def restarts(self) -> str:
        """What becomes of the method once a knob is left to the operator."""
        return restarts(self.inner)

    @property
    def state_type(self) -> Any:
        """The kind of its state, by that of the method."""
        return SearchState[codec.state_of(self.inner)]  # type: ignore[misc]

    def start(self, knobs: tuple[Knob, ...], seed: int) -> SearchState[Any]:
        """The state before the first window.

        Raises:
            UsageError: the method cannot move these knobs.
        """
        return SearchState(knobs, seed, self.inner.start(knobs, seed))

    def withdraw(self, state: SearchState[Any], knob: str) -> SearchState[Any]:
        """The state without a knob: its trials and what they cost stay counted, and it goes on with the others.

        Raises:
            UsageError: the method cannot go on with the others.
        """
        rest = tuple(one for one in state.knobs if one.name != knob)
        own = getattr(self.inner, "withdraw", None)
        inner = self.inner.start(rest, state.seed) if own is None else own(state.inner, knob)
        lost_s, gained_s = harm(state, self.objective)
        start, winner = without(state.start, knob), without(state.winner, knob)
        claim = state.claim if state.winner == state.start else None
        if state.winner not in ({}, state.start) and start == winner:
            claim = Claim(Verdict.SAME, f"no improvement: the winner differed from the start in {knob} alone")
        return replace(
            state,
            knobs=rest,
            inner=inner,
            start=start,
            trials=tuple(one.without(knob) for one in state.trials),
            settled=len(state.trials),
            lost_s=lost_s,
            gained_s=gained_s,
            usual=_usual(at_one_pace((*state.trials, *state.turns), self.objective), state, self.objective),
            left=(*state.left, knob),
            winner=winner,
            turns=(),
            rounds=1,
            misses=0,
            nearing=False,
            claim=claim,
        )

    def final(self, state: SearchState[Any]) -> Configuration:
        """Configuration to be in force at the end of a run: the start, unless the winner was found better."""
        proven = state.claim is not None and state.claim.verdict is Verdict.BETTER
        believed = state.ended and not self.search.remeasure
        return {} if proven or believed or self.experiments else state.start

    def step(self, state: SearchState[Any], trial: Trial) -> tuple[SearchState[Any], Move]:
        """The method's move, the next configuration to be measured again, or the end."""
        names = [knob.name for knob in state.knobs]
        seen = Seen.of(trial.window, names, self.objective, state.left, trial.failed)
        state = self._beside(state, seen)
        if not state.start:
            state = replace(state, start=seen.configuration)
        if state.ended:
            return self._measured(state, seen, trial)
        if self._warms_up(state, seen):
            windows = state.warming + len(state.trials) + 1
            inner = self.inner.start(state.knobs, state.seed)
            state = replace(state, inner=inner, trials=(), settled=0, warming=windows, warmest=seen.value)
            return state, Move.hold(
                f"the server still gets better by itself after {windows} windows; not yet a trial"
            )
        if self._unseen(state, seen):
            return self._waits(state, trial.window)
        inner, move = self.inner.step(state.inner, trial)
        before_s = harm(state, self.objective)[0]
        state = replace(state, inner=inner, trials=(*state.trials, seen))
        best: Configuration = {**state.start, **(move.incumbent or self._best(state) or {})}
        if move.recommended is None:
            best = winner = self._standing(state, best)
        else:  # it tells one load from another, and answers for both
            winner = {**state.start, **move.recommended}
        lost_s, gained_s = harm(state, self.objective)
        said = f"trial {state.made} of {self.search.trials}: {move.reason}"
        figures = self._figures(state, best, lost_s, gained_s)
        figures["trial_lost_s"] = max(0.0, lost_s - before_s)
        if not (why := self._why_stop(state, move, lost_s)):
            move = replace(move, reason=said, evidence={**move.evidence, **figures}, incumbent=best)
            proven = self._proven(state, {**seen.configuration, **move.changes})
            return state, replace(move, known=move.known or proven)
        if self.experiments or not self.search.remeasure:
            state = replace(state, ended=why, winner=seen.configuration if self.experiments else best)
            return state, self._end(state, f"trial {state.made} of {self.search.trials}: {why}", figures)
        state = replace(state, ended=why, winner=winner)
        if winner == state.start:
            nothing = self._nothing(state)
            state = replace(state, claim=nothing)
            return state, self._end(state, f"{why}; {nothing.why}", figures)
        return state, self._turn(state, trial.window, f"{why}; the best one is measured again", figures)

    def _nothing(self, state: SearchState[Any]) -> Claim:
        """The claim of a search that names no winner, by what it has seen."""
        if not any(one.value is not None for one in state.trials):
            return Claim(Verdict.UNMEASURED, "no improvement: nothing was measured")
        if not state.forgotten and all(one.configuration == state.start for one in state.trials):
            return Claim(Verdict.SAME, "no improvement: nothing but the start configuration was tried")
        return Claim(Verdict.SAME, "no improvement: nothing did better than the start configuration")

    def _warms_up(self, state: SearchState[Any], seen: Seen) -> bool:
        """Whether the start configuration still gets better by itself."""
        windows = state.trials
        if self.experiments or state.forgotten or state.warming + len(windows) >= _WARMING or len(windows) >= _COLD:
            return False
        values = [one.value for one in windows if one.value] + [one for one in (state.warmest,) if one]
        if not seen.value or seen.value < 0 or not values or any(value < 0 for value in values):
            return False
        least = min(better(seen.value, value, self.objective) for value in values)
        return least > WARMER and all(one.configuration == state.start for one in (*windows, seen))

    def _unseen(self, state: SearchState[Any], seen: Seen) -> bool:
        """Whether nothing was ever served yet at the start configuration, nor a limit seen broken."""
        known = seen.served(self.objective) or seen.broken or state.trials or state.forgotten or state.warmest
        return not (self.experiments or known) and seen.configuration == state.start

    def _waits(self, state: SearchState[Any], window: Window) -> tuple[SearchState[Any], Move]:
        """The move while nothing is known of the start configuration: none, and the end after a while."""
        state = replace(state, warming=state.warming + 1)
        missing = self.objective.missing(window)
        idle = "no request completed" if window.samples == 0 else f"{self.objective.metric} at 0"
        why = f"{missing} not measured" if missing else idle
        blind = f"nothing to compare with: {why} at the start configuration, {state.warming} windows by now"
        if state.warming < _WARMING:
            return state, Move.hold(f"{blind}; not yet a trial")
        nothing = self._nothing(state)
        state = replace(state, ended=blind, winner=state.start, claim=nothing)
        return state, self._end(state, f"{blind}; {nothing.why}", {})

    def _beside(self, state: SearchState[Any], seen: Seen) -> SearchState[Any]:
        """The state with the evidence that counts beside the values which the operator has set."""
        if all(one.beside == seen.beside for one in (*state.trials, *state.turns)):
            return state
        lost_s, gained_s = harm(state, self.objective)
        valid = tuple(one for one in state.trials if one.beside == seen.beside)
        forgotten = state.forgotten + len(state.trials) - len(valid)
        state = replace(state, trials=valid, forgotten=forgotten, settled=len(valid), turns=(), rounds=1, misses=0)
        return replace(state, lost_s=lost_s, gained_s=gained_s)

    def _measured(self, state: SearchState[Any], seen: Seen, trial: Trial) -> tuple[SearchState[Any], Move]:
        """The decision after one more window of the re-measurement."""
        if state.claim is not None or not self.search.remeasure or self.experiments:
            return state, self._end(state, state.claim.why if state.claim else state.ended, {})
        order = candidates_turns(self.search.remeasure, state.rounds)
        failed = trial.fate.detail if trial.fate and trial.fate.state is not MoveState.APPLIED else ""
        if state.nearing and not failed and seen.configuration not in (state.start, state.winner):
            of_start = not any(one.configuration == state.winner for one in state.turns)
            state = replace(state, winner=seen.configuration, bent=True, turns=state.turns if of_start else ())
        wanted = state.winner if order[len(state.turns)] else state.start
        if seen.configuration == wanted:
            state = replace(state, turns=(*state.turns, seen), misses=0, nearing=False)
        else:
            refused = bool(failed) and wanted == state.winner and not state.bent
            state = replace(state, misses=state.misses + 1, nearing=refused)
        claim = None
        if state.misses > _MISSES - bool(failed):  # a third failure in a row would end the run as a failed one
            which = "winner" if wanted == state.winner else "start"
            claim = Claim(
                Verdict.UNMEASURED, f"the {which} could not be brought into force to be measured again: {failed}"
            )
        elif len(state.turns) == len(order):
            slope = slope_in(state.trials, self.objective)
            claim = claimed(state.turns, self.objective, slope, state.rounds)
        if claim is not None and claim.promising and state.rounds < self.search.rounds:
            state = replace(state, rounds=state.rounds + 1)
            return state, self._turn(
                state, trial.window, f"as often again, since that may be a gain: {claim.why}", {}
            )
        if claim is None:
            return state, self._turn(state, trial.window, "measured in turn with the start configuration", {})
        none = "" if claim.verdict is Verdict.BETTER else "no improvement: "
        left = "; it is what rules leave by now of the one that was found" if state.bent else ""
        state = replace(state, claim=replace(claim, why=f"{none}{claim.why}{left}"))
        return state, self._end(state, f"{none}{claim.why}{left}", {})

    def _turn(self, state: SearchState[Any], window: Window, why: str, figures: Mapping[str, float]) -> Move:
        """The configuration to measure next; one that was in force before passes no guard."""
        order, done = candidates_turns(self.search.remeasure, state.rounds), len(state.turns)
        wanted = state.winner if order[done] else state.start
        changes = {name: value for name, value in wanted.items() if window.configuration.get(name) != value}
        which = "the winner" if order[done] else "the start"
        left = ", what rules leave of it by now," if state.bent and order[done] else ""
        reason = f"{which}{left} is next, {done + 1} of {len(order)}: {why}"
        known = _known(state, wanted)
        return Move(
            changes, reason, figures, MEASURE, incumbent=state.winner, known=known, nearest=known and state.nearing
        )

    def _end(self, state: SearchState[Any], why: str, figures: Mapping[str, float]) -> Move:
        """The last decision, with the configuration to be in force."""
        wanted = self.final(state) or state.winner
        known = not self.experiments and _known(state, wanted)
        return replace(Move.end(wanted, why), evidence=figures, known=known)

    def _why_stop(self, state: SearchState[Any], move: Move, lost_s: float) -> str:
        """Why the search ends here; empty where it goes on."""
        if move.finished:
            return f"the search has ended: {move.reason}"
        most_s = self.search.budget_s
        if most_s is not None and lost_s > most_s:
            work = f"{lost_s:.3g} s of the start's work are lost, {most_s:.3g} s may be"
            return f"the budget of harm is spent: {work}"
        return f"all {state.made} trials are made" if state.made >= self.search.trials else ""

    def _proven(self, state: SearchState[Any], wanted: Configuration) -> bool:
        """Whether this is the start, or was measured and was no worse: guards would only lead past it."""
        excess = self._excess(state, wanted)
        return wanted == state.start or (excess is not None and excess <= 0)

    def _standing(self, state: SearchState[Any], named: Configuration) -> Configuration:
        """The configuration that a method names, or the start where its own trials are no better than the start's."""
        excess = self._excess(state, named)
        return named if excess is None or excess < 0 else state.start

    def _excess(self, state: SearchState[Any], wanted: Configuration) -> float | None:
        """How much more a configuration's trials cost than the start's, in the mean; None where either has none."""
        means = _by_configuration(at_one_pace(state.trials, self.objective), kept=True)
        own, start = (means.get(tuple(sorted(one.items()))) for one in (wanted, state.start))
        if not own or not start:
            return None
        return (statistics.fmean(own) - statistics.fmean(start)) * (1 if self.objective.minimize else -1)

    def _best(self, state: SearchState[Any]) -> Configuration | None:
        """The configuration with the best mean of those that break no limit, the start among equals; None without."""
        means = _by_configuration(at_one_pace(state.trials, self.objective), kept=True)
        if not means:
            return None
        sign = 1 if self.objective.minimize else -1
        ranked = [(sign * statistics.fmean(values), dict(key) != state.start, key) for key, values in means.items()]
        return dict(min(ranked)[2])

    def _figures(
        self, state: SearchState[Any], best: Configuration, lost_s: float, gained_s: float
    ) -> dict[str, float]:
        """Figures on the search so far, by name, for the terminal."""
        found = {"trial": float(state.made), "trials": float(self.search.trials)}
        found |= {"lost_s": lost_s, "gained_s": gained_s}
        values = _by_configuration(state.trials).get(tuple(sorted(best.items())))
        noise = spread(state.trials)
        found |= {"incumbent": statistics.fmean(values)} if values else {}
        return found | ({"spread_ratio": noise} if noise is not None else {})


def _known(state: SearchState[Any], wanted: Configuration) -> bool:
    """Whether a configuration was in force in this run."""
    left = state.bent and wanted == state.winner
    return left or wanted == state.start or any(one.configuration == wanted for one in state.trials)


def against_start(state: SearchState[Any], objective: Objective) -> list[float]:
    """How many times better than the start each trial was, v / v_0 of Eq. (H1); 1 at the start, and without v_0.

    Where less is better and a trial reads 0, it is 1 too: nothing was lost, and how much was gained is no number.
    """
    seen = at_one_pace((*state.trials, *state.turns), objective)
    usual = _usual(seen, state, objective)
    start = [one for one in seen if one.configuration == state.start]
    kept = 2 * sum(one.broken for one in start) <= len(start)
    found = []
    for one in seen[: len(state.trials)]:
        if usual is None or one.configuration == state.start:
            found.append(1.0)
        elif one.served(objective) and not (one.broken and kept):
            found.append(better(one.value, usual, objective) if one.value and usual else float(not one.value))
        else:
            found.append(0.0)
    return found


def harm(state: SearchState[Any], objective: Objective) -> tuple[float, float]:
    """Work that clients lost and gained in the trials, in seconds of the start's work: Eq. (H1) and (H2)."""
    lost_s, gained_s = state.lost_s, state.gained_s
    every = zip(state.trials, against_start(state, objective), strict=True)
    for one, times in list(every)[state.settled :]:
        lost_s += one.held_s + max(0.0, 1 - times) * one.duration_s  # Eq. (H1)
        gained_s += max(0.0, times - 1) * one.duration_s
    return lost_s, gained_s


def _usual(seen: Sequence[Seen], state: SearchState[Any], objective: Objective) -> float | None:
    """The mean of those windows that are of the start, or what it was before; None where it is not known."""
    known = [one.value or 0.0 for one in seen if one.configuration == state.start and one.served(objective)]
    return statistics.fmean(known) if known else state.usual


def inner(controller: Any) -> Any:
    """The method of a search, or the controller itself."""
    return controller.inner if isinstance(controller, Searching) else controller


def _by_configuration(seen: Sequence[Seen], kept: bool = False) -> dict[Key, list[float]]:
    """The measured values of each configuration; with `kept` only those of windows that break no limit."""
    found: dict[Key, list[float]] = {}
    for one in seen:
        if one.value is not None and not (kept and one.broken):
            found.setdefault(tuple(sorted(one.configuration.items())), []).append(one.value)
    return found
