"""trimtab's own file for a Squid: lines that come after the operator's, and so override them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trimtab.plants import _own_file
from trimtab.plants._included_files import directories
from trimtab.plants._own_file_plant import first_location
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


def location(program: Program, configuration: Configuration, values: Mapping[str, int], chosen: Path | None) -> Path:
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
        return read(main, program.service, {path: compose(values, None)}).overridden(path, values)

    include = f"include {chosen or main.parent / 'conf.d'}/*.conf"
    mend = f"make sure that '{include}' comes after all of them in {main}, and that the directory holds a file"
    return first_location(directories(configuration.patterns, NAME), chosen, NAME, hindrance, mend)
