"""Rules among knobs: how far a change goes that would break one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from trimtab.core.knob import Domain, Knob
from trimtab.core.window import Configuration

Objection = Callable[[Configuration], str]
"""Why a configuration breaks a rule; empty when it breaks none."""


def within_rules(
    changes: Mapping[str, int], now: Configuration, knobs: Sequence[Knob], objection: Objection
) -> dict[str, int]:
    """The changes as far as the rules among the knobs let them go.

    Knobs go one after the other, again and again while one more can take all of its change, since it may make room
    for another. What is left goes part of its way, found by halves; a choice stays. A knob that comes earlier takes
    what is to be shared first.

    Args:
        changes: knob name to the value that is wanted.
        now: the configuration in force; where it breaks a rule itself, only all of the changes can mend it.
        knobs: the knobs, of which those that change are in it.
        objection: the rules.

    Returns:
        What can be changed; empty when nothing can.
    """
    there, left = dict(now), dict(changes)
    if not objection({**there, **left}):
        return left
    if objection(there):
        return {}
    while fit := next((name for name in left if not objection({**there, name: left[name]})), None):
        there[fit] = left.pop(fit)
    domains = {knob.name: knob.domain for knob in knobs}
    for name, wanted in left.items():
        there[name] = _farthest(name, wanted, there, domains[name], objection)
    return {name: there[name] for name in changes if there[name] != now[name]}


def _farthest(name: str, wanted: int, there: Configuration, domain: Domain, objection: Objection) -> int:
    """The value of a knob nearest to the one wanted, which breaks a rule, as halving the way finds it."""
    reached = there[name]
    while not domain.choices:
        middle = domain.clip((reached + wanted) / 2)
        if middle in (reached, wanted):
            break
        if objection({**there, name: middle}):
            wanted = middle
        else:
            reached = middle
    return reached
