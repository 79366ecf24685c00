"""The histogram of request intervals in lines of text, and the keep-alive time's effect on them."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from trimtab.controllers._intervals import EDGES_S, Tally
from trimtab.controllers._survival import Survival
from trimtab.core.window import Window
from trimtab.gate.keep_alive import TRIAL_EVERY, trial_ms
from trimtab.plants.keep_alive.knobs import KEEP_ALIVE
from trimtab.report.text import shown
from trimtab.units import format_duration

if TYPE_CHECKING:
    from trimtab.plants.keep_alive.plant import KeepAlive

REMEMBERED = 12
"""Windows that the histogram sums up."""
_PER_ROW = 4
_LEAST_S = 0.001
_WIDTH = 40
_LEAST_HELD = 0.1
"""Fewer held workers than this are none."""
_ALL = 1e15
"""More idle periods than there will be: a tally that remembers so many forgets none."""


class IdlePeriods:
    """The idle periods of the last windows, as lines to be shown below each window.

    Args:
        plant: the keep-alive time.
    """

    def __init__(self, plant: KeepAlive) -> None:
        self._plant = plant
        self._windows: deque[Window] = deque(maxlen=REMEMBERED)
        self._cut = self._burst = self._known = 0.0

    def lines(self, window: Window) -> list[str]:
        """Adds a window, and returns the lines to show."""
        if self._windows and self._windows[-1].configuration != window.configuration:
            # Cut at another time, idle periods are another sample.
            self._windows.clear()
        self._windows.append(window)
        seen, time_s = Survival(tally_of(self._windows)), window.configuration[KEEP_ALIVE] / 1000
        lines = [self._head(window), *histogram(seen.tally, time_s), self._ended(window, seen, time_s)]
        return [*lines, self._held(seen, time_s)]

    def _head(self, window: Window) -> str:
        """Line on the time in force, and how busy the server is."""
        rates = ((name, window.readings.get(f"{name}_rate_hz")) for name in ("request", "connection"))
        busy = ", ".join(f"{shown(f'{name}_rate_hz', rate)} {name}s" for name, rate in rates)
        long_s = format_duration(round(sum(one.duration_s for one in self._windows)))
        return f"keep-alive time: {self._plant.time.setting()}; {busy}; idle periods of the last {long_s}"

    def _ended(self, window: Window, seen: Survival, time_s: float) -> str:
        """How many connections were cut, and how many of them in a burst."""
        rate_hz = window.readings.get("connections_cut_rate_hz")
        if rate_hz is None:
            return "cut: not measured"
        if rate_hz == 0 and self._plant.time.setting().time_ms is None:
            expired = shown("connections_expired_rate_hz", window.readings.get("connections_expired_rate_hz"))
            return f"cut: nothing, the server's own time is in force; it ended {expired} itself"
        cut = rate_hz * window.duration_s
        self._cut += cut
        head = f"cut: {shown('connections_cut_rate_hz', rate_hz)}, {self._cut:,.0f} so far"
        if seen.horizon_s < 2 * time_s:
            return f"{head}; too few have been left longer to tell which were in a burst"
        share = seen.asked_within(time_s, 2 * time_s)
        self._burst += share * cut
        self._known += cut
        now = f"now {share:.0%} in a burst (the client would have asked again within {format_duration(2 * time_s)})"
        if self._known <= 0:
            return f"{head}; {now}"
        return f"{head}: {self._burst:,.0f} in a burst, {self._known - self._burst:,.0f} in thought; {now}"

    def _held(self, seen: Survival, time_s: float) -> str:
        """Line on the workers that idle connections hold, and would hold at the server's own time."""
        idle, held = (self._mean(name) for name in ("idle_connections", "idle_held_workers"))
        if idle is None or held is None:
            return "idle connections: not measured"
        text = f"idle: {idle:.1f} connections hold {held:.1f} workers"
        own_s = self._plant.own_ms() / 1000
        least, most = held_ratio(seen, time_s, own_s)
        if time_s >= own_s or most * held < _LEAST_HELD:
            return text
        span = f"{least * held:.1f}" if most < 1.1 * least else f"{least * held:.1f} to {most * held:.1f}"
        own = format_duration(own_s)
        return f"{text}; kept for the server's own {own} they would hold {span}, if there were so many"

    def _mean(self, name: str) -> float | None:
        """Mean of a reading over the windows."""
        seen = [(one.readings[name], one.duration_s) for one in self._windows if name in one.readings]
        return sum(v * s for v, s in seen) / sum(s for _, s in seen) if seen else None


def tally_of(windows: deque[Window]) -> Tally:
    """The idle periods of some windows, each counted in full."""
    tally = Tally()
    for window in windows:
        tally = tally.seen(window.readings, window.configuration[KEEP_ALIVE] / 1000, _ALL, 1.0)
    return tally


def held_ratio(seen: Survival, time_s: float, other_s: float) -> tuple[float, float]:
    """How many times as many workers idle connections would hold with another time, at least and at most.

    At least as far as periods were seen that long; at most where all that lasted so long would last on.

    Args:
        seen: idle periods.
        time_s: the time in force, of which trials are given more.
        other_s: the other time.
    """
    trials_s = trial_ms(round(1000 * time_s)) / 1000
    now_s = seen.held_s(time_s) + (seen.held_s(trials_s) - seen.held_s(time_s)) / TRIAL_EVERY
    if now_s <= 0:
        return 0.0, 0.0
    return seen.held_s(min(other_s, seen.horizon_s)) / now_s, seen.held_s(other_s) / now_s


def histogram(tally: Tally, time_s: float) -> list[str]:
    """The idle periods as lines, two to the octave, with the time in force between them.

    Args:
        tally: the idle periods.
        time_s: the time in force.
    """
    parts = (("█", tally.asked), ("▒", tally.left), ("░", tally.ended))
    first = _row(_LEAST_S)
    rows = [[0.0, 0.0, 0.0] for _ in range(len(EDGES_S) // _PER_ROW)]
    for k, (_, counts) in enumerate(parts):
        for index, count in enumerate(counts):
            rows[max(first, index // _PER_ROW)][k] += count
    filled = [r for r, row in enumerate(rows) if sum(row) > 0]
    at, most = _row(time_s), max(map(sum, rows))
    lines = [f"{'idle for':>8}  █ until the next request  ▒ until the client left  ░ until it was ended"]
    for r in range(min([at, *filled]), max([at, *filled]) + 1):
        bar = "".join(mark * round(_WIDTH * n / most) for (mark, _), n in zip(parts, rows[r], strict=True) if n)
        lines.append(f"{_label(r, first):>8}  {bar:<{_WIDTH}} {sum(rows[r]):>9,.0f}".rstrip())
        if r == at:
            lines.append(f"{format_duration(time_s):>8}  {'-' * _WIDTH} the time in force")
    return lines


def _row(time_s: float) -> int:
    """The line on which idle periods of that length stand."""
    return next(r for r in range(len(EDGES_S) // _PER_ROW) if time_s < EDGES_S[_PER_ROW * (r + 1)])


def _label(row: int, first: int) -> str:
    """Lower end of a line's interval, to two digits."""
    edge_s = EDGES_S[_PER_ROW * row]
    if row == first:
        return "0"
    digits = 2 - math.floor(math.log10(edge_s * 1000)) - 1
    rounded = round(edge_s * 1000, digits)
    return f"{rounded:g}ms" if rounded < 1000 else f"{rounded / 1000:g}s"
