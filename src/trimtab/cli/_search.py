"""Command-line options of a search by trials."""

from __future__ import annotations

import argparse
from dataclasses import replace

from trimtab.core import Controller, PlantDefaults
from trimtab.errors import UsageError
from trimtab.referee.turns import LOOKS
from trimtab.settings import Mode
from trimtab.trials import Search, Searching
from trimtab.units import parse_duration_s, parse_quantity

USUAL_DURATION = "10m"
USUAL_REMEASURE = 5
_HAS_TO_TRY = "--mode {}: a search by trials has to make its changes; use autonomous or approve"
_LEAST_TURNS, _MOST_TURNS = 2, 1000
"""More is a slip of the hand: the order of all turns is made at once."""


def add_search(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of a search by trials; any of them, and a stack, makes the run one."""
    parser.add_argument(
        "--trials", type=int, metavar="N", help="search by so many windows, then measure the winner again"
    )
    parser.add_argument(
        "--remeasure",
        type=int,
        metavar="N",
        help="of a search: measure start and winner in turn so often at the end, and as often again where that is "
        "open and may be a gain, unless --duration is given; 0 to believe the method "
        f"(default {USUAL_REMEASURE}; 0 where the controller judges each change itself)",
    )
    parser.add_argument(
        "--budget-of-harm",
        metavar="SHARE",
        help="of a search: end it when this share of the start's work is lost, such as 5%%, gains not counted",
    )


def chosen_search(args: argparse.Namespace, usual: PlantDefaults) -> Search | None:
    """The search that the arguments ask for; None where they ask for none.

    Args:
        args: the command line.
        usual: how its plant is tuned where it says nothing.

    Raises:
        UsageError: a number or a share is not allowed, or the duration is too short.
    """
    wanted = any(one is not None for one in (args.trials, args.remeasure, args.budget_of_harm))
    if not (wanted or usual.searched):
        return None
    if args.trials is not None and args.duration is not None:
        raise UsageError("--trials and --duration exclude each other: a search ends by its trials")
    if args.mode not in (Mode.AUTONOMOUS, Mode.APPROVE):
        raise UsageError(_HAS_TO_TRY.format(args.mode))
    turns = USUAL_REMEASURE if args.remeasure is None else args.remeasure
    if turns != 0 and not _LEAST_TURNS <= turns <= _MOST_TURNS:
        allowed = f"it must be 0, or {_LEAST_TURNS} to {_MOST_TURNS}"
        raise UsageError(f"--remeasure {turns} is not allowed: {allowed}")
    trial_s = parse_duration_s(args.window or usual.window, "--window")
    if not trial_s > 0:
        raise UsageError(f"a window of {trial_s:g} s is too short: it must be longer than 0")
    budget = None if args.budget_of_harm is None else _share(args.budget_of_harm)
    if args.trials is not None and args.trials < 2:
        raise UsageError(f"--trials {args.trials} is too few: the first is of the start configuration, so at least 2")
    trials = args.trials if args.trials is not None else _fitting(args, trial_s, turns)
    return Search(trials, turns, budget, trial_s, LOOKS if args.duration is None else 1)


def searching(controller: Controller, search: Search | None, name: str, given: bool, mode: Mode) -> Controller:
    """The controller, within its search where there is one.

    Args:
        controller: the method.
        search: how it searches; None for no search.
        name: its registered name.
        given: whether the user has asked for the winner to be measured again.
        mode: of the run.

    Raises:
        UsageError: it judges each change itself, and was asked to have the winner measured again; or it searches and
            may only advise: it would learn nothing of its trials, and advise them one after the other without an end.
    """
    if search is None:
        if mode is Mode.ADVISE and getattr(controller, "searches", False):
            raise UsageError(_HAS_TO_TRY.format(mode))
        return controller
    if getattr(controller, "experiments", False):
        if given and search.remeasure:
            raise UsageError(f"--remeasure {search.remeasure}: {name} judges each change by itself, in turn")
        search = replace(search, remeasure=0)
    return Searching(controller.objective, controller, search)  # type: ignore[attr-defined]


def _fitting(args: argparse.Namespace, trial_s: float, turns: int) -> int:
    """The trials that a duration has room for beside the windows at the end, each with its wait after a change.

    Raises:
        UsageError: it has no room for two.
    """
    text = args.duration or USUAL_DURATION
    settle_s = min(1.0, trial_s / 2) if args.settle is None else parse_duration_s(args.settle, "--settle")
    count = int(parse_duration_s(text, "--duration") / (trial_s + settle_s)) - 2 * turns
    if count < 2:
        raise UsageError(
            f"duration {text} is too short for a search: {2 * turns} windows of {trial_s:g} s are measured again at "
            "its end; give --trials, a shorter --trial-length or a smaller --remeasure"
        )
    return count


def _share(text: str) -> float:
    """The budget of harm.

    Raises:
        UsageError: it is no share between 0 and 1.
    """
    try:
        share = parse_quantity(text, "ratio")
    except UsageError as error:
        raise UsageError(f"--budget-of-harm: {error}") from None
    if not 0 < share <= 1:
        raise UsageError(f"--budget-of-harm {text} is not allowed: it must be more than 0 and at most 100%")
    return share
