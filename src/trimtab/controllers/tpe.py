"""Optuna's TPE over windows: each window is a trial. A peer for the lab; it promises nothing.

Equations (Bergstra et al. 2011, as in optuna.samplers.TPESampler): of the points drawn from the density l of the best
trials the one with the greatest l / g is next, g being the density of the others. After `trials` the best one stays.

| symbol | here | unit | shape |
|---|---|---|---|
| x | a point of the unit cube, equal steps being equal factors of a setting | 1 | one for each knob |
| y | the objective of the window, less is better | its own | scalar |

Departures: a window in which nothing was measured for `patience` times is a trial that failed. The study is built
anew from the trials at each step, so that a step is pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from trimtab.controllers._knob import integer_knob, unjudged
from trimtab.controllers._peer import point_of, values_at
from trimtab.core import Knob, Move, Objective, Trial
from trimtab.errors import UsageError


@dataclass(frozen=True)
class TpeState:
    """What the search remembers.

    Args:
        knobs: those it moves, the worker limit first.
        seed: source of its randomness.
        trials: points and their costs; None where one failed.
        silent: windows in a row in which nothing was measured.
    """

    knobs: tuple[Knob, ...]
    seed: int
    trials: tuple[tuple[tuple[float, ...], float | None], ...] = ()
    silent: int = 0


@dataclass(frozen=True)
class Tpe:
    """The search.

    Args:
        objective: what is minimised.
        trials: windows after which the best setting stays.
        patience: windows in which nothing was measured after which a trial has failed.
    """

    objective: Objective
    trials: int = 40
    patience: int = 6
    peer: ClassVar[bool] = True

    def start(self, knobs: tuple[Knob, ...], seed: int) -> TpeState:
        """The state before the first window.

        Raises:
            UsageError: optuna is not installed.
        """
        integer_knob(knobs, "tpe")
        try:
            import optuna

            optuna.logging.set_verbosity(optuna.logging.WARNING)  # else a line for each window
        except ImportError:
            raise UsageError("tpe needs the package optuna, which is not installed") from None
        return TpeState(knobs, seed)

    def step(self, state: TpeState, trial: Trial) -> tuple[TpeState, Move]:
        """The next point, or the best one when all trials were made."""
        window = trial.window
        missing = next((m for k in state.knobs if (m := unjudged(self.objective, window, k, 1))), "")
        known = all(k.name in window.configuration for k in state.knobs)
        if missing and (not known or state.silent + 1 < self.patience):
            return replace(state, silent=state.silent + 1), Move.hold(f"tpe: {missing}")
        if len(state.trials) >= self.trials:
            return state, Move(self._best(state), "tpe: the best of all trials stays")
        at = point_of(state.knobs, [window.configuration[k.name] for k in state.knobs])
        cost = None if missing else self.objective.cost(window)
        state = replace(state, trials=(*state.trials, (at, cost)), silent=0)
        return state, Move(self._next(state), f"tpe: trial {len(state.trials)} of {self.trials}", phase="trial")

    def _best(self, state: TpeState) -> Mapping[str, int]:
        costs = [(cost, at) for at, cost in state.trials if cost is not None]
        return values_at(state.knobs, min(costs)[1]) if costs else {}

    def _next(self, state: TpeState) -> Mapping[str, int]:
        import optuna

        unit: optuna.distributions.BaseDistribution = optuna.distributions.FloatDistribution(0.0, 1.0)
        space = {k.name: unit for k in state.knobs}
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=state.seed + len(state.trials)))
        for at, cost in state.trials:
            params = dict(zip(space, (min(1.0, max(0.0, x)) for x in at), strict=True))
            kind = optuna.trial.TrialState.FAIL if cost is None else optuna.trial.TrialState.COMPLETE
            study.add_trial(optuna.trial.create_trial(state=kind, params=params, distributions=space, value=cost))
        asked = study.ask(space).params
        return values_at(state.knobs, [asked[name] for name in space])


CONTROLLER = Tpe
