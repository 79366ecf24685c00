"""Move a server's settings by feedback until the objective is best, and follow when the workload changes.

It starts from what is in force, watches one window at a time, and makes bounded changes that the guards let pass.
Every window and change is stored before anything follows from it: 'trimtab runs' shows, replays and undoes what
was done. Ctrl-C ends the run cleanly. What a killed run had on trial is undone first; 'trimtab runs resume' goes on
with it instead.

example: trimtab tune apache --window 10s --duration 10m --report tuned.html
"""

from __future__ import annotations

import argparse
import math

from trimtab import discovery
from trimtab.cli._leftovers import CHANGING, attached_as_found
from trimtab.cli._plant import (
    CONTROLLERS,
    add_objective,
    add_plant,
    add_report,
    allowed_seed,
    chosen_controller,
    chosen_knobs,
    chosen_objective,
    defaults_of,
    refine,
    require_measured,
    stored_method,
    writable,
)
from trimtab.cli._run import KEPT_WINDOWS, RunRequest, execute, finish
from trimtab.cli._search import USUAL_DURATION, add_search, chosen_search, searching
from trimtab.cli._stop import stopping
from trimtab.core import PlantDefaults
from trimtab.errors import UsageError
from trimtab.records import Run
from trimtab.settings import Mode, Settings
from trimtab.trials import Search
from trimtab.units import parse_duration_s

__all__ = ["add_arguments", "refine", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of this verb; `refine` adds those of the plant."""
    add_plant(parser)
    there = ", ".join(discovery.names(CONTROLLERS))
    usual, own = PlantDefaults(), " where the plant has no other"
    parser.add_argument("--controller", metavar="NAME", help=f"one of {there} (default {usual.controller}{own})")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the controller; may be repeated",
    )
    add_objective(parser)
    parser.add_argument(
        "--knob",
        action="append",
        default=[],
        metavar="PATTERN",
        help="a knob to move, or a pattern such as 'web.*'; may be repeated (default: the plant's own choice, "
        "mostly its limit of workers, or its first; of a stack what its file says, else all)",
    )
    parser.add_argument(
        "--window", "--trial-length", help=f"length of a window, or of a trial (default {usual.window}{own})"
    )
    parser.add_argument(
        "--duration", help=f"length of the run, of a search about (default {USUAL_DURATION}; excludes --trials)"
    )
    add_search(parser)
    parser.add_argument("--settle", help="wait after a change (default: a second, at most half a window)")
    parser.add_argument(
        "--mode",
        choices=[mode.value for mode in Mode],
        default=Mode.AUTONOMOUS.value,
        help="how far to go on its own: only look; say what it would do (a search does neither, it has to try); ask "
        "before each change, but not before one that takes back what is on trial; or make it (default)",
    )
    parser.add_argument(
        "--on-exit", choices=["keep", "restore"], help=f"what to leave in force (default {usual.on_exit}{own})"
    )
    parser.add_argument(
        "--keep-windows",
        type=int,
        default=KEPT_WINDOWS,
        metavar="N",
        help=f"of a long run store only about the last N windows (default {KEPT_WINDOWS})",
    )
    add_report(parser)


def run(args: argparse.Namespace, killed: Run | None = None) -> int:
    """Starts a run, or goes on with one that was killed, by its plan.

    Raises:
        UsageError: an argument is wrong, or the plant cannot be changed from here; nothing was changed.
        TrimtabError: it could not be done.
    """
    if args.keep_windows < 1:
        raise UsageError(f"--keep-windows {args.keep_windows} is too few: it must be at least 1")
    usual = defaults_of(args)
    search = None
    if killed is None:
        search = chosen_search(args, usual)
        settings, wanted = _settings(args, usual, search), args.knob or usual.knobs
        name = args.controller or usual.controller
        controller = chosen_controller(name, settings.objective, args.option)
        controller = searching(controller, search, name, args.remeasure is not None, settings.mode)
    else:
        name, controller, settings = stored_method(killed.plan)
        wanted = [knob.name for knob in killed.plan.knobs]
    writable(args.report, "the report")
    with stopping() as stop, attached_as_found(args, settings.mode, killed is not None) as plant:
        require_measured(plant, settings.objective.metrics)
        knobs = chosen_knobs(plant, wanted, usual.roles)
        controller.start(knobs, settings.seed)
        if settings.mode in CHANGING:
            plant.undo_killed()
            plant.check_permissions()
        job = RunRequest(name, controller, knobs, settings, keep_windows=args.keep_windows)
        ended = execute(args, plant, job, stop, killed)
    return finish(args, ended, stop)


def _settings(args: argparse.Namespace, usual: PlantDefaults, search: Search | None) -> Settings:
    """How the run goes.

    Args:
        args: the command line.
        usual: how its plant is tuned where it says nothing.
        search: its search, which ends by its trials; None where it has none.

    Raises:
        UsageError: a duration, a metric or the seed is wrong, or the window or the wait is longer than the duration.
    """
    duration_s = math.inf if search is not None else parse_duration_s(args.duration or USUAL_DURATION, "--duration")
    settle_s = None if args.settle is None else parse_duration_s(args.settle, "--settle")
    # Not in the settings themselves: a stored run of an earlier version may have such a wait, and has to be read.
    if settle_s is not None and settle_s >= duration_s:
        raise UsageError(
            f"the wait after a change ({settle_s:g} s) must be shorter than the duration ({duration_s:g} s)"
        )
    return Settings(
        window_s=parse_duration_s(args.window or usual.window, "--window"),
        duration_s=duration_s,
        objective=chosen_objective(args),
        mode=Mode(args.mode),
        settle_s=settle_s,
        restore=(args.on_exit or usual.on_exit) == "restore",
        seed=allowed_seed(args.seed),
    )
