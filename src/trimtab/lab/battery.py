"""Scenarios drawn at random on the simulated server: waiting of clients with trim, over that without it.

A draw is left alone, tuned by trim as `tune` runs it, and run at fixed settings from end to end, all with the same
clients. What counts is the time that all clients waited together, those who gave up and all trying included. Peers
run as their users run them: without a referee, and on a limit that changes without a reload where they have one.

The server is a model (`trimtab.plants.simulated`): what comes out says how the methods decide, not how fast a real
server is. Seeds 1 to 99 are for development; what judges is drawn above 100, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trimtab.core import Objective
from trimtab.errors import UsageError
from trimtab.lab import FOUND, Arm, Lab
from trimtab.lab._battery_draw import RELOAD_S, ROUNDS, SLOW_RELOAD_S, TRIM, WINDOW_S, Drawn, Simulation, length_s
from trimtab.lab._scenario import draw
from trimtab.plants.apache import DEFAULTS
from trimtab.report.track import Track

ALL, SLOW, LONG = "peers", "slow", "long"
PARTS = {
    "trim": "each draw left alone, with trim, and at fixed settings",
    ALL: "the same with the peers beside trim",
    SLOW: f"as trim, on servers that a reload stops for {SLOW_RELOAD_S:g} s",
    LONG: f"as trim, with the course of the demand {ROUNDS} times over",
}
PEERS = ("apache2buddy", "gradient2", "vegas", "brpc", "tpe", "nelder_mead", "fuzzy", "saturation")


def order(wanted: tuple[str, ...]) -> tuple[str, ...]:
    """One part: all run the same draws, the second with more methods, the others on other servers, or for longer.

    Raises:
        UsageError: one of the others is asked for together with another.
    """
    if len(wanted) > 1 and (alone := [part for part in (SLOW, LONG) if part in wanted]):
        raise UsageError(f"lab run battery: --part {alone[0]} runs alone, its draws are others")
    return wanted if len(wanted) == 1 else (ALL,)


def arms(part: str, seed: int) -> Sequence[Arm]:
    """The draw of a seed, with all its runs."""
    scenario = replace(draw(seed), rounds=ROUNDS if part == LONG else 1)
    simulation = Simulation(scenario, PEERS if part == ALL else (), SLOW_RELOAD_S if part == SLOW else RELOAD_S)
    return [Arm(part, "draw", seed, simulation, TRIM, length_s(scenario), WINDOW_S, Objective(DEFAULTS.minimize))]


def told(track: Track) -> Sequence[str]:
    """A line on what clients waited in a draw."""
    one = track.run.plan.extra(FOUND, Drawn)
    return [f"  {one.ratio:.3f} of left alone, {1 / one.to_gain:.3f} at the best"] if one else []


LAB = Lab(
    "battery",
    "never worse than left alone: scenarios drawn by seeds, on the simulated server",
    PARTS,
    arms,
    knobs=("max_request_workers", "keep_alive_timeout_ms"),
    objective=DEFAULTS.minimize,
    results="trimtab.lab._battery_summary",
    told=told,
    programs=(),
    order=order,
)
