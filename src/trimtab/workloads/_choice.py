"""Workloads by name, built from the command line or a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from trimtab import codec
from trimtab.discovery import load
from trimtab.errors import UsageError
from trimtab.files import read_named
from trimtab.options import options_of, values
from trimtab.workloads._population import Population, required
from trimtab.workloads._traffic import Traffic

ROOM = "trimtab.workloads"
Value = bool | int | float | str | tuple[int | float | str, ...]
"""Of an option, as a file has it."""


def workload(name: str, given: Mapping[str, str | bool | Iterable[str]]) -> Traffic:
    """The workload of that name.

    Args:
        name: name of a member of the room.
        given: the options that differ from its defaults: field name to the text typed, texts, or True.

    Raises:
        UsageError: there is no such workload, it has no such option, or a value is not allowed.
    """
    kind = load(ROOM, name).WORKLOAD
    try:
        return kind(**values(kind, given))  # type: ignore[no-any-return]
    except UsageError as error:
        raise UsageError(f"workload {name}: {error}") from None


def populations_in(path: Path) -> tuple[Population, ...]:
    """The populations of a file: a JSON list with one object for each, its workload and options as typed.

    For example `[{"workload": "wagon", "class": "gold", "time-scale": 30, "url": ["/a=2", "/b"]}]`.

    Raises:
        UsageError: the file cannot be read or says something else.
    """
    try:
        text = read_named(path, f"populations file {path}")
        entries = codec.decode(text.encode(), tuple[dict[str, Value], ...])
    except OSError as error:
        raise UsageError(f"populations file {path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"populations file {path}: it must be a JSON list of objects: {error}") from None
    found = tuple(one for entry in entries for one in _entry(path, entry))
    required(bool(found), f"populations file {path}:", "[]", "a list of at least one object")
    return found


def _entry(path: Path, entry: Mapping[str, Value]) -> tuple[Population, ...]:
    name = entry.get("workload")
    if not isinstance(name, str):
        raise UsageError(f"populations file {path}: an entry names no workload: {codec.encode(entry)[:80]}")
    by_flag = {option.flag.removeprefix("--"): option for option in options_of(load(ROOM, name).WORKLOAD)}
    given: dict[str, str | bool | list[str]] = {}
    for key, value in entry.items():
        if key == "workload":
            continue
        if key not in by_flag:
            raise UsageError(f"populations file {path}: {name} has no {key!r}: it has {', '.join(by_flag)}")
        option = by_flag[key]
        if isinstance(value, bool) != option.switch or isinstance(value, tuple) != option.repeated:
            wanted = "true or false" if option.switch else "a list" if option.repeated else "text or a number"
            raise UsageError(
                f"populations file {path}: {key} {codec.encode(value)} is not allowed: it must be {wanted}"
            )
        if isinstance(value, bool):
            given[option.name] = value
        else:
            given[option.name] = [str(one) for one in value] if isinstance(value, tuple) else str(value)
    return workload(name, given).populations()
