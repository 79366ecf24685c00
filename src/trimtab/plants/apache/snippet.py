"""trimtab's own file in Apache's configuration: its text, its place, and others that set the same knobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.plants import _own_file
from trimtab.plants._own_file_plant import edited, first_location
from trimtab.plants.apache.configuration import Configuration, Origin, evaluate
from trimtab.plants.apache.knobs import DIRECTIVES, limits, written

NAME = "zz-trimtab.conf"
"""Sorts after the names that an operator is likely to use: the last directive wins."""
_SITES = ("sites", "vhost")
"""Directories of virtual hosts: a general setting is put there only when nothing else will do."""
_START = "StartServers"
Settings = Mapping[str, tuple[tuple[Path, tuple[tuple[str, str], ...], tuple[str, ...]], ...]]
"""Knob to every setting of it: file, context and arguments, in order. Line numbers may shift and say nothing."""


def compose(values: Mapping[str, int], before: str | None, start_servers: int | None = None) -> str:
    """The text of the file.

    Args:
        values: knob name to value.
        before: the text before; None for no file.
        start_servers: processes that a reload shall start at once; None leaves that to the operator's StartServers.
    """
    body = "".join(f"{written(knob, value)}\n" for knob, value in sorted(values.items()))
    if start_servers is not None:
        body += f"{_START} {start_servers}\n"
    return _own_file.compose(body, before)


def is_lasting(path: Path) -> bool:
    """Whether a file is ours as a run leaves it for the operator's own reloads: without StartServers."""
    try:
        text = _own_file.read(path) if path.name == NAME else None
    except UsageError:
        return False
    return text is not None and _own_file.leftover(text) is not None and f"\n{_START} " not in text


def location(origin: Origin, configuration: Configuration, chosen: Path | None, values: Mapping[str, int]) -> Path:
    """The path for our file.

    Args:
        origin: files, environment and arguments that Apache was started with.
        configuration: its evaluation.
        chosen: the directory that the user named; None to look for one.
        values: knob name to value in force; the knobs that the file will set.

    Raises:
        UsageError: no directory is included where the file would take effect; the message gives the line to add.
    """
    wanted = chosen or origin.config_file.parent / "trimtab.d"
    line = f"add 'IncludeOptional {wanted}/*.conf' at the end of {origin.config_file}"
    mend, found = f"make that directory, {line} and reload Apache", directories(configuration)
    return first_location(found, chosen, NAME, lambda path: _overridden(origin, path, values), mend)


def places(configuration: Configuration) -> set[Path]:
    """The directories in which our file is, or would be put first: what comes and goes there may be that."""
    return {*directories(configuration)[:1], *(path.parent for path in configuration.files if path.name == NAME)}


def directories(configuration: Configuration) -> list[Path]:
    """The included directories in which our file's name would be read, best first: the last, but sites after all."""
    found: list[Path] = []
    for pattern, _ in reversed(configuration.patterns):
        directory = pattern if pattern.is_dir() else pattern.parent
        wild = pattern.is_dir() or (pattern.name != NAME and fnmatchcase(NAME, pattern.name))
        if wild and directory.is_dir() and directory not in found:
            found.append(directory)
    return sorted(found, key=lambda d: any(word in d.name for word in _SITES))


def _overridden(origin: Origin, path: Path, values: Mapping[str, int]) -> str:
    """Reason for which our file would not take effect; empty for none."""
    imagined = evaluate(origin, {path: compose(values, None)})
    if path not in imagined.files:
        return "it would not be read"
    for knob in values:
        last = [d for d in imagined.named(*DIRECTIVES[knob]) if not d.context][-1]
        if last.file != path:
            return f"it would be overridden by {last.name} in {last.where}"
    if {knob: limits(imagined).values[knob] for knob in values} != dict(values):
        return "it would be overridden by a limit of this Apache"
    return ""


def settings(configuration: Configuration) -> Settings:
    """Every setting of every knob that stands outside of our file."""
    return {
        knob: tuple((d.file, d.context, d.args) for d in configuration.named(*names) if d.file.name != NAME)
        for knob, names in DIRECTIVES.items()
    }


def edits(
    configuration: Configuration, before: Settings, knobs: Iterable[str], set_to: Mapping[str, int]
) -> dict[str, str]:
    """The knobs that somebody else has set, each with a message.

    Args:
        configuration: as it is on disk now.
        before: the settings when trimtab attached.
        knobs: those to look at.
        set_to: knob name to the value that our file gives it.
    """
    now, effective = settings(configuration), limits(configuration).values
    found = {}
    for knob in knobs:
        if said := edited(knob, before[knob], now[knob]):
            found[knob] = said
        elif knob in set_to and effective[knob] != set_to[knob]:
            found[knob] = f"{knob} is {effective[knob]} where trimtab set {set_to[knob]}; trimtab leaves it alone now"
    return found


def kept(configuration: Configuration, ours: Path, values: Mapping[str, int]) -> list[str]:
    """The knobs that our file sets.

    Args:
        configuration: as it is on disk.
        ours: our file.
        values: knob name to value, of all knobs.
    """
    last = {knob: [d for d in configuration.named(*DIRECTIVES[knob]) if not d.context][-1:] for knob in values}
    return [knob for knob, there in last.items() if there and there[0].file == ours]
