"""Show a server's live readings, touching nothing.

Reads every sensor that works here, window after window, and changes nothing; needs no permission to reload. With
--store the windows are kept as a run. Of a keep-alive time it draws the request intervals with the time marked, and
says how many connections were cut in a burst and in thought, and what that saves in held workers.

example: trimtab observe apache --window 5s --duration 1m
example: trimtab observe keep-alive
"""

from __future__ import annotations

import argparse
import contextlib
import math
from collections.abc import Callable, Iterator

from trimtab import own
from trimtab.cli._plant import (
    add_objective,
    add_plant,
    allowed_seed,
    attached,
    chosen_objective,
    refine,
    require_measured,
)
from trimtab.cli._progress import Lines, Quietly, rows_of, showing
from trimtab.cli._stop import exit_code, stopping
from trimtab.controllers.static import Static
from trimtab.core import Plant
from trimtab.decision import Oversight
from trimtab.errors import TrimtabError
from trimtab.events import Event, Status, WindowDone
from trimtab.host import facts
from trimtab.loop import Loop
from trimtab.metrics import known
from trimtab.observer import Stop
from trimtab.records import Plan
from trimtab.settings import Mode, Settings
from trimtab.store import Store
from trimtab.units import parse_duration_s

__all__ = ["add_arguments", "refine", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of this verb; `refine` adds those of the plant."""
    add_plant(parser, "keep the windows in this run store (default: they are not kept)")
    add_objective(parser)
    parser.add_argument("--window", default="5s", help="length of a window (default 5s)")
    parser.add_argument("--duration", help="when to end (default: when stopped)")
    parser.add_argument("--all", action="store_true", help="below each window, every reading on a line of its own")


def run(args: argparse.Namespace) -> int:
    """Observes.

    Raises:
        UsageError: an argument is wrong, or there is nothing to observe.
        TrimtabError: the server ended.
    """
    duration_s = math.inf if args.duration is None else parse_duration_s(args.duration, "--duration")
    objective = chosen_objective(args)
    seed = allowed_seed(args.seed)
    settings = Settings(parse_duration_s(args.window, "--window"), duration_s, objective, Mode.OBSERVE, seed=seed)
    with stopping(suspends=True) as stop, attached(args) as plant:
        # Who names no objective wants to see what there is.
        require_measured(plant, objective.metrics[0 if args.minimize or args.maximize else 1 :])
        store = Store(args.store)
        plan = Plan(
            args.command,
            own.working_directory(),
            plant.subjects,
            plant.knobs(),
            "static",
            {},
            settings,
            dict(plant.configuration()),
            facts(),
            extras=plant.extras,
        )
        # A store in memory alone is read by nobody.
        writer = store.begin(plan, None if args.store else 1)
        with _shown(args, plan, plant, stop) as tell:
            outcome = Loop(plant, (), Static(objective), Oversight(()), writer, settings, stop, tell).run()
        store.close()
    if outcome.status is Status.GONE:
        raise TrimtabError(outcome.detail)
    return exit_code(stop.reason)


@contextlib.contextmanager
def _shown(args: argparse.Namespace, plan: Plan, plant: Plant, stop: Stop) -> Iterator[Callable[[Event], None]]:
    """Shows the windows while they come."""
    if args.all:
        known()  # loads all plants and sensors; the first window would take as long to show, and hide the next ones
    knobs = plant.knobs()
    rows = rows_of([knob.name for knob in knobs] or sorted(plan.initial), plan.settings.objective, knobs)
    with showing(
        args.json, rows, plan.settings, stop, decides=False, knobs=knobs, drawing=plant.drawing(), live=not args.all
    ) as tell:

        def told(event: Event) -> None:
            tell(event)
            if args.all and not args.json and isinstance(event, WindowDone):
                Lines(rows, False).readings(event.window)

        yield Quietly(told, stop)
