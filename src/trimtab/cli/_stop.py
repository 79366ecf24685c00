"""Signals as a request to stop: heeded where the loop waits, so that no change is left half made.

One that hangs up a terminal is no such request to what was started with `nohup`, that is with SIGHUP ignored.
Ctrl-Z is refused, but by what changes nothing: a change might be half made just then, with a server's first process
held still, and nobody would watch what is on trial.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from trimtab.core.move import Move
from trimtab.errors import TrimtabError, UsageError
from trimtab.observer import Stop

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Handler = Callable[[int, FrameType | None], None]


@contextlib.contextmanager
def stopping(*, suspends: bool = False) -> Iterator[Stop]:
    """A request that SIGINT, SIGTERM and SIGHUP set while this lasts.

    Args:
        suspends: whether Ctrl-Z (SIGTSTP) does what it usually does.
    """
    stop = Stop()

    def handle(number: int, frame: FrameType | None) -> None:
        stop.reason = signal.Signals(number).name

    with handling(handle), contextlib.nullcontext() if suspends else handling(_refuse, (signal.SIGTSTP,)):
        yield stop


def _refuse(number: int, frame: FrameType | None) -> None:
    """Says why the process goes on; not by a stream of Python's, in the middle of whose writing it may be."""
    with contextlib.suppress(OSError):
        os.write(2, b"\ntrimtab: it goes on, because nobody would watch what is on trial; Ctrl-C ends the run\n")


@contextlib.contextmanager
def handling(handler: Handler, signals: Sequence[signal.Signals] = SIGNALS) -> Iterator[None]:
    """Gives signals to a handler while this lasts: by default every one to stop."""
    hung_up = signal.getsignal(signal.SIGHUP) != signal.SIG_IGN
    before = {number: signal.signal(number, handler) for number in signals if hung_up or number != signal.SIGHUP}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def exit_code(reason: str) -> int:
    """128 + n after signal n; 0 where nothing has stopped it.

    Raises:
        TrimtabError: something else has stopped it.
    """
    if reason and reason not in signal.Signals.__members__:
        raise TrimtabError(f"stopped by {reason}")
    return 128 + signal.Signals[reason] if reason else 0


def terminal_approval(stop: Stop) -> Callable[[Move], bool]:
    """Asks for each change on the terminal; a request to stop while it waits is a no.

    Raises:
        UsageError: there is no terminal.
    """
    if not sys.stdin.isatty():
        raise UsageError("the mode approve asks before each change, and standard input is not a terminal")

    def approve(move: Move) -> bool:
        changes = ", ".join(f"{name} = {value}" for name, value in move.changes.items())
        with contextlib.suppress(OSError):  # the terminal has gone: nobody says yes
            print(f"set {changes}? {move.reason} [y/N] ", end="", file=sys.stderr, flush=True)
            while not stop:
                if select.select([sys.stdin], [], [], 0.25)[0]:
                    return sys.stdin.readline().strip().lower() in ("y", "yes")
        return False

    return approve
