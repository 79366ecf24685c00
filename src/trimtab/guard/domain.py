"""Keeps every move inside the domains of the knobs that may be moved.

Promises that what passes names only knobs that trimtab was given and only values that they may take; a value
outside is brought to the nearest that is allowed, with the reason why there is no more.
"""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.core import Knob, Move, Window


@dataclass(frozen=True)
class Domain:
    """The guard of the domains; it has no options."""

    def start(self, knobs: tuple[Knob, ...]) -> tuple[Knob, ...]:
        """The knobs, for their domains."""
        return knobs

    def review(self, state: tuple[Knob, ...], window: Window, move: Move) -> tuple[tuple[Knob, ...], Move]:
        """The move with unknown knobs struck out and values brought into their domains."""
        known = {knob.name: knob for knob in state}
        changes, why = {}, []
        for name, value in move.changes.items():
            if name not in known:
                why.append(f"{name} is not a knob that may be moved here")
                continue
            domain = known[name].domain
            changes[name] = domain.clip(value)
            if changes[name] != value:
                limited = f" ({domain.limited_by})" if domain.limited_by else ""
                by = f" in steps of {domain.step}" if domain.step != 1 else ""
                why.append(f"{name} {value} is outside {domain.minimum}..{domain.maximum}{by}{limited}")
        return state, move.amended(changes, "; ".join(why)) if why else move

    def abort(self, state: tuple[Knob, ...], partial: Window) -> str:
        """Never: the values in force have been in their domains."""
        return ""


GUARD = Domain
