"""Repeat the experiments of the papers on a testbed: list and run them, clean up after a crash; run a private shop.

An experiment starts private servers on loopback, confined in control groups where this machine allows it, and leaves
nothing behind. 'lab run NAME' runs all its parts; '--part' chooses some. A run that is in the store already is not
made again: what was stopped goes on with the same command. Results go to a folder of their own. 'lab up shop' runs a
private shop of Squid, Tomcat and MariaDB until Ctrl-C, and writes the file with which 'tune stack' finds it.

example: trimtab lab run liu2003 --part sweep-dynamic --seeds 1,2,3 --results sweep
"""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Callable
from pathlib import Path

from trimtab import discovery
from trimtab.cli import _up
from trimtab.cli._plant import add_store, stored_runs, writable
from trimtab.cli._progress import Lines, Quietly, json_lines, rows_of
from trimtab.cli._stop import exit_code, stopping
from trimtab.core import Objective
from trimtab.errors import TrimtabError, UsageError
from trimtab.events import Event
from trimtab.lab import Context, Lab, chosen
from trimtab.lab._engine import run_lab, write_lab
from trimtab.lab._results import STORE, unpacked
from trimtab.store import Store, default_path
from trimtab.testbed.reap import clean

ROOM = "trimtab.lab"
MOST_NUMBERS = 100_000
"""In a range: more is a slip of the hand."""
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")
"""Numbers that the store and every source of randomness take."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the list, the cleaning, the run of an experiment and the writing of its results."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("list", help="the experiments and their parts", allow_abbrev=False)
    actions.add_parser("clean", help="remove what testbeds of dead processes have left behind", allow_abbrev=False)
    _up.add_arguments(actions.add_parser("up", help="run a private shop until Ctrl-C", allow_abbrev=False))
    runner = actions.add_parser("run", help="run an experiment", allow_abbrev=False)
    writer = actions.add_parser("write", help="write the results of stored runs", allow_abbrev=False)
    which = writer.add_mutually_exclusive_group(required=True)
    which.add_argument("--runs", help="numbers from 'trimtab runs list', such as 1-27,30")
    which.add_argument(
        "--from", dest="packed", type=Path, metavar="FILE", help=f"all runs of a results folder's {STORE}"
    )
    runner.add_argument(
        "--part", action="append", default=[], metavar="NAME", help="a part of it; may be repeated (default all)"
    )
    runner.add_argument("--seeds", default="1,2,3", help="one repeat for each, such as 1-16 (default 1,2,3)")
    runner.add_argument("--fresh", action="store_true", help="make all runs anew, also those that are in the store")
    runner.add_argument("--quiet", action="store_true", help="say which run is under way, not each window")
    runner.add_argument("--json", action="store_true", help="one line of JSON per window, move and note")
    for one in (runner, writer):
        _add_common(one)


def _add_common(runner: argparse.ArgumentParser) -> None:
    """Adds the options that running and writing share."""
    runner.add_argument("experiment", metavar="NAME", help="its name, from 'trimtab lab list'")
    runner.add_argument("--results", type=Path, metavar="FOLDER", help="write raw data, figures and a summary there")
    runner.add_argument("--report", type=Path, metavar="FILE", help="write a report, where the experiment has one")
    add_store(runner)


def run(args: argparse.Namespace) -> int:
    """Lists, cleans or runs.

    Raises:
        UsageError: there is no such experiment or part, or a value is not allowed.
        TrimtabError: the experiment failed, or something could not be removed.
    """
    if args.action == "list":
        for name in discovery.names(ROOM):
            lab: Lab = discovery.load(ROOM, name).LAB
            print(f"{name}: {lab.description}")
            print("\n".join(f"  {part:<16} {what}" for part, what in lab.parts.items()))
        return 0
    if args.action == "clean":
        print("\n".join(clean()) or "nothing was left behind")
        return 0
    if args.action == "up":
        return _up.run(args)
    return _write(args) if args.action == "write" else _run(args)


def _write(args: argparse.Namespace) -> int:
    """Writes the results of stored runs."""
    lab: Lab = discovery.load(ROOM, args.experiment).LAB
    if args.results is None and args.report is None:
        raise UsageError("nothing to write: name '--results FOLDER' or '--report FILE'")
    writable(args.report, "the report")
    packed = None if args.packed is None else unpacked(args.packed)
    with packed or contextlib.closing(stored_runs(args.store)) as store:
        ids = [run.id for run in store.runs()] if args.packed else numbers("--runs", args.runs)
        for run in map(store.run, ids):
            if run.plan.group not in lab.parts:
                of = f"{run.plan.group!r}" if run.plan.group else "no experiment"
                raise UsageError(f"run {run.id} is of {of}, and not of a part of {lab.name}: {', '.join(lab.parts)}")
        write_lab(lab, ids, Context(store, args.results, args.report, say=print))
    return 0


def numbers(option: str, text: str) -> tuple[int, ...]:
    """Whole numbers from a list with ranges.

    Raises:
        UsageError: it is not one.
    """
    found: list[int] = []
    for part in text.split(","):
        pair = _RANGE.fullmatch(part)
        if pair is None:
            raise UsageError(f"{option} {text!r}: write whole numbers and ranges with commas, such as 1-27,30")
        first, last = int(pair[1]), int(pair[2] or pair[1])
        if last < first:
            raise UsageError(f"{option} {text!r}: the range {part} runs backwards, write {last}-{first}")
        if last - first > MOST_NUMBERS:
            raise UsageError(f"{option} {text!r}: a range of more than {MOST_NUMBERS} is not allowed")
        found += range(first, last + 1)
    return tuple(found)


def _run(args: argparse.Namespace) -> int:
    """Runs an experiment."""
    lab: Lab = discovery.load(ROOM, args.experiment).LAB
    parts = chosen(lab.parts, args.part) if args.part else ()
    seeds = numbers("--seeds", args.seeds)
    writable(args.report, "the report")
    with stopping() as stop, contextlib.closing(Store(args.store or default_path())) as store:
        say = (lambda text: None) if args.json else _said
        context = Context(
            store, args.results, args.report, seeds, say, Quietly(_teller(args, lab), stop), stop, args.fresh
        )
        try:
            run_lab(lab, parts, context)
        except TrimtabError as error:
            if not stop:
                raise
            say(str(error))
    return exit_code(stop.reason)


def _said(text: str) -> None:
    if text:
        print(text, flush=True)


def _teller(args: argparse.Namespace, lab: Lab) -> Callable[[Event], None]:
    """The receivers of each window."""
    if args.json:
        return json_lines
    if args.quiet:
        return lambda event: None
    return Lines(rows_of(lab.knobs, Objective(lab.objective)), decides=True)
