"""Every search over many knobs on surfaces and a simulated shop: what its trials cost, what its winner is worth.

Whoever says `searches` among the controllers takes part. All methods meet the same beds and the same noise. What
counts is the true cost of every trial, since clients pay for all of them: regret is the logarithm of that cost to the
best there was, its mean over all trials the score. The winner is judged by its true cost, not by its best trial.

The surfaces are formulas (`trimtab.lab._surfaces`) and the shop is a model (`trimtab.lab._simulated_shop`): what
comes out says how methods search, not what a server gains. Seeds 1 to 99 are for development; what judges is drawn
above 100, once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from itertools import product
from multiprocessing import get_context

from trimtab.errors import UsageError
from trimtab.host import facts
from trimtab.lab import Context, Lab, chosen
from trimtab.lab._contest_beds import SHOPS, SURFACES
from trimtab.lab._contest_run import STATIC, Contested, contested, searches
from trimtab.lab._contest_summary import regrets, summary
from trimtab.lab._results import new_folder
from trimtab.lab._shop_calibration import real_against_simulated
from trimtab.lab._surfaces import METRIC

TRIALS = {"short": 33, "long": 100, "shop": 33, "shop-long": 100}
"""Part to its trials: as many as the issue's goal, and as many as a patient user waits for."""
BEDS = {"short": SURFACES, "long": SURFACES, "shop": SHOPS, "shop-long": SHOPS}
"""Part to the kinds of beds."""
PARTS = {
    name: f"{count} trials of every search on every {'surface' if BEDS[name] is SURFACES else 'mix of the shop'}"
    for name, count in TRIALS.items()
}
NICE = 10
DESCRIPTION = "searches over many knobs on surfaces and a simulated shop: regret, harm, what the winner is worth"


def run(parts: tuple[str, ...], context: Context) -> None:
    """Runs every search on every bed of the parts for each seed.

    Raises:
        UsageError: there is no such part, or a report is asked for.
    """
    wanted = chosen(PARTS, parts)
    if context.report is not None:
        raise UsageError("contest writes no report: '--results FOLDER' has its table and figures")
    methods = (STATIC, *searches())
    for method in methods:
        contested(method, next(iter(SURFACES)), context.seeds[0], 1)  # a package that is missing is said at once
    folder = None if context.results is None else new_folder(context.results)
    said = []
    for part in wanted:
        found = []
        about = real_against_simulated() if BEDS[part] is SHOPS else ""
        if about:
            context.say(about)
        for kind in BEDS[part]:
            these = list(_all(methods, kind, context, TRIALS[part]))
            found += these
            context.say(summary(these, part))
            if context.stop:
                return
        said.append(summary(found, part) + about)
        if folder is not None:
            with (folder / f"{part}.jsonl").open("w", encoding="utf-8") as out:
                out.writelines(json.dumps(asdict(one)) + "\n" for one in found)
            (folder / f"regret-{part}.svg").write_text(regrets(found), encoding="utf-8")
    if folder is not None:
        machine = ", ".join(f"{name} {value}" for name, value in facts().items())
        seeds = ",".join(map(str, context.seeds))
        command = f"trimtab lab run contest {' '.join(f'--part {part}' for part in wanted)} --seeds {seeds}"
        head = f"# contest: {DESCRIPTION}\n\n    {command}\n\n{machine}\n\n"
        (folder / "summary.md").write_text(head + "\n".join(said), encoding="utf-8")


def _all(methods: Sequence[str], kind: str, context: Context, trials: int) -> Iterator[Contested]:
    """The runs of all methods on one kind of bed, on all CPUs, behind whatever else runs."""
    pairs = list(product(methods, context.seeds))
    with ProcessPoolExecutor(os.cpu_count(), get_context("forkserver"), os.nice, (NICE,)) as pool:
        yield from pool.map(
            contested, [m for m, _ in pairs], [kind] * len(pairs), [s for _, s in pairs], [trials] * len(pairs)
        )


LAB = Lab(
    "contest",
    DESCRIPTION,
    PARTS,
    arms=lambda part, seed: (),
    objective=METRIC,
    programs=(),
    unstored=run,
)
