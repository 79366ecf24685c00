"""The process that takes SCHED_RR back when trimtab dies, stands still, or the machine stops responding.

It is `putback watch`, at a real-time priority above every server's. A thread of trimtab, of no priority, tells it
twice a second that the machine still has time for ordinary programs; where it does not hear that for the lease, it
puts back whatever the journal holds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

from trimtab.errors import ApplyFailed, UsageError
from trimtab.plants.linux import knobs, putback
from trimtab.plants.linux.journal import Journal

LEASE_S = 5.0
"""Ordinary programs that do not get a millisecond in this time are as good as none."""
BEAT_S = 0.5
_RUNTIME = Path("/proc/sys/kernel/sched_rt_runtime_us")
_PERIOD = Path("/proc/sys/kernel/sched_rt_period_us")


def require_bounds() -> None:
    """Makes sure that real-time threads cannot take the whole machine.

    Raises:
        UsageError: they can, or this user may not start any.
    """
    if not knobs.may_raise():
        raise UsageError(f"--allow-real-time needs the capability CAP_SYS_NICE: {knobs.lets_raise()}")
    try:
        runtime, period = int(_RUNTIME.read_text()), int(_PERIOD.read_text())
    except (OSError, ValueError):
        raise UsageError(f"--allow-real-time: {_RUNTIME} cannot be read") from None
    if not 0 <= runtime < period:
        raise UsageError(
            f"--allow-real-time: kernel.sched_rt_runtime_us is {runtime} of {period}, so that real-time threads "
            "could take the whole machine: set it below, such as 950000"
        )


class Watchdog:
    """The watchdog of one run.

    Args:
        journal: journal of the values that it puts back.
        lease_s: after how long a silence.
    """

    def __init__(self, journal: Journal, lease_s: float = LEASE_S) -> None:
        self._journal = journal
        self._lease_s = lease_s
        self._process: subprocess.Popen[bytes] | None = None
        self._ends = threading.Event()

    def start(self) -> None:
        """Starts it, if it does not run; the journal has been written.

        Raises:
            ApplyFailed: it did not start.
        """
        if self._process is not None and self._process.poll() is None:
            return
        self.stop()
        command = (sys.executable, "-I", os.fspath(putback.__file__), "watch", os.fspath(self._journal.path))
        self._process = subprocess.Popen(
            (*command, str(self._lease_s)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"ready\n":
            self.stop()
            raise ApplyFailed("the watchdog of SCHED_RR did not start, so it is not set")
        self._ends = threading.Event()
        threading.Thread(target=self._beat, args=(self._process, self._ends), daemon=True).start()

    def stop(self) -> None:
        """Ends it, where it runs; nothing is put back."""
        self._ends.set()
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(b"end")
            process.stdin.close()
        except OSError:
            pass
        process.wait()
        process.stdout.close()

    def _beat(self, process: subprocess.Popen[bytes], ends: threading.Event) -> None:
        """Sends it a sign of life; without a watchdog nothing may stay in real time."""
        assert process.stdin is not None
        while not ends.wait(BEAT_S):
            try:
                os.write(process.stdin.fileno(), b".")
            except (OSError, ValueError):
                if not ends.is_set():
                    putback.undo(self._journal.data())
                return
