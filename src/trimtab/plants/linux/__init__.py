"""The kernel under running servers: slices, policies and nice levels of their threads, and swappiness, moved live."""

from __future__ import annotations

import argparse
import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from trimtab.core import Clock, Finding, PlantDefaults, Role
from trimtab.errors import UsageError
from trimtab.plants.linux import journal, putback, target
from trimtab.plants.linux.findings import findings
from trimtab.plants.linux.plant import Allowed, Linux

__all__ = ["DEFAULTS", "PLANT", "Linux", "add_arguments", "from_arguments", "probe", "testbed"]

DEFAULTS = PlantDefaults(
    "climb", "run_queue_wait_ratio", "5s", (Role.SLICE, Role.SCHEDULING_POLICY), on_exit="restore"
)
"""The wait for a CPU, of the time on it: it needs nothing of the server, and neither its load nor the length of a
slice changes it by itself."""
PLANT = Linux


def add_arguments(parser: argparse._ActionsContainer) -> None:
    """Adds the options for the servers."""
    parser.add_argument(
        "--server",
        action="append",
        default=[],
        metavar="PROGRAM",
        help="the server of this user whose program has that name, such as apache2; may be repeated",
    )
    parser.add_argument(
        "--pid", type=int, action="append", default=[], help="first process of a server; may be repeated"
    )
    parser.add_argument(
        "--cgroup",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="a control group with all its processes; may be repeated",
    )
    parser.add_argument(
        "--allow-machine-wide", action="store_true", help="offer the knobs that every process of this machine feels"
    )
    parser.add_argument(
        "--allow-real-time", action="store_true", help="offer SCHED_RR, under a watchdog, for as long as trimtab runs"
    )


def from_arguments(args: argparse.Namespace, clock: Clock) -> Linux:
    """The kernel under the servers that the command line names.

    Raises:
        UsageError: one does not run, or nothing of it can be moved from here.
    """
    try:
        found = target.find(args.server, args.pid, args.cgroup)
    except UsageError as error:
        raise UsageError(f"{error}{_left()}") from None
    return Linux(clock, found, Allowed(args.allow_machine_wide, args.allow_real_time))


def probe() -> tuple[Finding, ...]:
    """Which of the kernel's knobs exist here, which can be set, and why not the others."""
    return findings()


@contextlib.contextmanager
def testbed() -> Iterator[tuple[str, ...]]:
    """A process that sleeps, and the words with which the command line names it."""
    with subprocess.Popen(["/bin/sleep", "3600"], stdin=subprocess.DEVNULL) as process:
        try:
            yield ("--pid", str(process.pid))
        finally:
            process.kill()


def _left() -> str:
    """Advice on undoing an earlier run whose server has ended."""
    paths = [str(one.path) for one in journal.left()]
    return f"; what an earlier run set: python3 -I {putback.__file__} undo {' '.join(paths)}" if paths else ""
