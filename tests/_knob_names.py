"""The names of the knobs that plants declare, found in the plants themselves.

A knob is declared by a call of `Knob` whose name is a constant, or by a record with a role in a table: one that has a
`name`, or stands under it. A call that makes its knob of neither cannot be followed, and is found by `unseen`.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import trimtab.plants
from trimtab.core import Role

ROOM = "trimtab.plants"


@functools.cache
def declared() -> Mapping[str, frozenset[str]]:
    """Member of the plants' room to the names of the knobs that its modules declare."""
    found: dict[str, frozenset[str]] = {}
    for module in modules():
        member = module.__name__.split(".")[2]
        found[member] = found.get(member, frozenset()) | set(_called(module)) | set(_tabled(module))
    return found


def names() -> frozenset[str]:
    """The names of all knobs."""
    return frozenset().union(*declared().values())


def bare(name: str) -> str:
    """A knob's name without tier and label, such as `max_threads` of `app.max_threads@8080`."""
    return name.partition("@")[0].rpartition(".")[2]


def modules() -> Iterator[ModuleType]:
    """Every module of the plants."""
    for found in pkgutil.walk_packages(trimtab.plants.__path__, f"{ROOM}."):
        yield importlib.import_module(found.name)


def unseen(source: str, module: ModuleType) -> list[int]:
    """Lines with a call of `Knob` whose name is no constant, and which is not made of a record with a role.

    Args:
        source: the module's text.
        module: the module, for its constants.
    """
    return [call.lineno for call in _calls(source) if _name(call, module) is None and not _of_record(call)]


def _calls(source: str) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Knob":
            yield node


def _called(module: ModuleType) -> Iterator[str]:
    """Names that stand in the calls themselves."""
    for call in _calls(inspect.getsource(module)):
        if (name := _name(call, module)) is not None:
            yield name


def _name(call: ast.Call, module: ModuleType) -> str | None:
    """The name in a call of `Knob`, where it is a constant of the module, or one with a class behind it."""
    given = {word.arg: word.value for word in call.keywords}.get("name", call.args[0] if call.args else None)
    if isinstance(given, ast.Call) and ast.unparse(given.func) == "of_class":
        given = given.args[0]
    if isinstance(given, ast.Constant):
        return str(given.value)
    value = getattr(module, given.id, None) if isinstance(given, ast.Name) else None
    return value if isinstance(value, str) else None


def _of_record(call: ast.Call) -> bool:
    """Whether a call takes the role of a record, as in `row.role`."""
    return any(isinstance(node, ast.Attribute) and node.attr == "role" for node in ast.walk(call))


def _tabled(module: ModuleType) -> Iterator[str]:
    """Names of the records with a role that a module holds."""
    for value in vars(module).values():
        if getattr(type(value), "__module__", "").startswith("trimtab") or isinstance(value, (tuple, list, Mapping)):
            yield from _records(value, None)


def _records(value: Any, key: str | None) -> Iterator[str]:
    if isinstance(value, Mapping):
        for under, one in value.items():
            yield from _records(one, under if isinstance(under, str) else None)
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _records(one, None)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        if isinstance(getattr(value, "role", None), Role):
            name = getattr(value, "name", key)
            assert isinstance(name, str), f"{value} has a role and no name"
            yield name
        else:
            for one in dataclasses.fields(value):
                yield from _records(getattr(value, one.name), None)
