"""PHP-FPM: the workers of a pool and how they are managed, by reloads."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator

from trimtab.core import Clock, Finding, PlantDefaults
from trimtab.plants import _findings
from trimtab.plants._own_file_plant import add_directory
from trimtab.plants.php_fpm.attached import LEAST_S
from trimtab.plants.php_fpm.findings import findings
from trimtab.plants.php_fpm.plant import PhpFpm
from trimtab.plants.php_fpm.process import FpmMaster

DEFAULTS = PlantDefaults()
PLANT = PhpFpm


def add_arguments(parser: argparse._ActionsContainer) -> None:
    """Adds the options for an FPM."""
    parser.add_argument("--pid", type=int, help="process id of FPM's master, when several run")
    parser.add_argument("--pool", metavar="NAME", help="the pool (default: the only one)")
    add_directory(parser)
    parser.add_argument(
        "--fpm-option",
        action="append",
        default=[],
        metavar="WORD",
        help="a word of what FPM was started with beside -y and its file, which its title hides, such as "
        "--fpm-option=-c --fpm-option=/etc/own.ini; may be repeated",
    )
    parser.add_argument(
        "--accept-lost-requests",
        action="store_true",
        help=f"reload although process_control_timeout is under {LEAST_S} s and requests in progress are lost by it",
    )


def from_arguments(args: argparse.Namespace, clock: Clock) -> PhpFpm:
    """The pool that the command line names.

    Raises:
        UsageError: none or several run, or it cannot be read from here; the message says what is needed.
    """
    undoes = getattr(args, "undo", False)
    return PhpFpm.attach(
        clock, args.pid, args.pool, args.snippet_directory, args.fpm_option, args.accept_lost_requests, undoes
    )


def probe() -> tuple[Finding, ...]:
    """Findings on each FPM that runs here."""
    return _findings.each("php-fpm", FpmMaster.running(), findings, "start PHP-FPM")


@contextlib.contextmanager
def testbed() -> Iterator[tuple[str, ...]]:
    """A private FPM with Debian's own pool, and the words with which the command line names it."""
    # Not above: who tunes a server needs no testbed.
    from trimtab.plants.php_fpm.private import FpmSpec, FpmTestbed

    with FpmTestbed(FpmSpec()) as bed:
        yield ("--pid", str(bed.pid))
