"""A trial: a window, the outcome of the last move, and the referee's judgement on the change in force.

What a controller is told of its own moves. A move wants something where a value that it proposes is not in force in
the window that it follows from. After every such move, and after no other, its fate is told anew, so a fate is never
that of a change by guards or referee. With "left" for the values that those let through, whole or part of the way
from what was in force to what was wanted:

| what became of the move              | state                       | changes                                      |
|--------------------------------------|-----------------------------|----------------------------------------------|
| nothing of it was left               | held                        | what it wanted                               |
| the plant made what was left         | applied                     | what of that came into force, as read back   |
| the plant did not make it            | refused, failed, stood-down | what was left                                |
| the plant may make it later          | put-off                     | what was left                                |
| it was only advised, or not approved | advised, declined           | what was left                                |

Where rules among the knobs shorten what was left, what came into force is less than that. `detail` says why: first
what guards or referee said where they changed the move, then what rules and plant said. Of a move that is put off a
search is told nothing: it is asked for again, with the incumbent in force meanwhile, and no window until then is a
trial. After sixty times it is told that it was refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from trimtab.core.window import Configuration, Readings, Window


class MoveState(StrEnum):
    """State of a move; `OPEN` is written before it is applied, every other one after."""

    HELD = "held"
    ADVISED = "advised"
    DECLINED = "declined"
    OPEN = "open"
    APPLIED = "applied"
    REFUSED = "refused"
    PUT_OFF = "put-off"
    FAILED = "failed"
    STOOD_DOWN = "stood-down"
    GONE = "gone"


@dataclass(frozen=True)
class Fate:
    """Outcome of a controller's move, as told to it: the table at the top of this file.

    Args:
        state: applied, refused, put off, failed, stood down, advised, declined, held.
        changes: what of it came into force where it was applied, else what did not.
        detail: what guards or referee, and the plant, said of it; may be empty.
    """

    state: MoveState
    changes: Mapping[str, int] = field(default_factory=dict)
    detail: str = ""


class Verdict(StrEnum):
    """Verdict of an experiment on a live server."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    OPEN = "not told apart"
    UNMEASURED = "not measured"


@dataclass(frozen=True)
class Judgement:
    """Judgement of the referee on the change in force.

    Args:
        verdict: the verdict, or that there is none yet.
        against: the configuration that it is compared with.
        effect: logarithm of the cost's ratio, after to before, at equal load; None when it could not be estimated.
        error: standard error of the effect; None when it could not be estimated.
        windows: windows after the change that were counted.
        why: the reason in one line, for the operator.
        final: False while the experiment goes on.
    """

    verdict: Verdict
    against: Configuration
    effect: float | None
    error: float | None
    windows: int
    why: str
    final: bool = False


@dataclass(frozen=True)
class Trial:
    """Input of a controller's step.

    Args:
        window: the latest window.
        fate: outcome of the controller's last move that wanted to change something; None before there was one.
        judgement: the referee's judgement on the change in force, or on the last one where it has just been taken
            back; None while there is nothing to judge.
        refuted: knob and direction (1 up, -1 down) of the trials that were in vain on this workload, not to be
            repeated now.
        asked: what clients asked for per second, by metric: in which proportion is their mix.
        failed: what failed per second, by metric.
    """

    window: Window
    fate: Fate | None = None
    judgement: Judgement | None = None
    refuted: frozenset[tuple[str, int]] = frozenset()
    asked: Readings = field(default_factory=dict)
    failed: Readings = field(default_factory=dict)
