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

from collections.abc import Mapping
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


def knobs(configuration: Configuration, pool: str) -> tuple[Knob, ...]:
    """The knobs of a pool.

    With pm = dynamic FPM refuses fewer children than the spare ones it is to keep, so the domain begins there: who
    moves max_children alone is not led to what would be refused.
    """
    most, why = _most(configuration)
    now = values(configuration, pool)
    least = now["max_spare_servers"] if now["pm"] == _DYNAMIC else 1
    fewest = f"at least max_spare_servers {least}; {why}"
    domains = {"pm": Domain.choice(*PM), "max_children": Domain(least, most, 1, why if least == 1 else fewest)}
    return tuple(
        Knob(
            name,
            row.key,
            row.unit,
            domains.get(name, Domain(0, most, 1, why)),
            row.default,
            How.RELOAD,
            _COST,
            row.description,
            row.role,
            pool,
        )
        for name, row in TABLE.items()
    )


def _most(configuration: Configuration) -> tuple[int, str]:
    """The most workers that there can be, and what limits them."""
    most = configuration.number(GLOBAL, "process.max")
    if most:
        return most, f"process.max = {most}"
    most = int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii"))
    return most, "the kernel has no numbers for more processes (kernel.pid_max)"
