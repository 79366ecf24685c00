"""`trimtab lab up shop`: a private shop until it is told to stop, and the file with which `tune stack` finds it."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType

from trimtab import codec
from trimtab.cli._plant import writable
from trimtab.cli._stop import SIGNALS, exit_code, handling
from trimtab.errors import TrimtabError, UsageError
from trimtab.files import read_regular, write_whole
from trimtab.observer import Stop
from trimtab.testbed.shop import FIRST_LINE, Shop, ShopSpec, shop, stack_text

_LOOK_S = 0.25


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the shop."""
    shape = ShopSpec()
    parser.add_argument("shop", choices=["shop"], help="Squid, Tomcat with a bookstore, and MariaDB")
    parser.add_argument("--items", type=int, choices=(1000, 10_000), default=shape.items, help="books (default 1000)")
    parser.add_argument(
        "--browsers", type=int, default=100, metavar="N", help="browsers it is for: 2880 customers each (default 100)"
    )
    parser.add_argument("--cores", type=float, default=0.5, help="CPU time per second of each tier (default 0.5)")
    parser.add_argument(
        "--best-sellers-cache",
        type=int,
        default=shape.best_sellers_cache_s,
        metavar="SECONDS",
        help="keep a list of best sellers for up to 30 s, as the specification allows (default 0: never)",
    )
    parser.add_argument(
        "--stack", type=Path, default=Path("shop.toml"), metavar="FILE", help="where 'tune stack' finds the tiers"
    )
    parser.add_argument("--json", action="store_true", help="one line of JSON per step, and one with the shop")


def run(args: argparse.Namespace) -> int:
    """Starts it, prints its address, and ends it on a signal.

    Raises:
        UsageError: a value is not allowed, or something is not installed.
        TrimtabError: a server did not start, or has ended by itself.
    """
    if not 0 < args.cores <= (os.cpu_count() or 1):
        raise UsageError(f"--cores {args.cores:g}: more than 0, at most {os.cpu_count()} are allowed")
    plain = ShopSpec()
    spec = ShopSpec(
        *(args.items, args.browsers, args.best_sellers_cache),
        proxy=replace(plain.proxy, cores=args.cores),
        application=replace(plain.application, cores=args.cores),
        database=replace(plain.database, cores=args.cores),
    )
    _require_ours(args.stack)
    say, stop = _sayer(args.json), Stop()
    try:
        with handling(_interrupting(stop)), shop(spec, say) as running:
            write_whole(args.stack, stack_text(running))
            print(_announcement(running, args.stack, args.json), flush=True)
            while True:
                _require_alive(running)
                time.sleep(_LOOK_S)
    except KeyboardInterrupt:
        left = f" but {args.stack}" if args.stack.exists() else ""
        say(f"the shop is closed, and nothing of it is left{left}")
    return exit_code(stop.reason)


def _interrupting(stop: Stop) -> Callable[[int, FrameType | None], None]:
    """A handler of signals that ends what is under way, says so, and ignores further ones: all is cleared away."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        for one in SIGNALS:
            signal.signal(one, signal.SIG_IGN)
        stop.reason = signal.Signals(number).name
        with contextlib.suppress(OSError):  # not by print, in the middle of which this may be
            os.write(2, b"closing the shop\n")
        raise KeyboardInterrupt

    return interrupt


def _announcement(running: Shop, file: Path, as_json: bool) -> str:
    """Announcement of a shop that runs."""
    if as_json:
        tiers = {
            name: {"plant": plant, "pid": bed.pid, "port": bed.port, "limits": bed.confinement}
            for name, bed, plant in running.tiers
        }
        return codec.encode_strict({"url": running.url, "stack": os.fspath(file), "tiers": tiers})
    rows = [
        f"  {name:<12} {plant:<8} process {bed.pid}, port {bed.port}, {bed.confinement}"
        for name, bed, plant in running.tiers
    ]
    head = [f"the shop is open: {running.url}", *rows, "", f"{file}:", "", stack_text(running).rstrip(), ""]
    return "\n".join([*head, f"next: trimtab tune stack {file}", "Ctrl-C closes the shop"])


def _sayer(as_json: bool) -> Callable[[str], None]:
    started = time.monotonic()

    def say(text: str) -> None:
        seconds = time.monotonic() - started
        line = codec.encode_strict({"step": text, "seconds": round(seconds, 1)})
        print(line if as_json else f"{seconds:6.1f} s  {text}", flush=True)

    return say


def _require_ours(file: Path) -> None:
    """Makes sure that a file can be written and is nobody's work.

    Raises:
        UsageError: it cannot, or it was written by somebody else.
    """
    writable(file, "the stack")
    there = read_regular(file)
    if there and not there.startswith(FIRST_LINE):
        raise UsageError(f"{file} was not written by 'trimtab lab up shop': choose another name with '--stack FILE'")


def _require_alive(running: Shop) -> None:
    """Makes sure that all tiers run.

    Raises:
        TrimtabError: one has ended.
    """
    for name, bed, plant in running.tiers:
        if not bed.running():
            raise TrimtabError(f"the {name} ({plant}, process {bed.pid}) has ended by itself")
