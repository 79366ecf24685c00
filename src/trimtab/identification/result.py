"""Result of an identification experiment: a pure function of the windows of its two runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trimtab.core import Knob, Window
from trimtab.errors import UsageError
from trimtab.identification.least_squares import Estimate
from trimtab.identification.model import Model
from trimtab.identification.model_file import ModelFile
from trimtab.identification.order import (
    Candidate,
    Prediction,
    compare,
    estimated,
    identifiable,
    predictions,
    selected,
)
from trimtab.identification.signals import Kind, Pair, equations


@dataclass(frozen=True)
class Identified:
    """A model, with its choice and the data of the figures.

    Args:
        pair: its input and output.
        period_s: sampling period, in seconds.
        candidates: one for each order that was tried, in increasing order.
        chosen: the one that was selected.
        trace: (window index, estimate) after each equation of the first run, for the chosen order.
        predicted: the predictions on the second run, by order.
        gaps: windows of each run that could not be used, because a delay was missing there or just before.
        facts: how the runs went.
    """

    pair: Pair
    period_s: float
    candidates: tuple[Candidate, ...]
    chosen: Candidate
    trace: tuple[tuple[int, Estimate], ...]
    predicted: Mapping[int, tuple[Prediction, ...]]
    gaps: tuple[int, int]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> Model:
        """The model of the chosen order."""
        return self.chosen.model

    def file(self) -> ModelFile:
        """The model as a file that other verbs read."""
        rows = [
            {"order": c.model.order, "theta": list(c.model.theta), "rms": c.rms, "fit_ratio": c.fit_ratio, "t": c.t}
            for c in self.candidates
        ]
        errors = {
            "standard_errors": list(self.chosen.errors),
            "candidates": rows,
            "unusable_windows": list(self.gaps),
        }
        return ModelFile(self.model, self.pair, self.period_s, {**errors, **self.facts})


def analysed(
    pair: Pair,
    budgets: Mapping[str, Knob],
    period_s: float,
    training: Sequence[Window],
    validation: Sequence[Window],
    orders: Sequence[int],
    facts: Mapping[str, Any],
) -> Identified:
    """The model that two runs with different seeds give.

    Args:
        pair: the input and the output.
        budgets: class to its process budget.
        period_s: sampling period, in seconds.
        training: windows of the first run, in order, without those of its warm-up.
        validation: windows of the second run, likewise.
        orders: the orders to try.
        facts: how the runs went, for the file.

    Raises:
        UsageError: the model is unstable or cannot be identified from these windows.
    """
    first, second = (tuple(pair.sample(window, budgets) for window in run) for run in (training, validation))
    candidates = compare(pair, first, second, orders)
    chosen = signed(identifiable(selected(candidates)), pair.kind)
    widest = max(orders)
    found = tuple(equations(first, pair.kind, chosen.model.order, widest))
    estimates = estimated(found, chosen.model.order, pair.kind)
    trace = tuple((training[one.index].index, est) for one, est in zip(found, estimates, strict=True))
    predicted = {c.model.order: predictions(c.model, second, pair, widest) for c in candidates}
    gaps = (len(first) - chosen.equations, len(second) - chosen.checked)
    return Identified(pair, period_s, candidates, chosen, trace, predicted, gaps, facts)


def signed(candidate: Candidate, kind: Kind) -> Candidate:
    """This candidate, once it is known that more processes make a delay shorter in it.

    Raises:
        UsageError: they make it longer, which no controller can use.
    """
    gain = candidate.model.gain
    if (gain > 0) is kind.rising:
        return candidate
    what = "a larger process ratio lowers the delay ratio" if kind.rising else "more processes raise the delay"
    raise UsageError(
        f"the model {candidate.model} cannot be used: in it {what} (steady-state gain {gain:.3g}); let it run "
        "longer, or load the server until connections wait"
    )
