"""Whether a sampling period suits the traffic, by the first windows, before minutes are spent on the rest.

A window in which a class had no dispatch has no delay, and an equation of order n takes n + 1 windows in a row. With
a share p of windows that have their delays, N of them give about N p^(n+1) equations. Dispatches come by themselves,
so a window that is k times as long is without one with the k-th power of the probability: p' = 1 - (1 - p)^k.
Where a class had none in any window, or nobody waited, no period is known to mend that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from trimtab.core import Knob, Window, of_class
from trimtab.identification.order import least_equations
from trimtab.identification.signals import Kind, Pair, needed
from trimtab.units import format_duration

LOOK = 12
"""Windows after which it is judged. Two standard errors are allowed for chance: few are refused that would do."""


def too_short(
    pair: Pair,
    budgets: Mapping[str, Knob],
    windows: Sequence[Window],
    in_all: int,
    period_s: float,
    orders: Sequence[int],
) -> str:
    """Why too few windows will be of use, and what would mend it; empty while that is not known to be so.

    Args:
        pair: the input and the output.
        budgets: class to its process budget.
        windows: the windows so far.
        in_all: windows of the whole run, without its warm-up.
        period_s: their length, in seconds.
        orders: the orders that are to be tried.
    """
    if len(windows) != LOOK:
        return ""
    used = sum(pair.sample(window, budgets).output is not None for window in windows)
    widest = max(orders)
    share = min(0.99, (least_equations(widest) / in_all) ** (1 / needed(pair.kind, widest)))
    if used >= LOOK * share - 2 * math.sqrt(LOOK * share * (1 - share)):
        return ""
    if not used and (why := _unloaded(pair, windows)):
        return f"in the first {LOOK} windows of {format_duration(period_s)} {why}"
    # Half a window where none had its delays: the thirteenth may have them though twelve had not.
    found = max(used, 0.5) / LOOK
    longer_s = period_s * math.log(1 - share) / math.log(1 - found)
    return (
        f"only {used} of the first {LOOK} windows of {format_duration(period_s)} can be used, as a window without "
        f"dispatches in a class has no delay: with a period of {format_duration(math.ceil(longer_s))}"
        f"{' or more' if not used else ''} enough of them would"
    )


def _unloaded(pair: Pair, windows: Sequence[Window]) -> str:
    """Why none of these windows can be used, where longer ones need not help; empty where they may."""
    names = (pair.upper,) if pair.kind is Kind.ABSOLUTE else (pair.upper, pair.lower)
    seen = {name: [window.readings.get(of_class(pair.delay, name)) for window in windows] for name in names}
    if silent := [name for name, delays in seen.items() if not any(one is not None for one in delays)]:
        problem = next((one for window in windows for one in window.problems), "")
        why = problem or "none of its connections was dispatched: identify it under its usual load"
        return f"no delay of {' nor of '.join(silent)} was seen: {why}"
    if pair.kind is not Kind.ABSOLUTE and not any(seen[pair.upper]):
        return f"nobody of {pair.upper} waited: load the server until connections wait"
    return ""
