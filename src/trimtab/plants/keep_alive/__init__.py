"""The keep-alive time of an unmodified server under `trimtab run`, moved live."""

from __future__ import annotations

import argparse
import os

from trimtab.clock import SystemClock
from trimtab.core import Clock, Finding, PlantDefaults
from trimtab.errors import TrimtabError
from trimtab.gate import run_directory
from trimtab.gate.run_directory import RunDirectory
from trimtab.gate.server import steerable
from trimtab.plants.gate.private import keep_alive as testbed
from trimtab.plants.keep_alive.knobs import KNOB
from trimtab.plants.keep_alive.plant import KeepAlive

__all__ = ["DEFAULTS", "KNOB", "PLANT", "KeepAlive", "add_arguments", "from_arguments", "probe", "testbed"]

DEFAULTS = PlantDefaults("keep-alive-cost", "accept_queue_delay_s", "2s")
"""The objective is not the workers that idle connections hold: on a full server a freed one is taken at once."""
PLANT = KeepAlive


def add_arguments(parser: argparse._ActionsContainer) -> None:
    """Adds the options for a run."""
    parser.add_argument("--name", help="name of the run, as given to 'trimtab run', when several are alive")


def from_arguments(args: argparse.Namespace, clock: Clock) -> KeepAlive:
    """The keep-alive time of the run that the command line names.

    Raises:
        UsageError: none or several run, or its mapped file cannot be used from here.
    """
    run_dir = steerable(args.name)
    owner = run_dir.owner()
    return KeepAlive(clock, run_dir, appointed=owner is not None and owner.pid == os.getppid())


def probe() -> tuple[Finding, ...]:
    """Findings on each run that is alive."""
    alive = run_directory.running()
    if not alive:
        how = "start a server with 'trimtab run --keep-alive auto -- SERVER ...'"
        return (Finding("keep-alive", False, "no server runs under trimtab", how),)
    return tuple(_finding(one) for one in alive)


def _finding(run_dir: RunDirectory) -> Finding:
    """Finding on one run."""
    subject = f"keep-alive {run_dir.name}"
    try:
        plant = KeepAlive(SystemClock(), run_dir)
    except TrimtabError as error:
        return Finding(subject, False, str(error), "run as the user who started 'trimtab run', or as root")
    now = plant.time.setting()
    plant.close()
    return Finding(subject, True, f"{now}; moved live with 'trimtab keep-alive set'")
