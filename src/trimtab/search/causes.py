"""What an operator would try first: configurations that the readings of a server's tiers speak for.

Of thirty knobs any three may be the ones, and two may help only together, which a search that knows nothing of
servers finds in more trials than users have patience for. Some causes are seen at once. They propose, no more: each
is a trial like any other, and only the objective decides.

| cause | seen, where a tier's CPU is full | proposed |
|---|---|---|
| too many at once | before it twice `ENOUGH` for each core are at work, and twice `LEAST` | a limit of just these |
| asked again and again | it could keep its answers, and does not | that it keeps them |

A tier computes no faster for more requests at once; it only changes between them more often, holds more of them in
its caches, and has more of them meet at its locks. What is limited are its own workers; where it has none, as a
database, those of the tier in front, or the pool where most of these are not at it. A cache of answers is no better
than its answers are fresh, and with many requests at once an answer is out of date when it is ready: on the private
shop under browsing either brings little, and both together a quarter. So what is proposed first is all of it
together, then each by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from trimtab.core import Knob, Role, Window
from trimtab.search.space import Values, dropped, member_above, member_below

FULL = 0.95
"""Share of its CPU from which a tier is full: windows of ten seconds and control groups leave no more to see."""
ENOUGH = 8
"""At work at once for each core of a tier: it is busy even while seven of eight wait for something else."""
LEAST = 4
"""At work at once however little CPU a tier has: there is always one that may begin."""


@dataclass(frozen=True)
class Likely:
    """A configuration that is worth a trial.

    Args:
        values: it.
        why: what speaks for it.
    """

    values: Values
    why: str

    def without(self, index: int) -> Likely:
        """It, once the knob at an index is left to the operator."""
        return replace(self, values=dropped(self.values, index))

    def but_for_choices(self, knobs: Sequence[Knob], values: Values) -> bool:
        """Whether it differs from a configuration in choices alone."""
        differing = [knob for knob, own, other in zip(knobs, self.values, values, strict=True) if own != other]
        return bool(differing) and all(knob.domain.choices for knob in differing)


def likely(knobs: Sequence[Knob], now: Values, window: Window) -> tuple[Likely, ...]:
    """What the readings of a window speak for: all causes together, then each by itself.

    Args:
        knobs: those that are moved.
        now: their values in that window.
        window: it.
    """
    tiers = list(dict.fromkeys(knob.tier for knob in knobs))
    found: dict[tuple[tuple[int, int], ...], str] = {}
    for place, tier in enumerate(tiers):
        if (_seen(window, tier, "cpu_ratio") or 0.0) >= FULL:
            front = tiers[max(0, place - 1)]
            whose = f"the CPU of the {tier} is full" if tier else "its CPU is full"
            for changes, why in (_fewer(knobs, now, window, tier, front), _kept(knobs, now, tier)):
                if changes:
                    found.setdefault(tuple(changes.items()), f"{whose} and {why}")
    together = tuple(change for changes in found for change in changes), "; ".join(found.values())
    proposed = dict([together, *found.items()] if found else ())
    return tuple(Likely(_with(now, changes), why) for changes, why in proposed.items())


def _with(now: Values, changes: Iterable[tuple[int, int]]) -> Values:
    """Values with changes, each an index and a value."""
    changed = dict(changes)
    return tuple(changed.get(k, value) for k, value in enumerate(now))


def _fewer(knobs: Sequence[Knob], now: Values, window: Window, tier: str, front: str) -> tuple[dict[int, int], str]:
    """Fewer requests at once in a tier, by the index of the knob; nothing where there are few."""
    pooled = _seen(window, front, "pool_busy_connections") if front != tier else None
    own, before = _working(window, tier), _working(window, front)
    where, role, at_work = (front, Role.WORKER_LIMIT, before) if own is None else (tier, Role.WORKER_LIMIT, own)
    if pooled is not None and (before is None or pooled < before / 2):
        where, role, at_work = front, Role.POOL_LIMIT, pooled
    limits = [k for k, knob in enumerate(knobs) if knob.tier == where and knob.role is role]
    cores = _seen(window, tier, "cpu_cores")
    if at_work is None or cores is None or len(limits) != 1:  # of several it is not known which is at work
        return {}, ""
    fewer = member_above(knobs[limits[0]].domain, max(LEAST, ENOUGH * cores))
    if now[limits[0]] <= fewer or at_work < 2 * fewer:
        return {}, ""
    spare = [k for k, one in enumerate(knobs) if one.tier == where and one.role is Role.SPARE_WORKERS]
    changes = {k: member_below(knobs[k].domain, fewer) for k in spare if now[k] > fewer and role is Role.WORKER_LIMIT}
    return {limits[0]: fewer, **changes}, f"{at_work:.0f} are at work at once"


def _kept(knobs: Sequence[Knob], now: Values, tier: str) -> tuple[dict[int, int], str]:
    """Answers that are kept, by the index of the knob; nothing where they are, or cannot be."""
    off = [k for k, knob in enumerate(knobs) if knob.tier == tier and knob.role is Role.ANSWERS and not now[k]]
    return dict.fromkeys(off, 1), "it keeps no answers"


def _working(window: Window, tier: str) -> float | None:
    """Workers of a tier that have a request; None where it is not measured."""
    busy = _seen(window, tier, "busy_workers")
    return None if busy is None else busy - (_seen(window, tier, "idle_held_workers") or 0.0)


def _seen(window: Window, tier: str, metric: str) -> float | None:
    """A reading of a tier; None where it was not measured."""
    if not tier:
        return window.readings.get(metric)
    own = (one.value for one in window.measured if one.metric == metric and one.source.partition("/")[0] == tier)
    return next(own, None)
