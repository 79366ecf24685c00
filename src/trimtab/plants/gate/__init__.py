"""The gate in front of an unmodified server: classes of clients, their budgets, and M, moved live."""

from __future__ import annotations

import argparse

from trimtab.clock import SystemClock
from trimtab.core import Clock, Finding
from trimtab.errors import PlantGone, UsageError
from trimtab.gate import run_directory
from trimtab.gate.run_directory import RunDirectory
from trimtab.plants.gate.plant import Gate
from trimtab.plants.gate.private import gate as testbed
from trimtab.sensors import shim

__all__ = ["PLANT", "Gate", "add_arguments", "from_arguments", "probe", "testbed"]

PLANT = Gate


def add_arguments(parser: argparse._ActionsContainer) -> None:
    """Adds the options for a gate."""
    parser.add_argument("--name", help="name of the run, as given to 'trimtab run', when several are alive")


def from_arguments(args: argparse.Namespace, clock: Clock) -> Gate:
    """The gate that the command line names.

    Raises:
        UsageError: none or several run, or it may not be steered from here.
        PlantGone: the gate does not answer.
    """
    return Gate(clock, run_directory.chosen(args.name))


def probe() -> tuple[Finding, ...]:
    """Findings on each run that is alive."""
    alive = run_directory.running()
    if not alive:
        how = "start a server with 'trimtab run --gate SPEC -- SERVER ...'"
        return (Finding("gate", False, "no server runs under trimtab", how),)
    return tuple(found for one in alive for found in (_finding(one), *shim.probe(one.shared)))


def _finding(run_dir: RunDirectory) -> Finding:
    """Finding on one run."""
    subject = f"gate {run_dir.name}"
    try:
        gate = Gate(SystemClock(), run_dir)
    except UsageError as error:
        return Finding(subject, False, str(error), "run as the user who started it, with a gate")
    except PlantGone as error:
        return Finding(subject, False, str(error), "start the server anew with 'trimtab run --gate SPEC'")
    now = ", ".join(f"{name} {value}" for name, value in gate.configuration().items())
    gate.close()
    return Finding(subject, True, f"{now}; moved live over {run_dir.control}")
