"""The models of lu2001's server, found on it while it runs, and the controllers that are designed from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from trimtab.controllers.absolute_delay import AbsoluteDelay
from trimtab.controllers.hybrid_delay import HybridDelay
from trimtab.controllers.log_relative_delay import LogRelativeDelay
from trimtab.core import Controller, Objective, of_class
from trimtab.design.pi import Design, designed
from trimtab.design.specification import Specification
from trimtab.errors import TrimtabError
from trimtab.identification.experiment import Experiment
from trimtab.identification.result import Identified, analysed
from trimtab.identification.signals import Kind, Pair
from trimtab.identify import identify
from trimtab.lab import Context
from trimtab.lab import _lu2001_scenes as scenes
from trimtab.lab._gated import Scene, loaded

IDENTIFY_S = 1800.0
SETTLE_S = 300.0
"""The settling time that the paper asks for."""
MODEL_SEEDS = (101, 102)
OBJECTIVE = Objective(of_class("connection_delay_s", scenes.NAMES[0]))


@dataclass(frozen=True)
class Designs:
    """The models that were found, and the controllers designed from them, by kind of model.

    Args:
        found: the models.
        controllers: the designs.
        runs: the numbers of the excited runs.
    """

    found: Mapping[Kind, Identified]
    controllers: Mapping[Kind, Design]
    runs: tuple[int, ...]

    def relative(self, desired: tuple[float, ...]) -> tuple[str, Controller]:
        """The controller of ratios of delays."""
        design = self.controllers[Kind.LOGARITHMIC]
        name = "log-relative-delay"
        return name, LogRelativeDelay(OBJECTIVE, desired=desired, gain=design.gain, zero=design.zero)

    def closed(self, part: str) -> tuple[Scene, tuple[str, Controller]]:
        """The scene of a part, and the controller that closes its loop.

        Args:
            part: relative, three, absolute or hybrid.
        """
        late = (10.0 / scenes.SCALE, 30.0 / scenes.SCALE)
        told = tuple(f"{value * 1000:g}ms" for value in late)
        if part == "relative":
            return self.told(scenes.stepped(part, "1", "3"), Kind.LOGARITHMIC), self.relative((1.0, 3.0))
        if part == "three":
            return self.told(scenes.three(), Kind.LOGARITHMIC), self.relative((1.0, 2.0, 4.0))
        absolute = self.controllers[Kind.ABSOLUTE]
        if part == "absolute":
            closed = AbsoluteDelay(OBJECTIVE, desired=late, gain=absolute.gain, zero=absolute.zero)
            return self.told(scenes.stepped(part, *told), Kind.ABSOLUTE), ("absolute-delay", closed)
        options: dict[str, Any] = scenes.hybrid_options(self.controllers[Kind.LOGARITHMIC], absolute)
        hybrid = HybridDelay(OBJECTIVE, desired=late, **options)
        return self.told(scenes.rising(*told), Kind.LOGARITHMIC), ("hybrid-delay", hybrid)

    def told(self, scene: Scene, kind: Kind) -> Scene:
        """The scene with what is recorded of a closed-loop run on it."""
        design = self.controllers[kind]
        gains = f"g = {design.gain:g}, r = {design.zero:g}, settles in {design.settling_s:g} s"
        return replace(scene, facts={**scene.facts, "model": f"{kind}: {design.model}", "design": gains})


def identified(context: Context) -> Designs:
    """Identifies the models on the running server and designs a controller from each (Sections 5.2, 5.3, 7.2).

    One pair of excited runs serves all three: they differ in what is read off the windows.
    """
    scene = scenes.identification()
    pairs = [Pair(kind, *scenes.NAMES[:2]) for kind in (Kind.RELATIVE, Kind.LOGARITHMIC, Kind.ABSOLUTE)]
    experiment = Experiment(
        pairs[0],
        period_s=scene.period_s,
        duration_s=IDENTIFY_S / scenes.SCALE,
        warm_s=2 * scene.period_s,
        seed=MODEL_SEEDS[0],
        validate_seed=MODEL_SEEDS[1],
    )
    context.say(f"identify: two runs of {experiment.duration_s:g} s")
    with loaded(scene, 2 * experiment.duration_s + 10.0, MODEL_SEEDS[0], context.say) as plant:
        first = identify(plant, experiment, context.store, context.stop, context.on_event)
    if first is None:
        raise TrimtabError(f"stopped by {context.stop.reason} while the model was identified")
    runs = first.facts["runs"]
    kept = [[w for w in context.store.windows(run) if w.index >= experiment.warm] for run in runs]
    found, controllers = {first.pair.kind: first}, {}
    for pair in pairs[1:]:
        found[pair.kind] = analysed(pair, experiment.period_s, kept[0], kept[1], experiment.orders, first.facts)
    for kind, one in found.items():
        controllers[kind] = designed(one.model, Specification(SETTLE_S / scenes.SCALE, scene.period_s))
        context.say(f"identify: {kind}: {one.model}; g {controllers[kind].gain:g}, r {controllers[kind].zero:g}")
    return Designs(found, controllers, tuple(runs))
