"""Arguments shared by the verbs that run a loop: the plant, the knobs and the controller."""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trimtab import codec, discovery
from trimtab.clock import SystemClock
from trimtab.core import Controller, Knob, Limit, Objective, Plant, PlantDefaults, Role, notes_of, of_role
from trimtab.errors import UsageError
from trimtab.files import present
from trimtab.metrics import metric
from trimtab.options import options_of, values
from trimtab.records import Plan
from trimtab.settings import Settings
from trimtab.store import Store, default_path
from trimtab.trials import Searching
from trimtab.units import parse_quantity

PLANTS = "trimtab.plants"
CONTROLLERS = "trimtab.controllers"
_LIMIT = re.compile(r"\s*([^<>=\s]+)\s*(<=|>=)\s*([^<>=\s]+)\s*")
_MOST_PLAIN_RATIO = 10.0
"""A bound of a share above this that has no % is taken for a percentage without its sign."""
_LONGEST_NAME = 200
"""Bytes of a file's name: file systems allow 255 (NAME_MAX), and it is written under a longer one first."""
_KEPT = "the run store (default: in the XDG state directory)"


def defaults_of(args: argparse.Namespace) -> PlantDefaults:
    """How the plant that is named is tuned; as usual where none is.

    Raises:
        UsageError: there is no such plant, or what says how it is tuned is wrong.
    """
    usual = PlantDefaults()
    if args.plant is None:
        return usual
    module = discovery.load(PLANTS, args.plant)
    said = getattr(module, "defaults", None)
    found: PlantDefaults = getattr(module, "DEFAULTS", usual) if said is None else said(args)
    return found


def add_plant(parser: argparse.ArgumentParser, store: str = _KEPT) -> None:
    """Adds the argument that names the plant, and those of every plant.

    Args:
        parser: the verb's.
        store: help of `--store`.
    """
    there = discovery.names(PLANTS)
    parser.add_argument(
        "plant", metavar="PLANT", nargs="?", help=f"one of {', '.join(there)}; 'PLANT --help' shows its own options"
    )
    parser.add_argument("--seed", type=int, default=0, help="source of all randomness (default 0)")
    parser.add_argument("--json", action="store_true", help="one line of JSON per window, move and note")
    add_store(parser, store)


def add_store(parser: argparse._ActionsContainer, text: str = _KEPT) -> None:
    """Adds the argument of the run store, with this help."""
    parser.add_argument("--store", type=_file, metavar="FILE", help=text)


def stored_runs(path: Path | None) -> Store:
    """The store whose runs are looked at, which is not made; the usual one may not be there yet.

    Args:
        path: as `--store` names it; None for the usual one.

    Raises:
        UsageError: the one that is named is not there.
    """
    if path is not None and not os.path.exists(path):
        raise UsageError(f"--store {path}: there is no such file")
    return Store(path or default_path(), create=False)


def allowed_seed(seed: int, option: str = "--seed") -> int:
    """A seed that every source of randomness takes.

    Args:
        seed: as the user wrote it.
        option: where.

    Raises:
        UsageError: it is none.
    """
    if not 0 <= seed < 2**64:
        raise UsageError(f"{option} {seed} is not allowed: it must be 0 to 2^64 - 1")
    return seed


def add_report(parser: argparse._ActionsContainer) -> None:
    """Adds the arguments of a run's report, and of the place of the run in a comparison."""
    parser.add_argument("--report", type=Path, metavar="FILE", help="write a report of the run")
    parser.add_argument("--label", default="", help="what this run is in its group, such as baseline")
    parser.add_argument("--group", default="", help="the comparison it belongs to")


def refine(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Adds the options of the plant that is named.

    Raises:
        UsageError: there is no such plant.
    """
    if args.plant is not None:
        # A plant that is named leaves the next word to its own arguments.
        next(one for one in parser._actions if one.dest == "plant").nargs = None
        group = parser.add_argument_group(f"options of {args.plant}")
        discovery.load(PLANTS, args.plant).add_arguments(group)


@contextlib.contextmanager
def attached(args: argparse.Namespace) -> Iterator[Plant]:
    """The plant that the arguments name, closed at the end with its sensors.

    Raises:
        UsageError: none is named, or it cannot be used from here.
    """
    if args.plant is None:
        raise UsageError(f"no plant: name one of {', '.join(discovery.names(PLANTS))}")
    plant: Plant = discovery.load(PLANTS, args.plant).from_arguments(args, SystemClock())
    try:
        yield plant
    finally:
        plant.close()


def chosen_knobs(plant: Plant, wanted: Sequence[str], roles: Sequence[Role]) -> tuple[Knob, ...]:
    """The knobs to move: those wanted, else the first of each of these roles, else the plant's first.

    Args:
        plant: whose knobs they are.
        wanted: names, or patterns such as `web.*`, in the order in which the knobs are to be moved.
        roles: roles of the knobs to move where none is wanted by name.

    Raises:
        UsageError: it has no such knob, or none at all.
    """
    there = {knob.name: knob for knob in plant.knobs()}
    if not there:
        raise UsageError(f"{plant.name} has no knob that can be moved here: see 'trimtab doctor'")
    found: dict[str, Knob] = {}
    for pattern in wanted:
        matching = fnmatch.filter(there, pattern)
        if not matching:
            why = "".join(f"; {note}" for note in notes_of(plant) if note.startswith(f"{pattern} "))
            raise UsageError(f"unknown knob {pattern!r}: {plant.name} has {', '.join(there)}{why}")
        found |= {name: there[name] for name in matching}
    if wanted:
        return tuple(found.values())
    usual = tuple(knob for role in roles if (knob := of_role(there.values(), role)) is not None)
    return usual or (next(iter(there.values())),)


def add_objective(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the objective and its limits."""
    goal = parser.add_mutually_exclusive_group()
    usual = f"default {PlantDefaults().minimize} where the plant has no other"
    goal.add_argument("--minimize", metavar="METRIC", help=f"what to make least ({usual})")
    goal.add_argument("--maximize", metavar="METRIC", help="what to make greatest")
    parser.add_argument(
        "--subject-to",
        action="append",
        default=[],
        metavar="LIMIT",
        help="a limit that comes first, such as 'client_page_time_p95_s<=2s' or 'cpu_ratio<=80%%'; may be repeated",
    )


def chosen_objective(args: argparse.Namespace) -> Objective:
    """Objective of `--minimize` or `--maximize`, under the limits of `--subject-to`.

    Raises:
        UsageError: there is no such metric, or a limit is not one.
    """
    usual = defaults_of(args)
    own = args.maximize or args.minimize
    name, least = own or usual.maximize or usual.minimize, args.maximize is None
    metric(name)
    limits = tuple(map(_limit, (*usual.subject_to, *args.subject_to)))
    return Objective(name, least if own else not usual.maximize, limits)


def require_measured(plant: Plant, names: Iterable[str]) -> None:
    """Makes sure that some sensor measures these metrics.

    Raises:
        UsageError: nothing does; the message carries what the plant says of it.
    """
    measured = {one.name for sensor in plant.sensors() for one in sensor.metrics}
    there = measured | {one.name for one in plant.metrics}
    for name in names:
        if name.partition("@")[0] not in there:
            why = "".join(f"; {note}" for note in notes_of(plant) if name in note)
            raise UsageError(
                f"{name} is not measured on {plant.name} here{why}; measured: {', '.join(sorted(there))}"
            )


def _limit(text: str) -> Limit:
    """The limit that a user wrote.

    Raises:
        UsageError: it is not one.
    """
    found = _LIMIT.fullmatch(text)
    if found is None:
        raise UsageError(f"--subject-to {text!r}: write METRIC<=VALUE or METRIC>=VALUE")
    name, sign, value = found.groups()
    try:
        unit = metric(name).unit
        bound = parse_quantity(value, unit)
        if unit == "ratio" and bound > _MOST_PLAIN_RATIO and not value.endswith("%"):
            raise UsageError(f"{value} is {bound * 100:g} %: write {value}% or {bound / 100:g}")
        return Limit(name, bound, sign == "<=", value)
    except UsageError as error:
        raise UsageError(f"--subject-to {text!r}: {error}") from None


def _file(text: str) -> Path:
    """The file that a user names.

    Raises:
        argparse.ArgumentTypeError: the name is empty, or a directory's.
    """
    if not text or os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"{text!r} is {'a directory' if text else 'empty'}: name a file")
    return Path(text)


def chosen_controller(name: str, objective: Objective, given: Sequence[str]) -> Controller:
    """The controller of that name.

    Args:
        name: its registered name.
        objective: its objective.
        given: its options as `NAME=VALUE`.

    Raises:
        UsageError: there is no such controller or option, or a value is not allowed.
    """
    kind: Any = discovery.load(CONTROLLERS, name).CONTROLLER
    known = {option.name for option in options_of(kind)} - {"objective"}
    texts: dict[str, str] = {}
    for pair in given:
        option, equals, text = pair.partition("=")
        option = option.strip().replace("-", "_")
        if not equals or option not in known:
            raise UsageError(f"--option {pair!r}: write NAME=VALUE; {name} has {', '.join(sorted(known)) or 'none'}")
        texts[option] = text.strip()
    controller: Controller = kind(objective, **values(kind, texts))
    return controller


def stored_controller(name: str, objective: Objective, options: Mapping[str, Any]) -> Controller:
    """The controller that a stored run had.

    Args:
        name: its registered name.
        objective: its objective then.
        options: as `options_in_force` gave them, through JSON.

    Raises:
        UsageError: there is no such controller any more, or it has not this option any more.
    """
    kind: Any = discovery.load(CONTROLLERS, name).CONTROLLER
    try:
        controller: Controller = codec.convert({"objective": codec.builtins(objective), **options}, kind)
    except ValueError as error:
        raise UsageError(f"{name} has other options now: {error}") from None
    return controller


def stored_method(plan: Plan) -> tuple[str, Controller, Settings]:
    """Registered name of the controller of a stored run, the controller with its search, and how the run went.

    Raises:
        UsageError: there is no such controller any more, or it has not this option any more.
    """
    controller = stored_controller(plan.controller, plan.settings.objective, plan.controller_options)
    search = plan.search
    if search is not None:
        controller = Searching(plan.settings.objective, controller, search)
    return plan.controller, controller, plan.settings


def writable(path: Path | None, what: str) -> Path | None:
    """The path, once it is known that a file can be written there.

    Raises:
        UsageError: it cannot.
    """
    if path is not None:
        if len(os.fsencode(path.name)) > _LONGEST_NAME:
            raise UsageError(f"{what} {path.name[:40]}... has too long a name: at most {_LONGEST_NAME} bytes")
        if not os.access(path.absolute().parent, os.W_OK | os.X_OK):
            raise UsageError(f"{what} {path} cannot be written: no such directory, or no permission")
        if path.is_dir():
            raise UsageError(f"{what} {path} is a directory")
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise UsageError(f"{what} {path} is a link or a device: name a file")
        present(path)
    return path
