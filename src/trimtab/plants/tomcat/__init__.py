"""Tomcat: its threads, connections, buffers and JDBC pools, by JMX while it serves."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator

from trimtab.core import Clock, Finding, PlantDefaults
from trimtab.plants import _findings
from trimtab.plants.tomcat.findings import chosen, findings
from trimtab.plants.tomcat.plant import Tomcat
from trimtab.plants.tomcat.process import TomcatProcess

DEFAULTS = PlantDefaults()
PLANT = Tomcat
_ENABLE = "start Tomcat, or be its user; one within an application's own jar, as Spring Boot's, cannot be steered"


def add_arguments(parser: argparse._ActionsContainer) -> None:
    """Adds the options for a Tomcat."""
    parser.add_argument("--pid", type=int, help="process id of Tomcat, when several run")
    parser.add_argument(
        "--allow-restart",
        action="store_true",
        help="move what needs a restart of a connector too: it takes nothing for a moment, and ends idle connections",
    )


def from_arguments(args: argparse.Namespace, clock: Clock) -> Tomcat:
    """The Tomcat that the command line names.

    Raises:
        UsageError: none or several run, or it cannot be attached to; the message says what is needed.
    """
    return Tomcat.attach(clock, args.pid, args.allow_restart)


def probe() -> tuple[Finding, ...]:
    """Findings on each Tomcat that runs here."""
    whose = "that this user may look into"
    looked_at, left = chosen(TomcatProcess.running())
    return (*_findings.each("tomcat", looked_at, findings, _ENABLE, whose), *left)


@contextlib.contextmanager
def testbed() -> Iterator[tuple[str, ...]]:
    """A private Tomcat with Debian's own connector, and the words with which the command line names it."""
    # Not above: who tunes a server needs no testbed.
    from trimtab.plants.tomcat.private import TomcatSpec, TomcatTestbed

    with TomcatTestbed(TomcatSpec()) as bed:
        yield ("--pid", str(bed.pid))
