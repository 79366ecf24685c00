"""chung2004 on a shop of three tiers: the winner of a search for each mix, and whether it is good for the others.

The paper's Fig. 4 and Table 3, with what it leaves out: the noise of the untuned shop, what the search costs while it
goes on, and the winners measured anew, in turn with the start. A trial is a window; think times are divided
(`TIME_SCALE`) so that the browsers are near saturation, because below it a shop sells what browsers ask for, whatever
its settings are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trimtab.clock import SystemClock
from trimtab.core import Clock, Metric, Objective, Readings
from trimtab.errors import TrimtabError
from trimtab.lab import Arm, Context, Lab, Runs, World
from trimtab.plants.stack import description
from trimtab.plants.stack.clients import Clients, Traffic, traffic
from trimtab.plants.stack.tiers import Tiers, attached
from trimtab.referee.turns import LOOKS
from trimtab.report.track import Track
from trimtab.testbed.shop import TIME_SCALE, Shop, ShopSpec, shop, stack_text
from trimtab.trials import Search

MIXES = ("browsing", "shopping", "ordering")
OURS, THEIRS = "trust_region", "simplex"
PEERS = {"shopping": ("tpe", "random_search")}
"""More searches, under one of the mixes."""
TRIAL_S = 10.0
TRIALS = 33
REPEATS = 6
SEARCH = Search(TRIALS, REPEATS, None, TRIAL_S, LOOKS)
"""As `tune stack` searches: the winner is measured again in turn with the start."""
SETTLED_S = 1.5
"""A trial's wait after its change, and the change itself, for the forecast."""
WARM_S = 90.0
"""Browsers before the first window: Java compiles for more than a minute, at up to a third less throughput."""
BROWSERS, ITEMS = 100, 10_000
MIX = "clients_mix"
METRIC = "client_page_rate_hz"
"""WIPS, web interactions per second, of browsers whose time is scaled."""
START = "start"
WINNERS = "winners"
"""Under which a run's plan keeps the settings that it measures in turn, by the mix of the search that found them."""
_MIB = 1 << 20
SINGLE: Mapping[str, Mapping[str, int]] = {
    "5 threads, none spare": {"application.max_threads": 5, "application.min_spare_threads": 0},
    "20 threads": {"application.max_threads": 20},
    "10 connections in the pool": {"application.pool_max_active": 10},
    "5 connections in the pool": {"application.pool_max_active": 5, "application.pool_min_idle": 0},
    "answers kept": {"database.query_cache_type": 1},
    "5 threads, none spare, and answers kept": {
        "application.max_threads": 5,
        "application.min_spare_threads": 0,
        "database.query_cache_type": 1,
    },
    "write buffers of 54 KiB": {"application.write_buffer_bytes": 54 << 10},
    "buffer pool of 432 MiB": {"database.innodb_buffer_pool_size": 432 * _MIB},
}
"""Settings by themselves, by what the summary calls them."""
TURNS = 4
PARTS = {
    "noise": "the untuned shop, measured again and again under each mix",
    "single": "single settings, in turn with the start, under the shopping mix",
    **{f"search-{mix}": f"the searches, from what Debian ships, under the {mix} mix" for mix in MIXES},
    "change": "Fig. 5: the mix changes while the searches go on",
    "cross": "Fig. 4: the start and each mix's winner, measured anew in turn under each mix",
}


@dataclass(frozen=True)
class OnShop:
    """A private shop with its browsers.

    Args:
        mix: the browsers' mix of pages.
        then: what they do afterwards, each for `TRIALS` trials.
    """

    mix: str
    then: tuple[str, ...] = ()

    @contextlib.contextmanager
    def open(self, arm: Arm, context: Context) -> Iterator[World]:
        """Starts it, warm and with its browsers at work; the tiers are one plant, as `tune stack` has them."""
        with shop(ShopSpec(ITEMS, BROWSERS), context.say) as running:
            tiers = self._attached(running, arm.seed)
            try:
                facts = {f"confinement of the {tier}": limits for tier, limits in running.confinement.items()}
                mixes = ", then ".join((self.mix, *self.then))
                yield World(tiers, {**facts, "workload": f"tpcw, {mixes} mix, time divided by {TIME_SCALE}"})
            finally:
                tiers.close()

    def _attached(self, running: Shop, seed: int) -> Tiers:
        """The shop's tiers with these browsers."""
        clock, nowhere = SystemClock(), Path("/")
        described = [description.parse(stack_text(running, mix), "the shop") for mix in (self.mix, *self.then)]
        traffics = [traffic(one.clients or {}, nowhere, seed) for one in described]
        traffics[0] = replace(traffics[0], warm_up_s=WARM_S)
        parts = tuple(attached(described[0], tier, nowhere, clock, seed) for tier in described[0].tiers)
        return Tiers(described[0], parts, InTurn(traffics, TRIALS, clock))


class InTurn(Clients):
    """Clients that do one thing for so many windows, then another.

    Args:
        traffics: what they do, in this order; the last for as long as the run lasts.
        windows: how many each of the others lasts.
        clock: the clock on which their reports are dated.
    """

    metrics = (*Clients.metrics, Metric(MIX, "mixes", "number of the mix that the browsers follow, from 0"))

    def __init__(self, traffics: Sequence[Traffic], windows: int, clock: Clock) -> None:
        super().__init__(traffics[0], clock)
        self._traffics, self._each, self._begun, self._at = traffics, windows, 0, 0

    def begin(self) -> None:
        """Marks the start of a window, with the traffic whose turn it is."""
        at = min(self._begun // self._each, len(self._traffics) - 1)
        self._begun += 1
        if at != self._at:
            self.close()
            self._at, self._traffic = at, self._traffics[at]
            self.start()
        super().begin()

    def read(self) -> Readings:
        """The clients' readings, and which mix they followed."""
        return {**super().read(), MIX: float(self._at)}


def arms(part: str, seed: int) -> Sequence[Arm]:
    """The runs of a part."""
    if part == "noise":
        return [_arm(part, mix, f"{START}, {mix}", "static", seed, 10) for mix in MIXES]
    if part == "single":
        options = {"settings": settings_text(SINGLE)}
        return [replace(_arm(part, "shopping", part, "alternate", seed, TURNS * (len(SINGLE) + 1)), options=options)]
    if part == "cross":
        turns = REPEATS * (len(MIXES) + 1)
        return [replace(_arm(part, mix, mix, "alternate", seed, turns), resolved=_with_winners) for mix in MIXES]
    if part == "change":
        trials = TRIALS * len(MIXES)
        ours = replace(_arm(part, MIXES[0], OURS, OURS, seed, trials), options={"watch": True})
        both = (ours, _arm(part, MIXES[0], THEIRS, THEIRS, seed, trials))
        return [replace(arm, bed=OnShop(MIXES[0], then=MIXES[1:])) for arm in both]
    mix = part.partition("-")[2]
    names = (OURS, THEIRS, *PEERS.get(mix, ()))
    return [replace(_arm(part, mix, name, name, seed, TRIALS + 2 * REPEATS), search=SEARCH) for name in names]


def _arm(part: str, mix: str, label: str, controller: str, seed: int, trials: int) -> Arm:
    moving = controller != "static"
    return Arm(
        part,
        label,
        seed,
        OnShop(mix),
        controller,
        WARM_S + trials * (TRIAL_S + SETTLED_S * moving),
        TRIAL_S,
        Objective(METRIC, minimize=False),
        roles=(),
        guarded=controller not in ("static", "alternate"),
        extras={"mix": mix},
    )


def _with_winners(arm: Arm, runs: Runs) -> Arm:
    """The arm with the settings that the search under each mix named last.

    Raises:
        TrimtabError: such a search has not been made.
    """
    found = {mix: dict(winner(runs.track(f"search-{mix}", OURS, arm.seed))) for mix in MIXES}
    return replace(arm, options={"settings": settings_text(found)}, extras={**arm.extras, WINNERS: found})


def settings_text(settings: Mapping[str, Mapping[str, int]]) -> str:
    """The settings as the controller `alternate` reads them; an empty one is the start and left out."""
    texts = (",".join(f"{name}={value}" for name, value in sorted(one.items())) for one in settings.values())
    return ";".join(filter(None, texts))


def winner(track: Track) -> Mapping[str, int]:
    """The last setting that a search named, whether or not it was then found better, where that is not its start.

    Raises:
        TrimtabError: it names nothing.
    """
    moves = [move.proposed for move in track.moves]
    named = [move.incumbent for move in moves if move.incumbent and not move.finished]
    if not named:
        raise TrimtabError(f"{track.label} names no setting")
    initial = track.run.plan.initial
    return {name: value for name, value in named[-1].items() if initial.get(name) != value}


def told(track: Track) -> Sequence[str]:
    """A line on how the shop did."""
    rates = [w.readings[METRIC] for w in track.windows if METRIC in w.readings]
    return [f"  {sum(rates) / len(rates):.1f} interactions/s over {len(rates)} trials"] if rates else []


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
    root="give each tier its share of CPU and memory",
    survives=True,
)
