"""Notices an operator's hand: the settings of a knob outside of our file, compared with those at the start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from trimtab.plants.apache.configuration import Configuration
from trimtab.plants.apache.knobs import DIRECTIVES, limits
from trimtab.plants.apache.snippet import NAME

Settings = Mapping[str, tuple[tuple[Path, tuple[tuple[str, str], ...], tuple[str, ...]], ...]]
"""Knob to every setting of it: file, context and arguments, in order. Line numbers may shift and say nothing."""


def settings(configuration: Configuration) -> Settings:
    """Every setting of every knob that stands outside of our file."""
    return {
        knob: tuple((d.file, d.context, d.args) for d in configuration.named(*names) if d.file.name != NAME)
        for knob, names in DIRECTIVES.items()
    }


def edits(
    configuration: Configuration, before: Settings, knobs: Iterable[str], set_to: Mapping[str, int]
) -> dict[str, str]:
    """The knobs that somebody else has set, and what was found.

    Args:
        configuration: as it is on disk now.
        before: the settings when trimtab attached.
        knobs: those to look at.
        set_to: knob name to the value that our file gives it.
    """
    now, effective = settings(configuration), limits(configuration).values
    found = {}
    for knob in knobs:
        if now[knob] != before[knob]:
            touched = [
                *(e for e in now[knob] if e not in before[knob]),
                *(e for e in before[knob] if e not in now[knob]),
            ]
            place = (touched or now[knob])[0][0]
            found[knob] = f"{knob} was edited in {place}; trimtab leaves it alone now"
        elif knob in set_to and effective[knob] != set_to[knob]:
            found[knob] = f"{knob} is {effective[knob]} where trimtab set {set_to[knob]}; trimtab leaves it alone now"
    return found
