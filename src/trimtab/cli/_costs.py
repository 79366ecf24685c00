"""Cost of changing each knob: as it was measured, and in words before it was."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from trimtab.core.knob import How, Knob
from trimtab.records import Run, StoredMove

LATEST = 10
"""Changes that the figure is the mean of; those before are of another load."""


def cost_lines(knobs: Sequence[Knob], moves: Sequence[StoredMove]) -> list[str]:
    """One line for each knob, or for all that cost the same.

    Args:
        knobs: those that may be moved.
        moves: what the run has moved so far.
    """
    alike: dict[str, list[str]] = {}
    for knob in knobs:
        alike.setdefault(_cost(knob, moves), []).append(knob.name)
    return [f"cost:  {', '.join(names)}: {cost}" for cost, names in alike.items()]


def measured_costs(run: Run, moves: Sequence[StoredMove]) -> list[str]:
    """One line for each knob of a run that tuned, once a change was made; none before."""
    made = run.plan.guarantee is None and any(one.took_s is not None for one in moves)
    return cost_lines(run.plan.knobs, moves) if made else []


def _cost(knob: Knob, moves: Sequence[StoredMove]) -> str:
    took_s = [one.took_s for one in moves if one.took_s is not None and knob.name in one.move.changes][-LATEST:]
    if not took_s:
        return knob.cost
    what = f"a {knob.how}" if knob.how in (How.RELOAD, How.RESTART) else "a change"
    times = f"the last {len(took_s)} times" if len(took_s) > 1 else "the last time"
    return f"{what} took {fmean(took_s):.2g} s {times}"
