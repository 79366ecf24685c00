"""Search over many knobs of a server with users: small steps around what runs, and nothing believed until repeated.

What it promises. It starts from the running configuration and repeats it first, so it knows the noise before it
changes anything. A trial stays within a trust region around the incumbent, which is small at first: a tenth of each
coordinate, about a factor of two for what spans three decades. It does not ask for what its model expects to be worse
than the incumbent by a tenth with more than 10 % probability, while there is anything else to ask for. A bound is
approached by halves and reached only from next to it. What looks better is measured again, in turn with the
incumbent, and takes its place only when it is better with the `confidence`; so "no improvement" is an answer.

Equations, with the model of `trimtab.search.local_model`, c the incumbent and D(x) = f(x) - f(c):

    next x = argmin E D(x) - k sd D(x)  where  E D(x) + 1.28 sd D(x) <= log 1.1                            (T1)
    promote where P(D(x) < 0) >= confidence by the model, and by the repeats of x and c alone, two or more    (T2)
    region: 1.5 times wider after a promotion, 0.6 times after max(4, knobs / 2) trials without             (T3)
    end where the region is below `least_radius`, or min E D(x) - 2 sd D(x) > -`least_gain` within it       (T4)
    S+ = max(0, S+ + z - 1/2), S- = max(0, S- - z - 1/2), changed load where one passes 5                  (T5)

| symbol | here | unit | shape |
|---|---|---|---|
| x, c | coordinates of a configuration | 1 | one for each knob |
| f | logarithm of the cost, less is better | 1 | scalar |
| z | the incumbent's latest cost against its earlier ones, in standard deviations | 1 | scalar |

Why so. Users pay for every trial, so the sum of what trials cost matters and not only the last of them: hence (T1)
with k = 1, which prefers what is likely to be good, and the bound on harm. A local model with a length for each knob
needs few trials where few of many knobs matter. A simplex keeps the best of noisy values and never looks again; that
is how noise becomes an "improvement", hence (T2). CUSUM with 1/2 and 5 is the textbook's chart for a shift of one
standard deviation: a false alarm in about 470 repeats of the incumbent. After an alarm old trials are not believed
any more, and the search starts again from the incumbent; configurations that were the incumbent before are tried
first, since a load often comes back.

A configuration that was refused, or reached only in part, is not asked for again. In the end it holds the incumbent
and goes on watching for (T5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from trimtab.core import Knob, Move, Objective, Trial
from trimtab.search.evidence import Told, refused, unmeasured, y_of
from trimtab.search.local_model import Array, LocalModel, Scales, noise_of
from trimtab.search.region import candidates
from trimtab.search.space import Values, in_force, named, of_many, point_of

FIRST_RADIUS, MOST_RADIUS = 0.1, 0.4
WIDER, NARROWER = 1.5, 0.6
HARM, HARM_QUANTILE = math.log(1.1), 1.28
SLACK, ALARM = 0.5, 5.0
LATELY = 6
"""Trials after which the incumbent is measured again."""
PROMISING = 0.6
"""Probability of being better from which a configuration is worth another trial."""
MOST_REPEATS = 5


@dataclass(frozen=True)
class TrustRegionState:
    """State of the search.

    Args:
        knobs: those it moves.
        seed: source of its randomness.
        told: all trials.
        era: index in `told` of the first one that is believed.
        incumbent: best configuration by the evidence; None before the first trial.
        radius: half the side of the region.
        scales: the model's parameters.
        failures: trials of something new since the last promotion or change of the region.
        rejected: configurations that were repeated and found no better, or refused.
        earlier: incumbents of earlier loads that are still to be tried.
        asked: the last configuration proposed.
        sums: S+ and S- of Eq. (T5).
        finished: why the search has ended; empty while it goes on.
        silent: windows in a row in which nothing was measured.
    """

    knobs: tuple[Knob, ...]
    seed: int
    scales: Scales
    told: tuple[Told, ...] = ()
    era: int = 0
    incumbent: Values | None = None
    radius: float = FIRST_RADIUS
    failures: int = 0
    rejected: tuple[Values, ...] = ()
    earlier: tuple[Values, ...] = ()
    asked: Values | None = None
    sums: tuple[float, float] = (0.0, 0.0)
    finished: str = ""
    silent: int = 0


@dataclass(frozen=True)
class TrustRegion:
    """The search.

    Args:
        objective: the objective to minimise.
        repeats: trials of the running configuration before anything is changed.
        confidence: probability of being better at which a configuration becomes the incumbent.
        least_gain: share of the cost that is not worth searching for.
        least_radius: half the side of the region below which the search ends.
        optimism: k in Eq. (T1).
        watch: goes on watching the load when it has found what it can, in place of ending.
        patience: windows without a measurement after which a trial has failed.
    """

    objective: Objective
    repeats: int = 3
    confidence: float = 0.975
    least_gain: float = 0.01
    least_radius: float = 0.03
    optimism: float = 1.0
    watch: bool = False
    patience: int = 6
    searches: ClassVar[bool] = True

    def start(self, knobs: tuple[Knob, ...], seed: int) -> TrustRegionState:
        """The state before the first window."""
        knobs = of_many(knobs, "trust_region")
        return TrustRegionState(knobs, seed, Scales.usual(len(knobs)))

    def step(self, state: TrustRegionState, trial: Trial) -> tuple[TrustRegionState, Move]:
        """The next trial, or the end."""
        missing = unmeasured(self.objective, state.knobs, trial)
        now = in_force(state.knobs, trial.window.configuration)
        if missing and (now is None or state.silent + 1 < self.patience):
            return replace(state, silent=state.silent + 1), Move.hold(f"trust_region: {missing}")
        assert now is not None
        if state.asked is not None and (why := refused(trial, named(state.knobs, state.asked))):
            state = replace(state, rejected=(*state.rejected, state.asked))
            said = f"the last trial was refused ({why}); "
        else:
            said = ""
            if state.asked not in (None, now, state.incumbent):  # rules or guards let it go part of its way only
                state = replace(state, rejected=(*state.rejected, state.asked))
        state = self._learned(replace(state, silent=0), Told(now, None if missing else y_of(self.objective, trial)))
        state, wanted, reason = self._next(state)
        assert state.incumbent is not None
        incumbent = named(state.knobs, state.incumbent)
        state = replace(state, asked=wanted)
        if state.finished and not self.watch:
            return state, Move.end(incumbent, f"trust_region: {said}{reason}")
        phase = "hold" if state.finished else "trial"
        evidence = {"radius": state.radius, "noise_ratio": self._noise(state)}
        move = Move(named(state.knobs, wanted), f"trust_region: {said}{reason}", evidence, phase, incumbent=incumbent)
        return state, move

    def _learned(self, state: TrustRegionState, told: Told) -> TrustRegionState:
        """The state with one more trial; after a change of the load without those before it."""
        before = [one.y for one in state.told[state.era :] if one.values == state.incumbent and one.y is not None]
        noise = self._noise(state)
        state = replace(state, told=(*state.told, told), incumbent=state.incumbent or told.values)
        if told.values != state.incumbent or told.y is None or len(before) < self.repeats - 1:
            return state
        usual = math.fsum(before) / len(before)
        z = (told.y - usual) / (noise * math.sqrt(1 + 1 / len(before)))
        sums = max(0.0, state.sums[0] + z - SLACK), max(0.0, state.sums[1] - z - SLACK)  # Eq. (T5)
        if max(sums) <= ALARM:
            return replace(state, sums=sums)
        known = dict.fromkeys((*state.earlier, *self._stood(state)))
        known.pop(told.values, None)
        return replace(
            state,
            era=len(state.told) - 1,
            radius=FIRST_RADIUS,
            failures=0,
            rejected=(),
            earlier=tuple(known),
            sums=(0.0, 0.0),
            finished="",
        )

    def _stood(self, state: TrustRegionState) -> list[Values]:
        """Configurations worth trying again on another load: those that were measured three times or more."""
        counts: dict[Values, int] = {}
        for one in state.told:
            counts[one.values] = counts.get(one.values, 0) + 1
        return [values for values, count in counts.items() if count >= self.repeats]

    def _next(self, state: TrustRegionState) -> tuple[TrustRegionState, Values, str]:
        """The next configuration to be measured, and why."""
        incumbent = state.incumbent
        assert incumbent is not None
        era = state.told[state.era :]
        counts = {one.values: sum(o.values == one.values for o in era) for one in era}
        known = [one for one in era if one.y is not None]
        if counts.get(incumbent, 0) < (self.repeats if state.era == 0 else 2) or not known:
            return state, incumbent, "the incumbent is repeated, to know the noise"
        if state.finished:
            return state, incumbent, state.finished
        for values in state.earlier:
            return replace(state, earlier=state.earlier[1:]), values, "it was the best on an earlier load"
        model = self._model(state, known)
        state = replace(state, scales=model.scales)
        state, challenger = self._challenged(state, model, counts)
        incumbent = state.incumbent
        assert incumbent is not None
        since = next((k for k, one in enumerate(reversed(era)) if one.values == incumbent), len(era))
        if since >= LATELY:
            return state, incumbent, "the incumbent is measured again, to notice a changed load"
        if challenger is not None:
            wanted = incumbent if since > 2 else challenger
            return state, wanted, "what looks better is measured again, in turn with the incumbent"
        return self._explored(state, model)

    def _challenged(
        self, state: TrustRegionState, model: LocalModel, counts: dict[Values, int]
    ) -> tuple[TrustRegionState, Values | None]:
        """The state after a promotion, and a configuration worth another trial; None for none."""
        assert state.incumbent is not None
        tried = [v for v in counts if v != state.incumbent and v not in state.rejected]
        if not tried:
            return state, None
        points = np.array([point_of(state.knobs, v) for v in tried])
        means, deviations = model.against(points, np.array(point_of(state.knobs, state.incumbent)))
        chances = [_normal(-m / max(s, 1e-9)) for m, s in zip(means, deviations, strict=True)]
        best = min(range(len(tried)), key=lambda i: (means[i] if chances[i] >= PROMISING else math.inf, tried[i]))
        if chances[best] < PROMISING:
            return state, None
        values = tried[best]
        if counts[values] >= 2 and min(chances[best], self._told_apart(state, values)) >= self.confidence:  # Eq. (T2)
            radius = min(MOST_RADIUS, state.radius * WIDER)  # Eq. (T3)
            return replace(state, incumbent=values, radius=radius, failures=0, sums=(0.0, 0.0)), None
        if counts[values] >= MOST_REPEATS:
            return replace(state, rejected=(*state.rejected, values)), None
        return state, values

    def _told_apart(self, state: TrustRegionState, values: Values) -> float:
        """The probability of being better than the incumbent by the repeats of both alone, without the model."""
        own, other = (
            [one.y for one in state.told[state.era :] if one.values == which and one.y is not None]
            for which in (values, state.incumbent)
        )
        if not own or not other:
            return 0.0
        apart = math.fsum(other) / len(other) - math.fsum(own) / len(own)
        return _normal(apart / (self._noise(state) * math.sqrt(1 / len(own) + 1 / len(other))))

    def _explored(self, state: TrustRegionState, model: LocalModel) -> tuple[TrustRegionState, Values, str]:
        """A new configuration within the region, or the end."""
        incumbent = state.incumbent
        assert incumbent is not None
        if state.failures >= max(4, len(state.knobs) // 2):
            state = replace(state, radius=state.radius * NARROWER, failures=0)  # Eq. (T3)
        failed = {one.values for one in state.told[state.era :] if one.y is None}
        tried = {one.values for one in state.told[state.era :]} | failed | set(state.rejected)
        rng = np.random.default_rng((state.seed, len(state.told)))
        found = [v for v in candidates(state.knobs, incumbent, state.radius, state.scales, rng) if v not in tried]
        if not found or state.radius < self.least_radius:
            return self._ended(state, "no better one was found, and the region is small")
        centre = np.array(point_of(state.knobs, incumbent))
        means, deviations = model.against(np.array([point_of(state.knobs, v) for v in found]), centre)
        if np.min(means - 2 * deviations) > -self.least_gain:  # Eq. (T4)
            return self._ended(state, f"nothing near it promises {self.least_gain:.0%}")
        risk = means + HARM_QUANTILE * deviations
        wanted = means - self.optimism * deviations
        safe = risk <= HARM
        pick = int(np.argmin(np.where(safe, wanted, np.inf) if safe.any() else risk))  # Eq. (T1)
        said = f"trial {len(state.told) + 1}, {means[pick]:+.1%} expected, to within {deviations[pick]:.1%}"
        return replace(state, failures=state.failures + 1), found[pick], said

    def _ended(self, state: TrustRegionState, why: str) -> tuple[TrustRegionState, Values, str]:
        """The end of the search, with the incumbent in force."""
        incumbent = state.incumbent
        assert incumbent is not None
        same = state.told[0].values == incumbent
        said = f"no improvement on the configuration that it began with: {why}" if same else why
        return replace(state, finished=said), incumbent, said

    def _model(self, state: TrustRegionState, known: list[Told]) -> LocalModel:
        x = np.array([point_of(state.knobs, one.values) for one in known])
        y: Array = np.array([one.y for one in known], dtype=float)
        return LocalModel(x, y, [bool(k.domain.choices) for k in state.knobs], self._noise(state), state.scales)

    def _noise(self, state: TrustRegionState) -> float:
        """The noise, from repeated configurations at one load."""
        groups: dict[Values, list[float]] = {}
        for one in state.told[state.era :]:
            if one.y is not None:
                groups.setdefault(one.values, []).append(one.y)
        return noise_of(list(groups.values()))


def _normal(z: float) -> float:
    """The standard normal distribution function."""
    return 0.5 * math.erfc(-z / math.sqrt(2))


CONTROLLER = TrustRegion
