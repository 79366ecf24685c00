"""Two configurations measured in turn: the verdict on the winner of a search.

The best of many noisy trials looks better than it is, by the noise that made it the best. So it is measured again, in
turn with the start configuration, and the claim is of these windows alone. The order is S C C S S C ... and ends
with the candidate C, so that a steady drift of the load falls on both alike. With s_i and c_i the objective of the
two windows of turn i and n turns in which both were measured

    d_i = log(c_i / s_i) where more is better, log(s_i / c_i) where less is                           (T1)
    mean(d) +- t(n - 1, 0.975) sd(d) / sqrt(n)                                                      (T2)

is the logarithm of how many times better the candidate is, with its 95 % interval (Student's t on paired samples).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from trimtab.core import Configuration, Objective, Verdict, Window

_ENOUGH = 2
"""Turns without which there is no interval."""


@dataclass(frozen=True)
class Seen:
    """Record of a window that a search keeps.

    Args:
        configuration: the values of its knobs.
        value: the objective; None where it, or the reading of a limit, was not measured.
        broken: whether a limit was broken.
        duration_s: its length, in seconds.
        beside: the values of the knobs that were left to the operator by now.
    """

    configuration: Mapping[str, int]
    value: float | None
    broken: bool
    duration_s: float
    beside: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(window: Window, names: Sequence[str], objective: Objective, left: Sequence[str] = ()) -> Seen:
        """The record of a window.

        Args:
            window: the window.
            names: names of the knobs that the search moves.
            objective: the search's objective.
            left: names of those that are left to the operator.
        """
        held, beside = (
            {name: window.configuration[name] for name in some if name in window.configuration}
            for some in (names, left)
        )
        known = objective.cost(window) is not None
        value = window.readings[objective.metric] if known else None
        return Seen(held, value, bool(objective.broken(window)), window.duration_s, beside)

    def without(self, knob: str) -> Seen:
        """The record once a knob is left to the operator."""
        beside = {**self.beside, **{name: value for name, value in self.configuration.items() if name == knob}}
        return replace(self, configuration=without(self.configuration, knob), beside=beside)


@dataclass(frozen=True)
class Claim:
    """Verdict on a candidate against the start.

    Args:
        verdict: better, worse, not told apart, or not measured.
        why: the reason in one line.
        gain: how many times better it is than the start; None where it was not measured.
        low: lower end of the 95 % interval; None where there is none.
        high: its upper end; None where there is none.
        turns: turns that count.
    """

    verdict: Verdict
    why: str
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    turns: int = 0


def without(configuration: Configuration, knob: str) -> dict[str, int]:
    """A configuration without a knob."""
    return {name: value for name, value in configuration.items() if name != knob}


def candidates_turns(repeats: int) -> tuple[bool, ...]:
    """For each window of the re-measurement whether the candidate is in force: S C C S S C ..., the last one C."""
    order: list[bool] = []
    for left in reversed(range(repeats)):
        order += (False, True) if left % 2 == 0 else (True, False)
    return tuple(order)


def better(value: float, than: float, objective: Objective) -> float:
    """How many times better one value of the objective is than another; both above 0."""
    return than / value if objective.minimize else value / than


def claimed(seen: Sequence[Seen], objective: Objective) -> Claim:
    """Verdict of a re-measurement's windows, Eq. (T1) and (T2).

    Args:
        seen: the windows, in the order of `candidates_turns`.
        objective: the search's objective.
    """
    order = candidates_turns(len(seen) // 2)
    sides = [[one for one, is_candidate in zip(seen, order, strict=True) if is_candidate is c] for c in (False, True)]
    before, after = (sum(one.broken for one in side) * 2 > len(side) for side in sides)
    if after and not before:
        return Claim(Verdict.WORSE, "the winner breaks a limit that the start configuration keeps")
    pairs = [(s.value, c.value) for s, c in zip(*sides, strict=True)]
    logs = [math.log(better(c, s, objective)) for s, c in pairs if s is not None and c is not None and min(s, c) > 0]
    if len(logs) < _ENOUGH:
        known = f"{len(logs)} of {len(pairs)} turns in which both were measured"
        return Claim(Verdict.UNMEASURED, f"{known} are too few to say anything", turns=len(logs))
    mean, half = statistics.fmean(logs), _half(logs)
    gain, low, high = (math.exp(min(_MOST, one)) for one in (mean, mean - half, mean + half))
    times = f"{gain:.3g} times as good as the start (95 % interval {low:.3g} to {high:.3g})"
    said = f"measured again in {len(logs)} turns, the winner is {times}"
    mended = before and not after
    if mended:
        said = f"{said}, and keeps a limit that the start breaks"
    verdict = Verdict.OPEN
    if mended or (low > 1 and not after):
        verdict = Verdict.BETTER
    elif high < 1:
        verdict = Verdict.WORSE
    return Claim(verdict, said, gain, low, high, len(logs))


_MOST = 700.0
"""The exponential of more is no number."""


def _half(logs: Sequence[float]) -> float:
    """Half the width of the interval of Eq. (T2)."""
    from scipy.special import stdtrit  # takes longer to load than the rest, and is needed once in a run

    n = len(logs)
    return float(stdtrit(n - 1, 0.975)) * statistics.stdev(logs) / math.sqrt(n)


def spread(seen: Sequence[Seen]) -> float | None:
    """Standard deviation of the objective's logarithm between windows of one configuration; None while none repeats.

    Args:
        seen: windows of any configurations.
    """
    groups: dict[tuple[tuple[str, int], ...], list[float]] = {}
    for one in seen:
        if one.value is not None and one.value > 0:
            groups.setdefault(tuple(sorted(one.configuration.items())), []).append(math.log(one.value))
    repeated = [group for group in groups.values() if len(group) > 1]
    if not repeated:
        return None
    freedom = sum(len(group) - 1 for group in repeated)
    return math.sqrt(sum(statistics.variance(group) * (len(group) - 1) for group in repeated) / freedom)
