"""lu2001 on the real testbed: connection delay against response time, the model, and the guarantees on a load step.

An unmodified Apache prefork with 128 workers runs under the gate; SURGE users of two or three classes come from
source addresses of their own. Time runs faster than in the paper by `SCALE`: sampling period, keep-alive time, OFF
times and the times of the load step are divided by it, the figures are not. Every run with a closed loop uses the
models that the part `identify` found, which goes before it, and the controllers that are designed from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trimtab.core import Role, of_class
from trimtab.identification.signals import Kind
from trimtab.lab import Arm, Lab, Runs
from trimtab.lab import _lu2001_scenes as scenes
from trimtab.lab._gated import Scene
from trimtab.lab._lu2001_scenes import IDENTIFY_S, MODEL_SEEDS, MODELS, OBJECTIVE, SETTLE_S, Designs, designs
from trimtab.plants.gate.knobs import PROCESS_BUDGET
from trimtab.testbed.lu2001 import STEP_S

PARTS = {
    MODELS: "white noise on the budgets, the models and their order (Fig. 5, 6); goes before all that follow",
    "relative": "two classes at 1:3 through a load step: closed loops and an open one (Fig. 7)",
    "three": "three classes at 1:2:4 (Fig. 8)",
    "absolute": "class 0 at its delay through the load step: closed and open loop (Fig. 9)",
    "hybrid": "relative delays until class 0 is late, under a rising overload (no figure in the paper)",
    "renewed": "self-tuning against fixed gains when the pages become four times as long (no figure in the paper)",
    "simulated": "the closed loops of the other parts on the simulator, beside the real ones",
    "delay": "connection delay and response time against the number of users, one class (Fig. 4)",
    "unscaled": "the relative guarantee once more in the paper's own time (Fig. 7; half an hour for each seed)",
}
RUN_S = 1800.0
USERS = (100, 200, 300, 400)
LATE = (10.0 / scenes.SCALE, 30.0 / scenes.SCALE)
"""The delays that both classes are promised, in the lab's time."""
TOLD = tuple(f"{value * 1000:g}ms" for value in LATE)
CLOSED = "closed loop"

Gains = Callable[[Designs], Mapping[str, Any]]


def order(wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The usual parts where none is named, and the models before whatever needs them."""
    wanted = wanted or tuple(part for part in PARTS if part != "unscaled")
    needed = (MODELS,) if set(wanted) - {"delay"} else ()
    return tuple(dict.fromkeys((*needed, *wanted)))


def arms(part: str, seed: int) -> Sequence[Arm]:
    """The runs of a part for one seed."""
    if part == MODELS:
        scene, duration_s = scenes.identification(), IDENTIFY_S / scenes.SCALE
        named = zip(("identify", "validate"), MODEL_SEEDS, strict=True)
        return [_arm(part, label, at, scene, "excitation", duration_s, {"warm": 2}) for label, at in named]
    if part == "delay":
        beds = {f"{users} users": scenes.single(users) for users in USERS}
        return [_arm(part, label, seed, bed, "static", 600.0 / scenes.SCALE) for label, bed in beds.items()]
    if part == "simulated":
        found = [_closed(name, f"{CLOSED}, simulated", seed) for name in ("relative", "three", "absolute", "hybrid")]
        return [replace(arm, bed=replace(_scene(arm), simulated=True)) for arm in found]
    if part == "unscaled":
        scene = scenes.stepped("relative", "1", "3", scale=1.0)
        return [_loop(part, CLOSED, seed, scene, Kind.LOGARITHMIC, "log-relative-delay", (1.0, 3.0))]
    if part == "renewed":
        return _renewed(part, seed)
    closed = _closed(part, CLOSED, seed)
    if part == "relative":
        scene = _scene(closed)
        paper = _loop(part, f"{CLOSED} as in the paper", seed, scene, Kind.RELATIVE, "relative-delay", (1.0, 3.0))
        taking = replace(closed, label=f"{CLOSED}, preemptive", bed=replace(scene, policy="preemptive"))
        return [closed, paper, taking, _open(closed)]
    return [closed, _open(closed)] if part == "absolute" else [closed]


def _closed(part: str, label: str, seed: int) -> Arm:
    """The loop of relative, three, absolute or hybrid, closed by the controller that is designed for it."""
    log = Kind.LOGARITHMIC
    loops: dict[str, tuple[Scene, Kind, str, tuple[float, ...], Gains | None]] = {
        "relative": (scenes.stepped(part, "1", "3"), log, "log-relative-delay", (1.0, 3.0), None),
        "three": (scenes.three(), log, "log-relative-delay", (1.0, 2.0, 4.0), None),
        "absolute": (scenes.stepped(part, *TOLD), Kind.ABSOLUTE, "absolute-delay", LATE, None),
        "hybrid": (scenes.rising(*TOLD), log, "hybrid-delay", LATE, scenes.hybrid_options),
    }
    return _loop(part, label, seed, *loops[part])


def _renewed(part: str, seed: int) -> list[Arm]:
    """The users turn to pages that hold a worker four times as long: fixed gains and self-tuning, on both models."""
    found, scene, desired = [], scenes.renewed("1", "3"), (1.0, 3.0)
    for kind, name in ((Kind.LOGARITHMIC, "log-relative-delay"), (Kind.RELATIVE, "relative-delay")):

        def tuned(known: Designs, kind: Kind = kind) -> Mapping[str, Any]:
            model = ",".join(map(repr, known.found[kind].model.theta))
            timing = {"period_s": scene.period_s, "settling_s": SETTLE_S / scenes.SCALE}
            return {**known.gains(kind), "guarantee": kind, "model": model, **timing}

        found.append(_loop(part, f"{kind}, fixed gains", seed, scene, kind, name, desired))
        found.append(_loop(part, f"{kind}, self-tuning", seed, scene, kind, "self-tuning", desired, tuned))
    return found


def _loop(
    part: str,
    label: str,
    seed: int,
    scene: Scene,
    kind: Kind,
    controller: str,
    desired: tuple[float, ...],
    gains: Gains | None = None,
) -> Arm:
    """A closed loop from the moment the paper switches its controller on to the end of its figure.

    The controller is designed from a model of one kind; `gains` gives its options, None stands for a linear one's.
    """

    def resolved(arm: Arm, runs: Runs) -> Arm:
        known = designs(runs)
        told = replace(_scene(arm), facts={**_scene(arm).facts, **known.facts(kind)})
        return replace(arm, bed=told, options={**arm.options, **(gains(known) if gains else known.gains(kind))})

    duration_s = (RUN_S - scenes.WARM_S) * scene.period_s / scenes.PERIOD_S
    return replace(_arm(part, label, seed, scene, controller, duration_s, {"desired": desired}), resolved=resolved)


def _open(closed: Arm) -> Arm:
    """The open loop: held at the mean budgets that the closed one had settled at before the step."""

    def resolved(arm: Arm, runs: Runs) -> Arm:
        step_s = (STEP_S - scenes.WARM_S) / scenes.SCALE
        windows = runs.track(closed.group, closed.label, closed.seed).windows
        settled = [w for w in windows if step_s / 2 <= w.start_s < step_s - w.duration_s]
        knobs = {name: of_class(PROCESS_BUDGET, name) for name in scenes.NAMES[:2]}
        sums = {name: sum(w.configuration[knob] for w in settled) for name, knob in knobs.items()}
        budgets = {name: max(1, round(value / max(1, len(settled)))) for name, value in sums.items()}
        return replace(arm, bed=scenes.with_budgets(_scene(arm), budgets))

    arm = _arm(closed.group, "open loop", closed.seed, _scene(closed), "static", closed.duration_s)
    return replace(arm, resolved=resolved)


def _arm(
    part: str,
    label: str,
    seed: int,
    scene: Scene,
    controller: str,
    duration_s: float,
    options: Mapping[str, Any] | None = None,
) -> Arm:
    """A run on a scene, in its sampling periods, with no guard but the domains of the budgets."""
    return Arm(
        part,
        label,
        seed,
        scene,
        controller,
        duration_s,
        scene.period_s,
        OBJECTIVE,
        options or {},
        (Role.PROCESS_BUDGET,),
        guarded=False,
        paced=False,
    )


def _scene(arm: Arm) -> Scene:
    assert isinstance(arm.bed, Scene)
    return arm.bed


LAB = Lab(
    "lu2001",
    "Delay guarantees for classes of clients (Lu et al. 2001), on the real testbed",
    PARTS,
    arms,
    results="trimtab.lab._lu2001_results",
    order=order,
)
