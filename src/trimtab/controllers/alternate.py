"""Goes round through settings that somebody has chosen, window by window, so that each is measured in turn.

Promises every setting as many windows as any other, and that a load or a machine that drifts evenly favours none: it
goes through them forwards, then backwards.

    Equations:  S_0 S_1 ... S_n  S_n ... S_1 S_0  S_0 S_1 ...

with S_0 the configuration in the first window and S_1 to S_n those of the option. It decides nothing from what it
reads, and S_0 is in force at the end. Guards may lead to a setting by steps, which are no turn, or not at all: it is
asked for in three windows, then left out of this round. What was in force before passes no guard. A setting that the
plant refuses is left out at once: from the one before it in the next round it may be let in, such as large buffers
of a database once fewer clients are connected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trimtab.controllers._knob import integer_knob, unjudged
from trimtab.core import Configuration, Knob, Move, MoveState, Objective, Trial, Window
from trimtab.errors import UsageError

_ASKED = 3
"""Windows in which a setting is asked for before it is left out."""


@dataclass(frozen=True)
class AlternateState:
    """State of the round.

    Args:
        knobs: those that are moved.
        order: the settings in turn, by knob; empty before the first window.
        turn: the number of turns so far.
        asked: windows in which this turn's setting was asked for and was not in force.
        known: the settings that were in force, by their index in `order`.
    """

    knobs: tuple[Knob, ...]
    order: tuple[Mapping[str, int], ...] = field(default=())
    turn: int = 0
    asked: int = 0
    known: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Alternate:
    """Settings in turn, for comparing them.

    Args:
        objective: the objective, only for the reasons.
        settings: the settings beside the one that is in force, such as `a=2,b=3;a=4`; a knob that a setting does not
            name stays as it was found.
        min_samples: requests that a window must have completed to be called measured; the setting is tried again.

    Raises:
        UsageError: the settings cannot be read.
    """

    objective: Objective
    settings: str = ""
    min_samples: int = 1

    def __post_init__(self) -> None:
        _read(self.settings)

    def start(self, knobs: tuple[Knob, ...], seed: int) -> AlternateState:
        """The state before the first window; the seed is not used.

        Raises:
            UsageError: there is no knob, a setting names another one, or a value is outside its domain.
        """
        integer_knob(knobs, "alternate")
        known = {knob.name: knob for knob in knobs}
        for setting in _read(self.settings):
            for name, value in setting.items():
                if name not in known:
                    raise UsageError(f"option settings: no knob {name!r}; there are {', '.join(known)}")
                known[name].validated(value)
        return AlternateState(knobs)

    def withdraw(self, state: AlternateState, knob: str) -> AlternateState:
        """The state without a knob: the settings go on with the others, and what was found stays what it was."""
        order = tuple({name: value for name, value in one.items() if name != knob} for one in state.order)
        return replace(state, knobs=tuple(one for one in state.knobs if one.name != knob), order=order)

    def final(self, state: AlternateState) -> Configuration:
        """Configuration to be in force at the end of a run: the one that was found."""
        return state.order[0] if state.order else {}

    def step(self, state: AlternateState, trial: Trial) -> tuple[AlternateState, Move]:
        """The next setting, whatever the window shows, if it shows anything."""
        window = trial.window
        for knob in state.knobs:
            if missing := unjudged(self.objective, window, knob, self.min_samples):
                return state, Move.hold(f"alternate: {missing}")
        if not state.order:
            found = {knob.name: window.configuration[knob.name] for knob in state.knobs}
            settings = [{name: v for name, v in one.items() if name in found} for one in _read(self.settings)]
            once = [found, *({**found, **one} for one in settings)]
            state = replace(state, order=(*once, *reversed(once)))
        state = _counted(state, window, trial.fate is not None and trial.fate.state is MoveState.REFUSED)
        index = _index(state)
        wanted = state.order[index]
        changes = {name: value for name, value in wanted.items() if window.configuration.get(name) != value}
        named = "the one that was found" if index == 0 else f"number {index} of the settings"
        evidence = {self.objective.metric: window.readings[self.objective.metric]}
        known = index in state.known
        return state, Move(changes, f"alternate: {named} is next", evidence, "turn", known=known)


def _index(state: AlternateState) -> int:
    """Index of the setting whose turn it is, in the order forwards."""
    turn = state.turn % len(state.order)
    return min(turn, len(state.order) - 1 - turn)


def _counted(state: AlternateState, window: Window, refused: bool) -> AlternateState:
    """The state after a window: a turn more where the setting was in force, or was refused or asked for often enough.

    Args:
        state: the state before it.
        window: the window.
        refused: whether the plant refused what was asked for.
    """
    index = _index(state)
    if all(window.configuration.get(name) == value for name, value in state.order[index].items()):
        known = state.known if index in state.known else (*state.known, index)
        return replace(state, turn=state.turn + 1, asked=0, known=known)
    if refused or state.asked + 1 >= _ASKED:
        return replace(state, turn=state.turn + 1, asked=0)
    return replace(state, asked=state.asked + 1)


def _read(settings: str) -> list[dict[str, int]]:
    """Each setting by knob.

    Raises:
        UsageError: it is no setting.
    """
    found = []
    for text in filter(None, settings.split(";")):
        pairs = [pair.partition("=") for pair in text.split(",")]
        try:
            found.append({name.strip(): int(value) for name, _, value in pairs})
        except ValueError:
            raise UsageError(f"option settings: {text!r} is not such as a=2,b=3, with whole numbers") from None
    return found


CONTROLLER = Alternate
