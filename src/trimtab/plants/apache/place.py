"""Finds the directory in which a file of ours is read after every setting of the operator's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.plants.apache.configuration import Configuration, Origin, evaluate
from trimtab.plants.apache.knobs import DIRECTIVES, limits
from trimtab.plants.apache.snippet import NAME, compose

_SITES = ("sites", "vhost")
"""Directories of virtual hosts: a general setting is put there only when nothing else will do."""


def place(origin: Origin, configuration: Configuration, chosen: Path | None, values: Mapping[str, int]) -> Path:
    """The path for our file.

    Args:
        origin: what Apache was started with.
        configuration: its evaluation.
        chosen: the directory that the user named; None to look for one.
        values: knob name to value in force; the knobs that the file will set.

    Raises:
        UsageError: no directory is included where the file would take effect; the message gives the line to add.
    """
    candidates = directories(configuration)
    if chosen is not None:
        candidates = [d for d in candidates if os.path.realpath(d) == os.path.realpath(chosen)]
        if not candidates:
            raise UsageError(
                f"{chosen} is not included by {origin.config_file}: add 'IncludeOptional {chosen}/*.conf' at its end "
                "and reload Apache"
            )
    reasons = []
    for directory in candidates:
        path = directory / NAME
        reason = overridden(origin, path, values)
        if not reason:
            return path
        reasons.append(f"in {directory} it would be overridden by {reason}")
    line = f"IncludeOptional {origin.config_file.parent}/trimtab.d/*.conf"
    why = "; ".join(reasons) or "it includes no directory"
    raise UsageError(
        f"no place for trimtab's settings in {origin.config_file} ({why}): "
        f"make that directory, add '{line}' at its end and reload Apache"
    )


def directories(configuration: Configuration) -> list[Path]:
    """The included directories in which our file's name would be read, best first: the last, but sites after all."""
    found: list[Path] = []
    for pattern, _ in reversed(configuration.patterns):
        directory = pattern if pattern.is_dir() else pattern.parent
        wild = pattern.is_dir() or (pattern.name != NAME and fnmatchcase(NAME, pattern.name))
        if wild and directory.is_dir() and directory not in found:
            found.append(directory)
    return sorted(found, key=lambda d: any(word in d.name for word in _SITES))


def overridden(origin: Origin, path: Path, values: Mapping[str, int]) -> str:
    """Which line would keep our file from taking effect; empty when none would.

    Args:
        origin: what Apache was started with.
        path: where our file would be.
        values: knob name to value in force; the knobs that the file will set.
    """
    imagined = evaluate(origin, {path: compose(values, None)})
    if path not in imagined.files:
        return f"nothing, but {path} would not be read"
    for knob in values:
        last = [d for d in imagined.named(*DIRECTIVES[knob]) if not d.context][-1]
        if last.file != path:
            return f"{last.args and last.name} in {last.where}"
    if {knob: limits(imagined).values[knob] for knob in values} != dict(values):
        return "a limit of this Apache"
    return ""
