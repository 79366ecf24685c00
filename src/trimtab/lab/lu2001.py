"""lu2001 on the real testbed: connection delay against response time, the model, and the guarantees on a load step.

An unmodified Apache prefork with 128 workers runs under the gate; SURGE users of two or three classes come from
source addresses of their own. Time runs faster than in the paper by `SCALE`: sampling period, keep-alive time, OFF
times and the times of the load step are divided by it, the figures are not. Every run with a closed loop uses the
model that the part `identify` finds first, in the same call, and the controllers that are designed from it.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trimtab.controllers.absolute_delay import AbsoluteDelay
from trimtab.controllers.hybrid_delay import HybridDelay
from trimtab.controllers.log_relative_delay import LogRelativeDelay
from trimtab.controllers.relative_delay import RelativeDelay
from trimtab.controllers.self_tuning import SelfTuning
from trimtab.controllers.static import Static
from trimtab.core import Controller, Objective, of_class
from trimtab.core.knob import PROCESS_BUDGET
from trimtab.design.pi import Design, designed
from trimtab.design.specification import Specification
from trimtab.errors import TrimtabError, UsageError
from trimtab.identification.experiment import Experiment, identify
from trimtab.identification.result import Identified, analysed
from trimtab.identification.signals import Kind, Pair
from trimtab.lab import Context, chosen
from trimtab.lab import _lu2001_scenes as scenes
from trimtab.lab._gated import Scene, loaded, run_guarantee, run_simulated
from trimtab.lab._results import new_folder
from trimtab.report.track import tracks
from trimtab.testbed.lu2001 import STEP_S

PARTS = {
    "identify": "white noise on the budgets, the models and their order (Fig. 5, 6); goes before all that follow",
    "relative": "two classes at 1:3 through a load step: closed loops and an open one (Fig. 7)",
    "three": "three classes at 1:2:4 (Fig. 8)",
    "absolute": "class 0 at its delay through the load step: closed and open loop (Fig. 9)",
    "hybrid": "relative delays until class 0 is late, under a rising overload (no figure in the paper)",
    "renewed": "self-tuning against fixed gains when the pages become four times as long (no figure in the paper)",
    "delay": "connection delay and response time against the number of users, one class (Fig. 4)",
    "unscaled": "the relative guarantee once more in the paper's own time (Fig. 7; half an hour for each seed)",
}
USUAL = tuple(part for part in PARTS if part != "unscaled")
IDENTIFY_S = 1800.0
RUN_S = 1800.0
SETTLE_S = 300.0
"""The settling time that the paper asks for."""
USERS = (100, 200, 300, 400)
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

    def told(self, scene: Scene, kind: Kind) -> Scene:
        """The scene with what is recorded of a closed-loop run on it."""
        design = self.controllers[kind]
        gains = f"g = {design.gain:g}, r = {design.zero:g}, settles in {design.settling_s:g} s"
        return replace(scene, facts={**scene.facts, "model": f"{kind}: {design.model}", "design": gains})


@dataclass(frozen=True)
class Lu2001:
    """The experiments of lu2001."""

    description: str = "Delay guarantees for classes of clients (Lu et al. 2001), on the real testbed"
    parts: Mapping[str, str] = field(default_factory=lambda: PARTS)

    def run(self, parts: tuple[str, ...], context: Context) -> None:
        """Runs the parts for every seed; then writes raw data, figures and summary."""
        wanted = chosen(PARTS, parts) if parts else USUAL
        if context.report is not None:
            raise UsageError("lu2001 writes no report: '--results FOLDER' has its figures and summary")
        if not shutil.which("apache2"):
            raise UsageError("no apache2 on this machine: install what packages.txt lists (make setup, as root)")
        folder: Path | None = new_folder(context.results) if context.results is not None else None
        ids: list[int] = []
        designs: Designs | None = None
        try:
            if set(wanted) - {"delay"}:
                designs = _designs(context)
                ids += designs.runs
            for part in (p for p in wanted if p in _RUNNERS):
                for seed in context.seeds:
                    assert designs is not None
                    ids += _RUNNERS[part](context, designs, seed)
            if "delay" in wanted:
                ids += _delays(context)
        finally:
            if ids and folder is not None:
                self._write(folder, context, ids, designs)

    def write(self, run_ids: Sequence[int], context: Context) -> None:
        """Writes raw data, figures and summary of stored runs into the results folder."""
        if context.results is None:
            raise UsageError("lu2001 writes into a folder: name it with '--results FOLDER'")
        self._write(new_folder(context.results), context, run_ids, None)

    def _write(self, folder: Path, context: Context, ids: Sequence[int], designs: Designs | None) -> None:
        from trimtab.lab._lu2001_summary import write  # loads the plotting library, which no run needs

        write(folder, context.store, ids, None if designs is None else designs.found)
        context.say(f"results: {folder}")


def _delays(context: Context) -> list[int]:
    """Fig. 4: one class with all the workers, more and more users."""
    ids = []
    for users in USERS:
        for seed in context.seeds:
            scene = scenes.single(users)
            context.say(f"delay: {users} users, seed {seed}")
            method = ("static", Static(OBJECTIVE))
            ids.append(run_guarantee(scene, context, method, seed, 600.0 / scenes.SCALE, "delay", f"{users} users"))
    return ids


def _designs(context: Context) -> Designs:
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


def _relative(context: Context, designs: Designs, seed: int) -> list[int]:
    """Fig. 7: the closed loop in logarithms, the paper's with a design of ours, one with preemption, an open loop.

    The open loop is held at the mean budgets that the first had settled at before the step.
    """
    scene = scenes.stepped("relative", "1", "3")
    logs = designs.told(scene, Kind.LOGARITHMIC)
    first = _step(context, logs, designs.relative((1.0, 3.0)), seed, "relative", "closed loop")
    design = designs.controllers[Kind.RELATIVE]
    paper = RelativeDelay(OBJECTIVE, desired=(1.0, 3.0), gain=design.gain, zero=design.zero)
    straight = designs.told(scene, Kind.RELATIVE)
    second = _step(context, straight, ("relative-delay", paper), seed, "relative", "closed loop as in the paper")
    taking = designs.told(scenes.stepped("relative", "1", "3", policy="preemptive"), Kind.LOGARITHMIC)
    third = _step(context, taking, designs.relative((1.0, 3.0)), seed, "relative", "closed loop, preemptive")
    return [
        first,
        _simulated(context, logs, designs.relative((1.0, 3.0)), seed, "relative"),
        second,
        third,
        _open(context, scene, first, seed, "relative"),
    ]


def _absolute(context: Context, designs: Designs, seed: int) -> list[int]:
    """Fig. 9: both classes at the delays that the paper asks for, in the lab's time."""
    design = designs.controllers[Kind.ABSOLUTE]
    desired = (10.0 / scenes.SCALE, 30.0 / scenes.SCALE)
    scene = scenes.stepped("absolute", *(f"{value * 1000:g}ms" for value in desired))
    scene = designs.told(scene, Kind.ABSOLUTE)
    closed = AbsoluteDelay(OBJECTIVE, desired=desired, gain=design.gain, zero=design.zero)
    method = ("absolute-delay", closed)
    first = _step(context, scene, method, seed, "absolute", "closed loop")
    second = _simulated(context, scene, method, seed, "absolute")
    return [first, second, _open(context, scene, first, seed, "absolute")]


def _three(context: Context, designs: Designs, seed: int) -> list[int]:
    """Fig. 8: three classes of 100 users."""
    scene = designs.told(scenes.three(), Kind.LOGARITHMIC)
    method = designs.relative((1.0, 2.0, 4.0))
    first = _step(context, scene, method, seed, "three", "closed loop")
    return [first, _simulated(context, scene, method, seed, "three")]


def _hybrid(context: Context, designs: Designs, seed: int) -> list[int]:
    """A rising overload: relative while class 0 is in time, absolute when it is late."""
    both = [designs.controllers[kind] for kind in (Kind.LOGARITHMIC, Kind.ABSOLUTE)]
    desired = (10.0 / scenes.SCALE, 30.0 / scenes.SCALE)
    scene = designs.told(scenes.rising(*(f"{value * 1000:g}ms" for value in desired)), Kind.LOGARITHMIC)
    options: dict[str, Any] = scenes.hybrid_options(*both)
    closed = HybridDelay(OBJECTIVE, desired=desired, **options)
    method = ("hybrid-delay", closed)
    first = _step(context, scene, method, seed, "hybrid", "closed loop")
    return [first, _simulated(context, scene, method, seed, "hybrid")]


def _renewed(context: Context, designs: Designs, seed: int) -> list[int]:
    """The users turn to pages that hold a worker four times as long: fixed gains and self-tuning, on both models."""
    desired, ids = (1.0, 3.0), []
    for kind, name, fixed in (
        (Kind.LOGARITHMIC, "log-relative-delay", LogRelativeDelay),
        (Kind.RELATIVE, "relative-delay", RelativeDelay),
    ):
        design, model = designs.controllers[kind], designs.found[kind].model
        scene = designs.told(scenes.renewed("1", "3"), kind)
        gains: dict[str, Any] = {"desired": desired, "gain": design.gain, "zero": design.zero}
        tuning = SelfTuning(
            OBJECTIVE,
            **gains,
            guarantee=kind,
            model=",".join(map(repr, model.theta)),
            period_s=scene.period_s,
            settling_s=SETTLE_S / scenes.SCALE,
        )
        ids.append(_step(context, scene, (name, fixed(OBJECTIVE, **gains)), seed, "renewed", f"{kind}, fixed gains"))
        ids.append(_step(context, scene, ("self-tuning", tuning), seed, "renewed", f"{kind}, self-tuning"))
    return ids


def _unscaled(context: Context, designs: Designs, seed: int) -> list[int]:
    """Fig. 7 in the paper's own time; gains hold for a server and a number of samples, not for their length."""
    scene = designs.told(scenes.stepped("relative", "1", "3", scale=1.0), Kind.LOGARITHMIC)
    context.say(f"unscaled: seed {seed}, {RUN_S - scenes.WARM_S:g} s")
    method, duration_s = designs.relative((1.0, 3.0)), RUN_S - scenes.WARM_S
    return [run_guarantee(scene, context, method, seed, duration_s, "unscaled", "closed loop")]


def _step(context: Context, scene: Scene, method: tuple[str, Controller], seed: int, group: str, label: str) -> int:
    """One run from the moment the paper switches its controller on to the end of its figure."""
    duration_s = (RUN_S - scenes.WARM_S) / scenes.SCALE
    context.say(f"{group}: {label}, seed {seed}, {duration_s:g} s")
    return run_guarantee(scene, context, method, seed, duration_s, group, label)


def _simulated(context: Context, scene: Scene, method: tuple[str, Controller], seed: int, group: str) -> int:
    """The closed loop once more on the simulator, with the gains that the real server's model gave."""
    duration_s = (RUN_S - scenes.WARM_S) / scenes.SCALE
    return run_simulated(scene, context, method, seed, duration_s, group, "closed loop, simulated")


def _open(context: Context, scene: Scene, closed: int, seed: int, group: str) -> int:
    """The open loop: held at the mean budgets that the closed one had settled at before the step."""
    (track,) = tracks(context.store, [closed])
    step_s = (STEP_S - scenes.WARM_S) / scenes.SCALE
    settled = [w for w in track.windows if step_s / 2 <= w.start_s < step_s - w.duration_s]
    means = {
        name: sum(w.configuration[of_class(PROCESS_BUDGET, name)] for w in settled) / max(1, len(settled))
        for name in scenes.NAMES[:2]
    }
    budgets = {name: max(1, round(value)) for name, value in means.items()}
    return _step(
        context, scenes.with_budgets(scene, budgets), ("static", Static(OBJECTIVE)), seed, group, "open loop"
    )


_RUNNERS = {
    "relative": _relative,
    "three": _three,
    "absolute": _absolute,
    "hybrid": _hybrid,
    "renewed": _renewed,
    "unscaled": _unscaled,
}
LAB = Lu2001()
