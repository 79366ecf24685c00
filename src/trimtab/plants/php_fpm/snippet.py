"""trimtab's own file for a pool: a later section of the same name, whose settings replace the operator's.

FPM merges sections of one name across its files, the later setting replacing the earlier (tried with PHP 8.2), so a
file that is included last needs nothing of the operator's to be touched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.plants import _own_file
from trimtab.plants._included_files import Setting, directories
from trimtab.plants._own_file_plant import first_location
from trimtab.plants.php_fpm import knobs
from trimtab.plants.php_fpm.configuration import Configuration, read
from trimtab.plants.php_fpm.program import Program
from trimtab.trust import printable

_PLAIN = re.compile(r"[\w.-]+")


def name(pool: str) -> str:
    """The file's name, one for each pool; it sorts after the names that an operator is likely to use.

    Raises:
        UsageError: the pool's name cannot be part of a file's.
    """
    if _PLAIN.fullmatch(pool) is None:
        raise UsageError(
            f"pool {printable(pool)} cannot be changed: its name is not of letters, digits, '.', '-', '_'"
        )
    return f"zz-trimtab-{pool}.conf"


def compose(pool: str, values: Mapping[str, int], before: str | None) -> str:
    """The text of the file.

    Args:
        pool: the pool.
        values: knob name to value.
        before: the text before; None for no file.
    """
    lines = [f"[{pool}]", *(knobs.written(knob, value) for knob, value in sorted(values.items()))]
    return _own_file.compose("".join(f"{line}\n" for line in lines), before, ";")


def location(
    program: Program, configuration: Configuration, pool: str, values: Mapping[str, int], chosen: Path | None
) -> Path:
    """The path for our file.

    Args:
        program: the program with its configuration.
        configuration: as it is on disk.
        pool: the pool.
        values: knob name to value, of all knobs.
        chosen: the directory that the user named; None to look for one.

    Raises:
        UsageError: no directory is included where the file would take effect; the message gives the line to add.
    """
    main = program.config_file

    def hindrance(path: Path) -> str:
        imagined = read(main, program.prefix, {path: compose(pool, values, None)}, program.ini)
        return _hindrance(imagined, configuration, path, pool, values)

    include = f"include={chosen or main.parent / 'pool.d'}/*.conf"
    mend = f"make sure that '{include}' is the last line of {main} and reload PHP-FPM"
    return first_location(directories(configuration.patterns, name(pool)), chosen, name(pool), hindrance, mend)


def _hindrance(imagined: Configuration, real: Configuration, path: Path, pool: str, values: Mapping[str, int]) -> str:
    """Why our file would not take effect, or would change more than it says; empty when neither is so."""
    if reason := imagined.overridden(path, [knobs.KEYS[knob] for knob in values], pool):
        return reason
    if _without(imagined, path) != _without(real, path):
        return "what follows it without a section of its own would become part of it"
    return ""


def _without(configuration: Configuration, path: Path) -> list[Setting]:
    return [one for one in configuration.settings if one.file != path]
