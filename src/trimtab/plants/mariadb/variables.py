"""The system variables of a MariaDB, as it describes them: value, least, most, step, whether they are fixed.

What it says goes into files and scripts that root reads and runs, and onto terminals: it is taken where it is a whole
number or a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trimtab.errors import UsageError
from trimtab.plants.mariadb.link import Link, shaped

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_CHOICE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NUMBER = re.compile(r"-?[0-9]{1,20}")
_MOST_CHOICES = 32
_FOR_DEBUGGING = ("no-threads",)
"""Choices that nobody is to be served by: with this one the server has one connection at a time, and all others wait
until it ends, trimtab's too. They are none unless one is in force."""
_SHOWN = 50
"""Characters that are shown of what is refused."""
_ASKED = "GLOBAL_VALUE, NUMERIC_MIN_VALUE, NUMERIC_MAX_VALUE, NUMERIC_BLOCK_SIZE, READ_ONLY, ENUM_VALUE_LIST"


@dataclass(frozen=True)
class Variable:
    """One system variable.

    Args:
        name: its name.
        value: in force for connections to come; the index among `choices` where it is one of them.
        least: smallest value that MariaDB takes.
        most: largest value that MariaDB takes.
        block: number to a multiple of which it rounds down.
        fixed: whether only a restart changes it.
        choices: names of the values 0, 1, ..., but for those that are for debugging; empty where it is a number.
    """

    name: str
    value: int
    least: int
    most: int
    block: int
    fixed: bool
    choices: tuple[str, ...] = ()


def read(link: Link, names: Iterable[str]) -> dict[str, Variable]:
    """The variables of these names that this MariaDB has.

    Raises:
        UsageError: we may not ask, or a word or a number is none.
        NotMeasured: it did not answer in time, or something else.
        PlantGone: it has ended.
    """
    wanted = sorted(names)
    marks = ", ".join(["%s"] * len(wanted))
    rows = link.ask(
        f"SELECT VARIABLE_NAME, {_ASKED} FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_NAME IN ({marks})",
        [name.upper() for name in wanted],
    )
    return {one.name: one for one in (_variable(*row) for row in shaped(rows, 7))}


def values(link: Link, there: Mapping[str, Variable]) -> dict[str, int]:
    """Values in force.

    Args:
        link: the conversation.
        there: the variables.

    Raises:
        UsageError: we may not ask, or a number is none.
        NotMeasured: it did not answer in time, or something else.
        PlantGone: it has ended.
    """
    asked = f"SELECT {', '.join(f'@@GLOBAL.{name}' for name in there)}"
    (row,) = shaped(link.ask(asked), len(there), 1)
    return {name: number(value, one.choices) for (name, one), value in zip(there.items(), row, strict=True)}


def in_order(values: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """Values to set, in an order in which memory is given back before it is taken.

    Args:
        values: variable to value.
        now: what is in force.
    """
    return dict(sorted(values.items(), key=lambda one: one[1] > now[one[0]]))


def number(value: object, choices: tuple[str, ...] = ()) -> int:
    """A value as a number; of a choice its index.

    Raises:
        UsageError: it is none.
    """
    text = str(value)
    if text in choices:
        return choices.index(text)
    if not _NUMBER.fullmatch(text) or (choices and not 0 <= int(text) < len(choices)):
        raise _refused(text, f"one of {', '.join(choices)}" if choices else "a whole number")
    return int(text)


def named(value: object) -> str:
    """The name of a variable, in small letters.

    Raises:
        UsageError: it is none.
    """
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise _refused(str(value), "the name of a variable")
    return value.lower()


def _variable(
    name: object, value: object, least: object, most: object, block: object, fixed: object, listed: object
) -> Variable:
    choices = tuple(str(listed).split(",")) if listed else ()
    if strange := [one for one in choices if not _CHOICE.fullmatch(one)] or choices[_MOST_CHOICES:]:
        raise _refused(strange[0], "the name of a choice")
    choices = tuple(one for one in choices if one not in _FOR_DEBUGGING or one == value)
    return Variable(
        named(name),
        number(value, choices),
        number(least or 0),
        number(most or max(0, len(choices) - 1)),
        max(1, number(block or 1)),
        fixed == "YES",
        choices,
    )


def _refused(text: str, expected: str) -> UsageError:
    return UsageError(f"MariaDB says {text[:_SHOWN]!r} where {expected} was expected")
