"""The models of lu2001's server, from its excited runs, and the controllers that are designed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trimtab.core import Objective, Role, by_label, of_class
from trimtab.design.pi import Design, designed
from trimtab.design.specification import Specification
from trimtab.identification.result import Identified, analysed
from trimtab.identification.signals import Kind, Pair
from trimtab.lab import Runs
from trimtab.lab import _lu2001_scenes as scenes
from trimtab.report.track import Track

MODELS = "identify"
"""The part with the excited runs."""
IDENTIFY_S = 1800.0
SETTLE_S = 300.0
"""The settling time that the paper asks for."""
MODEL_SEEDS = (101, 102)
"""The first run gives the models, the second judges them."""
WARM_WINDOWS = 2
ORDERS = (1, 2, 3)
OBJECTIVE = Objective(of_class("connection_delay_s", scenes.NAMES[0]))


@dataclass(frozen=True)
class Designs:
    """The models that were found, and the controllers designed from them, by kind of model.

    Args:
        found: the models.
        controllers: the designs.
    """

    found: Mapping[Kind, Identified]
    controllers: Mapping[Kind, Design]

    def gains(self, kind: Kind) -> dict[str, Any]:
        """The options of a linear controller."""
        return {"gain": self.controllers[kind].gain, "zero": self.controllers[kind].zero}

    def facts(self, kind: Kind) -> dict[str, str]:
        """The facts that are recorded of a closed-loop run."""
        design = self.controllers[kind]
        gains = f"g = {design.gain:g}, r = {design.zero:g}, settles in {design.settling_s:g} s"
        return {"model": f"{kind}: {design.model}", "design": gains}


def designs(runs: Runs) -> Designs:
    """Controllers from the excited runs that were made (Sections 5.3 and 7.2).

    Raises:
        TrimtabError: they were not, or no model can be estimated from them.
    """
    excited = zip(("identify", "validate"), MODEL_SEEDS, strict=True)
    found = identified([runs.track(MODELS, label, seed) for label, seed in excited])
    wanted = Specification(SETTLE_S / scenes.SCALE, scenes.PERIOD_S / scenes.SCALE)
    return Designs(found, {kind: designed(one.model, wanted) for kind, one in found.items()})


def identified(excited: Sequence[Track]) -> dict[Kind, Identified]:
    """The models from one pair of excited runs, each from another quantity of the windows (Section 5.2).

    Args:
        excited: the run that gives them, and the run that judges them.
    """
    training, validation = ([w for w in t.windows if w.index >= WARM_WINDOWS] for t in excited)
    facts = {"runs": [t.run.id for t in excited], "seeds": list(MODEL_SEEDS)}
    period_s = scenes.PERIOD_S / scenes.SCALE
    budgets = by_label(excited[0].run.plan.knobs, Role.PROCESS_BUDGET)
    pairs = [Pair(kind, *scenes.NAMES[:2]) for kind in (Kind.RELATIVE, Kind.LOGARITHMIC, Kind.ABSOLUTE)]
    return {pair.kind: analysed(pair, budgets, period_s, training, validation, ORDERS, facts) for pair in pairs}
