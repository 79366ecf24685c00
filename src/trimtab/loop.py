"""The loop: observe, decide, guard, apply, record. With its observer the only code that waits.

Every window is stored before the decision that follows from it, and every change before it is applied, so that a run
that is killed at any point can be understood and undone. The controller and the guards are pure steps; what they
return is all that happens.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from trimtab.core import Applied, Configuration, Knob, Move, MoveState, Plant, Window, in_words, notes_of
from trimtab.core.controller import Controller, restarts
from trimtab.core.rules import within_rules
from trimtab.decision import Decider, Decision, Oversight, Standing
from trimtab.errors import ApplyFailed, ApplyLater, ApplyRefused, OperatorEdit, PlantGone, StoreError
from trimtab.events import (
    RESTORED,
    UNRESTORED,
    Event,
    MoveDone,
    Note,
    NoteKind,
    Outcome,
    Stamp,
    Status,
    WindowDone,
    restored,
)
from trimtab.observer import Observer, Stop
from trimtab.replay import Past, withdrawn
from trimtab.settings import Mode, Settings

_LONG_S = 5.0
"""Windows at least this long are always looked at before their end: a server that has ended is noticed sooner."""
_YOUNG = 3
"""Shorter windows may be aborted early only in the three after a change."""


class Recorder(Protocol):
    """Store of a run; every method returns once the record would survive the end of this process."""

    def window(self, window: Window) -> Stamp:
        """Writes a window."""
        ...

    def move(self, index: int, proposed: Move, move: Move, state: MoveState) -> Stamp:
        """Writes the move that follows from window `index`."""
        ...

    def outcome(self, stamp: Stamp, state: MoveState, detail: str = "", applied: Applied | None = None) -> None:
        """Writes the outcome of an open move."""
        ...

    def note(self, note: Note) -> Stamp:
        """Writes a note."""
        ...

    def stand(self, past: Past) -> None:
        """Writes the run's state, in place of the one before."""
        ...

    def finish(self, outcome: Outcome) -> None:
        """Writes how the run ended."""
        ...


class Loop:
    """One run of one plant.

    Args:
        plant: the system under control.
        knobs: those the controller may move, in its order.
        controller: the controller; not asked in the mode `observe`.
        oversight: guards and judge between the controller and the plant.
        recorder: where the run is written.
        settings: how it goes.
        stop: set from outside to end it.
        on_event: told of every window, move and note, after it was stored.
        approve: asked before each change in the mode `approve`, but for the way back from one; None where nobody has
            answered yet, which puts a search's change off.
        past: state after an earlier part of the same run; None to start anew.
        at_end: puts back what is not this part's, before the outcome is stored; where it fails the run stays one that
            was killed.

    Attributes:
        applied: whether a change was made.
        unrestored: why what was there before could not be put back at the end; empty where it was, or was not to be.

    Raises:
        UsageError: the controller cannot move these knobs.
    """

    def __init__(
        self,
        plant: Plant,
        knobs: Sequence[Knob],
        controller: Controller,
        oversight: Oversight,
        recorder: Recorder,
        settings: Settings,
        stop: Stop,
        on_event: Callable[[Event], None] = lambda event: None,
        approve: Callable[[Move], bool | None] = lambda move: False,
        past: Past | None = None,
        at_end: Callable[[Outcome], Outcome] = lambda outcome: outcome,
    ) -> None:
        self._plant, self._oversight = plant, oversight
        self._decider = Decider(controller, oversight, settings.seed)
        self._searches = bool(getattr(controller, "searches", False))
        self._recorder, self._settings, self._stop = recorder, settings, stop
        self._on_event, self._approve, self._at_end = on_event, approve, at_end
        self._failures = self._refusals = self._missing = self._young = 0
        self._failure, self._finished, self.applied, self.unrestored = "", "", False, ""
        self._noted: set[str] = set()
        self._refused: Mapping[str, int] = {}
        self._given_up: Standing | None = None
        self._initial: Configuration = {}
        self._configuration: Configuration = {}
        if past is None:
            past = Past(Standing() if settings.mode is Mode.OBSERVE else self._decider.start(tuple(knobs)))
        self._standing, self._touched = past.standing, past.touched
        self._windows, self._elapsed_s = past.windows, past.elapsed_s

    def run(self) -> Outcome:
        """Runs until the duration is over, the run is stopped, the plant ends or changes keep failing."""
        self._observer = Observer(self._plant, self._stop, self._settings.seed, self._elapsed_s)
        try:
            if (wait_s := self._plant.warm_up()) > 0:
                self._observer.wait(self._observer.now_s() + wait_s)
            status, detail = self._cycle()
        except PlantGone as error:
            self._note_if_possible(NoteKind.GONE, str(error))
            status, detail = Status.GONE, str(error)
        except BaseException as error:
            self._recorder.finish(self._at_end(Outcome(Status.FAILED, str(error), self._windows, self._restore())))
            raise
        wanted = self._settings.restore or status in (Status.FAILED, Status.GONE)
        said = restored(status, detail, len(self._plant.subjects))
        is_back = self._restore(said) if wanted else self._put_back()
        outcome = self._at_end(Outcome(status, detail, self._windows, is_back))
        self._recorder.finish(outcome)
        return outcome

    def _tell_notes(self) -> None:
        """Tells the user what the plant has to say and has not said yet; to ask can cost as much as a change."""
        for text in notes_of(self._plant):
            if text not in self._noted:
                self._noted.add(text)
                self._note(NoteKind.PLANT, text)

    def _cycle(self) -> tuple[Status, str]:
        """Window after window; how the run ended and why."""
        settings, observer = self._settings, self._observer
        self._read_configuration()
        self._tell_notes()
        self._initial = dict(self._configuration)
        # The first window is measured in any case: a run as long as one window has spent some of it already.
        while not self._windows or observer.now_s() + 0.9 * settings.window_s <= settings.duration_s:
            early = settings.early if self._young or settings.window_s >= _LONG_S else 0.0
            self._young = max(0, self._young - 1)
            knobs, in_force = self._standing.knobs, self._configuration
            window = observer.window(self._windows, settings.window_s, self._configuration, early, self._why_abort)
            if window is None:
                self._note(NoteKind.STOP, f"stopped by {self._stop.reason}")
                return Status.STOPPED, self._stop.reason
            window = self._verified(window)
            self._record(window)
            # A window within which the operator set a knob measured two configurations: nothing follows from it.
            edited = self._standing.knobs != knobs or self._configuration != in_force
            changed = bool(knobs) and not edited and self._decide(window)
            if settings.mode is not Mode.OBSERVE:
                end_s = window.start_s + window.duration_s
                self._recorder.stand(Past(self._standing, self._windows, end_s, self._touched))
            if self._finished:
                return Status.DONE, self._finished
            if self._left_to_the_operator():
                return Status.DONE, "no knob is left to search with"
            if changed:
                self._tell_notes()
                settle_s = min(1.0, settings.window_s / 2) if settings.settle_s is None else settings.settle_s
                observer.wait(observer.now_s() + settle_s)
            if (failed := max(self._failures, self._refusals)) >= settings.failures:
                return Status.FAILED, f"{failed} changes in a row failed, the last because {self._failure}"
        return Status.DONE, ""

    def _left_to_the_operator(self) -> bool:
        """Whether a search has nothing to move any more; other methods go on observing."""
        searched = getattr(self._decider.controller, "search", None) is not None
        return searched and not self._standing.knobs and self._settings.mode is not Mode.OBSERVE

    def _verified(self, window: Window) -> Window:
        """The window, once the configuration is known to have been the same at its end.

        Raises:
            PlantGone: the server has ended; the window is stored all the same.
        """
        before = self._configuration
        try:
            self._read_configuration()
        except PlantGone as error:
            self._record(replace(window, aborted=f"the server ended: {error}"))
            raise
        if self._configuration == before:
            return window
        text = f"the configuration changed within the window, from {dict(before)} to {dict(self._configuration)}"
        return replace(window, problems=(*window.problems, text), configuration=self._configuration)

    def _record(self, window: Window) -> None:
        """Stores a window, and says so when the objective has been missing for a while."""
        stamp = self._recorder.window(window)
        self._windows += 1
        self._on_event(WindowDone(window, stamp))
        measured = self._settings.objective.cost(window) is not None
        self._missing = 0 if measured else self._missing + 1
        if self._missing == self._settings.missing:
            idle = window.readings.get("request_rate_hz") == 0
            unseen = "no traffic in them" if idle else "what it follows from was not seen in them"
            why = "; ".join(window.problems) or unseen
            name = self._settings.objective.missing(window)
            self._note(NoteKind.MISSING, f"{name} was not measured in the last {self._missing} windows: {why}")

    def _decide(self, window: Window) -> bool:
        """Takes one step of the controller; True when the configuration was changed."""
        made = self._decider.decide(self._standing, window)
        self._standing = made.standing
        changes, detail = made.differing(window), ""
        state = self._leave(made) if changes else MoveState.HELD
        stamp = self._recorder.move(window.index, made.proposed, made.move, state)
        if state is MoveState.OPEN:
            state, detail = self._apply(stamp, changes, made.move)
        elif state is MoveState.PUT_OFF:
            detail = "nobody has answered yet"
            self._recorder.outcome(stamp, state, detail)
        after = self._configuration if state is MoveState.APPLIED else None
        self._standing = self._decider.after(self._standing, made, window, state, detail, after)
        self._on_event(MoveDone(window, made.proposed, made.move, state, detail, after, stamp))
        if made.ends or (made.move.finished and state in (MoveState.ADVISED, MoveState.DECLINED)):
            self._finished = _finished(made, state)
        return state is MoveState.APPLIED

    def _leave(self, made: Decision) -> MoveState:
        """State of a decision that would change something, by the mode.

        The way back from what is on trial asks nobody: the operator has agreed to a trial, and may be away by now.
        """
        if self._settings.mode is Mode.ADVISE:
            return MoveState.ADVISED
        if self._settings.mode is not Mode.APPROVE or made.returns:
            return MoveState.OPEN
        said = self._approve(made.move)
        return MoveState.PUT_OFF if said is None else MoveState.OPEN if said else MoveState.DECLINED

    def _apply(self, stamp: Stamp, changes: Mapping[str, int], move: Move) -> tuple[MoveState, str]:
        """Applies the open move and stores its outcome; one that is meant as a whole means this or nothing."""
        self._touched = True
        applied: Applied | None = None
        whole = move.known and not move.nearest
        reached, said = (changes, ()) if whole else self._within_rules(changes)
        try:
            applied = self._plant.apply(reached)
            state, detail = MoveState.APPLIED, "; ".join((*said, *applied.notes))
            self._configuration, self._young, self.applied = applied.configuration, _YOUNG, True
            self._failures, self._refusals, self._refused = 0, 0, {}
        except ApplyRefused as error:
            later = isinstance(error, ApplyLater)
            state, detail = MoveState.PUT_OFF if later else MoveState.REFUSED, str(error)
            # The controller is told, and may propose something else; nothing was changed. To a search it is one more
            # failed trial of those that it has.
            again = not later and changes == self._refused and (move.finished or not self._searches)
            self._refusals = self._refusals + 1 if again else 1
            self._refused, self._failure = changes, detail
        except ApplyFailed as error:
            state, detail = MoveState.FAILED, str(error)
            self._failures, self._failure = self._failures + 1, detail
        except OperatorEdit as error:
            state, detail = MoveState.STOOD_DOWN, str(error)
            self._stand_down(error)
        except PlantGone as error:
            self._recorder.outcome(stamp, MoveState.GONE, str(error))
            raise
        self._recorder.outcome(stamp, state, detail, applied)
        return state, detail

    def _within_rules(self, changes: Mapping[str, int]) -> tuple[Mapping[str, int], tuple[str, ...]]:
        """A search's changes as far as the rules among the knobs let them go, and what that made of them.

        Other methods count on their change as it is, or none.
        """
        if not self._searches:
            return changes, ()
        knobs, now = self._standing.knobs, self._configuration
        reached = within_rules(changes, now, knobs, self._plant.objection)
        if not reached or reached == changes:
            return changes, ()
        less = {name: reached.get(name, now[name]) for name in changes if reached.get(name) != changes[name]}
        why = self._plant.objection({**now, **changes})
        return reached, (f"{why}: as far as that allows, {in_words(less, knobs)}",)

    def _why_abort(self, partial: Window) -> str:
        """Why the guards want the window under way to end, or an empty string.

        Raises:
            PlantGone: nothing can be read any more because the server has ended.
        """
        if not partial.readings:
            self._read_configuration()
        if self._standing.knobs:
            for guard, state in zip(self._oversight.guards, self._standing.guard_states, strict=True):
                if why := guard.abort(state, partial):
                    return why
            if self._oversight.judge is not None:
                return self._oversight.judge.abort(self._standing.judge_state, partial)
        return ""

    def _read_configuration(self) -> None:
        """Reads the configuration in force; a knob that the operator has edited stands down."""
        for _ in range(len(self._standing.knobs) + 1):
            try:
                self._configuration = dict(self._plant.configuration())
                return
            except OperatorEdit as error:
                self._stand_down(error)
        self._configuration = dict(self._plant.configuration())

    def _stand_down(self, edit: OperatorEdit) -> None:
        """Leaves a knob to the operator; what becomes of the controller is said with it."""
        if edit.knob not in (knob.name for knob in self._standing.knobs):
            return
        before = self._standing
        self._standing, why = withdrawn(self._decider, before, edit.knob)
        if why:
            self._given_up = replace(before, knobs=tuple(one for one in before.knobs if one.name != edit.knob))
        more = restarts(self._decider.controller) if self._standing.knobs else ""
        self._note(
            NoteKind.STAND_DOWN, "; ".join(filter(None, (f"{edit.knob} stands down: {edit}", more))), edit.knob
        )
        if why:
            self._note(NoteKind.STAND_DOWN, f"only observing from here: {why}")

    def _note(self, kind: NoteKind, text: str, knob: str = "") -> None:
        note = Note(self._observer.now_s(), kind, text, knob)
        try:
            note = replace(note, stamp=self._recorder.note(note))
        finally:
            self._on_event(note)

    def _note_if_possible(self, kind: NoteKind, text: str) -> None:
        """A note on the end of a run: what has to be put back is, whether or not this can be stored and shown.

        The outcome, which is stored after it, meets the same full store and says so.
        """
        with contextlib.suppress(StoreError, OSError):
            self._note(kind, text)

    def _put_back(self) -> bool:
        """Puts back unproven values; True when the configuration from before the run is in force."""
        judge, standing = self._oversight.judge, self._given_up or self._standing
        if not self._touched or not standing.knobs:
            return False
        final = getattr(self._decider.controller, "final", None)
        back = {} if final is None else final(standing.state)
        if not back and judge is not None:
            wanted = judge.final(standing.judge_state)
            back = {name: value for name, value in wanted.items() if self._configuration.get(name) != value}
        back = {knob.name: back[knob.name] for knob in standing.knobs if knob.name in back}
        if not back:
            return False
        said = in_words(back, standing.knobs)
        if any(self._configuration.get(name) != value for name, value in back.items()):
            text = f"nothing shows that the last setting is better than {said}, which comes back"
            self._note_if_possible(NoteKind.RESTORE, text)
        if all(
            self._initial.get(knob.name) == back.get(knob.name, self._configuration.get(knob.name))
            for knob in standing.knobs
        ):
            return self._restore()
        try:
            self._plant.apply(back)
        except Exception as error:  # a defect too: what is on trial must not stay, so all goes back that can
            self._note_if_possible(NoteKind.RESTORE, f"could not go back to {said}: {error}")
            return self._restore()
        return False

    def _restore(self, said: str = RESTORED) -> bool:
        """Puts back the configuration before the run; True when that was done, of which `said` is the note."""
        if not self._touched:
            return False
        text, is_back = said, True
        try:
            self._plant.restore()
        except Exception as error:  # a defect too: how the run ended is stored all the same
            text = self.unrestored = f"{UNRESTORED}: {error}"
            is_back = False
        self._note_if_possible(NoteKind.RESTORE, text)
        return is_back


def _finished(made: Decision, state: MoveState) -> str:
    """Text on the end of a search."""
    best = in_words(made.proposed.incumbent or {}, made.standing.knobs)
    left = "" if made.ends else f", which was {state}"
    return f"the search has finished with {best or 'what is in force'}{left}: {made.proposed.reason}"
