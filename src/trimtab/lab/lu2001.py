"""lu2001 on the real testbed: connection delay against response time, the model, and the guarantees on a load step.

An unmodified Apache prefork with 128 workers runs under the gate; SURGE users of two or three classes come from
source addresses of their own. Time runs faster than in the paper by `SCALE`: sampling period, keep-alive time, OFF
times and the times of the load step are divided by it, the figures are not. Every run with a closed loop uses the
model that the part `identify` finds first, in the same call, and the controllers that are designed from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trimtab import own
from trimtab.controllers.log_relative_delay import LogRelativeDelay
from trimtab.controllers.relative_delay import RelativeDelay
from trimtab.controllers.self_tuning import SelfTuning
from trimtab.controllers.static import Static
from trimtab.core import Controller, of_class
from trimtab.errors import UsageError
from trimtab.identification.signals import Kind
from trimtab.lab import Context, chosen
from trimtab.lab import _lu2001_scenes as scenes
from trimtab.lab._gated import Scene, run_guarantee
from trimtab.lab._lu2001_designs import OBJECTIVE, SETTLE_S, Designs, identified
from trimtab.lab._results import new_folder
from trimtab.plants._names import PROCESS_BUDGET
from trimtab.report.track import tracks
from trimtab.testbed.lu2001 import STEP_S

PARTS = {
    "identify": "white noise on the budgets, the models and their order (Fig. 5, 6); goes before all that follow",
    "relative": "two classes at 1:3 through a load step: closed loops and an open one (Fig. 7)",
    "three": "three classes at 1:2:4 (Fig. 8)",
    "absolute": "class 0 at its delay through the load step: closed and open loop (Fig. 9)",
    "hybrid": "relative delays until class 0 is late, under a rising overload (no figure in the paper)",
    "renewed": "self-tuning against fixed gains when the pages become four times as long (no figure in the paper)",
    "simulated": "the closed loops of the other parts on the simulator, beside the real ones",
    "delay": "connection delay and response time against the number of users, one class (Fig. 4)",
    "unscaled": "the relative guarantee once more in the paper's own time (Fig. 7; half an hour for each seed)",
}
USUAL = tuple(part for part in PARTS if part != "unscaled")
RUN_S = 1800.0
USERS = (100, 200, 300, 400)


@dataclass(frozen=True)
class Lu2001:
    """The experiments of lu2001."""

    description: str = "Delay guarantees for classes of clients (Lu et al. 2001), on the real testbed"
    parts: Mapping[str, str] = field(default_factory=lambda: PARTS)
    knobs: tuple[str, ...] = ("max_request_workers",)
    objective: str = "response_time_s"

    def run(self, parts: tuple[str, ...], context: Context) -> None:
        """Runs the parts for every seed; then writes raw data, figures and summary."""
        wanted = chosen(PARTS, parts) if parts else USUAL
        if context.report is not None:
            raise UsageError("lu2001 writes no report: '--results FOLDER' has its figures and summary")
        if not own.program("apache2"):
            raise UsageError("no apache2 on this machine: install what packages.txt lists (make setup, as root)")
        folder: Path | None = new_folder(context.results) if context.results is not None else None
        ids: list[int] = []
        designs: Designs | None = None
        try:
            if set(wanted) - {"delay"}:
                designs = identified(context)
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


def _relative(context: Context, designs: Designs, seed: int) -> list[int]:
    """Fig. 7: the closed loop in logarithms, the paper's with a design of ours, one with preemption, an open loop.

    The open loop is held at the mean budgets that the first had settled at before the step.
    """
    scene, method = designs.closed("relative")
    first = _step(context, scene, method, seed, "relative", "closed loop")
    design = designs.controllers[Kind.RELATIVE]
    paper = RelativeDelay(OBJECTIVE, desired=(1.0, 3.0), gain=design.gain, zero=design.zero)
    straight = designs.told(scenes.stepped("relative", "1", "3"), Kind.RELATIVE)
    second = _step(context, straight, ("relative-delay", paper), seed, "relative", "closed loop as in the paper")
    taking = replace(scene, policy="preemptive")
    third = _step(context, taking, method, seed, "relative", "closed loop, preemptive")
    return [first, second, third, _open(context, scene, first, seed, "relative")]


def _absolute(context: Context, designs: Designs, seed: int) -> list[int]:
    """Fig. 9: both classes at the delays that the paper asks for, in the lab's time."""
    scene, method = designs.closed("absolute")
    first = _step(context, scene, method, seed, "absolute", "closed loop")
    return [first, _open(context, scene, first, seed, "absolute")]


def _three(context: Context, designs: Designs, seed: int) -> list[int]:
    """Fig. 8: three classes of 100 users."""
    return [_step(context, *designs.closed("three"), seed, "three", "closed loop")]


def _hybrid(context: Context, designs: Designs, seed: int) -> list[int]:
    """A rising overload: relative while class 0 is in time, absolute when it is late."""
    return [_step(context, *designs.closed("hybrid"), seed, "hybrid", "closed loop")]


def _simulated(context: Context, designs: Designs, seed: int) -> list[int]:
    """The closed loops once more on the simulator, with the gains that the real server's models gave."""
    ids, duration_s = [], (RUN_S - scenes.WARM_S) / scenes.SCALE
    for part in ("relative", "three", "absolute", "hybrid"):
        scene, method = designs.closed(part)
        ids.append(run_guarantee(scene, context, method, seed, duration_s, part, "closed loop, simulated", True))
    return ids


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
    "simulated": _simulated,
    "unscaled": _unscaled,
}
LAB = Lu2001()
