"""The saturation-based heuristic of liu2003, section IV.C: as many workers as just saturate the bottleneck.

Promises to be near the best worker limit one move after the first window, where the binding resource is the
processor or the memory and its utilisation grows in proportion to the workers. It does not look at response time at
all, so noise in it is harmless; for the same reason it cannot see that its answer is wrong.

Steps, as in the paper
    1. At the worker limit MC0 measure the utilisations CPU0 and MEM0.
    2. Utilisation is 0 at no workers and linear, so the limits at which each saturates are MC0/CPU0 and MC0/MEM0.
    3. Set the limit to min(MC0/CPU0, MC0/MEM0).
    4. Keep measuring; when a utilisation varies significantly go to step 2.

    paper       here       unit      shape
    MaxClients  limit      workers   scalar
    MC0         workers    workers   scalar
    CPU0, MEM0  used       ratio     scalars cpu_ratio and memory_ratio; memory is above 1 when it swaps
    min(...)    target     workers   scalar

MC0 is the number of workers that exist (busy and idle), where that is measured, and the limit otherwise. The two
are the same when the limit binds, which is the paper's case. When it does not, the utilisations belong to the
workers that exist: 30 processes that take half of the memory allow 60, however high the limit of 150 above them
was. With the limit in place of the workers the prediction would be 300, and each further round would double it
until the domain's end. Workers of an older, higher limit that have not left yet use resources too, and count.

Departures from the paper
- "Vary significantly" is given a number: a change by more than `threshold` since the reference, and the reference
  is the first window after the move has taken effect (the utilisations before a move belong to another limit).
- The paper measures CPU0 once; a utilisation below `floor_ratio` predicts nothing here, because a division by a
  reading near zero is noise. A window in which nothing can be predicted holds.
- When a resource was not measured the other alone decides, and the reason says so.
Kept as it is: at a saturated processor MC0/CPU0 = MC0, so the heuristic never comes down from too many workers
unless memory says so; and the memory that the server takes without any worker is counted as the workers' own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from trimtab.controllers._knob import integer_knob, require, unjudged
from trimtab.core import Knob, Move, Objective, Readings, Trial, Window

RESOURCES = {"cpu_ratio": "CPU", "memory_ratio": "memory"}


@dataclass(frozen=True)
class SaturationState:
    """State of the heuristic.

    Args:
        knob: the knob it moves.
        reference: utilisations that later windows are compared with, by reading; empty before step 4.
        settling: True in the window after a move, whose readings are partly from before it.
        predicted: False until step 2 was done once.
    """

    knob: Knob
    reference: tuple[tuple[str, float], ...] = ()
    settling: bool = False
    predicted: bool = False


@dataclass(frozen=True)
class Saturation:
    """The heuristic on one knob.

    Args:
        objective: the objective; its value is not used, only whether a window could be judged.
        threshold: change of a utilisation, as a ratio of the resource, that is significant.
        floor_ratio: a utilisation below this predicts nothing.
        min_samples: requests that a window must have completed to be judged; not asked for when memory is
            over its limit, where a server may complete nothing.

    Raises:
        UsageError: an option has a value that cannot be used.
    """

    objective: Objective
    threshold: float = 0.15
    floor_ratio: float = 0.02
    min_samples: int = 1

    def __post_init__(self) -> None:
        require(self.threshold > 0, "threshold", self.threshold, "more than 0")
        require(0 < self.floor_ratio < 1, "floor_ratio", self.floor_ratio, "a ratio between 0 and 1")

    def start(self, knobs: tuple[Knob, ...], seed: int) -> SaturationState:
        """The state before the first window; the seed is not used, the method draws nothing."""
        return SaturationState(integer_knob(knobs, "saturation"))

    def step(self, state: SaturationState, trial: Trial) -> tuple[SaturationState, Move]:
        """Steps 1 to 3 in the first window and after a significant change; otherwise step 4."""
        window = trial.window
        used = {name: window.readings[name] for name in RESOURCES if name in window.readings}
        missing = unjudged(self.objective, window, state.knob, self.min_samples)
        swapping = used.get("memory_ratio", 0.0) > 1 and state.knob.name in window.configuration
        if missing and not swapping:
            return state, Move.hold(f"saturation: {missing}")
        if not used:
            return state, Move.hold("saturation: neither cpu_ratio nor memory_ratio was measured")
        if state.settling:
            state = replace(state, settling=False, reference=tuple(used.items()))
            return state, Move({}, f"saturation: taking {_said(used)} as the reference", used, "settle")
        varied = self._varied(state, used)
        if state.predicted and not varied:
            return state, Move({}, f"saturation: {_said(used)} as before", used, "hold")
        return self._predict(state, window, used, f"{varied} varied, " if varied else "")

    def _varied(self, state: SaturationState, used: Readings) -> str:
        """Which utilisations differ significantly from the reference (step 4), in words; empty when none does."""
        reference = dict(state.reference)
        return " and ".join(
            f"{RESOURCES[name]} ({reference[name]:.2f} to {now:.2f})"
            for name, now in used.items()
            if name in reference and abs(now - reference[name]) > self.threshold
        )

    def _predict(
        self, state: SaturationState, window: Window, used: Readings, why: str
    ) -> tuple[SaturationState, Move]:
        """Steps 2 and 3."""
        knob, limit = state.knob, window.configuration[state.knob.name]
        workers = existing_workers(window, limit)
        limits = {name: workers / u for name, u in used.items() if u >= self.floor_ratio}  # step 2
        if not limits:
            return state, Move({}, f"saturation: {_said(used)}, too low to predict from", used, "hold")
        binding = min(limits, key=lambda name: limits[name])
        target = knob.domain.clip(limits[binding])  # step 3
        alone = "" if len(used) == 2 else f"; {'memory' if 'cpu_ratio' in used else 'CPU'} was not measured"
        end = f", the domain ends at {target}" if abs(target - limits[binding]) > knob.domain.step else ""
        reason = (
            f"saturation: {why}{RESOURCES[binding]} binds: {workers:g} workers use {used[binding]:.2f} of it, "
            f"so it saturates at {limits[binding]:.0f}{end}{alone}"
        )
        evidence = {**used, **{f"{name.removesuffix('_ratio')}_saturates_at": at for name, at in limits.items()}}
        changes = {} if target == limit else {knob.name: target}
        state = replace(state, predicted=True, settling=bool(changes), reference=tuple(used.items()))
        return state, Move(changes, reason, evidence, "predict")


def existing_workers(window: Window, limit: int) -> float:
    """MC0: the workers that exist, or the limit where their number is not measured.

    Args:
        window: with the readings busy_workers and idle_workers, where measured.
        limit: the worker limit in force.

    Returns:
        At least 1; more than the limit while workers of an older one are leaving.
    """
    readings = window.readings
    if "busy_workers" not in readings or "idle_workers" not in readings:
        return limit
    return max(1.0, readings["busy_workers"] + readings["idle_workers"])


def _said(used: Readings) -> str:
    """Utilisations in words."""
    return ", ".join(f"{RESOURCES[name]} {value:.2f}" for name, value in used.items())


CONTROLLER = Saturation
