"""nginx: its processes, its connections and its keep-alive time, by reloads."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator

from trimtab.core import Clock, Finding, PlantDefaults
from trimtab.plants import _findings
from trimtab.plants.nginx.findings import findings
from trimtab.plants.nginx.knobs import LEAST_CUT_MS
from trimtab.plants.nginx.plant import Nginx
from trimtab.plants.nginx.process import Master

DEFAULTS = PlantDefaults("climb", minimize="request_time_s", knobs=("worker_processes",))
"""Its processes are no limit of workers, of which trim would know causes: so they are climbed, each step judged. The
keep-alive time has no method of its own here, so it does not stand in for them where they cannot be moved."""
PLANT = Nginx


def add_arguments(parser: argparse._ActionsContainer) -> None:
    """Adds the options for an nginx."""
    parser.add_argument("--pid", type=int, help="process id of nginx's master process, when several run")
    parser.add_argument("--status-url", metavar="URL", help="its page of stub_status (default: looked for)")
    parser.add_argument(
        "--edit-in-place",
        action="store_true",
        help="where the configuration itself sets a knob, change that one value there, and put it back on undo",
    )
    parser.add_argument(
        "--accept-lost-requests",
        action="store_true",
        help=f"reload although worker_shutdown_timeout, under {LEAST_CUT_MS // 1000} s, cuts requests in progress, "
        "it breaks connections over HTTP/3, loses replies to datagrams (udp), hides live streams (RTMP) from new "
        "viewers, or begins health checks of servers behind it anew",
    )


def from_arguments(args: argparse.Namespace, clock: Clock) -> Nginx:
    """The nginx that the command line names.

    Raises:
        UsageError: none or several run, or it cannot be read from here; the message says what is needed.
    """
    return Nginx.attach(clock, args.pid, args.status_url, args.edit_in_place, args.accept_lost_requests)


def probe() -> tuple[Finding, ...]:
    """Findings on each nginx that runs here."""
    return _findings.each("nginx", Master.running(), findings, "start nginx")


@contextlib.contextmanager
def testbed() -> Iterator[tuple[str, ...]]:
    """A private nginx, and the words with which the command line names it."""
    # Not above: who tunes a server needs no testbed.
    from trimtab.testbed.nginx import NginxSpec, NginxTestbed

    with NginxTestbed(NginxSpec(processes=2, status=True)) as bed:
        yield ("--pid", str(bed.pid), "--status-url", bed.status_url, "--edit-in-place")
