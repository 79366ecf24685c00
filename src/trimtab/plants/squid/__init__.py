"""Squid: its caches and what is let into them, by reloads."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator

from trimtab.core import Clock, Finding, PlantDefaults, Role
from trimtab.plants import _findings
from trimtab.plants._own_file_plant import add_directory
from trimtab.plants.squid.findings import findings
from trimtab.plants.squid.plant import Squid
from trimtab.plants.squid.process import SquidMaster

DEFAULTS = PlantDefaults("trust_region", minimize="request_time_s", window="30s", roles=(Role.CACHE,), searched=True)
"""A cache has no workers to count, so it is searched; and it takes its time to fill."""
PLANT = Squid


def add_arguments(parser: argparse._ActionsContainer) -> None:
    """Adds the options for a Squid."""
    parser.add_argument("--pid", type=int, help="process id of Squid's master, when several run")
    parser.add_argument(
        "--manager-url",
        metavar="URL",
        help="its cache manager, such as http://127.0.0.1:3128/squid-internal-mgr/ (default: looked for)",
    )
    add_directory(parser)
    parser.add_argument(
        "--accept-lost-connections",
        action="store_true",
        help="reload although connections are lost by it, requests on their way to a cache_peer may be answered 502 "
        "and those that wait for a helper 403, or all wait for as long as Squid reads long lists",
    )
    parser.add_argument(
        "--allow-restart",
        action="store_true",
        help="move what only a new worker reads, too: it ends open connections and begins with an empty cache",
    )


def from_arguments(args: argparse.Namespace, clock: Clock) -> Squid:
    """The Squid that the command line names.

    Raises:
        UsageError: none or several run, or it cannot be read from here; the message says what is needed.
    """
    chosen = None if args.snippet_directory is None else args.snippet_directory.absolute()
    accept_lost, may_restart = args.accept_lost_connections, args.allow_restart
    return Squid.attach(clock, args.pid, args.manager_url, chosen, accept_lost, may_restart)


def probe() -> tuple[Finding, ...]:
    """Findings on each Squid that runs here."""
    return _findings.each("squid", SquidMaster.running(), findings, "start Squid")


@contextlib.contextmanager
def testbed() -> Iterator[tuple[str, ...]]:
    """A private Squid without an origin, and the words with which the command line names it."""
    # Not above: who tunes a server needs no testbed.
    from trimtab.plants.squid.private import SquidSpec, SquidTestbed

    with SquidTestbed(SquidSpec()) as bed:
        yield (*bed.words, "--accept-lost-connections", "--allow-restart")
