"""Experiments on the testbed: one paper per file, the demonstration and the battery; results as dated folders.

A module of this room declares its experiments in `LAB`, a `Lab`: the runs of each part as arms, and the module that
sums up what they left in the store. One engine (`_engine`) makes the runs, skips those that the store has already,
and writes the results, which are pure functions of what was stored.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from trimtab.core import Objective, Plant, Role
from trimtab.errors import TrimtabError, UsageError
from trimtab.events import Event
from trimtab.observer import Stop
from trimtab.report.track import Track
from trimtab.settings import Settings
from trimtab.store import Store
from trimtab.trials import Search

T = TypeVar("T")
FOUND = "found"
"""What a model has computed, among the extras of a run's plan."""
FIXED = "fixed"
"""Label of the arms that stay at the best setting, with which the methods are compared."""


@dataclass(frozen=True)
class Context:
    """The surroundings of an experiment.

    Args:
        store: store of its runs, and of those made before.
        results: folder for figures, summary and the compressed store; None to write none.
        report: file for the HTML report; None to write none.
        seeds: one repeat for each.
        say: told of progress, a line at a time.
        on_event: told of every window, move and note.
        stop: set from outside to end it.
        fresh: makes all runs, also those that the store has.
    """

    store: Store
    results: Path | None = None
    report: Path | None = None
    seeds: tuple[int, ...] = (1, 2, 3)
    say: Callable[[str], None] = lambda text: None
    on_event: Callable[[Event], None] = lambda event: None
    stop: Stop = field(default_factory=Stop)
    fresh: bool = False

    def heed_stop(self) -> None:
        """Raises when a stop was asked for.

        Raises:
            TrimtabError: it was.
        """
        if self.stop:
            raise TrimtabError(f"stopped by {self.stop.reason}")


@dataclass(frozen=True)
class World:
    """A plant at work.

    Args:
        plant: the plant, under load and warm.
        facts: facts on server and machine to record.
        watch: called with every event.
    """

    plant: Plant
    facts: Mapping[str, str] = field(default_factory=dict)
    watch: Callable[[], None] = lambda: None


class Bed(Protocol):
    """Server and clients of an arm: a frozen dataclass, whose fields say all that distinguishes it."""

    def open(self, arm: Arm, context: Context) -> AbstractContextManager[World]:
        """Starts them, waits until they are warm, and ends them in the end.

        Raises:
            TrimtabError: they could not be set up, or it was stopped from outside.
        """
        ...


@runtime_checkable
class Model(Protocol):
    """A bed without a server: a frozen dataclass, whose fields alone decide what is computed."""

    def compute(self) -> object:
        """What there is to find: a record that the codec can bring back."""
        ...


@dataclass(frozen=True)
class Arm:
    """One run to make: one controller on one bed with one seed.

    Args:
        group: the part it belongs to.
        label: its name in the group; repeats share it.
        seed: source of all randomness, the load's too.
        bed: server and clients, or the model of them.
        controller: registered name.
        duration_s: length of the run, in seconds.
        window_s: length of a window, in seconds.
        objective: the objective.
        options: the controller's options.
        roles: the knobs that it may move; empty for all.
        guarded: False runs the method as its paper has it, with the knobs' domains as the only guard.
        paced: False neither waits after a change nor cuts a window short.
        search: how its controller searches by trials, which end the run; None where it does not. The duration is then
            a forecast.
        extras: facts for the analysis.
        resolved: completes it from runs that were made before; not part of its identity.
    """

    group: str
    label: str
    seed: int
    bed: Bed | Model
    controller: str
    duration_s: float
    window_s: float = 2.0
    objective: Objective = field(default_factory=Objective)
    options: Mapping[str, Any] = field(default_factory=dict)
    roles: tuple[Role, ...] = (Role.WORKER_LIMIT,)
    guarded: bool = True
    paced: bool = True
    search: Search | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    resolved: Callable[[Arm, Runs], Arm] | None = field(default=None, repr=False, compare=False)

    def settings(self) -> Settings:
        """How its run goes."""
        duration_s = math.inf if self.search else self.duration_s
        usual = Settings(self.window_s, duration_s, self.objective, seed=self.seed)
        return usual if self.paced else replace(usual, settle_s=0.0, early=0.0)

    def digest(self) -> str:
        """The version of this declaration: it changes when anything does that is declared of it."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]


class Runs(Protocol):
    """The runs of an experiment that have been made so far."""

    def track(self, group: str, label: str, seed: int) -> Track:
        """One of them, whole.

        Raises:
            TrimtabError: it has not been made.
        """
        ...


@dataclass(frozen=True)
class Page:
    """The folder of a summary, and the runs it is made from.

    Args:
        folder: for figures.
        parts: part to label to repeats, in the order of their runs.
    """

    folder: Path
    parts: Mapping[str, Mapping[str, list[Track]]]

    def figure(self, name: str, drawn: str) -> None:
        """Writes a figure as `name`.svg."""
        (self.folder / f"{name}.svg").write_text(drawn, encoding="utf-8")

    def lines(self, name: str, records: Iterable[Mapping[str, Any]]) -> None:
        """Writes records as lines of JSON to `name`.jsonl."""
        with (self.folder / f"{name}.jsonl").open("w", encoding="utf-8") as out:
            out.writelines(json.dumps(one) + "\n" for one in records)

    def tracks(self, part: str) -> list[Track]:
        """The runs of a part, label by label."""
        return [track for repeats in self.parts.get(part, {}).values() for track in repeats]

    def found(self, part: str, kind: type[T]) -> list[T]:
        """The records that the models of a part have computed, label by label."""
        plans = (track.run.plan for track in self.tracks(part))
        return [one for plan in plans if (one := plan.extra(FOUND, kind)) is not None]


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, to be held against stored runs.

    Args:
        what: the statement.
        paper: the paper's value, as a text.
        low: the least value that agrees.
        high: the greatest.
        measured: the value here; None where those runs are missing.
    """

    what: str
    paper: str
    low: float
    high: float
    measured: Callable[[Page], float | None]


@dataclass(frozen=True)
class Lab:
    """The experiments of one module.

    Args:
        name: the module's, as a user types it.
        description: what it shows, in one line.
        parts: its experiments: name and what each shows, in one line; all are run unless some are named.
        arms: the runs of a part for one seed, in the order to make them.
        knobs: knobs to show window by window.
        objective: objective to show beside them.
        results: the module with `summary(page)`, lines of Markdown, and `CLAIMS`; empty for none. It is loaded when
            results are written, because it loads the plotting library.
        report: makes an HTML page of stored runs; None where there is none.
        told: text on a run once it is made.
        programs: programs that have to be installed.
        order: the parts that are run when these are asked for; empty for the usual ones.
        root: for what it has to be root, after "only root can"; empty where any user can run it.
        conditions: refuses a machine on which it cannot be run.
        survives: whether a run that cannot be made is recorded and the next one made.
    """

    name: str
    description: str
    parts: Mapping[str, str]
    arms: Callable[[str, int], Sequence[Arm]]
    knobs: tuple[str, ...] = ("max_request_workers",)
    objective: str = "response_time_s"
    results: str = ""
    report: Callable[[Store, Sequence[int]], str] | None = None
    told: Callable[[Track], Sequence[str]] = lambda track: ()
    programs: tuple[str, ...] = ("apache2",)
    order: Callable[[tuple[str, ...]], tuple[str, ...]] = lambda wanted: wanted
    root: str = ""
    conditions: Callable[[Context], None] = lambda context: None
    survives: bool = False


def chosen(known: Mapping[str, str], parts: Sequence[str]) -> tuple[str, ...]:
    """The parts to run: those named, or all there are.

    Args:
        known: the experiment's parts.
        parts: names; empty for all.

    Raises:
        UsageError: there is no such part.
    """
    for part in parts:
        if part not in known:
            raise UsageError(f"unknown part {part!r}; choose from: {', '.join(known)}")
    return tuple(parts) or tuple(known)
