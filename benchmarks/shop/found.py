"""What there is to be had on the real shop: every setting that our searches have found, in turn with the start.

    python benchmarks/shop/found.py --mix shopping --seed 117 --out DIR

The settings are what our searches named in the stored runs of `trimtab lab run chung2004` (`--from`) that had
MariaDB's query cache among their knobs, under one mix and under browsing; each once, whoever found it, and 5 threads
by themselves. A value that trimtab sets no more, by the last of these runs, stays the start's. One shop of the lab's
size goes through all of them forwards, then backwards, a trial of 10 s each. Left out is what needs a smaller buffer
pool than the start's: each turn would throw pages away that others need. Those that need a larger one come last, far
from the start.

What counts is interactions a second at one pace of the machine, over the start's before and after, between the two
by time. The best of many is by chance the best of those turns by which it was chosen: so it is chosen by every second
turn and measured by the others, and the other way round.

DIR gets summary.md and the store, runs.sqlite. As root, with what `make setup-lab` installs, on an otherwise idle
machine; some 20 minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from trimtab.host import facts
from trimtab.lab import Arm, Context
from trimtab.lab._chung2004_results import to_start
from trimtab.lab._engine import run_lab
from trimtab.lab._results import STORE, unpacked
from trimtab.lab._tables import interval, table
from trimtab.lab.chung2004 import LAB, MIXES, OURS, REPEATS, arms, settings_text, winner
from trimtab.report.track import Track, tracks
from trimtab.store import Store

RESULTS = Path(__file__).parents[1] / "results"
CACHE = "database.query_cache_type"
POOL = "database.innodb_buffer_pool_size"
THREADS = {"application.max_threads": 5, "application.min_spare_threads": 5}
ROUNDS = 8
Settings = dict[str, Mapping[str, int]]


def found(folders: Iterable[Path], mix: str) -> Settings:
    """The settings by who found them, in the order of their turns.

    Args:
        folders: results of the lab.
        mix: the mix under which they were found; browsing's come too.
    """
    who: dict[tuple[tuple[str, int], ...], list[str]] = {tuple(THREADS.items()): ["5 threads"]}
    made = [track for track in _searches(folders) if CACHE in track.run.plan.initial]
    domains = {knob.name: knob.domain for track in made for knob in track.run.plan.knobs}  # the last run's
    for track in made:
        of, seed = track.run.plan.group.removeprefix("search-"), track.run.plan.settings.seed
        best = {name: value for name, value in winner(track).items() if value in domains[name]}
        initial = track.run.plan.initial
        if best and of in ("browsing", mix) and best.get(POOL, initial[POOL]) >= initial[POOL]:
            who.setdefault(tuple(sorted(best.items())), []).append(f"{of} {seed}")
    ordered = sorted(who, key=lambda one: (POOL in dict(one), len(one)))
    return {", ".join(who[one]): dict(one) for one in ordered}


def _searches(folders: Iterable[Path]) -> Iterator[Track]:
    """Our searches in these folders."""
    for folder in sorted(folders):
        if (folder / STORE).exists():
            with unpacked(folder / STORE) as store:
                made = tracks(store, [run.id for run in store.runs()])
            yield from (one for one in made if one.label == OURS and one.run.plan.group.startswith("search-"))


def arm_of(mix: str, settings: Settings, seed: int) -> Arm:
    """The run: the lab's own comparison in turn, of other settings."""
    (like,) = (one for one in arms("cross", seed) if one.label == mix)
    windows = ROUNDS * (len(settings) + 1)
    return replace(
        like,
        group="found",
        label=f"found, {mix}",
        duration_s=like.duration_s * windows / (REPEATS * (len(MIXES) + 1)),
        options={"settings": settings_text(settings)},
        extras={**like.extras, "found": settings},
        resolved=None,
    )


def summary(store: Store, conditions: str) -> str:
    """Every setting's gain, and that of the best one where it was not chosen by it."""
    lines = ["# The settings that were found on the shop, in turn", "", *(__doc__ or "").strip().splitlines()[2:], ""]
    lines += [f"Conditions: {conditions}", ""]
    for track in tracks(store, [run.id for run in store.runs()]):
        settings: Settings = track.run.plan.extras["found"]
        ratios = {who: to_start(track, setting) for who, setting in settings.items()}
        lines += [f"## {track.label}, seed {track.run.plan.settings.seed} ({track.run.status})", ""]
        rows = [
            (who, str(len(seen)), interval(seen, lambda v: f"{v:.3f}"), settings_text({who: settings[who]}))
            for who, seen in sorted(ratios.items(), key=lambda one: -statistics.fmean(one[1] or [0.0]))
        ]
        lines += table(("found by", ">turns", ">over the start, 95 % interval", "setting"), rows)
        lines += [*(_best(ratios, first) for first in (0, 1)), ""]
    return "\n".join(lines)


def _best(ratios: Mapping[str, Sequence[float]], first: int) -> str:
    """The best setting by every second turn, and what the other turns give it."""
    chosen = {who: seen[first::2] for who, seen in ratios.items() if len(seen) > 3}
    if not chosen:
        return "- too few turns to choose the best"
    best = max(chosen, key=lambda who: statistics.fmean(chosen[who]))
    there = interval(ratios[best][1 - first :: 2], lambda v: f"{v:.3f}")
    return f"- the best by every second turn, from the {('first', 'second')[first]} on: {best}; in the others {there}"


def main() -> None:
    """Reads the command line, makes the run, writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mix", choices=MIXES, default="shopping", help="what the browsers do (default shopping)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the browsers (default 1)")
    parser.add_argument("--from", type=Path, nargs="+", dest="folders", help="the lab's results (default: all)")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the results")
    options = parser.parse_args()
    settings = found(options.folders or RESULTS.glob("*-chung2004-*"), options.mix)
    options.out.mkdir(mode=0o700, parents=True, exist_ok=True)
    lab = replace(LAB, arms=lambda part, seed: [arm_of(options.mix, settings, seed)])
    with contextlib.closing(Store(options.out / "runs.sqlite")) as store:
        run_lab(lab, ("cross",), Context(store, seeds=(options.seed,), say=lambda text: print(text, flush=True)))
        (options.out / "summary.md").write_text(summary(store, str(facts())), encoding="utf-8")
    print(f"results: {options.out}")


if __name__ == "__main__":
    main()
