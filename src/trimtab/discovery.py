"""Finds the methods, servers, sensors, workloads and verbs: one file each, named as it is registered.

A room (a package such as `trimtab.controllers`) is never listed by hand. A file whose name starts with an
underscore is a part of its room, not a member.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from types import ModuleType

from trimtab.errors import UsageError


def names(package: str) -> list[str]:
    """The members of a room, sorted, with `-` for `_` as a user writes them.

    Args:
        package: the room's dotted name, such as "trimtab.controllers".
    """
    room = importlib.import_module(package)
    found = (m.name for m in pkgutil.iter_modules(room.__path__) if not m.name.startswith("_"))
    return sorted(name.replace("_", "-") for name in found)


def known(package: str, name: str, kind: str = "") -> str:
    """The name of a member's module.

    Args:
        package: the room's dotted name, such as "trimtab.controllers".
        name: the member, written with `-` or `_`.
        kind: what its members are called; the room's name without its plural where none is given.

    Raises:
        UsageError: there is no such member; the message names those there are, and the nearest.
    """
    there, wanted = names(package), name.replace("_", "-")
    if wanted not in there:
        close = difflib.get_close_matches(wanted, there, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        kind = kind or package.rpartition(".")[2].removesuffix("s")
        raise UsageError(f"unknown {kind} {name!r}; choose from: {', '.join(there)}{hint}")
    return wanted.replace("-", "_")


def load(package: str, name: str) -> ModuleType:
    """The module of one member.

    Args:
        package: the room's dotted name.
        name: the member, written with `-` or `_`.

    Raises:
        UsageError: there is no such member; the message names those there are.
    """
    return importlib.import_module(f"{package}.{known(package, name)}")
