"""chung2004 on a shop of three tiers: the winner of a search for each mix, and whether it is good for the others.

The paper's Fig. 4 and Table 3, with what it leaves out: the noise of the untuned shop, what the search costs while it
goes on, and the winners measured anew. A trial is a window; think times are divided (`TIME_SCALE`) so that the
browsers are near saturation, because below it a shop sells what browsers ask for, whatever its settings are.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trimtab.clock import SystemClock
from trimtab.core import Objective
from trimtab.errors import TrimtabError, UsageError
from trimtab.lab import Arm, Context, Lab, Runs, World, chosen
from trimtab.plants.stack import description
from trimtab.plants.stack.tiers import Tiers
from trimtab.report.track import Track
from trimtab.testbed.shop import TIME_SCALE, ShopSpec, shop, stack_text

MIXES = ("browsing", "shopping", "ordering")
SEARCHES = ("trust_region", "simplex")
TRIAL_S = 10.0
TRIALS = 33
REPEATS = 5
BROWSERS = 100
METRIC = "client_page_rate_hz"
"""WIPS, web interactions per second, of browsers whose time is scaled."""
START = "start"
PARTS = {
    "noise": "the untuned shop, measured again and again",
    **{f"search-{mix}": f"the searches, from what Debian ships, under the {mix} mix" for mix in MIXES},
    "cross": "Fig. 4: the start and each mix's winner, measured anew under all three mixes in turn",
}


@dataclass(frozen=True)
class OnShop:
    """A private shop with its browsers.

    Args:
        mix: the browsers' mix of pages.
        values: settings by knob, set before they begin; those not named stay as Debian ships them.
    """

    mix: str
    values: tuple[tuple[str, int], ...] = ()

    @contextlib.contextmanager
    def open(self, arm: Arm, context: Context) -> Iterator[World]:
        """Starts it, warm and with its browsers at work; the tiers are one plant, as `tune stack` has them."""
        with shop(ShopSpec(browsers=BROWSERS), context.say) as running:
            text = stack_text(running, self.mix)
            found = description.parse(text, "the shop")
            tiers = Tiers.attach(found, Path("/"), SystemClock(), arm.seed)
            try:
                if self.values:
                    tiers.apply(dict(self.values))
                facts = {f"confinement of the {tier}": limits for tier, limits in running.confinement.items()}
                yield World(tiers, {**facts, "workload": f"tpcw, {self.mix} mix, time divided by {TIME_SCALE}"})
            finally:
                for sensor in tiers.sensors():
                    sensor.close()
                tiers.close()


def arms(part: str, seed: int) -> Sequence[Arm]:
    """The runs of a part.

    Raises:
        UsageError: there is no such part.
    """
    chosen(PARTS, (part,))
    if part == "noise":
        return [_arm(part, "shopping", START, "static", seed, 10)]
    if part == "cross":
        found = []
        for mix in MIXES:
            found.append(_arm(part, mix, f"{START}, {mix}", "static", seed, REPEATS))
            for of in MIXES:
                arm = _arm(part, mix, f"winner of {of}, {mix}", "static", seed, REPEATS)
                found.append(replace(arm, extras={**arm.extras, "of": of}, resolved=_with_winner))
        return found
    mix = part.partition("-")[2]
    return [_arm(part, mix, name, name, seed, TRIALS) for name in SEARCHES]


def _arm(part: str, mix: str, label: str, controller: str, seed: int, trials: int) -> Arm:
    return Arm(
        part,
        label,
        seed,
        OnShop(mix),
        controller,
        trials * TRIAL_S,
        TRIAL_S,
        Objective(METRIC, minimize=False),
        roles=(),
        guarded=controller != "static",
        extras={"mix": mix},
    )


def _with_winner(arm: Arm, runs: Runs) -> Arm:
    """The arm at the setting that the search under another mix names in its last window.

    Raises:
        TrimtabError: that search has not been made.
    """
    of = arm.extras["of"]
    values = winner(runs.track(f"search-{of}", SEARCHES[0], arm.seed))
    bed = arm.bed
    assert isinstance(bed, OnShop)
    return replace(arm, bed=replace(bed, values=tuple(sorted(values.items()))))


def winner(track: Track) -> Mapping[str, int]:
    """Knobs that a search's final choice sets otherwise than its start.

    Raises:
        TrimtabError: it names nothing.
    """
    named = [move.proposed.incumbent for move in track.moves if move.proposed.incumbent]
    if not named:
        raise TrimtabError(f"{track.label} names no setting")
    initial = track.run.plan.initial
    return {name: value for name, value in named[-1].items() if initial.get(name) != value}


def told(track: Track) -> Sequence[str]:
    """A line on how the shop did."""
    rates = [w.readings[METRIC] for w in track.windows if METRIC in w.readings]
    return [f"  {sum(rates) / len(rates):.1f} interactions/s over {len(rates)} trials"] if rates else []


def possible(context: Context) -> None:
    """Refuses where the tiers cannot be confined.

    Raises:
        UsageError: it cannot be run here.
    """
    if os.geteuid() != 0:
        raise UsageError("only root can give each tier its share of CPU and memory")


LAB = Lab(
    "chung2004",
    "Squid, Tomcat and MariaDB under TPC-W's mixes, searched as one (Chung and Hollingsworth 2004)",
    PARTS,
    arms,
    knobs=("application.max_threads",),
    objective=METRIC,
    results="trimtab.lab._chung2004_results",
    told=told,
    programs=("squid", "mariadbd", "java"),
    conditions=possible,
    survives=True,
)
