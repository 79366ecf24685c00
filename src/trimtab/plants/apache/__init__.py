"""Apache httpd 2.4: its workers and its keep-alive time, by graceful reloads."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator

from trimtab.core import Clock, Finding, PlantDefaults, Role
from trimtab.plants import _findings
from trimtab.plants._own_file_plant import add_directory
from trimtab.plants.apache.findings import findings
from trimtab.plants.apache.plant import Apache
from trimtab.plants.apache.process import Parent

__all__ = ["DEFAULTS", "PLANT", "Apache", "add_arguments", "from_arguments", "probe", "testbed"]

DEFAULTS = PlantDefaults(minimize="request_time_s", roles=(Role.WORKER_LIMIT, Role.KEEP_ALIVE))
"""A time that a client would recognise, and the lever that the evidence points at."""
PLANT = Apache


def add_arguments(parser: argparse._ActionsContainer) -> None:
    """Adds the options for an Apache."""
    parser.add_argument("--pid", type=int, help="process id of Apache's parent process, when several run")
    parser.add_argument("--status-url", metavar="URL", help="its status page (default: looked for)")
    add_directory(parser)
    parser.add_argument(
        "--accept-lost-requests",
        action="store_true",
        help="reload although it ends daemons of mod_wsgi or programs of mod_fcgid with what they serve, or "
        "connections that wait at sockets of ListenCoresBucketsRatio, leaves processes that have served an "
        "application of mod_wsgi in their places of ServerLimit, or sends requests to members of balancers that "
        "health checks have taken out",
    )


def from_arguments(args: argparse.Namespace, clock: Clock) -> Apache:
    """The Apache that the command line names.

    Raises:
        UsageError: none or several run, or it cannot be read from here; the message says what is needed.
    """
    return Apache.attach(clock, args.pid, args.status_url, args.snippet_directory, args.accept_lost_requests)


def probe() -> tuple[Finding, ...]:
    """Findings on each Apache that runs here."""
    return _findings.each("apache", Parent.running(), findings, "start Apache (apache2 or httpd)")


@contextlib.contextmanager
def testbed() -> Iterator[tuple[str, ...]]:
    """A small private prefork, and the words with which the command line names it."""
    # Not above: who tunes a server needs no testbed.
    from trimtab.testbed.apache import ApacheSpec, ApacheTestbed

    spec = ApacheSpec("prefork", max_request_workers=8, server_limit=16, keep_alive_timeout_ms=300)
    with ApacheTestbed(spec) as bed:
        yield ("--pid", str(bed.pid), "--status-url", bed.status_url)
