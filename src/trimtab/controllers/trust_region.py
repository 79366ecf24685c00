"""trimtab's search over many knobs: small steps from what is in force, noise known first, proof before trust.

What it promises. It starts from the running setting and measures that first, again and again, so that it knows the
noise before it believes a difference. It moves within a box around the best setting so far, the incumbent, which
grows with success and shrinks with failure. A setting becomes the incumbent only when its own repeats are better than
the incumbent's by two standard errors; a single good trial is measured again instead. It says so when nothing is to
be had.

A trial's setting is drawn by Thompson's rule (1933) from the model of `trimtab.search.model`: coefficients are drawn
from what is known of them, and the least cost of that draw within the box is tried. So a knob whose effect is not
known is tried both ways, one whose effect is known goes there, and one without effect is left alone by its relevance.

    box: |x_j - c_j| <= R, and no edge of a domain before the model is sure of that way (2 standard deviations)
    R <- R grow after a promotion, R shrink after a trial that is worse by a tenth
    promoted: mean of incumbent - mean of candidate > 2 s sqrt(1 / n_c + 1 / n_i), n_c >= 2
    drift: S <- max(0, S + z - 1/2), z the incumbent's new trial against its own mean; beyond 5 all is forgotten but
           what was best under which load; a load like an earlier one begins with its best           (Page 1954)
    end: what the model can still promise within twice the box is below a fiftieth, or `idle` trials promoted nothing

| symbol | here | unit | shape |
|---|---|---|---|
| x, c | point of a trial and of the incumbent (`trimtab.search.space`) | 1 | d |
| R | radius, half the side of the box | 1 | scalar |
| s | standard deviation of one trial's log cost | 1 | scalar |
| z | standardised difference | 1 | scalar |

Why so. A simplex has no idea of noise and begins at the edges of the domain; global methods (TPE, CMA-ES with a wide
start) pay for knowledge of regions that nobody wants to be in, with users' pages. Online a trial near the incumbent
costs next to nothing even where it is useless, and a factor of two is found along a slope as surely as from afar. A
model without interactions needs 2 d numbers and not d^2: interactions are met by moving the centre.

What is remembered of a load is a signature: the rates of the window over the rate of pages, or of requests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trimtab.controllers._knob import unjudged
from trimtab.core import Knob, Move, Objective, Trial, Window, in_words
from trimtab.errors import UsageError
from trimtab.search.evidence import Told, cost_of, finite, means, noise_of
from trimtab.search.model import Array, Local, fitted
from trimtab.search.space import point_of, values_at

Setting = tuple[int, ...]
Means = Mapping[Setting, tuple[float, int]]
PER = ("client_page_rate_hz", "request_rate_hz")
"""The rate that a signature's rates are of, the first that is there."""
_DRAWS = 12


@dataclass(frozen=True)
class Remembered:
    """A load and what was best under it.

    Args:
        signature: rates over the rate of pages, by name, as logarithms.
        setting: the incumbent of that time.
    """

    signature: Mapping[str, float]
    setting: Setting


@dataclass(frozen=True)
class TrustRegionState:
    """What is remembered.

    Args:
        knobs: those that are moved.
        seed: source of all randomness.
        radius: half the side of the box.
        told: the trials under this load.
        incumbent: the best setting so far; empty before the first trial.
        candidate: a setting that is being measured again; empty for none.
        idle: trials since the last promotion.
        since: trials since the incumbent was measured.
        above: CUSUM of the incumbent being worse than it was.
        below: CUSUM of it being better.
        signature: of the present load.
        memory: earlier loads.
        count: trials in all, for the draws.
        silent: windows in a row in which nothing was measured.
    """

    knobs: tuple[Knob, ...]
    seed: int
    radius: float
    told: tuple[Told, ...] = ()
    incumbent: Setting = ()
    candidate: Setting = ()
    idle: int = 0
    since: int = 0
    above: float = 0.0
    below: float = 0.0
    signature: Mapping[str, float] | None = None
    memory: tuple[Remembered, ...] = ()
    count: int = 0
    silent: int = 0


@dataclass(frozen=True)
class TrustRegion:
    """The search.

    Args:
        objective: what is made best.
        radius: the first half side of the box, in widths of a knob's range.
        most_radius: the largest.
        least_radius: the smallest.
        grow: what the radius is multiplied with after a promotion.
        shrink: what it is multiplied with after a bad trial.
        repeats: trials of the running setting before anything is moved.
        turn: trials elsewhere after which the incumbent is measured again.
        noise: standard deviation of a trial's log cost before it is known.
        idle: trials without a promotion after which the search ends; for each knob two more.
        worth: share of the cost below which a gain is none.
        patience: windows in which nothing was measured after which a trial has failed.
    """

    objective: Objective
    radius: float = 0.15
    most_radius: float = 0.4
    least_radius: float = 0.03
    grow: float = 1.5
    shrink: float = 0.6
    repeats: int = 3
    turn: int = 5
    noise: float = 0.03
    idle: int = 16
    worth: float = 0.02
    patience: int = 2

    def start(self, knobs: tuple[Knob, ...], seed: int) -> TrustRegionState:
        """The state before the first window.

        Raises:
            UsageError: there is no knob.
        """
        if not knobs:
            raise UsageError("a search needs at least one knob")
        return TrustRegionState(knobs, seed, self.radius)

    def step(self, state: TrustRegionState, trial: Trial) -> tuple[TrustRegionState, Move]:
        """The next setting to be measured, which is often the same again."""
        window = trial.window
        if any(knob.name not in window.configuration for knob in state.knobs):
            return state, Move.hold("the values in force are not known")
        missing = next((m for k in state.knobs if (m := unjudged(self.objective, window, k, 1))), "")
        if missing and state.silent + 1 < self.patience:
            return replace(state, silent=state.silent + 1), Move.hold(missing)
        at = tuple(window.configuration[knob.name] for knob in state.knobs)
        told = Told(at, None if missing else cost_of(window, self.objective))
        state = self._told(state, told, window)
        state, wanted, why = self._next(state, told)
        return self._moved(state, window, wanted, why)

    def _moved(
        self, state: TrustRegionState, window: Window, wanted: Setting | None, why: str
    ) -> tuple[TrustRegionState, Move]:
        """The move to a setting; the end of the search where there is none to be measured."""
        best = _named(state.knobs, state.incumbent)
        if wanted is None:
            return state, Move.end(best, why)
        changes = {n: v for n, v in _named(state.knobs, wanted).items() if window.configuration[n] != v}
        figures = {"noise_ratio": self._noise(state), "radius": state.radius}
        return state, Move(changes, why, figures, "trial" if changes else "repeat", incumbent=best)

    def _told(self, state: TrustRegionState, told: Told, window: Window) -> TrustRegionState:
        """The state with one more trial; after a drift with that alone."""
        at_home = told.values == state.incumbent or not state.incumbent
        state = replace(state, silent=0, count=state.count + 1, since=0 if at_home else state.since + 1)
        if not state.incumbent:
            return replace(state, told=(told,), incumbent=told.values, signature=_signature(window))
        if at_home and told.cost is not None and math.isfinite(told.cost):
            state = self._watched(state, told.cost)
            if max(state.above, state.below) > 5.0:
                return self._renewed(state, told, window)
        return replace(state, told=(*state.told, told), idle=state.idle + 1)

    def _watched(self, state: TrustRegionState, cost: float) -> TrustRegionState:
        """The state with the incumbent's own drift brought up to date (CUSUM)."""
        known = means(state.told).get(state.incumbent)
        if known is None or known[1] < 2:
            return state
        z = (cost - known[0]) / (self._noise(state) * math.sqrt(1 + 1 / known[1]))
        return replace(state, above=max(0.0, state.above + z - 0.5), below=max(0.0, state.below - z - 0.5))

    def _renewed(self, state: TrustRegionState, told: Told, window: Window) -> TrustRegionState:
        """A search that begins again under another load, with what was best under one like it."""
        now = _signature(window)
        memory = (*state.memory, Remembered(state.signature or {}, state.incumbent))[-8:]
        like = [one for one in memory if one.setting != state.incumbent and _distance(one.signature, now) < 0.15]
        return replace(
            state,
            told=(told,),
            candidate=like[-1].setting if like else (),
            radius=self.radius,
            idle=0,
            above=0.0,
            below=0.0,
            signature=now,
            memory=memory,
        )

    def _next(self, state: TrustRegionState, last: Told) -> tuple[TrustRegionState, Setting | None, str]:
        """The setting of the next trial and why it; None to end."""
        known, noise = means(state.told), self._noise(state)
        home = known.get(state.incumbent)
        if home is None and len(state.told) > self.repeats:
            return self._abandoned(state)
        if home is None or (home[1] < min(self.repeats, 1 + len(state.told)) and home[1] < self.repeats):
            return state, state.incumbent, "the running setting again, for its noise"
        if not state.candidate and last.values != state.incumbent:
            better = last.values in known and home[0] - known[last.values][0] > noise / 2
            state = replace(state, candidate=last.values) if better else self._after_failure(state, last, home[0])
        if state.candidate:
            state, said = self._proven(state, known, home, noise)
            if state.candidate:
                return state, state.candidate, said
        if state.since >= self.turn:
            return state, state.incumbent, "the incumbent's turn to be measured again"
        return self._proposed(state, noise)

    def _abandoned(self, state: TrustRegionState) -> tuple[TrustRegionState, Setting | None, str]:
        """What follows where the incumbent itself failed or broke a limit: the best of those that did not."""
        known = means(state.told)
        if known:
            best = min(known, key=lambda values: known[values][0])
            return replace(state, incumbent=best), best, "the incumbent cannot be measured any more"
        return self._proposed(state, self._noise(state))

    def _after_failure(self, state: TrustRegionState, last: Told, home: float) -> TrustRegionState:
        """A smaller box after a trial that was worse by a tenth, or was not measured."""
        if last.cost is None or last.cost - home > math.log(1 / 0.9):
            return replace(state, radius=max(self.least_radius, state.radius * self.shrink))
        return state

    def _proven(
        self, state: TrustRegionState, known: Means, home: tuple[float, int], noise: float
    ) -> tuple[TrustRegionState, str]:
        """The state once a candidate was promoted or dropped; with the candidate while neither is sure."""
        seen = known.get(state.candidate)
        if seen is None:
            failed = any(one.values == state.candidate for one in state.told)
            return (replace(state, candidate=()), "") if failed else (state, "what was best under a load like this")
        gain, error = home[0] - seen[0], noise * math.sqrt(1 / seen[1] + 1 / home[1])
        if seen[1] >= 2 and gain > 2 * error:
            radius = min(self.most_radius, state.radius * self.grow)
            return replace(
                state, incumbent=state.candidate, candidate=(), radius=radius, idle=0, above=0.0, below=0.0
            ), ""
        if gain <= 0 or seen[1] >= 4:
            return replace(state, candidate=()), ""
        return state, f"{math.exp(gain):.3g} times better so far: again, to be sure"

    def _proposed(self, state: TrustRegionState, noise: float) -> tuple[TrustRegionState, Setting | None, str]:
        """A draw of the model within the box."""
        centre = np.asarray(point_of(state.knobs, _named(state.knobs, state.incumbent)))
        model = self._model(state, centre, noise)
        promised, sure = self._promise(model, state, centre)
        over = state.idle >= self.idle + 2 * len(state.knobs)
        if over or (len(state.told) > 3 * self.repeats and promised + sure < math.log1p(self.worth)):
            share = 1 - math.exp(-max(0.0, promised + sure))
            return state, None, f"no improvement in {state.idle} trials, and at most {share:.1%} is to be expected"
        low, high = self._box(model, centre, state.radius)
        chance = np.random.default_rng([state.seed & 0xFFFFFFFF, state.count])
        for _ in range(_DRAWS):
            point = model.drawn(chance).lowest(low, high)
            wanted = tuple(values_at(state.knobs, point)[knob.name] for knob in state.knobs)
            if wanted != state.incumbent and not _failed(state.told, wanted):
                said = in_words(_differing(state, wanted), state.knobs)
                return state, wanted, f"to learn what {said} does"
        return state, state.incumbent, "nothing new within reach: the incumbent again"

    def _model(self, state: TrustRegionState, centre: Array, noise: float) -> Local:
        """The model of the cost around the incumbent."""
        trials = finite(state.told)
        points = [point_of(state.knobs, _named(state.knobs, values)) for values, _ in trials]
        return fitted(centre, points, [cost for _, cost in trials], noise)

    def _promise(self, model: Local, state: TrustRegionState, centre: Array) -> tuple[float, float]:
        """Gain of the best point within twice the box, by the model, and its standard deviation."""
        reach = max(2 * state.radius, self.radius)
        best = model.lowest(np.maximum(0.0, centre - reach), np.minimum(1.0, centre + reach))
        return model.gain(best)

    def _box(self, model: Local, centre: Array, radius: float) -> tuple[Array, Array]:
        """The box around the incumbent; it touches an edge of the cube only where the model is sure of that way."""
        size = len(centre)
        slope, spread = model.mean[1 : size + 1], np.sqrt(np.diag(model.covariance)[1 : size + 1])
        margin = np.minimum(0.05, np.minimum(centre, 1 - centre))
        down = np.where(slope > 2 * spread, 0.0, margin)
        up = np.where(slope < -2 * spread, 1.0, 1 - margin)
        return np.maximum(down, centre - radius), np.minimum(up, centre + radius)

    def _noise(self, state: TrustRegionState) -> float:
        return noise_of(state.told, self.noise)


def _named(knobs: Sequence[Knob], setting: Setting) -> dict[str, int]:
    return {knob.name: value for knob, value in zip(knobs, setting, strict=True)}


def _differing(state: TrustRegionState, wanted: Setting) -> dict[str, int]:
    """What of a setting is not the incumbent's."""
    at = _named(state.knobs, state.incumbent)
    return {name: value for name, value in _named(state.knobs, wanted).items() if at[name] != value}


def _failed(told: Sequence[Told], wanted: Setting) -> bool:
    """Whether a setting failed or broke a limit before."""
    return any(one.values == wanted and (one.cost is None or not math.isfinite(one.cost)) for one in told)


def _signature(window: Window) -> dict[str, float]:
    """The window's rates over the rate of pages, or of requests, as logarithms."""
    usual = next((window.readings[name] for name in PER if window.readings.get(name, 0.0) > 0), None)
    if usual is None:
        return {}
    return {n: math.log(v / usual) for n, v in window.readings.items() if n.endswith("_rate_hz") and v > 0}


def _distance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """The greatest difference of what two signatures share; infinite where they share nothing."""
    shared = [abs(one[name] - other[name]) for name in one.keys() & other.keys()]
    return max(shared, default=math.inf)


CONTROLLER = TrustRegion
