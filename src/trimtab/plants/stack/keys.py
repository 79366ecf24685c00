"""The keys of a table of the file as the options that the command line has, so that none is written down twice."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from trimtab.errors import UsageError
from trimtab.options import rebased


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are raised."""

    def error(self, message: str) -> NoReturn:
        """Raises the error."""
        raise UsageError(message)


def parsed(add_arguments: Any, given: Mapping[str, Any], where: str, base: Path) -> argparse.Namespace:
    """The options that the keys set.

    Args:
        add_arguments: adds the options to a parser.
        given: key to value: true for a switch, a list where an option may be repeated.
        where: the table's name in messages.
        base: the directory from which relative paths start.

    Raises:
        UsageError: there is no such option, or the value is not one of it.
    """
    parser = _Parser(prog=where, add_help=False, allow_abbrev=False)
    add_arguments(parser)
    # argparse has no public list of its options.
    actions = {flag.removeprefix("--"): one for one in parser._actions for flag in one.option_strings}
    words: list[str] = []
    for key, value in given.items():
        if key not in actions:
            raise UsageError(f"{where} has no key {key!r}: there are {', '.join(actions)}")
        words += _words(key, value, actions[key], where)
    try:
        found = parser.parse_args(words)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    rebased(found, base)
    return found


def _words(key: str, value: Any, action: argparse.Action, where: str) -> list[str]:
    """A key and its value as words of the command line.

    Raises:
        UsageError: the value is of the wrong kind.
    """
    switch, repeated = action.nargs == 0, isinstance(action, argparse._AppendAction)
    values = value if repeated and isinstance(value, list) else [value]
    if isinstance(value, bool) != switch or not all(isinstance(one, str | int | float) for one in values):
        wanted = "true or false" if switch else "text or a number" + (", or a list of them" if repeated else "")
        raise UsageError(f"{where}: {key} must be {wanted}, not {value!r}")
    if switch:
        return [f"--{key}"] if value else []
    return [f"--{key}={one}" for one in values]
