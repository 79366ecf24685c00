"""The knobs of a pool, their values as FPM completes them, and the rules among them.

| knob              | FPM                  | matters where pm is | rule                                             |
|-------------------|----------------------|---------------------|--------------------------------------------------|
| max_children      | pm.max_children      | always              | at least 1                                       |
| pm                | pm                   | always              |                                                  |
| start_servers     | pm.start_servers     | dynamic             | min_spare_servers..max_spare_servers             |
| min_spare_servers | pm.min_spare_servers | dynamic             | at least 1, at most max_spare_servers            |
| max_spare_servers | pm.max_spare_servers | dynamic             | at most max_children                             |

Source: `fpm_conf_process_all_pools` in sapi/fpm/fpm/fpm_conf.c.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trimtab.core import Domain, How, Knob, Role
from trimtab.errors import UsageError
from trimtab.plants.php_fpm.configuration import GLOBAL, Configuration

PM = ("static", "dynamic", "ondemand")


@dataclass(frozen=True)
class Row:
    """Definition of one knob.

    Args:
        key: the key that sets it.
        unit: unit of its values.
        default: FPM's default, or Debian's.
        role: its role.
        description: its effect.
    """

    key: str
    unit: str
    default: int
    role: Role
    description: str


@dataclass(frozen=True)
class Room:
    """Workers of all pools that there is room for; None where nothing limits them.

    Args:
        tasks: as many as control groups let it start.
        caught: as many as it can open files for, where it catches their output.
    """

    tasks: int | None = None
    caught: int | None = None


TABLE = {
    "max_children": Row(
        "pm.max_children",
        "workers",
        5,
        Role.WORKER_LIMIT,
        "Requests of this pool served at the same time; connections beyond it wait in the listen queue.",
    ),
    "pm": Row(
        "pm",
        "choice",
        PM.index("dynamic"),
        Role.POOL_GROWTH,
        "How workers come and go: all of them always, some kept to spare, or each when it is needed.",
    ),
    "start_servers": Row(
        "pm.start_servers",
        "workers",
        2,
        Role.SPARE_WORKERS,
        "Workers that are started at once; only where pm is dynamic.",
    ),
    "min_spare_servers": Row(
        "pm.min_spare_servers",
        "workers",
        1,
        Role.SPARE_WORKERS,
        "Idle workers below which more are started; only where pm is dynamic.",
    ),
    "max_spare_servers": Row(
        "pm.max_spare_servers",
        "workers",
        3,
        Role.SPARE_WORKERS,
        "Idle workers above which some are ended; only where pm is dynamic.",
    ),
}
"""The knobs; `tune` moves the first one unless told otherwise."""
KEYS = {name: row.key for name, row in TABLE.items()}
"""Knob to the key that sets it."""
_DYNAMIC = PM.index("dynamic")
_CATCHES, _YES = "catch_workers_output", {"yes", "on", "true", "1"}
_COST = (
    "a reload of all pools: the master and every worker start anew, opcache and APCu empty, and until those in the "
    "middle of a request are done none serves"
)


def values(configuration: Configuration, pool: str) -> dict[str, int]:
    """A pool's values, as FPM completes them.

    Raises:
        UsageError: a value cannot be understood.
    """
    word = configuration.text(pool, "pm")
    if word not in PM:
        raise UsageError(f"pool {pool}: pm = {word!r} is none of {', '.join(PM)}")
    found = {name: configuration.number(pool, key) for name, key in KEYS.items() if name != "pm"}
    found["pm"] = PM.index(word)
    if found["pm"] == _DYNAMIC and not found["start_servers"]:
        low, high = found["min_spare_servers"], found["max_spare_servers"]
        found["start_servers"] = low + (high - low) // 2
    return {name: found[name] for name in KEYS}


def written(name: str, value: int) -> str:
    """The line that sets a knob."""
    return f"{KEYS[name]} = {PM[value] if name == 'pm' else value}"


def started(values: Mapping[str, int]) -> int:
    """Workers that a pool has as soon as it is there."""
    return {"static": values["max_children"], "dynamic": values["start_servers"], "ondemand": 0}[PM[values["pm"]]]


def at_start(configuration: Configuration) -> dict[str, int]:
    """Workers of each pool once FPM has started.

    process.max is for those of all pools together. FPM starts one pool after the other, and what it has started it
    keeps: of a dynamic pool it ends those beyond max_spare_servers alone.

    Raises:
        UsageError: process.max is not a number.
    """
    left, found = _processes(configuration), dict[str, int]()
    for pool in configuration.pools():
        wanted = 0
        with contextlib.suppress(UsageError):  # only FPM knows its values
            wanted = started(values(configuration, pool))
        found[pool] = wanted if left is None else min(wanted, left)
        left = None if left is None else left - found[pool]
    return found


def reach(configuration: Configuration, pool: str) -> int | None:
    """How many workers process.max leaves to a pool beside those that the others start with; None for any number."""
    most, there = _processes(configuration), at_start(configuration)
    return None if most is None else most - sum(there.values()) + there[pool]


def out_of_reach(configuration: Configuration, pool: str) -> str:
    """Why a pool never has as many workers as it may; empty where it can."""
    there, limit = reach(configuration, pool), values(configuration, pool)["max_children"]
    if there is None or limit <= there:
        return ""
    return f"pool {pool} never has more than {there} of {limit} workers: {_shared(configuration, there)}"


def regrowth_s(values: Mapping[str, int], busy: float) -> float:
    """Standstill that would cost as much as the workers who are missing until a reloaded pool is as large as before.

    A dynamic pool begins anew with start_servers and gets min_spare_servers a second at most (FPM's
    fpm_process_ctl.c), so b busy ones miss (b - s)^2 / (2 r) worker seconds, which is that over b seconds of all.

    Args:
        values: knob to value.
        busy: workers that are busy now.
    """
    missing = busy - values["start_servers"]
    if values["pm"] != _DYNAMIC or missing <= 0:
        return 0.0
    return missing**2 / (2 * values["min_spare_servers"] * busy)


def objection(values: Mapping[str, int]) -> str:
    """Which rule these values break; empty when they break none."""
    if values["pm"] != _DYNAMIC:
        return ""
    low, high, start = (values[f"{name}_servers"] for name in ("min_spare", "max_spare", "start"))
    if low < 1:
        return f"min_spare_servers {low}: pm = dynamic needs at least 1"
    if high < low:
        return f"max_spare_servers {high} is less than min_spare_servers {low}"
    if not low <= start <= high:
        return f"start_servers {start} is outside {low}..{high}, the spare servers that pm = dynamic keeps"
    if high > values["max_children"]:
        return (
            f"max_children {values['max_children']} is less than max_spare_servers {high}, which pm = dynamic refuses"
        )
    return ""


def knobs(configuration: Configuration, pool: str, room: Room | None = None) -> tuple[Knob, ...]:
    """The knobs of a pool.

    With pm = dynamic FPM refuses fewer children than the spare ones it is to keep, so the domain begins there: who
    moves max_children alone is not led to what would be refused.

    Args:
        configuration: FPM's.
        pool: the pool.
        room: what there is room for; None where nothing limits that.
    """
    most, why = _most(configuration, pool, room or Room())
    now = values(configuration, pool)
    least = now["max_spare_servers"] if now["pm"] == _DYNAMIC else 1
    fewest = f"at least max_spare_servers {least}; {why}"
    domains = {name: Domain(0, max(most, now[name]), 1, why) for name in TABLE}  # what is in force can come back
    domains["max_children"] = Domain(least, max(most, least, now["max_children"]), 1, why if least == 1 else fewest)
    domains["pm"] = Domain.choice(*PM)
    return tuple(
        Knob(
            name,
            row.key,
            row.unit,
            domains[name],
            row.default,
            How.RELOAD,
            _COST,
            row.description,
            row.role,
            pool,
        )
        for name, row in TABLE.items()
    )


def _most(configuration: Configuration, pool: str, room: Room) -> tuple[int, str]:
    """The most workers that a pool can have, and what limits them."""
    most = int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii"))
    found = [(most, "the kernel has no numbers for more processes (kernel.pid_max)")]
    if (there := reach(configuration, pool)) is not None:
        found = [(there, _shared(configuration, there))]
    for fits, mine, why in _limits(configuration, room):
        if pool in mine:
            others = sum(mine.values()) - mine[pool]
            beside = f", and the other pools start with {others}" if others else ""
            found.append((max(1, fits - others), f"{why}{beside}"))
    return min(found)


def crowded(configuration: Configuration, room: Room) -> str:
    """Why FPM could not start as many workers as it starts with; empty where it can."""
    for fits, mine, why in _limits(configuration, room):
        if (starts := sum(mine.values())) > fits:
            return f"it starts with {starts} workers, and {why}"
    return ""


def _limits(configuration: Configuration, room: Room) -> Iterator[tuple[int, dict[str, int], str]]:
    """For each limit the workers that there is room for, those of each pool of it at the start, and the reason."""
    starts = at_start(configuration)
    if room.tasks is not None:
        yield room.tasks, starts, f"its control group has room for {room.tasks} workers (pids.max)"
    if room.caught is not None:
        mine = {one: starts[one] for one in starts if configuration.text(one, _CATCHES).lower() in _YES}
        yield (
            room.caught,
            mine,
            f"it may open files for {room.caught} whose output it catches (ulimit -n, {_CATCHES})",
        )


def _processes(configuration: Configuration) -> int | None:
    """Processes of all pools at most; None where FPM does not bound them."""
    return configuration.number(GLOBAL, "process.max") or None


def _shared(configuration: Configuration, there: int) -> str:
    """What limits the workers of a pool where process.max leaves it so many."""
    most = configuration.number(GLOBAL, "process.max")
    others = f", and the others start with {most - there}" if there < most else ""
    return f"process.max = {most} is for all pools together{others}"
