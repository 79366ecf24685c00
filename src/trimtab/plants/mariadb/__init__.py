"""MariaDB: its buffers, caches and limits, by SET GLOBAL; what only a start reads, by a restart."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path

from trimtab.core import Clock, Finding, PlantDefaults
from trimtab.errors import UsageError
from trimtab.plants import _findings, _own_file
from trimtab.plants.mariadb import restart
from trimtab.plants.mariadb.credentials import Credentials
from trimtab.plants.mariadb.findings import findings
from trimtab.plants.mariadb.plant import Mariadb
from trimtab.plants.mariadb.process import MariadbServer

DEFAULTS = PlantDefaults(
    "trust_region", window="30s", knobs=("innodb_buffer_pool_size", "table_open_cache"), searched=True
)
PLANT = Mariadb


def add_arguments(parser: argparse._ActionsContainer) -> None:
    """Adds the options for a MariaDB."""
    parser.add_argument("--pid", type=int, help="process id of MariaDB, when several run")
    parser.add_argument(
        "--account", metavar="NAME", help="account of MariaDB without a password (default: this user's own name)"
    )
    parser.add_argument(
        "--defaults-file",
        type=Path,
        metavar="FILE",
        help="file with user and password under [client], which nobody else may be able to read",
    )
    parser.add_argument(
        "--allow-less-durable",
        action="store_true",
        help="may move innodb_flush_log_at_trx_commit: a crash may then lose the last second's commits",
    )
    parser.add_argument(
        "--allow-restart",
        action="store_true",
        help="may move what needs a restart of MariaDB by systemd, which ends every connection",
    )
    parser.add_argument(
        "--snippet-directory",
        type=Path,
        default=restart.DIRECTORY,
        metavar="DIR",
        help="included directory for trimtab's own file, with --allow-restart (default %(default)s)",
    )


def from_arguments(args: argparse.Namespace, clock: Clock) -> Mariadb:
    """The MariaDB that the command line names.

    Raises:
        UsageError: none or several run, or it cannot be read from here; the message says what is needed.
    """
    # Both stand in the undo script, which is run from anywhere.
    file = None if args.defaults_file is None else args.defaults_file.absolute()
    credentials = Credentials.chosen(args.account, file)
    directory = args.snippet_directory.absolute() if args.allow_restart else None
    try:
        return Mariadb.attach(clock, args.pid, credentials, args.allow_less_durable, None, directory)
    except UsageError as error:
        raise UsageError(f"{error}{_in_its_way(directory)}") from None


def _in_its_way(directory: Path | None) -> str:
    """What to add where no MariaDB runs, and one may not start with what a killed run has left; empty elsewhere."""
    if directory is None or MariadbServer.running():
        return ""
    for path in sorted(directory.glob(f"{Path(restart.NAME).stem}*.cnf")):  # of several instances each has its own
        with contextlib.suppress(UsageError):
            if left := _own_file.leftover(_own_file.read(path) or ""):
                back = "remove it" if left.before is None else "put back what it says was there before"
                return f"; {path}, of an earlier run, is read at its start: should MariaDB not start with it, {back}"
    return ""


def probe() -> tuple[Finding, ...]:
    """Findings on each MariaDB that runs here."""
    return _findings.each("mariadb", MariadbServer.running(), findings, "start MariaDB")


@contextlib.contextmanager
def testbed() -> Iterator[tuple[str, ...]]:
    """A private MariaDB with Debian's settings, and the words with which the command line names it."""
    # Not above: who tunes a server needs no testbed.
    from trimtab.plants.mariadb.private import MariadbSpec, MariadbTestbed

    with MariadbTestbed(MariadbSpec()) as bed:
        yield bed.words
