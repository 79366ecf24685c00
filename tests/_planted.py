"""Series of windows with an effect planted in them, for tests of what the referee makes of it.

Log cost is that of a queue at the window's load, plus the effect while the change is in force, plus noise that is
correlated from window to window, plus the sampling error of a mean. Half of the series have a step of the load near
the change; the load wanders all the time; the first window after the change pays for the reload.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.core import Verdict
from trimtab.referee import estimate
from trimtab.referee.estimate import Noise, Seen, effect, queue_noise

WINDOW_S = 5.0
BEFORE, AFTER = 12, 12


@dataclass(frozen=True)
class Planted:
    """One series.

    Args:
        windows: `BEFORE` ones, then those with the change in force.
        noise: what a queue of this load makes one expect.
    """

    windows: Sequence[Seen]
    noise: Noise


def planted(seed: int, factor: float, closed: bool = False, retries: bool = False) -> Planted:
    """A series drawn at random: 6 to 200 requests a second, 20 to 75 % of capacity, noise of 5 to 35 %.

    Args:
        seed: source of the draw.
        factor: of the cost, by the change.
        closed: clients that wait for a reply before they ask again: a slower server is asked less.
        retries: clients that ask again when they have waited too long: a slower server is asked more.
    """
    rng = random.Random(seed)
    correlation, sd = rng.uniform(0, 0.85), rng.uniform(0.05, 0.35)
    rate_hz = math.exp(rng.uniform(math.log(6), math.log(200)))
    utilisation = rng.uniform(0.2, 0.75)
    demand_s, walk, noise = utilisation / rate_hz, 0.0, rng.gauss(0, sd)
    step_at = BEFORE + rng.randint(-2, 2) if rng.random() < 0.5 else None
    step, windows = rng.uniform(0.65, 1.45), []
    for index in range(BEFORE + AFTER + 1):
        changed = index >= BEFORE
        walk += rng.gauss(0, 0.05)
        load = rate_hz * math.exp(walk) * (step if step_at is not None and index >= step_at else 1.0)
        if changed and closed:
            load /= math.sqrt(factor)
        if changed and retries:
            load *= min(1.25, 1 + 0.2 * max(0.0, factor - 1))
        rho = min(0.93, load * demand_s)
        noise = correlation * noise + math.sqrt(1 - correlation**2) * rng.gauss(0, sd)
        requests = rho / demand_s * WINDOW_S
        log_cost = -math.log1p(-rho) + noise + rng.gauss(0, math.sqrt(2 / requests))
        log_cost += math.log(factor) if changed else 0.0
        log_cost += abs(rng.gauss(0.3, 0.2)) if index == BEFORE else 0.0
        windows.append(Seen(index, log_cost, rho, requests))
    return Planted(windows, queue_noise(utilisation, demand_s, WINDOW_S))


def verdict_of(series: Planted) -> tuple[Verdict, int]:
    """The verdict that the estimate alone leads to, and after how many windows; the first does not count."""
    before, after = series.windows[:BEFORE], series.windows[BEFORE + 1 :]
    for count in range(1, len(after) + 1):
        changed = [False] * BEFORE + [True] * count
        found = effect([*before, *after[:count]], changed, series.noise)
        if verdict := estimate.verdict_of(found, count):
            return verdict, count
    return Verdict.OPEN, len(after)


def verdicts(
    seeds: Sequence[int], factor: float, closed: bool = False, retries: bool = False
) -> list[tuple[Verdict, int]]:
    """The verdicts on a series for each seed."""
    return [verdict_of(planted(seed, factor, closed, retries)) for seed in seeds]


def share(found: Sequence[tuple[Verdict, int]], *wanted: Verdict, within: int = AFTER) -> float:
    """The share of the series with one of these verdicts after at most so many windows."""
    return sum(one in wanted and count <= within for one, count in found) / len(found)
