"""A dataclass's fields as the options a user types: names, types, defaults and help from one place.

A field `think_mean_s: float` becomes `--think-mean` and takes a duration; its help is its line in the `Args:`
section of the docstring of the class, or of the base class, that declares it. Metadata of the field may change the
flag (`flag`), how its text is read (`parse`) and how often it may be given (`repeated`).
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, get_type_hints

from trimtab.errors import UsageError
from trimtab.units import format_duration, parse_duration_s


@dataclass(frozen=True)
class Option:
    """One option.

    Args:
        name: name of the field.
        flag: what the user types, such as `--think-mean`.
        parse: turns the text into a value; raises UsageError.
        default: the value when it is not given; None when it must be.
        help: its description, from the docstring.
        switch: True when it takes no value.
        repeated: True when it may be given several times.
    """

    name: str
    flag: str
    parse: Callable[[str], Any]
    default: Any
    help: str
    switch: bool = False
    repeated: bool = False

    def add_to(self, parser: argparse._ActionsContainer, note: str = "") -> None:
        """Adds this option to a parser; absent from the namespace when not given."""
        shown = "" if self.repeated or self.switch or self.default is None else f" (default {self.shown})"
        text = f"{note}{self.help.removesuffix('.')}{shown}".replace("%", "%%")
        if self.switch:
            parser.add_argument(self.flag, dest=self.name, action="store_true", default=argparse.SUPPRESS, help=text)
            return
        action = "append" if self.repeated else "store"
        metavar = self.flag.removeprefix("--").upper()
        parser.add_argument(
            self.flag, dest=self.name, action=action, default=argparse.SUPPRESS, metavar=metavar, help=text
        )

    @property
    def shown(self) -> str:
        """The default as a user would type it."""
        return format_duration(self.default) if self.name.endswith("_s") else str(self.default)


def documented(cls: type) -> dict[str, str]:
    """Field name to its line in the `Args:` sections of the docstrings of a class and its bases."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        _, _, section = (base.__dict__.get("__doc__") or "").partition("Args:\n")
        block = section.split("\n\n")[0]
        for entry in re.finditer(r"^ {8}(\w+): (.+(?:\n {12}.+)*)", block, re.MULTILINE):
            found[entry[1]] = " ".join(entry[2].split())
    return found


def options_of(cls: type) -> tuple[Option, ...]:
    """The options of a dataclass, in the order of its fields."""
    types, docs = get_type_hints(cls), documented(cls)
    return tuple(_option(field, types[field.name], docs.get(field.name, "")) for field in fields(cls))


def values(cls: type, given: Mapping[str, str | bool | Iterable[str]]) -> dict[str, Any]:
    """The values of the options that were given, by field name.

    Args:
        cls: the dataclass.
        given: field name to the text typed, texts for a repeated option, or True for a switch.

    Raises:
        UsageError: it has no such option, or a text is not a value of it.
    """
    known = {option.name: option for option in options_of(cls)}
    result: dict[str, Any] = {}
    for name, text in given.items():
        if name not in known:
            flags = ", ".join(option.flag for option in known.values())
            raise UsageError(f"unknown option {name!r}; options: {flags}")
        option = known[name]
        if isinstance(text, bool):
            result[name] = text
        elif isinstance(text, str):
            result[name] = option.parse(text)
        else:
            result[name] = tuple(option.parse(one) for one in text)
    return result


def options_in_force(chosen: Any) -> dict[str, Any]:
    """The options of an instance, defaults included, without the objective.

    Args:
        chosen: a controller, or another member that is a dataclass.
    """
    return {field.name: getattr(chosen, field.name) for field in fields(chosen) if field.name != "objective"}


def rebased(args: argparse.Namespace, base: Path) -> None:
    """Has every relative path among parsed arguments start from a directory, those that may be repeated too."""
    for name, value in vars(args).items():
        if isinstance(value, list):
            setattr(args, name, [base / one if isinstance(one, Path) else one for one in value])
        elif isinstance(value, Path):
            setattr(args, name, base / value)


def _option(field: Field[Any], kind: Any, doc: str) -> Option:
    shown = field.name.removesuffix("_s")
    flag = field.metadata.get("flag", "--" + shown.replace("_", "-"))
    default = None if field.default is MISSING else field.default
    parse = field.metadata.get("parse") or _parser(flag, field.name, kind)
    repeated = bool(field.metadata.get("repeated", False))
    return Option(field.name, flag, parse, default, doc, switch=kind is bool, repeated=repeated)


def _parser(flag: str, name: str, kind: Any) -> Callable[[str], Any]:
    if name.endswith("_s"):
        return lambda text: parse_duration_s(text, flag)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return lambda text: _member(flag, text, kind)
    if kind is int:
        return lambda text: _number(flag, text, int, "a whole number")
    if kind is float:
        return lambda text: _number(flag, text, float, "a number")
    return str


def _member(flag: str, text: str, kind: type[StrEnum]) -> StrEnum:
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"{flag} {text!r} is not one of {', '.join(kind)}") from None


def _number(flag: str, text: str, kind: type[int] | type[float], allowed: str) -> float:
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if value != value:  # NaN: no comparison with it holds, so no bound would keep it out
        raise UsageError(f"{flag} {text[:40]!r} is not {allowed}")
    return value
