"""The controller of the keep-alive time that `trimtab run` keeps going while the time is `auto`.

It is a `trimtab tune keep-alive` of its own: whatever becomes of it, the server serves on with the last time set. It
ends with `trimtab run`, also when that is killed, and gets none of the signals that are meant for the server. What it
did stands in a store of its own in the run directory, about the last hour of it, so that a server may run for months;
what it complains of stands in a log beside the store.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

from trimtab import launcher, own
from trimtab.core.sensor import Clock
from trimtab.gate.keep_alive import InCharge, KeepAliveTime, Setting
from trimtab.gate.pair import MOST_RESTARTS, WITHIN_S
from trimtab.gate.run_directory import RunDirectory
from trimtab.gate.spawn import ended, spawn

KEPT_WINDOWS = 1800
"""An hour, where nothing changes: windows are of 2 s."""
MOST_LOG_BYTES = 1 << 20
MOST_STORE_BYTES = 1 << 24
"""About eight runs of `KEPT_WINDOWS`: each start of the controller is a run of its own."""
_FOREVER = "87600h"
_END_PATIENCE_S = 5.0
_STEP_S = 0.02


class Auto:
    """The controller of one run.

    Args:
        run_dir: the run directory, with the mapped file in it.
        clock: for the waits.
        say: told what becomes of it, one line at a time.

    Attributes:
        pid: its process id; 0 while none runs.

    Raises:
        UsageError: the mapped file cannot be used.
    """

    def __init__(self, run_dir: RunDirectory, clock: Clock, say: Callable[[str], None]) -> None:
        self._run_dir, self._clock, self._say = run_dir, clock, say
        self._time = KeepAliveTime(run_dir.shared)
        self.pid = 0
        self._starts: list[float] = []

    def begin(self, setting: Setting) -> None:
        """Brings the setting at the server's start into force."""
        self._time.write(setting)

    def watch(self) -> None:
        """Starts the controller, starts it anew or ends it, as the setting wants; to be called now and then."""
        self._bound_log()
        setting = self._time.setting()
        died = self.pid != 0 and ended(self.pid) is not None
        if died:
            self.pid = 0
        if setting.in_charge is not InCharge.AUTO:
            self._starts = []
            self._end()
        elif self.pid == 0:
            if died:
                self._say(f"the controller of the keep-alive time has ended (see {self._run_dir.tuning_log})")
            self._start(setting)

    def stop(self) -> None:
        """Ends the controller; the time in force stays. May be called twice."""
        self._end()
        self._time.close()

    def _start(self, setting: Setting) -> None:
        """Starts it, unless too many have ended of late: then the time stays as it is."""
        now_s = self._clock.now_s()
        self._starts = [at_s for at_s in self._starts if now_s - at_s < WITHIN_S]
        if len(self._starts) > MOST_RESTARTS:
            in_charge = InCharge.SERVER if setting.time_ms is None else InCharge.FIXED
            stays = self._time.write(Setting(in_charge, setting.time_ms))
            self._say(f"it has ended {len(self._starts)} times in {WITHIN_S:g} s; the keep-alive time stays: {stays}")
            return
        self._starts.append(now_s)
        log, null = os.fspath(self._run_dir.tuning_log), os.devnull
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        files = [(os.POSIX_SPAWN_OPEN, fd, null, os.O_RDWR, 0) for fd in (0, 1)]
        files.append((os.POSIX_SPAWN_OPEN, 2, log, flags, 0o600))
        try:
            self._bound_store()
            self.pid = spawn(launcher.argv(os.getpid(), [], self._command()), os.environ, files)
        except OSError as error:
            self._say(f"the controller of the keep-alive time cannot be started: {error.strerror}")

    def _command(self) -> list[str]:
        """The controller's command line, which names the plant as a user would."""
        what = [*own.TRIMTAB, "tune", "keep-alive", "--name", self._run_dir.name]
        where = ["--store", os.fspath(self._run_dir.tuning_store), "--keep-windows", str(KEPT_WINDOWS)]
        return [*what, "--duration", _FOREVER, *where]

    def _bound_log(self) -> None:
        """Empties a log that has grown too long; its last part stays beside it, as .old, if there is room."""
        log = self._run_dir.tuning_log
        if _size_bytes(log) <= MOST_LOG_BYTES:
            return
        with contextlib.suppress(OSError), log.open("rb") as file:
            file.seek(-MOST_LOG_BYTES, os.SEEK_END)
            _old(log).touch(0o600)
            _old(log).write_bytes(file.read(MOST_LOG_BYTES))
        os.truncate(log, 0)  # who writes to it appends

    def _bound_store(self) -> None:
        """Begins a new store where the old one has grown too large; that one stays beside it, as .old."""
        store = self._run_dir.tuning_store
        if _size_bytes(store) <= MOST_STORE_BYTES:
            return
        for suffix in ("-wal", "-shm", ""):
            one, old = (path.with_name(path.name + suffix) for path in (store, _old(store)))
            old.unlink(missing_ok=True)
            if one.exists():
                one.replace(old)

    def _end(self) -> None:
        """Ends it and waits for that."""
        if self.pid == 0:
            return
        deadline = self._clock.now_s() + _END_PATIENCE_S
        os.kill(self.pid, signal.SIGTERM)
        while ended(self.pid) is None:
            if self._clock.now_s() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                deadline += _END_PATIENCE_S
            self._clock.sleep(_STEP_S)
        self.pid = 0


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _old(path: Path) -> Path:
    return path.with_name(f"{path.name}.old")
