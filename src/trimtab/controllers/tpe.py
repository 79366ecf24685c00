"""Optuna's TPE over windows: each window is a trial.

Equations (Bergstra et al. 2011, as in optuna.samplers.TPESampler): of the points drawn from the density l of the best
trials the one with the greatest l / g is next, g being the density of the others.

| symbol | here | unit | shape |
|---|---|---|---|
| x | a point of the unit cube (`trimtab.search.space`) | 1 | one for each knob |
| y | logarithm of the objective of the window, less is better | 1 | scalar |

Departures: the first trial is what is in force; a window in which nothing was measured for `patience` times is a
trial that failed. The study is built anew from the trials at each step, so that a step is pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trimtab.controllers._ask import AskAndTell, AskState
from trimtab.errors import UsageError
from trimtab.search.space import point_of, values_at


@dataclass(frozen=True)
class Tpe(AskAndTell):
    """The search; see `AskAndTell` for the options."""

    def require(self) -> None:
        """Finds the package, and keeps it from writing a line for each window.

        Raises:
            UsageError: it is not installed.
        """
        try:
            import optuna

            optuna.logging.set_verbosity(optuna.logging.WARNING)
        except ImportError:
            raise UsageError("tpe needs the package optuna, which is not installed") from None

    def asked(self, state: AskState) -> dict[str, int]:
        """What the sampler asks for next."""
        import optuna

        unit: optuna.distributions.BaseDistribution = optuna.distributions.FloatDistribution(0.0, 1.0)
        names = [knob.name for knob in state.knobs]
        space = dict.fromkeys(names, unit)
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=state.seed + len(state.told)))
        for one in state.told:
            at = point_of(state.knobs, dict(zip(names, one.values, strict=True)))
            failed = one.cost is None or not math.isfinite(one.cost)
            kind = optuna.trial.TrialState.FAIL if failed else optuna.trial.TrialState.COMPLETE
            params, cost = dict(zip(names, at, strict=True)), None if failed else one.cost
            study.add_trial(optuna.trial.create_trial(state=kind, params=params, distributions=space, value=cost))
        asked = study.ask(space).params
        return values_at(state.knobs, [asked[name] for name in names])


CONTROLLER = Tpe
