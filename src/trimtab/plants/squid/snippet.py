"""trimtab's own file for a Squid: lines that come after the operator's, and so have the last word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from trimtab.plants import _own_file
from trimtab.plants._included_files import directories
from trimtab.plants._own_file_plant import edited, first_place
from trimtab.plants.squid import knobs
from trimtab.plants.squid.configuration import Configuration, read
from trimtab.plants.squid.program import Program

NAME = "zz-trimtab.conf"
"""Sorts after the names that an operator is likely to use."""


def compose(values: Mapping[str, int], before: str | None) -> str:
    """The text of the file.

    Args:
        values: knob name to value.
        before: the text before; None for no file.
    """
    lines = (knobs.written(knob, value) for knob, value in sorted(values.items()))
    return _own_file.compose("".join(f"{line}\n" for line in lines), before)


def place(program: Program, configuration: Configuration, values: Mapping[str, int], chosen: Path | None) -> Path:
    """The path for our file.

    Args:
        program: the program with its configuration.
        configuration: as it is on disk.
        values: knob name to value, of all knobs.
        chosen: the directory that the user named; None to look for one.

    Raises:
        UsageError: no directory is included where the file would take effect; the message gives the line to add.
    """
    main = program.config_file

    def hindrance(path: Path) -> str:
        imagined = read(main, program.service, {path: compose(values, None)})
        return _overridden(imagined, path, values)

    include = f"include {chosen or main.parent / 'conf.d'}/*.conf"
    mend = f"make sure that '{include}' comes after all of them in {main}, and that the directory holds a file"
    return first_place(directories(configuration.patterns, NAME), chosen, NAME, hindrance, mend)


def edits(before: Configuration, now: Configuration, wanted: Iterable[str], ours: Path | None) -> dict[str, str]:
    """The knobs that somebody else has set since, each with a message.

    Args:
        before: the configuration when trimtab attached.
        now: as it is on disk.
        wanted: the knobs to look at.
        ours: our own file.
    """
    pairs = {knob: [_others(one, knob, ours) for one in (before, now)] for knob in wanted}
    return {knob: said for knob, pair in pairs.items() if (said := edited(knob, *pair))}


def _others(configuration: Configuration, knob: str, ours: Path | None) -> list[tuple[Path, str]]:
    """The settings of a knob outside of our file. Line numbers may shift and say nothing."""
    return [(one.file, one.value) for one in configuration.all(knob) if one.file != ours]


def _overridden(imagined: Configuration, path: Path, values: Mapping[str, int]) -> str:
    """Why our file would not take effect; empty when it would."""
    if path not in imagined.files:
        return "it would not be read"
    for knob in values:
        last = imagined.all(knob)[-1]
        if last.file != path:
            return f"{knob} in {last.where} would have the last word"
    return ""
