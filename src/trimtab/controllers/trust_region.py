"""Search over many knobs of a server with users: small steps around what runs, and nothing believed until repeated.

What it promises. It starts from the running configuration and repeats it first, so it knows the noise before it
changes anything. A trial stays within a trust region around the incumbent, which is small at first: a tenth of each
coordinate, about a factor of two for what spans three decades, and twice that for limits of workers and pools and
sizes of caches. It does not ask for what its model expects to be worse
than the incumbent by a tenth with more than 10 % probability, while there is anything else to ask for. A bound is
approached by halves and reached only from next to it. What looks better is measured again, in turn with the
incumbent, and takes its place only when it is better with the `confidence`; so "no improvement" is an answer.

Equations, with the model of `trimtab.search.local_model`, c the incumbent and D(x) = f(x) - f(c):

    next x = argmin E D(x) - k sd D(x)  where  E D(x) + 1.28 sd D(x) <= log 1.1                            (T1)
    promote where P(D(x) < 0) >= confidence by the model, and by the repeats of x and c alone, two or more    (T2)
    region: 1.5 times wider after a promotion, 0.6 times after max(4, knobs / 2) trials without, and
        min(2, max(1, sqrt(s / 0.03))) times as wide as that where trials are noisy                         (T3)
    end where the region is below `least_radius`, or min E D(x) - 2 sd D(x) > -`least_gain` within it       (T4)
    changed load where for one number of the latest repeats of c, two or more,
        |m - m_0| > max(log 1.1, 3.5 sqrt(s^2 (1/n + 1/n_0) + (pace's uncertainty)^2))                      (T5)

| symbol | here | unit | shape |
|---|---|---|---|
| x, c | coordinates of a configuration | 1 | one for each knob |
| f | logarithm of the cost, less is better | 1 | scalar |
| m, n; m_0, n_0 | mean cost and number of the latest repeats of c; of those before them | 1 | scalar |
| s | the standard deviation of one cost | 1 | scalar |

Why so. Users pay for every trial, so the sum of what trials cost matters and not only the last of them: hence (T1)
with k = 1, which prefers what is likely to be good, and the bound on harm. A local model with a length for each knob
needs few trials where few of many knobs matter. What a step changes has to stand out of the noise, and what it may
cost grows faster than what it tells; so where a trial is noisier than is usual steps are longer by the root of that,
and at most two times: as (T1) bounds harm all the same, the search gains more with them (docs/contest.md). A simplex
keeps the best of noisy values and never looks again; that is how noise becomes an "improvement", hence (T2). Another
load is one that changes what the incumbent costs by a tenth at least, and by more than chance explains, twice. What
is smaller is not worth what it takes to believe it: the trials before those repeats do not count any more, and the
search starts again from the incumbent; configurations that were the incumbent before are tried first, since a load
often comes back. A chart of CUSUM also alarms for a small shift that lasts, and takes for the noise what a few
repeats happened to be (docs/contest.md). The incumbent is repeated every `LATELY` trials, again while its latest
repeats look strange and become more so, and at once after a trial that cost far more or less than the model expected,
which is the model's error or a changed load. Another mix is told by what clients ask for (`trimtab.search.mix`), by
two trials in a row: the first tells it from all others, whatever is in force, and the second, of the incumbent, from
the incumbent's own, since some settings (a cache's) change what comes through to a tier. The search then starts again
from the incumbent of the latest load with such a mix, or from its own where there was none.

A machine that computes slower for a while makes every setting worse that is tried then. Where its pace is measured it
is taken out of the costs (`trimtab.search.pace`); (T5) counts how little may be known yet of what costs do with it,
so that a machine which slows down is not taken for another load.

Where the running configuration breaks a limit of the objective, trials are compared by how far they are beyond it,
until one keeps all limits: that is the incumbent from there on, and the objective decides.

What an operator would try first by what is seen, such as fewer requests at once before a tier whose CPU is full, is
tried first, harm expected or not, and again from each new incumbent (`trimtab.search.causes`). Where a guard allows
less at once, further steps follow as long as none of them costs a tenth more. What was tried together may have won
for one part alone, so from the new incumbent a choice that came with it is tried without.

A limit that nothing reaches has no slope: small steps on it tell nothing, and where it binds it matters more than
most settings. So what limits or holds (by its role) is given a wider region and a shorter length beforehand. But of a
cliff no model knows that was fitted on this side of it: a cache is never less than half of what it was, and where a
trial went badly wrong no other goes as far (`trimtab.search.bounds`).
A few knobs are moved together (`trimtab.search.region`), since of many that move by little none can be told apart.

To be the incumbent takes proof (T2), since the search goes on from it, and with few trials and much noise the best
may lack it. So what is recommended for the turns in which the winner is measured again comes from what was tried
twice: those turns are the proof then. It is what changes the fewest knobs of all that the model believes to be within
one standard deviation of the best (the rule of one standard error, Breiman et al., Classification and Regression
Trees, 1984, 3.4.3): what went along while the incumbent moved is an operator's risk, and no gain of his.

A configuration that was refused, held by a guard, or reached only in part, is not asked for again. In the end it
holds the incumbent and goes on watching for (T5). A knob that is left to the operator takes nothing with it but the
trials at another value than the one that he has set (`trimtab.search.trust_region_state`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from trimtab.core import Knob, Move, Objective, Trial, Window
from trimtab.search.bounds import bounds
from trimtab.search.causes import likely
from trimtab.search.era import HARM, TOLD_BY, Era, normal
from trimtab.search.evidence import Told, believed, beside_of, excess_of, refused, taken_back, unmeasured, y_of
from trimtab.search.local_model import USUAL_NOISE, Array, LocalModel, Scales
from trimtab.search.mix import mix_of
from trimtab.search.pace import pace_of
from trimtab.search.region import Region
from trimtab.search.space import Values, in_force, named, of_many, points_of
from trimtab.search.trust_region_state import TrustRegionState

MOST_RADIUS = 0.4
WIDER, NARROWER = 1.5, 0.6
HARM_QUANTILE = 1.28
MOST_NOISY = 2.0
"""How much wider the region is at most, as trials are noisy."""
LATELY = 6
"""Trials after which the incumbent is measured again."""
PROMISING = 0.8
"""Probability of being better from which a configuration is worth another trial."""
MOST_REPEATS = 5
SURPRISE = 3.0
"""Standard deviations from what was expected from which the incumbent is measured again."""
_UNSAFE = 1e6


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
        patience: windows without a measurement after which a trial has failed; the incumbent is in force again then,
            and nothing else is tried before it was measured.
    """

    objective: Objective
    repeats: int = 3
    confidence: float = 0.975
    least_gain: float = 0.01
    least_radius: float = 0.03
    optimism: float = 1.0
    watch: bool = False
    patience: int = 2
    searches: ClassVar[bool] = True

    def start(self, knobs: tuple[Knob, ...], seed: int) -> TrustRegionState:
        """The state before the first window."""
        knobs = of_many(knobs, "trust_region")
        return TrustRegionState(knobs, seed, Scales.usual(knobs))

    def withdraw(self, state: TrustRegionState, knob: str) -> TrustRegionState:
        """The state without a knob, with all that is still known without it.

        Raises:
            UsageError: there is no other knob.
        """
        return state.without(knob)

    def step(self, state: TrustRegionState, trial: Trial) -> tuple[TrustRegionState, Move]:
        """The next trial, or the end."""
        missing = unmeasured(self.objective, state.knobs, trial)
        now = in_force(state.knobs, trial.window.configuration)
        longest = math.inf if state.incumbent in (None, now) else self.patience
        if missing and (now is None or state.silent + 1 < longest):
            if now is not None and now == state.incumbent:
                state = state.unblamed()
            return replace(state, silent=state.silent + 1), self._held(state, missing)
        assert now is not None
        why = refused(trial, named(state.knobs, state.asked)) if state.asked is not None else ""
        reached = state.asked in (None, now, state.incumbent) or taken_back(trial)
        if state.asked is not None and (why or not reached):
            nearer = not why and state.pursued is not None and all(one.values != now for one in state.told)
            if not nearer:  # not reached, or in part
                state = replace(state, rejected=(*state.rejected, state.asked), pursued=None)
        said = f"the last trial was refused ({why}); " if why else ""
        if why and state.asked == state.incumbent:
            state = self._without_incumbent(state)
        if state.beside != (beside := beside_of(state.left, trial.window.configuration)):
            state = state.anew(state.era, beside)
            said = f"{state.set_beside} now: trials at another value do not count; "
        y = None if missing else y_of(self.objective, trial)
        pace, excess = pace_of(trial.window.readings), excess_of(self.objective, trial)
        told = Told(now, y, beside, mix_of(trial), pace, excess)
        after = self._learned(replace(state, silent=0), told)
        after = replace(after, surprised=after.surprised or bool(missing))
        if after.past != state.past:
            said += f"clients ask for another mix since trial {after.era + 1}; "
        state, wanted, reason = self._next(after, trial.window)
        assert state.incumbent is not None
        incumbent = named(state.knobs, state.incumbent)
        said = f"trust_region: {said}{reason}"
        state = replace(state, asked=wanted)
        best = incumbent if state.recommended is None else named(state.knobs, state.recommended)
        if state.finished and not self.watch:
            return state, replace(Move.end(incumbent, said), recommended=best)
        evidence = {"radius": state.radius, "noise_ratio": state.believed.noise}
        phase = "hold" if state.finished else "trial"
        return state, Move(named(state.knobs, wanted), said, evidence, phase, incumbent=incumbent, recommended=best)

    def _held(self, state: TrustRegionState, why: str) -> Move:
        """No change; the search may end with it, so it names what the search stands behind."""
        move = Move.hold(f"trust_region: {why}")
        if state.incumbent is None:
            return move
        best = named(state.knobs, state.recommended or state.incumbent)
        return replace(move, incumbent=named(state.knobs, state.incumbent), recommended=best)

    def _without_incumbent(self, state: TrustRegionState) -> TrustRegionState:
        """The state once a rule refuses the incumbent, which it kept before: the next best one takes its place."""
        rest = {v: sum(own) / len(own) for v, own in state.believed.costs.items() if v not in state.rejected}
        return replace(state, incumbent=min(rest, key=lambda v: (rest[v], v), default=state.told[0].values))

    def _learned(self, state: TrustRegionState, told: Told) -> TrustRegionState:
        """The state with one more trial; after a change of the load without those before it."""
        era, incumbent = state.believed, state.incumbent or told.values
        expected = state.expected if told.values == state.asked else None
        state = replace(state, told=(*state.told, told), incumbent=incumbent, expected=None, surprised=False)
        if state.elsewhere:
            return state.moved() if state.strange else replace(state, strange=True, surprised=True)
        state = replace(state, strange=False)
        after, known = state.believed, era.compared(told)
        if told.y is not None and incumbent in after.denied:
            return replace(state, incumbent=told.values, recommended=None, failures=0, sums=(0.0, 0.0))
        if known.y is None or incumbent not in era.costs:
            return state
        if expected is not None:
            return replace(state, surprised=abs(era.strangeness(known, incumbent, *expected)) > SURPRISE)
        return self._drifted(state, after.shifts(incumbent)) if told.values == incumbent else state

    def _drifted(self, state: TrustRegionState, shifts: Sequence[tuple[int, float]]) -> TrustRegionState:
        """The state after one more repeat of the incumbent; after a changed load without the trials before it.

        Args:
            state: the state with that trial.
            shifts: how far its latest repeats are from those before them, `Era.shifts`.
        """
        first, most = max(shifts[1:], key=lambda one: abs(one[1]), default=(0, 0.0))
        if abs(most) <= 1:  # Eq. (T5)
            strange = max((shift for _, shift in shifts), key=abs, default=0.0)
            sums, least = (max(0.0, strange), max(0.0, -strange)), max(SURPRISE / TOLD_BY, *state.sums)
            return replace(state, sums=sums, surprised=abs(strange) > least)
        ever = Era(believed(state.told, state.beside))
        stood = [v for v, count in ever.counts.items() if count >= self.repeats and v not in state.rejected]
        earlier = tuple(one for one in dict.fromkeys((*state.earlier, *stood)) if one != state.incumbent)
        begins = [k for k in range(state.era, len(state.told)) if state.told[k].beside == state.beside][first]
        return replace(state.anew(begins, state.beside), earlier=earlier, likely=state.chosen)

    def _next(self, state: TrustRegionState, window: Window) -> tuple[TrustRegionState, Values, str]:
        """The next configuration to be measured after this window, and why."""
        incumbent, era, aim = state.incumbent, state.believed, state.pursued
        assert incumbent is not None
        state = self._caused(replace(state, pursued=None), window)
        if (
            era.counts.get(incumbent, 0) < (self.repeats if len(era.trials) == len(state.told) else 2)
            or not era.costs
        ):
            return state, incumbent, "the incumbent is repeated, to know the noise"
        if state.surprised:
            return state, incumbent, "the incumbent is measured again: the load may have changed"
        if state.finished:
            return state, incumbent, state.finished
        if aim is not None and aim.values != state.told[-1].values and era.excess(incumbent) <= HARM:
            said = f"one more step towards what is worth a trial, as {aim.why}"
            return replace(state, pursued=aim), aim.values, said
        for values in state.earlier:
            return replace(state, earlier=state.earlier[1:]), values, "it was the best on an earlier load"
        known = [one for one in era.trials if one.y is not None]
        x = points_of(state.knobs, [one.values for one in known])
        model = LocalModel(x, np.array([one.y for one in known], dtype=float), state.knobs, era.noise, state.scales)
        state, challenger = self._challenged(replace(state, scales=model.scales), model)
        incumbent = state.incumbent
        assert incumbent is not None
        state = replace(state, recommended=self._recommended(state, model))
        since = era.since(incumbent)
        if since >= LATELY:
            return state, incumbent, "the incumbent is measured again, to notice a changed load"
        if challenger is not None:
            wanted = incumbent if since > 2 else challenger
            return state, wanted, "what looks better is measured again, in turn with the incumbent"
        state = self._caused(state, window)
        tried = {*era.counts, *state.rejected}
        if fresh := [one for one in state.likely if one.values not in tried]:
            state = replace(state, likely=tuple(fresh[1:]), pursued=fresh[0])
            return state, fresh[0].values, f"worth a trial, as {fresh[0].why}"
        return self._explored(state, model)

    def _caused(self, state: TrustRegionState, window: Window) -> TrustRegionState:
        """The state with what a window of its incumbent speaks for, where nothing is left of what others spoke for.

        One near a bound, as of a CPU that is full, is seen in some windows and not in others.
        """
        incumbent = state.incumbent
        if incumbent is None or state.likely or state.told[-1].values != incumbent:
            return state
        return replace(state, likely=likely(state.knobs, incumbent, window))

    def _challenged(self, state: TrustRegionState, model: LocalModel) -> tuple[TrustRegionState, Values | None]:
        """The state after a promotion, and a configuration worth another trial; None for none."""
        era, incumbent = state.believed, state.incumbent
        assert incumbent is not None
        tried = [values for values in era.costs if values != incumbent and values not in state.rejected]
        if not tried:
            return state, None
        means, deviations = self._against(state, model, tried)
        chances = {v: normal(-m / max(s, 1e-9)) for v, m, s in zip(tried, means, deviations, strict=True)}
        promising = [(mean, v) for mean, v in zip(means, tried, strict=True) if chances[v] >= PROMISING]
        if not promising:
            return state, None
        _, best = min(promising)
        repeated = len(era.costs[best]) >= 2  # a trial that failed is no repeat, and shows the contrary
        if repeated and min(chances[best], era.better(best, incumbent)) >= self.confidence:  # Eq. (T2)
            radius = min(MOST_RADIUS, state.radius * WIDER)  # Eq. (T3)
            rest = tuple(one for one in state.likely if one.but_for_choices(state.knobs, best))
            state = replace(state, incumbent=best, likely=rest, radius=radius, failures=0)
            return replace(state, sums=(0.0, 0.0)), None
        if era.counts[best] >= MOST_REPEATS:
            return replace(state, rejected=(*state.rejected, best)), None
        return state, best

    def _recommended(self, state: TrustRegionState, model: LocalModel) -> Values | None:
        """The simplest that is as good as the best of what was tried twice or more; None for the incumbent."""
        incumbent, start = state.incumbent, state.told[0].values
        assert incumbent is not None
        twice = [values for values, costs in state.believed.costs.items() if len(costs) >= 2]
        tried = [incumbent, *(values for values in twice if values != incumbent)]
        best = tried[int(np.argmin(self._against(state, model, tried)[0]))]
        means, deviations = model.against(points_of(state.knobs, tried), points_of(state.knobs, [best])[0])
        alike = [v for v, mean, deviation in zip(tried, means, deviations, strict=True) if mean <= deviation]

        def moved(values: Values) -> int:
            return sum(own != before for own, before in zip(values, start, strict=True))

        simplest = min((v for v in alike if v == best or v != start), key=lambda v: (moved(v), v != best))
        return None if simplest == incumbent else simplest

    def _explored(self, state: TrustRegionState, model: LocalModel) -> tuple[TrustRegionState, Values, str]:
        """A new configuration within the region, or the end."""
        incumbent = state.incumbent
        assert incumbent is not None
        if state.failures >= max(4, len(state.knobs) // 2):
            state = replace(state, radius=state.radius * NARROWER, failures=0)  # Eq. (T3)
        tried = {*state.believed.counts, *state.rejected}
        within = bounds(state.knobs, incumbent, state.told[0].values, state.believed)
        noisy = min(MOST_NOISY, math.sqrt(max(1.0, state.believed.noise / USUAL_NOISE)))
        side = min(MOST_RADIUS, state.radius * noisy)  # Eq. (T3)
        region = Region(state.knobs, incumbent, side, state.scales, within)
        rng = np.random.default_rng((state.seed, len(state.told)))
        found = [values for values in region.candidates(rng) if values not in tried]
        if not found or state.radius < self.least_radius:
            return self._ended(state, "no better one was found, and the region is small")

        def score(means: Array, deviations: Array) -> Array:
            risk = means + HARM_QUANTILE * deviations
            return np.where(risk <= HARM, means - self.optimism * deviations, _UNSAFE + risk)  # Eq. (T1)

        near = region.improved(found, lambda asked: score(*self._against(state, model, asked)))
        found = [values for values in near if values not in tried]
        means, deviations = self._against(state, model, found)
        if np.min(means - 2 * deviations) > -self.least_gain:  # Eq. (T4)
            return self._ended(state, f"nothing near it promises {self.least_gain:.0%}")
        pick = int(np.argmin(score(means, deviations)))
        expected = more, deviation = float(means[pick]), float(deviations[pick])
        own = more if self.objective.minimize else -more
        share, apart = abs(math.expm1(own)), math.exp(own) * math.sinh(deviation)
        said = f"expected of the next: {share:.1%} {'worse' if more > 0 else 'better'}, to within {apart:.1%}"
        return replace(state, failures=state.failures + 1, expected=expected), found[pick], said

    def _against(self, state: TrustRegionState, model: LocalModel, asked: Sequence[Values]) -> tuple[Array, Array]:
        """How much more than the incumbent configurations cost by the model: means, standard deviations."""
        assert state.incumbent is not None
        points = points_of(state.knobs, [*asked, state.incumbent])
        return model.against(points[:-1], points[-1])

    def _ended(self, state: TrustRegionState, why: str) -> tuple[TrustRegionState, Values, str]:
        """The end of the search, with the incumbent in force."""
        incumbent = state.incumbent
        assert incumbent is not None
        same = state.told[0].values == incumbent
        said = f"no improvement on the configuration that it began with: {why}" if same else why
        return replace(state, finished=said), incumbent, said


CONTROLLER = TrustRegion
