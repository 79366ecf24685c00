"""Scenarios drawn at random on the simulated server: waiting of clients with trim, over that without it.

A draw is left alone, tuned by trim as `tune` runs it, and run at fixed settings from end to end, all with the same
clients. What counts is the time that all clients waited together, those who gave up and all trying included. Peers
run as their users run them: without a referee, and on a limit that changes without a reload where they have one.

The server is a model (`trimtab.plants.simulated`): what comes out says how the methods decide, not how fast a real
server is. Seeds 1 to 99 are for development; what judges is drawn above 100, once.
"""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.core import Objective
from trimtab.errors import UsageError
from trimtab.lab import FOUND, Arm, Lab
from trimtab.lab._battery_draw import LENGTH_S, RELOAD_S, SLOW_RELOAD_S, TRIM, WINDOW_S, Drawn, Simulation
from trimtab.lab._scenario import draw
from trimtab.plants.apache import DEFAULTS
from trimtab.report.track import Track

ALL, SLOW = "peers", "slow"
PARTS = {
    "trim": "each draw left alone, with trim, and at fixed settings",
    ALL: "the same with the peers beside trim",
    SLOW: f"as trim, on servers that a reload stops for {SLOW_RELOAD_S:g} s",
}
PEERS = ("apache2buddy", "gradient2", "vegas", "brpc", "tpe", "nelder_mead", "fuzzy", "saturation")


def order(wanted: tuple[str, ...]) -> tuple[str, ...]:
    """One part: all run the same draws, the second with more methods, the third on other servers.

    Raises:
        UsageError: the third is asked for together with another.
    """
    if SLOW in wanted and len(wanted) > 1:
        raise UsageError(f"lab run battery: --part {SLOW} runs alone, its servers are others")
    return wanted if len(wanted) == 1 else (ALL,)


def arms(part: str, seed: int) -> Sequence[Arm]:
    """The draw of a seed, with all its runs."""
    simulation = Simulation(draw(seed), PEERS if part == ALL else (), SLOW_RELOAD_S if part == SLOW else RELOAD_S)
    return [Arm(part, "draw", seed, simulation, TRIM, LENGTH_S, WINDOW_S, Objective(DEFAULTS.minimize))]


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
