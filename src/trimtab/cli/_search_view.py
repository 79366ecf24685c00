"""Terminal view of a search by trials: its state and its cost."""

from __future__ import annotations

from trimtab.core import Objective
from trimtab.events import MoveDone
from trimtab.report.text import seconds, shown, words


def search_line(event: MoveDone, objective: Objective) -> str:
    """The trial's objective with the interval that repeats allow, the incumbent, and the cost; else empty.

    Args:
        event: the move after a trial, whose evidence says it.
        objective: the objective.
    """
    figures, name = event.proposed.evidence, objective.metric
    if "trials" not in figures:
        return ""
    spread = figures.get("spread_ratio")
    # Two standard deviations of windows of one configuration, the one figure that single trials can be held against.
    within = "" if spread is None else f" ± {2 * spread:.0%}"
    best = figures.get("incumbent")
    said = [
        f"{words(name)} {shown(name, event.window.readings.get(name))}{within}",
        *([] if best is None else [f"incumbent {shown(name, best)}"]),
        f"it lost {seconds(figures['trial_lost_s'])} of the start's work, all trials {seconds(figures['lost_s'])}",
    ]
    return "; ".join(said)
