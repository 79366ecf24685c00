"""The knobs of a Squid, their values, and the rules among them.

| knob                          | in    | comes into force by | acts on                                             |
|-------------------------------|-------|---------------------|-----------------------------------------------------|
| cache_mem                     | MiB   | reload              | the memory cache; what is in it stays               |
| maximum_object_size_in_memory | KiB   | reload              | the memory cache                                    |
| minimum_object_size           | KiB   | reload              | every cache: what is smaller is not kept            |
| maximum_object_size           | KiB   | reload              | a cache_dir without max-size; nothing without one   |
| cache_swap_low                | %     | reload              | a cache_dir; nothing without one                    |
| cache_swap_high               | %     | reload              | a cache_dir; nothing without one                    |
| store_objects_per_bucket      | count | restart             | the index, which has 8192 places or more            |
| memory_replacement_policy     | choice | restart            | the memory cache: what goes first                   |

The last two are read where Squid's worker starts and never again (`storeInit`, `Store::Disks::init`): a reload takes
them in and nothing changes, so they are moved only where the worker may be restarted. The steps of cache_mem,
maximum_object_size, store_objects_per_bucket and the two of cache_swap are what the values in Table 3 of Chung and
Hollingsworth (HPDC 2004) share; each grid goes through the value in force. Source: src/cf.data.pre,
src/cache_cf.cc, src/store.cc and src/store of Squid 5.7, and tried.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from trimtab.core import Domain, How, Knob, Role
from trimtab.core.memory import Room
from trimtab.errors import UsageError
from trimtab.plants.squid.configuration import Configuration
from trimtab.trust import printable

_UNITS = {"bytes": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)(?:\s+(bytes|kb|mb|gb).*)?", re.IGNORECASE)
_POLICIES = ("lru", "heap GDSF", "heap LFUDA", "heap LRU")
_NO_DISK = "Without a cache_dir nothing is known to act on it."
_RESTART_COST = "a reload, and a new worker: connections that are open are ended, and its memory cache is empty"
_COST = "a reload: the listening ports are closed and opened again, and every file of the configuration is read"
_LARGEST_KIB = 1 << 20
_FULL = ("cache_swap_low", "cache_swap_high")
"""How full a cache_dir may be."""


@dataclass(frozen=True)
class _Kind:
    """Definition of one knob.

    Args:
        unit: unit of its values.
        native: how Squid writes that unit; empty for none.
        step: between values.
        default: Debian's default.
        most: the largest value; None for what the memory allows.
        role: its role.
        description: its effect.
        logarithmic: whether a step means a factor.
        limited_by: what sets `most`.
        choices: the words that Squid has for its values, where it is a choice.
        how: how it comes into force.
    """

    unit: str
    native: str
    step: int
    default: int
    most: int | None
    role: Role
    description: str
    logarithmic: bool = False
    limited_by: str = ""
    choices: tuple[str, ...] = ()
    how: How = How.RELOAD


_KINDS = {
    "cache_mem": _Kind(
        "MiB",
        "MB",
        1,
        256,
        None,
        Role.CACHE,
        "Memory for objects; the process is larger by its index and its buffers.",
    ),
    "maximum_object_size_in_memory": _Kind(
        "KiB",
        "KB",
        2,
        512,
        _LARGEST_KIB,
        Role.MOST_KEPT,
        "Objects beyond this size are not held in memory.",
        logarithmic=True,
        limited_by="1 GiB",
    ),
    "minimum_object_size": _Kind(
        "KiB",
        "KB",
        2,
        0,
        _LARGEST_KIB,
        Role.LEAST_KEPT,
        "Objects below this size are not kept, in memory or on disk.",
        limited_by="1 GiB",
    ),
    "maximum_object_size": _Kind(
        "KiB",
        "KB",
        256,
        4096,
        _LARGEST_KIB,
        Role.MOST_KEPT,
        f"The largest object that a cache_dir keeps whose line comes later and has no max-size. {_NO_DISK}",
        logarithmic=True,
        limited_by="1 GiB",
    ),
    "cache_swap_low": _Kind(
        "%",
        "",
        1,
        90,
        100,
        Role.OTHER,
        f"How full a cache_dir is when objects begin to be dropped. {_NO_DISK}",
        limited_by="a cache_dir holds no more",
    ),
    "cache_swap_high": _Kind(
        "%",
        "",
        1,
        95,
        100,
        Role.OTHER,
        f"How full a cache_dir is when objects are dropped in haste. {_NO_DISK}",
        limited_by="a cache_dir holds no more",
    ),
    "store_objects_per_bucket": _Kind(
        "objects",
        "",
        5,
        20,
        1000,
        Role.OTHER,
        "How full the index is meant to be; it has 8192 places or more, so below 160000 objects nothing changes.",
        limited_by="longer chains only cost",
        how=How.RESTART,
    ),
    "memory_replacement_policy": _Kind(
        "choice",
        "",
        1,
        0,
        len(_POLICIES) - 1,
        Role.OTHER,
        "What leaves memory first where it is full.",
        choices=_POLICIES,
        how=How.RESTART,
    ),
}
NAMES = tuple(_KINDS)
AT_START = frozenset(name for name, kind in _KINDS.items() if kind.how is How.RESTART)
"""The knobs that only a restart of the worker brings into force."""


def values(configuration: Configuration, known: Mapping[str, int] | None = None) -> dict[str, int]:
    """Values of all knobs, each in its unit.

    Args:
        configuration: where they are set.
        known: those of before, which stand where one cannot be understood now; None where there are none.

    Raises:
        UsageError: a value cannot be understood, or is not a whole number of its unit, and none is known.
    """
    found = {}
    for name in NAMES:
        try:
            found[name] = _number(name, configuration)
        except UsageError:
            if known is None:
                raise
            found[name] = known[name]
    return found


def written(name: str, value: int) -> str:
    """The line that sets a knob."""
    kind = _KINDS[name]
    return f"{name} {kind.choices[value] if kind.choices else value} {kind.native}".rstrip()


def objection(values: Mapping[str, int]) -> str:
    """Which rule these values break; empty when they break none."""
    low, high = values["cache_swap_low"], values["cache_swap_high"]
    if low > high:
        return f"cache_swap_low {low} is more than cache_swap_high {high}"
    least = values["minimum_object_size"]
    largest = min(values["maximum_object_size_in_memory"], values["cache_mem"] << 10)
    if least > largest:
        return f"minimum_object_size {least} KiB is more than the {largest} KiB of the largest object held in memory"
    return ""


def knobs(
    now: Mapping[str, int],
    rooms: Iterable[Room],
    restart: bool = False,
    disk: bool = False,
    policies: Container[str] = ("lru", "heap"),
) -> tuple[Knob, ...]:
    """The knobs of a Squid.

    Args:
        now: their values.
        rooms: the limits of its memory.
        restart: whether those are among them that only a restart brings into force.
        disk: whether it has a cache_dir.
        policies: the policies of replacement that it was built with: with another one its worker does not start.
    """
    room = min(rooms, key=lambda one: one.limit_bytes)
    there = [name for name in NAMES if restart or name not in AT_START]
    if not all(word.split()[0] in policies for word in _POLICIES):
        there = [name for name in there if not _KINDS[name].choices]
    return tuple(_knob(name, _KINDS[name], now[name], room, disk) for name in there)


def _knob(name: str, kind: _Kind, now: int, room: Room, disk: bool) -> Knob:
    cost = _RESTART_COST if kind.how is How.RESTART else _COST
    if kind.choices:
        domain = Domain.choice(*kind.choices)
        return Knob(name, name, kind.unit, domain, kind.default, kind.how, cost, kind.description, kind.role)
    most, why = kind.most, kind.limited_by
    if most is None:
        most, why = room.limit_bytes >> 20, f"the {room.limit_bytes >> 20} MiB of {room.where}"
    # Through the value in force, whatever it is, 0 too, so that nothing has to move to the grid first.
    least = now % kind.step
    if disk and name in _FULL:
        least = now  # what a lower one drops from the disk does not come back
    elif not least and now and name not in ("minimum_object_size", *_FULL):
        least = kind.step
    domain = Domain(least, max(most, now), kind.step, why, logarithmic=kind.logarithmic)
    return Knob(name, name, kind.unit, domain, kind.default, kind.how, cost, kind.description, kind.role)


def _number(name: str, configuration: Configuration) -> int:
    """Value of a knob, in its unit.

    Raises:
        UsageError: it cannot be understood, or is not a whole number of its unit.
    """
    kind, found = _KINDS[name], configuration.all(name)
    if not found:
        return kind.default
    text, where = found[-1].value, found[-1].where
    if kind.choices:
        words = " ".join(text.split())
        if words == "heap":
            words = "heap LRU"
        if words not in kind.choices:
            raise UsageError(f"{name} {printable(text)} in {where} is none of {', '.join(kind.choices)}")
        return kind.choices.index(words)
    if name in AT_START:
        if not text.isdecimal() or len(text) > 9:
            raise UsageError(f"{name} {printable(text)} in {where} is not a number")
        return int(text)
    if not kind.native:
        if not text.isdecimal() or int(text) > 100:
            raise UsageError(f"{name} {printable(text)} in {where} is not a percentage")
        return int(text)
    size = _SIZE.fullmatch(text)
    if size is None:
        raise UsageError(f"{name} {printable(text)} in {where} is not a size")
    unit = next(one for one in _UNITS if one.lower() == (size[2] or "bytes").lower())
    size_bytes = float(size[1]) * _UNITS[unit]
    if size_bytes % _UNITS[kind.native]:
        raise UsageError(f"{name} {printable(text)} in {where}: trimtab sets it in whole {kind.native}; round it")
    return int(size_bytes) // _UNITS[kind.native]
