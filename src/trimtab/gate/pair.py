"""The gate's two processes as `trimtab run` sees them: started, watched, started anew when both have died, and ended.

Guardian and gate share the descriptors of all connections, and the one starts the other anew without a loss. Only
when both are gone do the server's workers accept for themselves; a new pair then takes over again. Restarts are
bounded: a gate that dies each time it starts must not keep the server from serving.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections import deque
from collections.abc import Callable

from trimtab import codec, native
from trimtab.core.sensor import Clock
from trimtab.errors import PlantError, PlantGone, TrimtabError
from trimtab.gate.link import Link
from trimtab.gate.run_directory import RunDirectory
from trimtab.gate.spawn import ended, spawn
from trimtab.gate.start import Start
from trimtab.trust import printable

START_PATIENCE_S = 10.0
END_PATIENCE_S = 7.0
ORDER_PATIENCE_S = 3.0
"""For the order to end, which a busy machine may need; a gate that does not hear it is killed."""
MOST_RESTARTS = 5
WITHIN_S = 60.0
_STEP_S = 0.02
_LONGEST_LINE = 4096
_ANSWER_S = 0.5
"""Time for one order in the start, which a busy machine may need."""


class Pair:
    """The gate of one run.

    Args:
        run_dir: the run directory, with the mapped file in it.
        line: the start line.
        clock: for the waits.
        say: told what the gate says and what becomes of it, one line at a time.

    Raises:
        NativeError: the native program is not installed.
        TrimtabError: the gate did not start.
    """

    def __init__(self, run_dir: RunDirectory, line: Start, clock: Clock, say: Callable[[str], None]) -> None:
        self._run_dir, self._line, self._clock, self._say = run_dir, line, clock, say
        self._program = os.fspath(native.program())
        self._pid = 0
        self._stdin = -1
        self._said: deque[str] = deque(maxlen=3)
        self._listener: threading.Thread | None = None
        self._starts: list[float] = []
        self._running = self._alone = False
        self._start()

    def watch(self) -> None:
        """Starts a new pair when both processes have died; to be called now and then."""
        if self._pid and ended(self._pid) is not None:
            self._forget()
            self._alone = self._run_dir.gated()
            if self._alone:
                self._say("the gate's guardian has ended; the gate goes on")
            else:
                self._start_anew()
        elif self._alone and not self._run_dir.gated():
            self._alone = False
            self._start_anew()

    def stop(self) -> None:
        """Ends both processes; may be called twice."""
        if self._pid == 0 and not self._run_dir.gated():
            return
        link = Link(self._run_dir, self._clock, patience_s=ORDER_PATIENCE_S)
        with contextlib.suppress(PlantError):
            link.stop()
        link.close()
        if self._pid == 0:
            return
        os.close(self._stdin)
        self._stdin = -1
        if not self._ends(END_PATIENCE_S):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)
            self._ends(END_PATIENCE_S)
        self._forget(words_s=END_PATIENCE_S)

    def _start_anew(self) -> None:
        """Starts a new pair, unless too many have ended of late."""
        now_s = self._clock.now_s()
        self._starts = [at_s for at_s in self._starts if now_s - at_s < WITHIN_S]
        if len(self._starts) > MOST_RESTARTS:
            self._say(
                f"the gate has ended {len(self._starts)} times in {WITHIN_S:g} s; the server goes on without it"
            )
            return
        self._say("the gate has ended; starting it anew")
        try:
            self._start()
        except TrimtabError as error:
            self._say(f"{error}; the server goes on without it")

    def _start(self) -> None:
        """Starts both processes and returns when orders are taken.

        Raises:
            TrimtabError: they ended or did not answer; the message carries what they said.
        """
        self._starts.append(self._clock.now_s())
        errors = self._spawned()
        self._listener = threading.Thread(target=self._listen, args=(errors,), name="trimtab-gate", daemon=True)
        self._listener.start()
        with contextlib.suppress(BrokenPipeError):
            os.write(self._stdin, codec.encode(self._line).encode() + b"\n")
        deadline = self._clock.now_s() + START_PATIENCE_S
        while not self._answers():
            code = ended(self._pid)
            if code is not None or self._clock.now_s() > deadline:
                why = f"ended with {code}" if code is not None else f"did not answer within {START_PATIENCE_S:g} s"
                if code is None:
                    os.killpg(self._pid, signal.SIGKILL)
                    self._ends(END_PATIENCE_S)
                self._forget()
                raise TrimtabError(f"the gate {why}: {' '.join(self._said) or 'it said nothing'}")
            self._clock.sleep(_STEP_S)
        self._running = True

    def _spawned(self) -> int:
        """Starts the guardian, and gives the descriptor at which its messages come.

        Raises:
            TrimtabError: the machine has no room for another process now, or for its descriptors.
        """
        opened = list[int]()
        try:
            for _ in range(2):
                opened += os.pipe()
            opened.append(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC))
            theirs, ours, errors, their_errors, null = opened
            files = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate((theirs, null, their_errors))]
            self._pid = spawn([self._program, "gate"], os.environ, files)
        except OSError as error:
            for fd in opened:
                os.close(fd)
            raise TrimtabError(f"the gate cannot be started: {error.strerror}") from None
        for fd in (theirs, null, their_errors):
            os.close(fd)
        self._stdin = ours
        return errors

    def _answers(self) -> bool:
        if not self._run_dir.gated():
            return False
        link = Link(self._run_dir, self._clock, patience_s=_ANSWER_S)
        try:
            link.apply({})
        except PlantGone:
            return False
        finally:
            link.close()
        return True

    def _ends(self, patience_s: float) -> bool:
        """Whether the child has ended in that time."""
        deadline = self._clock.now_s() + patience_s
        while ended(self._pid) is None:
            if self._clock.now_s() > deadline:
                return False
            self._clock.sleep(_STEP_S)
        return True

    def _forget(self, words_s: float = 1.0) -> None:
        """Closes the descriptors of a child that has ended.

        Args:
            words_s: how long to wait for its last words; a gate that goes on without its guardian keeps them open.
        """
        self._pid = 0
        if self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1
        if self._listener is not None:
            self._listener.join(timeout=words_s)
            self._listener = None
        self._running = False  # after its last words, which are passed on while it runs alone

    def _listen(self, errors: int) -> None:
        """Passes on the gate's messages until it and its guardian have closed their standard error."""
        with os.fdopen(errors, encoding="utf-8", errors="replace") as lines:
            # They are another user's processes: what they say has an end, and steers no terminal.
            while line := lines.readline(_LONGEST_LINE):
                words = printable(line.strip())
                self._said.append(words)
                if self._running:
                    self._say(words)
