"""The system variables of a MariaDB, as it describes them: value, least, most, step, whether they are fixed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trimtab.errors import UsageError
from trimtab.plants.mariadb.link import Link

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
        choices: names of the values 0, 1, ...; empty where it is a number.
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
        UsageError: we may not ask.
        NotMeasured: it did not answer in time.
        PlantGone: it has ended.
    """
    wanted = sorted(names)
    marks = ", ".join(["%s"] * len(wanted))
    rows = link.ask(
        f"SELECT VARIABLE_NAME, {_ASKED} FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_NAME IN ({marks})",
        [name.upper() for name in wanted],
    )
    return {one.name: one for one in (_variable(*row) for row in rows)}


def values(link: Link, there: Mapping[str, Variable]) -> dict[str, int]:
    """Values in force.

    Args:
        link: the conversation.
        there: the variables.

    Raises:
        UsageError: we may not ask.
        NotMeasured: it did not answer in time.
        PlantGone: it has ended.
    """
    (row,) = link.ask(f"SELECT {', '.join(f'@@GLOBAL.{name}' for name in there)}")
    return {name: _number(value, one.choices) for (name, one), value in zip(there.items(), row, strict=True)}


def _variable(
    name: str, value: str, least: str | None, most: str | None, block: str | None, fixed: str, listed: str | None
) -> Variable:
    choices = tuple(listed.split(",")) if listed else ()
    return Variable(
        name.lower(),
        _number(value, choices),
        int(least or 0),
        int(most or max(0, len(choices) - 1)),
        max(1, int(block or 1)),
        fixed == "YES",
        choices,
    )


def _number(value: object, choices: tuple[str, ...]) -> int:
    """A value as a number.

    Raises:
        UsageError: it is none.
    """
    text = str(value)
    if text in choices:
        return choices.index(text)
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"MariaDB says {text!r} where a whole number was expected") from None
