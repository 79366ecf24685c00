"""Measures more searches on the contest's beds: Nevergrad's and SMAC's, beside those that trimtab has.

    pip install nevergrad smac          # neither is among trimtab's requirements; one that is missing is left out
    python benchmarks/contest/peers.py --part shop --seeds 1-3 [--out DIR]

The beds, the noise and the judgement are those of `trimtab lab run contest`. Both libraries run as they ship: NGOpt
of Nevergrad, which chooses among its methods by the number of knobs and trials, begun at the running configuration;
SMAC's facade for hyperparameters, whose first trials are a Sobol design, with the running configuration as the
default of its space. A failed trial costs a tenth more than the worst.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar

from trimtab.lab._contest_run import STATIC, Contest, Contested, bed, run, searches
from trimtab.lab._contest_summary import tables
from trimtab.lab._engine import NICE
from trimtab.lab.contest import BEDS, PARTS, TRIALS
from trimtab.search.ask_and_tell import AskAndTell, AskState, worst
from trimtab.search.space import Point, point_of


@dataclass(frozen=True)
class Library(AskAndTell):
    """A library's search, whose object is kept along the run: nothing is replayed here.

    Args:
        budget: trials that it is given.
        kept: its object, once there is one, and how many trials it was told.
    """

    budget: int = 0
    kept: list[Any] = field(default_factory=list)

    def made(self, state: AskState) -> Any:
        """The library's object for this search."""
        raise NotImplementedError

    def tell(self, search: Any, state: AskState, point: Point, cost: float) -> None:
        """Tells it of a trial."""
        raise NotImplementedError

    def ask(self, search: Any, state: AskState) -> Point:
        """The point that it proposes."""
        raise NotImplementedError

    def next_point(self, state: AskState) -> Point:
        """Tells what is new, and asks."""
        if not self.kept:
            self.kept.extend((self.made(state), 0))
        search, told = self.kept
        for one in state.told[told:]:
            self.tell(search, state, point_of(state.knobs, one.values), worst(state) if one.y is None else one.y)
        self.kept[1] = len(state.told)
        return self.ask(search, state)


@dataclass(frozen=True)
class Nevergrad(Library):
    """NGOpt of Nevergrad.

    Args:
        asked: its proposal under way.
    """

    asked: list[Any] = field(default_factory=list)
    method: ClassVar[str] = "nevergrad"

    def made(self, state: AskState) -> Any:
        """The optimiser, begun at the first trial."""
        import nevergrad
        import numpy as np

        space = nevergrad.p.Array(init=np.array(point_of(state.knobs, state.told[0].values))).set_bounds(0.0, 1.0)
        space.random_state.seed(state.seed)
        return nevergrad.optimizers.NGOpt(space, budget=self.budget, num_workers=1)

    def tell(self, search: Any, state: AskState, point: Point, cost: float) -> None:
        """Tells it what its proposal cost; of the first trial, which it did not ask for, nothing.

        Some of its methods take only what they asked for, so a proposal that went part of its way counts as itself.
        """
        if self.asked:
            search.tell(self.asked.pop(), cost)

    def ask(self, search: Any, state: AskState) -> Point:
        """The point that it proposes."""
        self.asked.append(search.ask())
        return tuple(float(x) for x in self.asked[-1].value)


@dataclass(frozen=True)
class Smac(Library):
    """SMAC's facade for hyperparameters."""

    method: ClassVar[str] = "smac"

    def made(self, state: AskState) -> Any:
        """The optimiser, in a directory that goes with the process."""
        from ConfigSpace import ConfigurationSpace, Float
        from smac import HyperparameterOptimizationFacade, Scenario

        space = ConfigurationSpace(seed=state.seed)
        start = point_of(state.knobs, state.told[0].values)
        space.add([Float(knob.name, (0.0, 1.0), default=x) for knob, x in zip(state.knobs, start, strict=True)])
        where = tempfile.TemporaryDirectory(prefix="trimtab-smac-")
        scenario = Scenario(space, n_trials=self.budget, seed=state.seed, output_directory=Path(where.name))
        search = HyperparameterOptimizationFacade(scenario, _never, overwrite=True, logging_level=False)
        search.trimtab_directory = where  # removed with it
        return search

    def tell(self, search: Any, state: AskState, point: Point, cost: float) -> None:
        """Tells it of what was in force, whether or not that was what it asked for."""
        from ConfigSpace import Configuration
        from smac.runhistory.dataclasses import TrialInfo, TrialValue

        names = [knob.name for knob in state.knobs]
        values = Configuration(search.scenario.configspace, values=dict(zip(names, point, strict=True)))
        search.tell(TrialInfo(values, seed=state.seed), TrialValue(cost))

    def ask(self, search: Any, state: AskState) -> Point:
        """The point that it proposes."""
        asked = search.ask().config
        return tuple(float(asked[knob.name]) for knob in state.knobs)


PEERS = {"nevergrad": Nevergrad, "smac": Smac}


def _never(config: Any, seed: int = 0) -> float:
    """SMAC wants a function to minimise; it is asked and told instead."""
    raise NotImplementedError


def one(method: str, kind: str, seed: int, trials: int) -> Contested:
    """A run of one method on one bed."""
    if method not in PEERS:
        return Contest(method, kind, seed, trials).compute()
    drawn = bed(kind, seed, trials)
    return run(PEERS[method](drawn.objective, budget=trials), method, kind, drawn, seed, trials)


def main() -> None:
    """Runs all of them and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, default="shop")
    parser.add_argument("--seeds", default="1-3", metavar="FIRST-LAST")
    parser.add_argument("--out", type=Path, help="directory for the summary")
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    seeds, trials = range(int(first), int(last or first) + 1), TRIALS[given.part]
    there = [name for name in PEERS if importlib.util.find_spec(name)]
    print(f"libraries: {', '.join(there) or 'neither nevergrad nor smac is installed'}", flush=True)
    jobs = [*product((STATIC, *searches(), *there), BEDS[given.part], seeds)]
    found = []
    with ProcessPoolExecutor(os.cpu_count(), get_context("forkserver"), os.nice, (NICE,)) as pool:
        for done, result in enumerate(pool.map(one, *zip(*jobs, strict=True), [trials] * len(jobs)), 1):
            found.append(result)
            print(f"\r{done} of {len(jobs)} runs", end="", flush=True)
    text = "\n".join(tables(found, given.part))
    print(f"\n{text}")
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        command = f"python benchmarks/contest/peers.py --part {given.part} --seeds {given.seeds}"
        said = f"# contest, with more peers\n\n    {command}\n\n{text}"
        (given.out / "summary.md").write_text(said, encoding="utf-8")


if __name__ == "__main__":
    main()
