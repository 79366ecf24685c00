"""Optuna's TPE over windows: each window is a trial. A peer for the lab; it promises nothing.

Equations (Bergstra et al. 2011, as in optuna.samplers.TPESampler): of the points drawn from the density l of the best
trials the one with the greatest l / g is next, g being the density of the others.

Departures: a failed trial is told as such. The study is built anew from the trials at each step, so that a step is
pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from trimtab.errors import UsageError
from trimtab.search.ask_and_tell import AskAndTell, AskState, seed_of
from trimtab.search.evidence import Told
from trimtab.search.space import Point, point_of


@dataclass(frozen=True)
class Tpe(AskAndTell):
    """The search; its options are those of its base."""

    method: ClassVar[str] = "tpe"

    def require(self) -> None:
        """Refuses to start without the package.

        Raises:
            UsageError: optuna is not installed.
        """
        try:
            import optuna

            optuna.logging.set_verbosity(optuna.logging.WARNING)  # else a line for each window
        except ImportError:
            raise UsageError("tpe needs the package optuna, which is not installed") from None

    def next_point(self, state: AskState, told: Sequence[Told]) -> Point:
        """The point that optuna's TPE sampler proposes after these trials."""
        import optuna

        unit: optuna.distributions.BaseDistribution = optuna.distributions.FloatDistribution(0.0, 1.0)
        space = {knob.name: unit for knob in state.knobs}
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed_of(state.seed, len(state.told))))
        for one in told:
            params = dict(zip(space, point_of(state.knobs, one.values), strict=True))
            kind = optuna.trial.TrialState.FAIL if one.y is None else optuna.trial.TrialState.COMPLETE
            study.add_trial(optuna.trial.create_trial(state=kind, params=params, distributions=space, value=one.y))
        asked = study.ask(space).params
        return tuple(float(asked[name]) for name in space)


CONTROLLER = Tpe
