"""Every search over many knobs on surfaces and a simulated shop: what its trials cost, what its winner is worth.

Whoever says `searches` among the controllers takes part. All methods meet the same beds and the same noise. What
counts is the true cost of every trial, since clients pay for all of them: regret is the logarithm of that cost to the
best there was, its mean over all trials the score. The winner is judged by its true cost, not by its best trial.

The surfaces are formulas (`trimtab.lab._surfaces`) and the shop is a model (`trimtab.lab._simulated_shop`): what
comes out says how methods search, not what a server gains. Seeds 1 to 99 are for development; what judges is drawn
above 100, once.
"""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.core import Objective
from trimtab.lab import FOUND, Arm, Context, Lab
from trimtab.lab._contest_run import SHOPS, STATIC, SURFACES, Contest, Contested, searches
from trimtab.lab._surfaces import METRIC
from trimtab.report.track import Track

TRIALS = {"short": 33, "long": 100, "shop": 33, "shop-long": 100}
"""Part to its trials: as many as the issue's goal, and as many as a patient user waits for."""
BEDS = {"short": SURFACES, "long": SURFACES, "shop": SHOPS, "shop-long": SHOPS}
"""Part to the kinds of beds."""
PARTS = {
    name: f"{count} trials of every search on every {'surface' if BEDS[name] is SURFACES else 'mix of the shop'}"
    for name, count in TRIALS.items()
}


def arms(part: str, seed: int) -> Sequence[Arm]:
    """Every search on every bed of a part, and the start held. A window is a trial."""
    contests = [Contest(m, kind, seed, TRIALS[part]) for kind in BEDS[part] for m in (STATIC, *searches())]
    objective = Objective(METRIC)
    return [Arm(part, f"{c.kind}: {c.method}", seed, c, c.method, c.trials, 1.0, objective) for c in contests]


def told(track: Track) -> Sequence[str]:
    """A line on what a search cost and found."""
    one = track.run.plan.extra(FOUND, Contested)
    return [f"  regret {one.regret:.3f}, gain of the winner {one.gain:+.3f}"] if one else []


def possible(context: Context) -> None:
    """Refuses where a package is missing that a search needs.

    Raises:
        UsageError: it is not installed.
    """
    for method in searches():
        Contest(method, next(iter(SURFACES)), context.seeds[0], 1).compute()


LAB = Lab(
    "contest",
    "searches over many knobs on surfaces and a simulated shop: regret, harm, what the winner is worth",
    PARTS,
    arms,
    objective=METRIC,
    results="trimtab.lab._contest_summary",
    told=told,
    programs=(),
    conditions=possible,
)
