"""Two configurations measured in turn: the verdict on the winner of a search.

The best of many noisy trials looks better than it is, by the noise that made it the best. So it is measured again, in
turn with the start configuration, and the claim is of these windows alone. The order is S C C S S C ... and ends
with the candidate C, so that a steady drift of the load falls on both alike. With s_i and c_i the objective of the
two windows of turn i and n turns in which both were measured

    d_i = log(c_i / s_i) where more is better, log(s_i / c_i) where less is                           (T1)
    mean(d) +- t(n - 1, 1 - a / 2) sd(d) / sqrt(n)                                                  (T2)

is the logarithm of how many times better the candidate is, with its 95 % interval (Student's t on paired samples).
Where less is better, 0 is the best there is, such as no time in a queue, and a ratio to next to nothing says nothing:
less than a thousandth of the greatest value in these windows counts as that thousandth.
Where that is open after the first round of turns, but its lower end misses the start by less than the mean exceeds
it, a second round follows: a gain of a twentieth is as much as the noise of a few windows. Who looks twice errs more
often; a = 0.0294 at either look keeps 5 % in both together (Pocock, Biometrika 64, 1977).
Where the machine's pace was measured, and other windows than these tell that costs follow it by b, Eq. (P1) of
`trimtab.search.pace`,

    d_i' = d_i + b q_i,   q_i = z(c_i) - z(s_i)                                                       (T3)
    mean(d') +- t(n - 1, 1 - a / 2) sqrt(sd(d')^2 / n + (mean(q) error of b)^2)                           (T4)

take their place: a turn in which the machine was slower under the candidate says nothing against it. But the pace
may be the candidate's own doing. Where the interval of mean(q) by (T2) excludes 0, both intervals count as one, from
the lower of their ends to the upper.

Limits come first. A candidate that breaks one in most of its windows, where the start does not, is worse. One that
keeps them in most, where the start does not, is better whatever it gains, if it breaks one in k of m windows and the
start in so many of n more, b in both together, that chance hardly explains it (Fisher's exact test, one side):

    sum over j <= k of C(m, j) C(n, b - j) / C(m + n, b) <= 0.05                                        (T5)

which three windows of three against none just are; so too where nothing can be measured with the start, if all can
with the candidate. A candidate with which nothing was served or measured in a turn in which the start served is not
better, whatever the other turns say.

What fails is served fast, or not at all, and is no gain: a database that lets fewer connections in answers those all
the sooner. With s and c the requests or connections of one kind that failed in all turns, and g how many times better
the candidate is, since who serves more also fails more, a candidate is worse where

    c - g s > 3 sqrt(c + g^2 s),   c > 1.5 g s,   g >= 1                                              (T6)

and more failed in most of its windows than in those of the start beside them, so that one burst is none.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from trimtab.core import Configuration, Objective, Readings, Verdict, Window
from trimtab.referee.measure import NEXT_TO_NOTHING
from trimtab.search.pace import Slope, levelled, mean_of, pace_of, slope_of

_NOTHING: Readings = MappingProxyType({})
_ENOUGH = 2
"""Turns without which there is no interval."""
_UNKNOWN = Slope()
LOOKS, _EACH = 2, 0.0294
"""Rounds of turns at most, and a of Eq. (T2)."""
_MENDED_BY_CHANCE = 0.05
"""The bound of Eq. (T5)."""


@dataclass(frozen=True)
class Seen:
    """Record of a window that a search keeps.

    Args:
        configuration: the values of its knobs.
        value: the objective; None where it, or the reading of a limit, was not measured, or no request completed.
        broken: whether a limit was broken.
        duration_s: its length, in seconds.
        beside: the values of the knobs that were left to the operator by now.
        pace: logarithm of the time that a fixed computation took on the machine; None where it was not measured.
        held_s: time before it in which a change let no request begin, of several servers the longest.
        failed: how many requests or connections failed in it, by metric.
    """

    configuration: Mapping[str, int]
    value: float | None
    broken: bool
    duration_s: float
    beside: Mapping[str, int] = field(default_factory=dict)
    pace: float | None = None
    held_s: float = 0.0
    failed: Mapping[str, float] = field(default_factory=dict)

    @staticmethod
    def of(
        window: Window,
        names: Sequence[str],
        objective: Objective,
        left: Sequence[str] = (),
        failed: Readings = _NOTHING,
    ) -> Seen:
        """The record of a window.

        Args:
            window: the window.
            names: names of the knobs that the search moves.
            objective: the search's objective.
            left: names of those that are left to the operator.
            failed: what failed in it per second, by metric.
        """
        held, beside = (
            {name: window.configuration[name] for name in some if name in window.configuration}
            for some in (names, left)
        )
        known = objective.cost(window) is not None and (window.samples is None or window.samples > 0)
        value = window.readings.get(objective.metric) if known else None
        broken, pace = bool(objective.broken(window)), pace_of(window.readings)
        counts = {n: hz * window.duration_s for n, hz in failed.items()}
        # One that waits for another's restart stands still beside it, so they are no sum.
        held_s = max((one.value for one in window.measured if one.metric == "held_s"), default=0.0)
        return Seen(held, value, broken, window.duration_s, beside, pace, held_s, counts)

    def served(self, objective: Objective) -> bool:
        """Whether it was measured, and something was served: a rate of 0 is nothing, a time of 0 is the best."""
        return self.value is not None and (self.value > 0 or (objective.minimize and self.value == 0))

    def log_cost(self, objective: Objective) -> float | None:
        """y of Eq. (E1) in `trimtab.search.evidence`; None where nothing was measured, or 0."""
        if self.value is None or self.value <= 0:
            return None
        return math.log(self.value) * (1 if objective.minimize else -1)

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
        down: turns in which nothing was served or measured with it, and was with the start.
    """

    verdict: Verdict
    why: str
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    turns: int = 0
    down: int = 0

    @property
    def promising(self) -> bool:
        """Whether it is open and a second round is worth its windows: what served nothing once is no better then."""
        known = self.gain is not None and self.low is not None and not self.down
        return self.verdict is Verdict.OPEN and known and (self.gain or 0.0) * (self.low or 0.0) > 1


def without(configuration: Configuration, knob: str) -> dict[str, int]:
    """A configuration without a knob."""
    return {name: value for name, value in configuration.items() if name != knob}


def candidates_turns(repeats: int, rounds: int = 1) -> tuple[bool, ...]:
    """For each window of the re-measurement whether the candidate is in force: S C C S S C ..., each round's last C.

    Args:
        repeats: turns in a round.
        rounds: how many rounds.
    """
    order: list[bool] = []
    for left in reversed(range(repeats)):
        order += (False, True) if left % 2 == 0 else (True, False)
    return tuple(order) * rounds


def better(value: float, than: float, objective: Objective) -> float:
    """How many times better one value of the objective is than another; both above 0."""
    return than / value if objective.minimize else value / than


def factor(value: float) -> str:
    """How many times better, as text: three digits, and where those say 1 as many, up to six, as tell it from 1."""
    if value >= 100:
        return f"{value:,.0f}"
    return next((text for digits in range(3, 7) if (text := f"{value:.{digits}g}") != "1"), "1")


def claimed(seen: Sequence[Seen], objective: Objective, slope: Slope = _UNKNOWN, rounds: int = 1) -> Claim:
    """Verdict of a re-measurement's windows, Eq. (T1) to (T4).

    Args:
        seen: the windows, in the order of `candidates_turns`.
        objective: the search's objective.
        slope: b of Eq. (T3) and its error, from other windows.
        rounds: rounds of turns that there were.
    """
    order = candidates_turns(len(seen) // 2 // rounds, rounds)
    sides = [[one for one, is_candidate in zip(seen, order, strict=True) if is_candidate is c] for c in (False, True)]
    before, after = (sum(one.broken for one in side) * 2 > len(side) for side in sides)
    if after and not before:
        return Claim(Verdict.WORSE, "the winner breaks a limit that the start configuration keeps")
    mended = before and not after and _fewer_broken(*sides)
    served = [(s, c, s.served(objective), c.served(objective)) for s, c in zip(*sides, strict=True)]
    pairs = [(s, c) for s, c, of_start, of_winner in served if of_start and of_winner]
    down = sum(of_start and not of_winner for *_, of_start, of_winner in served)
    if len(pairs) < _ENOUGH:
        known = f"{len(pairs)} of {len(served)} turns in which both were measured"
        fails = _fails_more([(s, c) for s, c, *_ in served], 1.0)
        if mended and all(of_winner for *_, of_winner in served) and not fails:
            return Claim(Verdict.BETTER, f"the winner keeps a limit that the start breaks; {known}", turns=len(pairs))
        return Claim(Verdict.UNMEASURED, f"{known} are too few to say anything", turns=len(pairs))
    logs = _logs(pairs, objective)
    gain, low, high = measured = _times(statistics.fmean(logs), _half(logs))
    corrected = _corrected(pairs, logs, slope)
    if corrected is not None:
        gain, low, high = corrected
    times = f"{factor(gain)} times as good as the start (95 % interval {factor(low)} to {factor(high)})"
    said = f"measured again in {len(logs)} turns, the winner is {times}"
    if corrected is not None:
        said += " at the same pace of the machine, and {} ({} to {}) as it was".format(*map(factor, measured))
    if mended:
        said = f"{said}, and keeps a limit that the start breaks"
    some = all(one.value for pair in pairs for one in pair)  # a ratio to 0 does not say how much more is served
    if fails := _fails_more(pairs, max(1.0, gain) if some else 1.0):
        return Claim(Verdict.WORSE, f"{said}, but more failed with it: {fails}", gain, low, high, len(logs))
    if down:
        said = f"{said}, but nothing was served or measured with it in {down} more, with the start in force it was"
    verdict = Verdict.OPEN
    if (mended or (low > 1 and not after)) and not down:
        verdict = Verdict.BETTER
    elif high < 1:
        verdict = Verdict.WORSE
    return Claim(verdict, said, gain, low, high, len(logs), down)


def _logs(pairs: Sequence[tuple[Seen, Seen]], objective: Objective) -> list[float]:
    """d_i of Eq. (T1)."""
    values = [(s.value or 0.0, c.value or 0.0) for s, c in pairs]
    if objective.minimize:
        least = NEXT_TO_NOTHING * max(map(max, values)) or 1.0
        values = [(max(s, least), max(c, least)) for s, c in values]
    return [math.log(better(c, s, objective)) for s, c in values]


def _fewer_broken(before: Sequence[Seen], after: Sequence[Seen]) -> bool:
    """Whether fewer windows break a limit than before, and not by chance, Eq. (T5)."""
    m, n, k = len(after), len(before), sum(one.broken for one in after)
    both = k + sum(one.broken for one in before)
    ways = sum(math.comb(m, j) * math.comb(n, both - j) for j in range(k + 1))
    return ways <= _MENDED_BY_CHANCE * math.comb(m + n, both)


def _fails_more(pairs: Sequence[tuple[Seen, Seen]], gain: float) -> str:
    """What fails more often with the candidate than with the start, Eq. (T6); empty for nothing."""
    kinds = {kind for pair in pairs for one in pair for kind in one.failed}
    for kind in sorted(kinds):
        counts = [(gain * s.failed.get(kind, 0.0), c.failed.get(kind, 0.0)) for s, c in pairs]
        start, candidate = (math.fsum(side) for side in zip(*counts, strict=True))
        told = candidate - start > _FAILS_BY_CHANCE * math.sqrt(candidate + gain * start)
        mostly = 2 * sum(c > s for s, c in counts) > len(counts)
        if told and mostly and candidate > _FAILS_MORE * start:
            length_s = math.fsum(c.duration_s for _, c in pairs)
            return f"{kind} {candidate / length_s:.3g} in place of {start / gain / length_s:.3g}"
    return ""


_FAILS_BY_CHANCE, _FAILS_MORE = 3.0, 1.5
"""Standard errors and the factor of Eq. (T6)."""
_MOST = 700.0
"""The exponential of more is no number."""


def _corrected(
    pairs: Sequence[tuple[Seen, Seen]], logs: Sequence[float], slope: Slope
) -> tuple[float, float, float] | None:
    """How many times better by Eq. (T3) and (T4), and the interval's ends; None where the pace is not known."""
    apart = [c.pace - s.pace for s, c in pairs if s.pace is not None and c.pace is not None]
    if not slope.value or len(apart) < len(pairs):
        return None
    mean = statistics.fmean(apart)
    then = [d + slope.value * q for d, q in zip(logs, apart, strict=True)]  # Eq. (T3)
    gain, low, high = _times(statistics.fmean(then), _half(then, mean * slope.error))  # Eq. (T4)
    if abs(mean) <= _half(apart):
        return gain, low, high
    _, lower, upper = _times(statistics.fmean(logs), _half(logs))
    return gain, min(low, lower), max(high, upper)


def _times(mean: float, half: float) -> tuple[float, float, float]:
    """How many times better, and the ends of its interval, from their logarithms."""
    gain, low, high = (math.exp(min(_MOST, one)) for one in (mean, mean - half, mean + half))
    return gain, low, high


def _half(logs: Sequence[float], besides: float = 0.0) -> float:
    """Half the width of the interval of Eq. (T2) and (T4), with an error besides."""
    from scipy.special import stdtrit  # takes longer to load than the rest, and is needed once in a run

    n = len(logs)
    return float(stdtrit(n - 1, 1 - _EACH / 2)) * math.hypot(statistics.stdev(logs) / math.sqrt(n), besides)


def slope_in(seen: Sequence[Seen], objective: Objective) -> Slope:
    """b of Eq. (T3) with its error, from the repeats of each configuration among windows."""
    return slope_of((_key(one), one.pace, one.log_cost(objective)) for one in seen)


def at_one_pace(seen: Sequence[Seen], objective: Objective) -> list[Seen]:
    """The windows with the values that they would have had at their mean pace; as they are where it is not known."""
    slope, mean = slope_in(seen, objective).value, mean_of([one.pace for one in seen])
    sign = 1 if objective.minimize else -1
    found = []
    for one in seen:
        y = one.log_cost(objective) if slope else None
        found.append(one if y is None else replace(one, value=math.exp(sign * levelled(y, one.pace, slope, mean))))
    return found


def _key(one: Seen) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(one.configuration.items()))


def spread(seen: Sequence[Seen]) -> float | None:
    """Standard deviation of the objective's logarithm between windows of one configuration; None while none repeats.

    Args:
        seen: windows of any configurations.
    """
    groups: dict[tuple[tuple[str, int], ...], list[float]] = {}
    for one in seen:
        if one.value is not None and one.value > 0:
            groups.setdefault(_key(one), []).append(math.log(one.value))
    repeated = [group for group in groups.values() if len(group) > 1]
    if not repeated:
        return None
    freedom = sum(len(group) - 1 for group in repeated)
    return math.sqrt(sum(statistics.variance(group) * (len(group) - 1) for group in repeated) / freedom)
