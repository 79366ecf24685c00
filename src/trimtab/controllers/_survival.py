"""How long an idle period lasts and how it ends, from periods of which some were cut short.

The product-limit estimate (Kaplan and Meier 1958) by the bins of a tally, as a life table: those that were cut short
within a bin were at risk in the part of it before that. Requests and clients that leave are competing ends, each with
its own incidence (Aalen 1978). Whether a period was cut short says nothing of how long it would have lasted, because
the time was the same for all, and a trial is drawn blindly; so the trials alone carry the estimate beyond the
keep-alive time.

    at risk_b  = periods that reached bin b - what those ended in it missed of it           (S1)
    S_b+1      = S_b (1 - (asked_b + left_b) / at risk_b)                                   (S2)
    F_b+1      = F_b + S_b asked_b / at risk_b                                              (S3)
    E_b+1      = E_b + (S_b + S_b+1) / 2 x width of b                                       (S4)

| here | unit | shape |
|---|---|---|
| S: share of periods that last so long | 1 | edges |
| F: share of periods that a request has ended by then | 1 | edges |
| E: mean of min(period, time) | s | edges |
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from trimtab.controllers._intervals import BINS, EDGES_S, Tally

FEWEST = 20.0
"""Beyond the time that fewer periods than this have reached, the curve is not known."""
HILL = 3.0
"""Requests that make a hill: one or two late ones do not."""
AHEAD_S = 0.25
"""A hill that begins within this time of the end of another belongs to the same burst."""
WIDTH_S = 0.05
"""Width of the bins of sugiki2005, by which its ratio is asked for here too."""
_BEYOND = tuple(bisect_right(EDGES_S, edge_s + WIDTH_S) for edge_s in EDGES_S)
"""Of each edge the first one that lies beyond such a width."""


@dataclass(frozen=True)
class Survival:
    """The estimate from one tally."""

    tally: Tally

    @cached_property
    def _curves(self) -> tuple[list[float], list[float], list[float]]:
        """S, F and E at the edges from 0 to the horizon."""
        t = self.tally
        reached, lasting, asked, mean = t.total, [1.0], [0.0], [0.0]
        for b in range(BINS):
            risk = reached - t.missed[b]  # Eq. (S1)
            if risk < FEWEST:
                break
            ends = min(1.0, (t.asked[b] + t.left[b]) / risk)
            share = t.asked[b] / (t.asked[b] + t.left[b]) if t.asked[b] + t.left[b] > 0 else 0.0
            here = lasting[-1]
            lasting.append(here * (1 - ends))  # Eq. (S2)
            asked.append(asked[-1] + here * ends * share)  # Eq. (S3)
            mean.append(mean[-1] + (here + lasting[-1]) / 2 * (EDGES_S[b + 1] - EDGES_S[b]))  # Eq. (S4)
            reached -= t.asked[b] + t.left[b] + t.ended[b]
        return lasting, asked, mean

    @cached_property
    def edges_s(self) -> Sequence[float]:
        """The edges at which something is known, from 0 to the horizon."""
        return EDGES_S[: len(self._curves[0])]

    @cached_property
    def horizon_s(self) -> float:
        """The time beyond which too few periods were seen."""
        return self.edges_s[-1]

    def lasting(self, time_s: float) -> float:
        """S: share of idle periods that last longer; beyond the horizon its value there."""
        return self._at(self._curves[0], time_s)

    def asked(self, time_s: float) -> float:
        """F: share of idle periods that a request ends by that time; beyond the horizon its value there."""
        return self._at(self._curves[1], time_s)

    def held_s(self, time_s: float) -> float:
        """E: mean of the lesser of an idle period and that time; beyond the horizon all that last go on."""
        beyond = max(0.0, time_s - self.horizon_s)
        return self._at(self._curves[2], time_s) + beyond * self._curves[0][-1]

    def time_holding(self, held_s: float) -> float:
        """The time at which idle connections are held for so long on average; the horizon where they never are."""
        held = self._curves[2]
        b = bisect_left(held, held_s)
        if b == 0 or b >= len(held):
            return self.edges_s[min(b, len(held) - 1)]
        part = (held_s - held[b - 1]) / (held[b] - held[b - 1])
        return EDGES_S[b - 1] + part * (EDGES_S[b] - EDGES_S[b - 1])

    def asked_within(self, time_s: float, until_s: float) -> float:
        """Share of the periods longer than `time_s` that a request ends by `until_s`."""
        lasting = self.lasting(time_s)
        return max(0.0, self.asked(until_s) - self.asked(time_s)) / lasting if lasting > 0 else 0.0

    def earned_hz(self, time_s: float, until_s: float) -> float:
        """Requests per second that are gained by keeping idle connections from one time to the other."""
        held_s = self.held_s(until_s) - self.held_s(time_s)
        return (self.asked(until_s) - self.asked(time_s)) / held_s if held_s > 0 else 0.0

    def burst_end_s(self, target: float) -> float:
        """Where the bursts end: the ratio of sugiki2005 falls below the target and stays there for a while.

        Args:
            target: share of the intervals so far below which the next 50 ms are no part of a burst.

        Returns:
            The first edge beyond them, in seconds; the horizon when they go on up to there, 0 when there are none.
        """
        end_s = 0.0
        for b, edge_s in enumerate(self.edges_s[:-1]):
            if 0 < end_s < edge_s - AHEAD_S:
                break
            if self._in_hill(b, edge_s, target):
                end_s = min(self.horizon_s, EDGES_S[bisect_left(EDGES_S, edge_s + WIDTH_S)])
        return end_s

    def _in_hill(self, b: int, edge_s: float, target: float) -> bool:
        """Whether the 50 ms from an edge on hold the target's share of all intervals up to their end."""
        ahead_s = edge_s + WIDTH_S
        if sum(self.tally.asked[b : _BEYOND[b]]) < HILL:
            return False
        upto = self.asked(ahead_s)
        return upto > 0 and (upto - self.asked(edge_s)) / upto >= target

    def _at(self, curve: Sequence[float], time_s: float) -> float:
        """A curve between its edges, along a straight line."""
        b = bisect_right(EDGES_S, time_s) - 1
        if b < 0:
            return curve[0]
        if b >= len(curve) - 1:
            return curve[-1]
        part = (time_s - EDGES_S[b]) / (EDGES_S[b + 1] - EDGES_S[b])
        return curve[b] + part * (curve[b + 1] - curve[b])
