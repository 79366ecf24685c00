"""How many workers the measured memory holds: the arithmetic that two guards share.

    base     = max(0, memory_bytes - worker_memory_bytes * workers)
    feasible = (margin * memory_limit_bytes - base) / worker_memory_bytes

where workers are those that exist (busy and idle). Where their number is not measured the limit in force stands for
it, which makes `base` as small as it can be; the margin has to cover that.
"""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.core import Window

NEEDED = ("worker_memory_bytes", "memory_limit_bytes", "memory_bytes")
MIB = 2**20


@dataclass(frozen=True)
class Room:
    """What fits.

    Args:
        workers: number of workers that fit, not rounded; may be below 0 when nothing does.
        figures: the arithmetic in words, for the operator.
    """

    workers: float
    figures: str


def not_measured(window: Window) -> tuple[str, ...]:
    """Names of the readings without which nothing can be said."""
    return tuple(name for name in NEEDED if not window.readings.get(name, 0.0) > 0)


def room(window: Window, limit: int, margin_ratio: float) -> Room | None:
    """How many workers fit into the memory.

    Args:
        window: what was measured.
        limit: worker limit in force.
        margin_ratio: share of the memory limit that may be planned for.

    Returns:
        None when a reading that is needed was not measured.
    """
    if not_measured(window):
        return None
    readings = window.readings
    each, total, used = (readings[name] for name in NEEDED)
    workers = float(limit)
    if "busy_workers" in readings and "idle_workers" in readings:
        workers = min(workers, readings["busy_workers"] + readings["idle_workers"])
    base = max(0.0, used - each * workers)
    fit = (margin_ratio * total - base) / each
    planned = f"{margin_ratio:.0%} of {total / MIB:.0f} MiB"
    return Room(fit, f"{base / MIB:.0f} MiB and {each / MIB:.1f} MiB for each worker in {planned}")
