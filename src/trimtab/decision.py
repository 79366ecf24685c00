"""One decision: judge, decide, guard. The loop makes it on a live server, the replay on stored windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trimtab import codec, metrics
from trimtab.core import (
    Configuration,
    Controller,
    Fate,
    Guard,
    Knob,
    Move,
    MoveState,
    Objective,
    Trial,
    Window,
    in_words,
)
from trimtab.guard import of_knobs, review_all
from trimtab.referee import Judge, of_run

LONGEST_WAIT = 60
"""How often a search's move may be put off, once a window, before it counts as refused."""


@dataclass(frozen=True)
class Standing:
    """State of a run between two decisions.

    Args:
        knobs: those that may still be moved; none where no decision follows any more.
        state: the controller's state.
        guard_states: the states of the guards.
        judge_state: the judge's state; None where nobody judges.
        fate: outcome of the controller's last move that wanted to change something.
        waits: a search's move that the plant has put off; None where there is none.
        waited: how often it has put that off.
    """

    knobs: tuple[Knob, ...] = ()
    state: Any = None
    guard_states: tuple[Any, ...] = ()
    judge_state: Any = None
    fate: Fate | None = None
    waits: Move | None = None
    waited: int = 0


@dataclass(frozen=True)
class Decision:
    """A decision, with the state after it.

    Args:
        standing: the state so far.
        proposed: the controller's move.
        move: the move after judge and guards.
        ends: True when the search has finished, and what it has found is in force.
        returns: True when the move brings back what was measured good, by judge or guard, or the incumbent.
    """

    standing: Standing
    proposed: Move
    move: Move
    ends: bool = False
    returns: bool = False

    def differing(self, window: Window) -> dict[str, int]:
        """The changes of the move that are not in force in the window that it follows from."""
        return _differing(self.move.changes, window)

    def fate(
        self, window: Window, state: MoveState, detail: str = "", configuration: Configuration | None = None
    ) -> Fate | None:
        """What the controller is told of its last move that wanted something: the table of `trimtab.core.trial`.

        Args:
            window: the window that the decision follows from.
            state: what became of the move after judge and guards.
            detail: what the plant said of it.
            configuration: what was read back once it was applied; None where it was not.
        """
        wanted = _differing(self.proposed.changes, window)
        if not wanted:
            return self.standing.fate
        before, allowed = window.configuration, self.move.changes
        left = {
            name: allowed[name]
            for name, value in wanted.items()
            if name in allowed and _on_the_way(before.get(name), allowed[name], value)
        }
        amended = allowed != self.proposed.changes
        because = self.move.reason.removeprefix(self.proposed.reason).removeprefix("; ") if amended else ""
        if not left:
            return Fate(MoveState.HELD, wanted, because)
        if state is MoveState.APPLIED:
            reached = {name: (configuration or {}).get(name, value) for name, value in left.items()}
            left = _differing(reached, window)
        return Fate(state, left, "; ".join(filter(None, (because, detail))))


@dataclass(frozen=True)
class Oversight:
    """Guards and judge between a controller and a plant.

    Args:
        guards: guards that every move passes, in this order.
        judge: judge of whether a change was for the better; None for none.
    """

    guards: tuple[Guard, ...]
    judge: Judge | None = None

    @staticmethod
    def of(controller: Controller, objective: Objective, knobs: Sequence[Knob]) -> Oversight:
        """The oversight of a run, by its method and its knobs."""
        judge = of_run(controller, objective, knobs)
        return Oversight(of_knobs(objective, knobs, judge is not None and judge.judges_changes), judge)


@dataclass(frozen=True)
class Decider:
    """Judge, controller and guards of a run; it has no state of its own.

    Args:
        controller: the method.
        oversight: guards and judge between it and the plant.
        seed: source of the run's randomness.
    """

    controller: Controller
    oversight: Oversight
    seed: int = 0

    def start(self, knobs: tuple[Knob, ...]) -> Standing:
        """The standing before the first window.

        Raises:
            UsageError: the controller cannot move these knobs.
        """
        return self._overseen(Standing(knobs, self.controller.start(knobs, self.seed)))

    def without(self, standing: Standing, knob: str) -> Standing:
        """The standing once a knob is left to the operator; effects of its value are no longer believed.

        Raises:
            UsageError: the controller cannot go on with the others.
        """
        rest = tuple(one for one in standing.knobs if one.name != knob)
        if not rest:
            return replace(standing, knobs=())
        withdraw = getattr(self.controller, "withdraw", None)
        state = self.controller.start(rest, self.seed) if withdraw is None else withdraw(standing.state, knob)
        after = self._overseen(replace(standing, knobs=rest, state=state, waits=None, waited=0))
        withdraw = getattr(self.oversight.judge, "withdraw", None)
        return after if withdraw is None else replace(after, judge_state=withdraw(standing.judge_state, rest))

    def decide(self, standing: Standing, window: Window) -> Decision:
        """The move that follows from one more window.

        A configuration that the judge puts back was measured good, so it passes no guard; any other move passes the
        guards first, so that what the judge allows is what will be applied; one to a configuration that is known from
        this run they only see. A search that has finished wants its incumbent, and ends when that is in force and not
        on trial.

        Args:
            standing: the state so far.
            window: the window.
        """
        judge = self.oversight.judge
        judge_state, judgement, refuted = standing.judge_state, None, frozenset[tuple[str, int]]()
        back: Mapping[str, int] = {}
        if judge is not None:
            judge_state, back = judge.judge(judge_state, window)
            judgement, refuted = judge_state.judgement, judge_state.closed
        state, waits = standing.state, None
        if standing.waits is None:
            asked, failed = metrics.asked(window.readings), metrics.failed(window.readings)
            trial = Trial(window, standing.fate, judgement, refuted, asked, failed)
            state, proposed = self.controller.step(state, trial)
        else:
            proposed = _again(standing.waits, window)
            waits = None if proposed is standing.waits else standing.waits
        if proposed.finished:
            proposed = replace(proposed, changes=_differing(proposed.incumbent or {}, window))
        cut = self._cut(standing, window)
        guard_states, move = review_all(self.oversight.guards, standing.guard_states, window, proposed)
        if proposed.known:
            move, cut = proposed, False
        ends = move.finished and not proposed.changes and (judgement is None or judgement.final)
        if back:
            said = in_words(back, judge_state.knobs)
            move = Move(back, f"{judgement.why if judgement else 'not better'}: back to {said}", phase="return")
        elif judge is not None:
            move = judge.review(judge_state, window, move)
        after = replace(standing, state=state, guard_states=guard_states, judge_state=judge_state, waits=waits)
        return Decision(after, proposed, move, ends and not back, returns=bool(back) or waits is not None or cut)

    def _cut(self, standing: Standing, window: Window) -> bool:
        """Whether a guard finds a window so bad that it returns to what was good before."""
        guards = zip(self.oversight.guards, standing.guard_states, strict=True)
        return any(guard.abort(state, window) for guard, state in guards)

    def after(
        self,
        standing: Standing,
        made: Decision,
        window: Window,
        state: MoveState,
        detail: str = "",
        configuration: Configuration | None = None,
    ) -> Standing:
        """The standing after what became of a decision.

        Args:
            standing: the state since, that of the decision but for knobs that have stood down.
            made: the decision.
            window: the window that it follows from.
            state: what became of the move after judge and guards.
            detail: what the plant said of it.
            configuration: what was read back once it was applied; None where it was not.
        """
        if state is MoveState.PUT_OFF and getattr(self.controller, "searches", False):
            if standing.waited >= LONGEST_WAIT:  # so that a search has an end
                fate = made.fate(window, MoveState.REFUSED, detail, configuration)
                return replace(standing, waits=None, waited=0, fate=fate)
            now = {one.name: window.configuration[one.name] for one in standing.knobs}
            waits = replace(made.proposed, changes={**now, **made.proposed.changes})
            return replace(standing, waits=standing.waits or waits, waited=standing.waited + 1)
        if standing.waits is None:
            standing = replace(standing, waited=0)
        return replace(standing, fate=made.fate(window, state, detail, configuration))

    def restored(self, stored: Standing) -> Standing:
        """A standing from one whose states are as JSON has them.

        Raises:
            ValueError: these are not states of this controller, its guards and its judge.
        """
        if not stored.knobs:
            return stored
        parts = (self.controller, *self.oversight.guards, self.oversight.judge)
        raw = (stored.state, *stored.guard_states, stored.judge_state)
        if len(parts) != len(raw):
            raise ValueError(f"it has {len(raw) - 2} guards, here are {len(parts) - 2}")
        state, *guards, judge = (
            one if part is None else codec.convert(one, codec.state_of(part))
            for part, one in zip(parts, raw, strict=True)
        )
        return replace(stored, state=state, guard_states=tuple(guards), judge_state=judge)

    def _overseen(self, standing: Standing) -> Standing:
        """The standing with guards and judge at their beginning."""
        guards, judge = self.oversight.guards, self.oversight.judge
        return replace(
            standing,
            guard_states=tuple(guard.start(standing.knobs) for guard in guards),
            judge_state=None if judge is None else judge.start(standing.knobs),
        )


def _again(waits: Move, window: Window) -> Move:
    """The move that was put off, but first the incumbent: what is on trial is not to stay as long as that waits."""
    back, meant = _differing(waits.incumbent or {}, window), {**window.configuration, **waits.changes}
    if all(meant.get(name) == value for name, value in back.items()):
        return waits
    why = f"the incumbent is in force while this is put off: {waits.reason}"
    return Move(back, why, phase="return", incumbent=waits.incumbent, known=True)


def _differing(changes: Mapping[str, int], window: Window) -> dict[str, int]:
    """The changes that are not in force in a window."""
    return {name: value for name, value in changes.items() if window.configuration.get(name) != value}


def _on_the_way(now: int | None, value: int, wanted: int) -> bool:
    """Whether a value is the wanted one, or lies between what is in force and that."""
    return value == wanted or (now is not None and (now < value < wanted or now > value > wanted))
