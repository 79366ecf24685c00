"""Signals as a request to stop: heeded where the loop waits, so that no change is left half made.

One that hangs up a terminal is no such request to what was started with `nohup`, that is with SIGHUP ignored.
Ctrl-Z is refused, but by what changes nothing: a change might be half made just then, with a server's first process
held still, and nobody would watch what is on trial.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from trimtab.core import Knob, Move, in_words
from trimtab.errors import TrimtabError, UsageError
from trimtab.observer import Stop
from trimtab.trust import printable

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


def terminal_approval(
    stop: Stop, knobs: Sequence[Knob] = (), patience_s: float = math.inf
) -> Callable[[Move], bool | None]:
    """Asks for each change on the terminal; a request to stop while it waits is a no.

    What was typed before a question was asked for the first time is no answer to it.

    Args:
        stop: the request to stop.
        knobs: the knobs, for the names of choices.
        patience_s: for how long to wait, in seconds; then the answer is None, and is read when it is asked again.

    Raises:
        UsageError: there is no terminal.
    """
    if not sys.stdin.isatty():
        raise UsageError("the mode approve asks before each change, and standard input is not a terminal")

    asked = ""

    def approve(move: Move) -> bool | None:
        nonlocal asked
        question = printable(f"set {in_words(move.changes, knobs)}? {move.reason} [y/N] ")
        with contextlib.suppress(OSError, termios.error):  # the terminal has gone: nobody says yes
            if question != asked:
                termios.tcflush(sys.stdin, termios.TCIFLUSH)
            early = bool(select.select([sys.stdin], [], [], 0)[0])
            print(question, end="", file=sys.stderr, flush=True)
            asked, until_s = question, time.monotonic() + patience_s
            while not stop:
                if select.select([sys.stdin], [], [], 0.25)[0]:
                    asked, answer = "", sys.stdin.readline().strip()
                    if early:  # the terminal has shown it above
                        print(printable(answer), file=sys.stderr)
                    return answer.lower() in ("y", "yes")
                if time.monotonic() > until_s:
                    print(file=sys.stderr)
                    return None
        return False

    return approve
