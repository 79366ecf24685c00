"""Gates and classes of lu2001's experiments (Section 7), with time divided by `SCALE`, and the models and designs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from trimtab.core import Objective, Role, by_label, of_class
from trimtab.design.pi import Design, designed
from trimtab.design.specification import Specification
from trimtab.identification.result import Identified, analysed
from trimtab.identification.signals import Kind, Pair
from trimtab.lab import Runs
from trimtab.lab._gated import Member, Scene
from trimtab.report.track import Track
from trimtab.testbed import lu2001
from trimtab.testbed.lu2001 import STEP_S
from trimtab.workloads._distribution import BoundedPareto
from trimtab.workloads._population import Population, Step

SCALE = 20.0
"""Times in the paper divided by times here."""
PERIOD_S = 30.0
WARM_S = 150.0
"""The paper switches its controller on after this time."""
LONG_PAGE_FILES = 20.0
"""Least number of files in a page once the users have turned to others."""
NAMES = ("class0", "class1", "class2")
MODELS = "identify"
"""The part with the excited runs."""
IDENTIFY_S = 1800.0
SETTLE_S = 300.0
"""The settling time that the paper asks for."""
MODEL_SEEDS = (101, 102)
"""The first run gives the models, the second judges them."""
WARM_WINDOWS = 2
ORDERS = (1, 2, 3)
OBJECTIVE = Objective(of_class("connection_delay_s", NAMES[0]))


def single(users: int) -> Scene:
    """One class that has all the workers (Fig. 4)."""
    return _scene("", [Member(NAMES[0], None)], [users])


def identification() -> Scene:
    """Two classes of 200 users each (Section 7.2)."""
    return _scene("", _members(("", "")), [200, 200])


def stepped(guarantee: str, *desired: str, policy: str = "non-preemptive", scale: float = SCALE) -> Scene:
    """100 users of class 0 and 200 of class 1; those of class 0 double at `STEP_S` (Sections 7.3.1, 7.3.3)."""
    step = (Step(STEP_S / scale, 2.0),)
    scene = _scene(guarantee, _members(_quoted(guarantee, desired)), [100, 200], step, scale)
    return replace(scene, policy=policy)


def three() -> Scene:
    """Three classes of 100 users each at 1:2:4 (Section 7.3.2)."""
    return _scene("relative", _members(("1", "2", "4")), [100, 100, 100])


def renewed(*desired: str) -> Scene:
    """100 users of class 0 and 200 of class 1, all of whom turn to other pages at `STEP_S`.

    The other pages embed at least 20 files instead of 5, so a worker is held about four times as long: the server
    that the model was taken from is slower by as much.
    """
    scene = _scene("relative", _members(desired), [100, 200])
    at_s = STEP_S / SCALE
    before = tuple(replace(one, schedule=(Step(at_s, 0.0),)) for one in scene.populations)
    return replace(scene, populations=(*before, *(_with_long_pages(one, at_s) for one in scene.populations)))


def rising(*desired: str) -> Scene:
    """The users of class 0 grow from 50 to 250 in five steps beside 200 of class 1: from light to severe overload."""
    steps = tuple(Step(at_s / SCALE, factor) for at_s, factor in ((450, 2.0), (750, 3.0), (1050, 4.0), (1350, 5.0)))
    return _scene("hybrid", _members(_quoted("hybrid", desired)), [50, 200], steps)


def hybrid_options(known: Designs) -> dict[str, Any]:
    """The options of the hybrid controller that follow from both designs."""
    absolute = known.controllers[Kind.ABSOLUTE]
    return {
        **known.gains(Kind.LOGARITHMIC),
        "absolute_gain": absolute.gain,
        "absolute_zero": absolute.zero,
        "hysteresis_s": 1.0 / SCALE,
    }


def with_budgets(scene: Scene, budgets: Mapping[str, int]) -> Scene:
    """The scene with other budgets at the start; those that are given exceed the workers in no class but the last."""
    left = scene.apache.max_request_workers
    members: list[Member] = []
    for member in scene.members:
        share = max(1, min(budgets[member.name], left - (len(scene.members) - len(members) - 1)))
        members.append(replace(member, budget=share))
        left -= share
    return replace(scene, members=tuple(members))


def _with_long_pages(users: Population, at_s: float) -> Population:
    """The same users from a moment on, with `LONG_PAGE_FILES` files in a page at least."""
    embedded = users.burst_requests
    assert isinstance(embedded, BoundedPareto)
    long = msgspec.structs.replace(embedded, scale=LONG_PAGE_FILES)
    return replace(users, burst_requests=long, schedule=(Step(0.0, 0.0), Step(at_s, 1.0)))


def _quoted(guarantee: str, desired: Sequence[str]) -> tuple[str, ...]:
    """Weights as numbers, delays as texts: as TOML wants them."""
    return tuple(desired) if guarantee == "relative" else tuple(f'"{text}"' for text in desired)


def _members(desired: Sequence[str]) -> list[Member]:
    """The classes, each from its own address; the last one takes the rest."""
    last = len(desired) - 1
    return [Member(NAMES[k], lu2001.source(k) if k < last else None, text) for k, text in enumerate(desired)]


def _scene(
    guarantee: str,
    members: Sequence[Member],
    users: Sequence[int],
    first_schedule: tuple[Step, ...] = (),
    scale: float = SCALE,
) -> Scene:
    """The paper's server with these classes and users of each; the number of the first class's users may change."""
    names = [member.name for member in members]
    first, *others = lu2001.clients(dict(zip(names, users, strict=True)), scale)
    populations = (replace(first, schedule=first_schedule), *others)
    facts = {"workload": f"SURGE, {', '.join(map(str, users))} users", "time divided by": f"{scale:g}"}
    times = (PERIOD_S / scale, WARM_S / scale)
    return Scene(lu2001.server(scale), guarantee, tuple(members), populations, *times, facts=facts)


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
    wanted = Specification(SETTLE_S / SCALE, PERIOD_S / SCALE)
    return Designs(found, {kind: designed(one.model, wanted) for kind, one in found.items()})


def identified(excited: Sequence[Track]) -> dict[Kind, Identified]:
    """The models from one pair of excited runs, each from another quantity of the windows (Section 5.2).

    Args:
        excited: the run that gives them, and the run that judges them.
    """
    training, validation = ([w for w in t.windows if w.index >= WARM_WINDOWS] for t in excited)
    facts = {"runs": [t.run.id for t in excited], "seeds": list(MODEL_SEEDS)}
    period_s = PERIOD_S / SCALE
    budgets = by_label(excited[0].run.plan.knobs, Role.PROCESS_BUDGET)
    pairs = [Pair(kind, *NAMES[:2]) for kind in (Kind.RELATIVE, Kind.LOGARITHMIC, Kind.ABSOLUTE)]
    return {pair.kind: analysed(pair, budgets, period_s, training, validation, ORDERS, facts) for pair in pairs}
