"""The battery on real servers: whether trimtab ever leaves one worse than it found it, on draws that nobody chose.

A seed draws a server, its application and its clients (`_scenario`). Each draw is left alone (twice, to know the
noise), tuned as `trimtab tune` does by default, and held at four fixed settings; on half of the draws the peers run
too, in a part of their own, so that what judges trim fits into two hours. What counts is what clients waited in sum,
all trying and those who gave up included. Seeds up to 99 are for development; what judges is drawn above 100, run
once, and shown whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from trimtab import discovery
from trimtab.core import Objective
from trimtab.errors import TrimtabError
from trimtab.lab import Arm, Context, Lab, Runs
from trimtab.lab._applications import require_installed
from trimtab.lab._battery_draw import OPTIONS
from trimtab.lab._clients import in_all
from trimtab.lab._drawn import Drawn, fixed_workers, hurried
from trimtab.lab._scenario import draw
from trimtab.lab._tables import mean
from trimtab.plants.apache import DEFAULTS
from trimtab.report.track import Track

PART, OTHERS = "draws", "peers"
PARTS = {
    PART: "each seed's draw: left alone twice, trim, and four fixed settings",
    OTHERS: f"half of the draws with the peers, once they have been made with '{PART}'",
}
DURATION_S = 48.0
"""Length of a run: seven of them with the starts of the servers take some six minutes."""
WINDOW_S = 2.0
COST_S = 6.0
ALONE, AGAIN, TRIM, ONE = "left alone", "left alone again", "trim", "one client"
PEERS = ("apache2buddy", "gradient2", "vegas", "brpc", "tpe", "nelder-mead", "fuzzy", "saturation")
"""Controllers that are compared with, as far as they are registered."""


def arms(part: str, seed: int) -> Sequence[Arm]:
    """The runs of a part for a draw; those that judge trim stand beside one another."""
    bed = Drawn(hurried(seed))
    if part == OTHERS:
        known = discovery.names("trimtab.controllers") if with_peers(seed) else []
        return [_arm(name, bed, name, OTHERS) for name in PEERS if name in known]
    found = [_arm(ALONE, bed, "static"), _arm(TRIM, bed, bed.defaults.controller)]
    for workers in fixed_workers(bed.scenario):
        found.append(_arm(f"{workers} fixed", replace(bed, workers=workers), "static"))
    cost = replace(_arm(ONE, replace(bed, alone=True), "static"), duration_s=COST_S, resolved=None)
    return [cost, *found, _arm(AGAIN, bed, "static")]


def with_peers(seed: int) -> bool:
    """Whether the peers run on this draw: on half of them."""
    return Random(f"peers/{seed}").random() < 0.5


def _arm(label: str, bed: Drawn, controller: str, part: str = PART) -> Arm:
    """One run, at the rate that the cost of a request gives."""
    return Arm(
        part,
        label,
        bed.scenario.seed,
        bed,
        controller,
        DURATION_S,
        WINDOW_S,
        Objective(bed.defaults.minimize),
        OPTIONS.get(controller, {}),
        roles=bed.defaults.roles,
        guarded=controller != "static",
        resolved=_at_its_rate,
    )


def _at_its_rate(arm: Arm, runs: Runs) -> Arm:
    """The arm with the CPU time of a request as one client had it: its load is a share of the capacity.

    Raises:
        TrimtabError: that client's run told nothing.
    """
    bed = arm.bed
    assert isinstance(bed, Drawn)
    windows = runs.track(PART, ONE, arm.seed).windows[1:]
    rate_hz, cpu_ratio = (mean(windows, name) for name in ("client_request_rate_hz", "cpu_ratio"))
    if not rate_hz or not cpu_ratio:
        raise TrimtabError(f"seed {arm.seed}: the cost of a request of {bed.scenario.application} is not known")
    return replace(arm, bed=replace(bed, request_s=cpu_ratio / rate_hz))


def told(track: Track) -> Sequence[str]:
    """A line on how clients fared in a run."""
    return [] if track.label == ONE or not track.windows else [f"  {in_all(track.label, track.windows)}"]


def possible(context: Context) -> None:
    """Refuses where an application that a seed draws is missing.

    Raises:
        UsageError: it is.
    """
    for seed in context.seeds:
        require_installed(draw(seed).application)


LAB = Lab(
    "harm",
    "never worse than left alone: servers and clients drawn at random by seed, left alone, tuned and fixed",
    PARTS,
    arms,
    knobs=("max_request_workers", "keep_alive_timeout_ms"),
    objective=DEFAULTS.minimize,
    results="trimtab.lab._harm_results",
    told=told,
    root="limit the memory of a private server",
    conditions=possible,
    survives=True,
)
