"""One file per paper, and the demonstration: experiments on the testbed, their results as dated folders.

A module of this room names its experiments in `LAB`, a `Lab`. An experiment runs arms (one controller on one workload
with one seed) through the same loop and into the same store as `trimtab tune`; its figures are pure functions of
what was stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from trimtab.errors import UsageError
from trimtab.events import Event
from trimtab.observer import Stop
from trimtab.store import Store


@dataclass(frozen=True)
class Context:
    """What an experiment is given.

    Args:
        store: where its runs are written.
        results: folder for raw data, figures and summary; None to write none.
        report: file for the HTML report; None to write none.
        seeds: one repeat for each.
        say: told of progress, a line at a time.
        on_event: told of every window, move and note.
        stop: set from outside to end it after the window under way.
    """

    store: Store
    results: Path | None = None
    report: Path | None = None
    seeds: tuple[int, ...] = (1, 2, 3)
    say: Callable[[str], None] = lambda text: None
    on_event: Callable[[Event], None] = lambda event: None
    stop: Stop = field(default_factory=Stop)


class Lab(Protocol):
    """The experiments of one module."""

    description: str
    """What it shows, in one line."""
    parts: Mapping[str, str]
    """Its experiments: name and what each shows, in one line; all are run unless some are named."""
    knobs: tuple[str, ...]
    """What moves in it, to be shown window by window."""
    objective: str
    """What it is judged by, to be shown beside that."""

    def run(self, parts: tuple[str, ...], context: Context) -> None:
        """Runs experiments.

        Args:
            parts: names from `parts`, in the order to run them.
            context: where results go, and how often.

        Raises:
            UsageError: there is no such part, or the context asks for what the experiment does not write.
            TrimtabError: the testbed could not be set up, or an experiment broke off.
        """
        ...

    def write(self, run_ids: Sequence[int], context: Context) -> None:
        """Writes what `run` writes, from stored runs.

        Args:
            run_ids: their numbers.
            context: where they are, and where results go.

        Raises:
            UsageError: there is no such run, or nowhere to write.
        """
        ...


def chosen(known: Mapping[str, str], parts: tuple[str, ...]) -> tuple[str, ...]:
    """The parts to run: those named, or all there are.

    Args:
        known: the experiment's parts.
        parts: names; empty for all.

    Raises:
        UsageError: there is no such part.
    """
    for part in parts:
        if part not in known:
            raise UsageError(f"unknown part {part!r}: there are {', '.join(known)}")
    return parts or tuple(known)
