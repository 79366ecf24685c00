"""The trials of a search at one load: what was measured how often, how noisy it is, and what it tells apart.

All costs here are those with the machine's pace taken out, Eq. (P2) of `trimtab.search.pace`. How costs follow the
pace is the machine's and the server's more than the load's, so repeats at earlier loads tell it too. Until a trial
has kept the limits of the objective, what is compared is how far the others are beyond them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from trimtab.search.evidence import Told
from trimtab.search.local_model import noise_of
from trimtab.search.pace import levelled, mean_of, slope_of
from trimtab.search.space import Values

HARM = math.log(1.1)
"""From which a trial harms: a tenth more."""
DISASTER, DISASTER_NOISE = math.log(1.5), 2.0
"""From which it is more than that: half as much again, and so many standard deviations of a trial."""
TOLD_BY = 3.5
"""Standard errors by which repeats have to differ from those before them: by chance once in 2,000 comparisons."""


class Era:
    """The trials since the load last changed.

    Args:
        trials: they, in order, as they were measured.
        earlier: those at each earlier load.
    """

    def __init__(self, trials: Sequence[Told], earlier: Sequence[Sequence[Told]] = ()) -> None:
        self._on_limits = not any(one.y is not None for one in trials)
        trials, *before = map(_compared, (trials, *earlier))
        loads = [((load, one.values), one) for load, told in enumerate((*before, trials)) for one in told]
        self._slope = slope_of((key, one.pace, one.y) for key, one in loads)
        self._mean_pace = mean_of([one.pace for one in trials])
        self._earlier: dict[tuple[int, Values], list[float]] = {}
        for key, one in loads[: len(loads) - len(trials)]:
            if (y := self.level(one)) is not None:
                self._earlier.setdefault(key, []).append(y)
        level = self._slope.value > 0
        self.trials = tuple(replace(one, y=self.level(one)) for one in trials) if level else tuple(trials)

    def compared(self, told: Told) -> Told:
        """A new trial with what is compared here: how far beyond the limits it is, where none of these was within."""
        return _compared((told,))[0] if self._on_limits else told

    def level(self, told: Told) -> float | None:
        """The cost of a trial at the mean pace of these; None where it failed."""
        if told.y is None:
            return None
        return levelled(told.y, told.pace, self._slope.value, self._mean_pace)

    @cached_property
    def counts(self) -> dict[Values, int]:
        """How often each configuration was tried, in the order of its first trial."""
        found: dict[Values, int] = {}
        for one in self.trials:
            found[one.values] = found.get(one.values, 0) + 1
        return found

    @cached_property
    def costs(self) -> dict[Values, list[float]]:
        """The costs of each configuration, without trials that failed."""
        found: dict[Values, list[float]] = {}
        for one in self.trials:
            if one.y is not None:
                found.setdefault(one.values, []).append(one.y)
        return found

    @property
    def denied(self) -> set[Values]:
        """Configurations that never kept the limits of the objective, where that was measured."""
        return {one.values for one in self.trials if one.excess is not None} - set(self.costs)

    @cached_property
    def noise(self) -> float:
        """The standard deviation of one cost, from repeats."""
        return noise_of(list(self.costs.values()))

    def excess(self, values: Values) -> float:
        """How much more than a configuration the last trial cost; infinite where either was not measured."""
        own, last = self.costs.get(values), self.trials[-1].y
        return math.inf if not own or last is None else last - _mean(own)

    def disasters(self, values: Values) -> list[Values]:
        """What failed, or cost plainly more than a configuration by half; none where that one failed itself."""
        if values not in self.costs:
            return []
        most = _mean(self.costs[values]) + DISASTER + DISASTER_NOISE * self.noise
        return [one.values for one in self.trials if one.y is None or one.y > most]

    def exonerated(self, index: int, value: int, values: Values) -> bool:
        """Whether a knob was as far from a configuration as a value, or farther, in a trial that did no harm.

        Args:
            index: the knob's.
            value: it.
            values: the configuration; it was measured.
        """
        most, far = _mean(self.costs[values]) + HARM, value - values[index]
        return any(
            one.y is not None and one.y <= most and (one.values[index] - value) * far >= 0 for one in self.trials
        )

    def since(self, values: Values) -> int:
        """How many trials were made since the last one of a configuration."""
        return next((k for k, one in enumerate(reversed(self.trials)) if one.values == values), len(self.trials))

    def better(self, values: Values, other: Values) -> float:
        """The probability that a configuration is better than another, by the repeats of both alone."""
        own, others = self.costs.get(values, []), self.costs.get(other, [])
        if not own or not others:
            return 0.0
        return normal((_mean(others) - _mean(own)) / (self.noise * math.sqrt(1 / len(own) + 1 / len(others))))

    def shifts(self, values: Values) -> list[tuple[int, float]]:
        """How far the latest repeats of a configuration are from those before them, to what another load takes.

        Noise is that of repeats on either side, of all others at this load, and of those at earlier ones.

        Args:
            values: the configuration.

        Returns:
            For the latest one, two and more repeats, as long as two are before them: the index among the trials of
            the first of them, and (m - m_0) / (what it takes) by Eq. (T5) of `trimtab.controllers.trust_region`.
        """
        own = [
            (k, one.pace, one.y) for k, one in enumerate(self.trials) if one.values == values and one.y is not None
        ]
        others = [*self._earlier.values(), *(costs for key, costs in self.costs.items() if key != values)]
        found = []
        for count in range(1, len(own) - 1):
            sides = own[:-count], own[-count:]
            before, after = ([y for *_, y in side] for side in sides)
            paces = [[z for _, z, _ in side if z is not None] for side in sides]
            apart = mean_of(paces[1]) - mean_of(paces[0]) if all(paces) else 0.0
            noise = noise_of([*others, before, after]) * math.sqrt(1 / len(before) + 1 / count)
            error = math.hypot(noise, apart * self._slope.error)  # Eq. (P4)
            found.append((own[-count][0], (_mean(after) - _mean(before)) / max(HARM, TOLD_BY * error)))  # Eq. (T5)
        return found

    def strangeness(self, told: Told, values: Values, more: float = 0.0, within: float = 0.0) -> float:
        """How far a new trial's cost is from what a configuration cost until now, in standard deviations.

        What the machine's pace did is taken out, and the less is known of that, the farther a cost may be: where the
        pace is another one than before, repeats have hardly told what costs do with it, Eq. (P4).

        Args:
            told: the trial; its cost was measured.
            values: the configuration; it was measured.
            more: how much more than that was expected.
            within: standard deviation of this expectation.
        """
        y, own = self.level(told), self.costs[values]
        assert y is not None
        paces = [one.pace for one in self.trials if one.values == values and one.y is not None]
        # A trial without one is taken for one at the same pace.
        apart = 0.0 if told.pace is None else told.pace - mean_of([told.pace if z is None else z for z in paces])
        noise = self.noise * math.sqrt(1 + 1 / len(own))
        return (y - _mean(own) - more) / math.hypot(noise, within, apart * self._slope.error)


def normal(z: float) -> float:
    """The standard normal distribution function."""
    return 0.5 * math.erfc(-z / math.sqrt(2))


def _compared(trials: Sequence[Told]) -> tuple[Told, ...]:
    """Trials with what is compared of them: how far beyond the limits they are, where none was within."""
    within = any(one.y is not None for one in trials)
    return tuple(trials if within else (replace(one, y=one.excess) for one in trials))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
