"""Finds the methods, servers, sensors, workloads and verbs: one file each, named as it is registered.

A room (a package such as `trimtab.controllers`) is never listed by hand. A file whose name starts with an
underscore is a part of its room, not a member.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import pkgutil
from types import ModuleType
from typing import Any

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
        UsageError: there is no such member, and the message names those there are; or its file, which the user may
            have added, cannot be imported.
    """
    module = f"{package}.{known(package, name)}"
    try:
        return importlib.import_module(module)
    except Exception as error:
        spec = importlib.util.find_spec(module)
        file = module if spec is None else spec.origin
        raise UsageError(f"{file} cannot be imported: {type(error).__name__}: {error}") from error


def named(package: str, what: str) -> list[Any]:
    """What each member of a room has by this name; one that cannot be imported, as `load` says, has nothing.

    Args:
        package: the room's dotted name.
        what: the name, such as "PLANT".
    """
    found = list[Any]()
    for name in names(package):
        with contextlib.suppress(UsageError, AttributeError):
            found.append(getattr(load(package, name), what))
    return found
