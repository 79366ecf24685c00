"""Show a server's live readings, touching nothing.

Reads every sensor that works here, window after window, and changes nothing; needs no permission to reload. With
--store the windows are kept as a run. Of a keep-alive time it draws the request intervals with the time marked, and
says how many connections were cut in a burst and in thought, and what that saves in held workers.

example: trimtab observe apache --window 5s --duration 1m
example: trimtab observe keep-alive
"""

from __future__ import annotations

import argparse
import math
import os

from trimtab.cli._keep_alive_view import KeepAliveView
from trimtab.cli._plant import add_objective, add_plant, attached, chosen_objective, refine, require_measured
from trimtab.cli._progress import Lines, json_lines, quietly
from trimtab.cli._stop import exit_code, stopping
from trimtab.controllers.static import Static
from trimtab.decision import Oversight
from trimtab.errors import TrimtabError
from trimtab.events import Event, Status, WindowDone
from trimtab.host import facts
from trimtab.loop import Loop
from trimtab.plants.keep_alive import KeepAlive
from trimtab.records import Plan
from trimtab.settings import Mode, Settings
from trimtab.store import Store
from trimtab.units import parse_duration_s

__all__ = ["add_arguments", "refine", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of this verb; `refine` adds those of the plant."""
    add_plant(parser)
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
    duration_s = math.inf if args.duration is None else parse_duration_s(args.duration)
    objective = chosen_objective(args)
    settings = Settings(parse_duration_s(args.window), duration_s, objective, Mode.OBSERVE, seed=args.seed)
    with stopping() as stop, attached(args) as plant:
        require_measured(plant, objective)
        store = Store(args.store)
        initial = dict(plant.configuration())
        plan = Plan(args.command, os.getcwd(), plant.subjects, (), "static", {}, settings, initial, facts())
        names, knobs = sorted(plan.initial), plant.knobs()
        lines = Lines(names, objective.metric, decides=False, limits=objective.limits, described=knobs)
        if isinstance(plant, KeepAlive):
            lines = KeepAliveView(plant, limits=objective.limits)

        def tell(event: Event) -> None:
            if args.json:
                json_lines(event)
                return
            lines(event)
            if args.all and isinstance(event, WindowDone):
                lines.readings(event.window)

        if not args.json:
            lines.header()
        # What is kept in memory alone is read by nobody.
        writer = store.begin(plan, None if args.store else 1)
        loop = Loop(plant, (), Static(objective), Oversight(()), writer, settings, stop, quietly(tell, stop))
        outcome = loop.run()
        store.close()
    if stop.reason == "SIGPIPE":
        raise BrokenPipeError
    if outcome.status is Status.GONE:
        raise TrimtabError(outcome.detail)
    return exit_code(stop.reason)
