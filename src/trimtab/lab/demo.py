"""trimtab's main job in five minutes: a private Apache under load, as shipped and tuned in turn, side by side.

On the real testbed where this machine allows its limits; else the same loop on the simulated plant, and it says so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trimtab import own
from trimtab.errors import UsageError
from trimtab.files import write_whole
from trimtab.lab import Context, chosen
from trimtab.lab._arm import Arm, run_arm, through_loop
from trimtab.plants.simulated import Simulated
from trimtab.testbed.setups import DYNAMIC

BASELINE_S = 26.0
TUNED_S = 50.0
WINDOW_S = 2.0
SIMULATED_WARM_S = 20.0
"""Virtual time before the first window: the simulated server starts empty and is at work by then."""
SIMULATED_FACTOR = 6.0
"""Virtual time costs nothing, and the simulated server takes minutes to fill its memory and to drain a backlog."""
PARTS = {"demo": "Debian's default MaxRequestWorkers, and the same load with trimtab tuning it, in turn"}
APACHE = ("apache2", "httpd")


@dataclass(frozen=True)
class Demo:
    """The demonstration."""

    description: str = "trimtab's main job: as shipped and tuned, on a private Apache under load (5 minutes)"
    parts: Mapping[str, str] = field(default_factory=lambda: PARTS)
    knobs: tuple[str, ...] = ("max_request_workers",)
    objective: str = "response_time_s"

    def run(self, parts: tuple[str, ...], context: Context) -> None:
        """Runs both halves and writes the report."""
        chosen(PARTS, parts)
        if context.results is not None:
            raise UsageError("demo writes no results folder: '--report FILE' has its figures")
        arms = (("default", "static", BASELINE_S), ("trim", "trim", TUNED_S))
        why = _unreal()
        if why:
            context.say(f"SIMULATED, because {why}: the same loop on the simulated plant, in virtual time")
        else:
            context.say("a private Apache (prefork, PHP) on loopback, one CPU, memory limit, WAGON sessions")
        ids = []
        for seed in context.seeds:
            for label, controller, length_s in arms:
                duration_s = length_s * (SIMULATED_FACTOR if why else 1)
                context.say(f"{label}, seed {seed}: {duration_s:g} s in windows of {WINDOW_S:g} s")
                arm = Arm("demo", label, DYNAMIC, controller, seed, duration_s, WINDOW_S)
                ids.append(_run_simulated(arm, context) if why else run_arm(arm, context))
        if context.report is not None:
            self.write(ids, context)

    def write(self, run_ids: Sequence[int], context: Context) -> None:
        """Writes the report of stored runs."""
        from trimtab.lab._demo_report import page  # loads the plotting library, which a run does not need

        if context.report is None:
            raise UsageError("demo writes a report: name it with '--report FILE'")
        write_whole(context.report, page(context.store, run_ids))
        context.say(f"report: {context.report}")


def _unreal() -> str:
    """Why the real testbed cannot show the effect here; empty when it can."""
    if not any(own.program(name) for name in APACHE):
        return "there is no Apache on this machine (as root, 'make demo' installs it)"
    if os.geteuid() != 0:
        return "only root can limit the memory of a private Apache"
    return ""


def _run_simulated(arm: Arm, context: Context) -> int:
    """The same arm on the simulated plant."""
    plant = Simulated(seed=arm.seed)
    try:
        plant.clock.sleep(SIMULATED_WARM_S)
        return through_loop(arm, context, plant, {})
    finally:
        plant.close()


LAB = Demo()
