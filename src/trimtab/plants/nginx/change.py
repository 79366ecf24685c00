"""One change of nginx's configuration: write, test, reload, verify, and put back on any failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trimtab.core import Clock
from trimtab.errors import ApplyFailed, ApplyRefused, PlantGone, UsageError
from trimtab.plants import _own_file
from trimtab.plants.nginx import status
from trimtab.plants.nginx.attached import Attached
from trimtab.plants.nginx.edits import Texts, is_kept, present
from trimtab.plants.nginx.knobs import value_of
from trimtab.plants.nginx.process import open_files
from trimtab.plants.nginx.reload import Generations, Patience, reload

_WATCHED_MS = 1000
"""A keep-alive time up to this is seen in force on a connection of our own; a longer one would take too long."""


@dataclass(frozen=True)
class Change:
    """New texts for files, and what must hold once they are in force.

    Args:
        nginx: the running nginx.
        clock: for the waits.
        patience: how long a reload may take.
        texts: what the files shall hold, in the order in which they are written.
    """

    nginx: Attached
    clock: Clock
    patience: Patience
    texts: Texts

    def bring(self, expected: Mapping[str, int]) -> tuple[str, ...]:
        """Brings the change into force.

        Args:
            expected: knob name to the value that must be in force then.

        Returns:
            What the user should know, one line each.

        Raises:
            ApplyRefused: nginx does not accept it; the files are as they were.
            ApplyFailed: it did not take; the files and what is in force are as they were.
            PlantGone: nginx ended; the files are as they were.
        """
        try:
            previous = replace(self, texts=dict(reversed(present(self.texts).items())))
        except UsageError as error:
            raise ApplyRefused(str(error)) from None
        try:
            self._put()
            self._test()
        except BaseException as error:
            previous._put_back(error)
            if isinstance(error, OSError | UsageError | ApplyFailed):
                raise ApplyRefused(str(error)) from None
            raise
        try:
            seen = reload(
                self.nginx.master, value_of(self.nginx.config, "worker_processes"), self.clock, self.patience
            )
            return self._verify(seen, expected)
        except PlantGone as error:
            previous._put_back(error)
            raise
        except BaseException as error:
            try:
                previous.undo()
            except ApplyFailed as second:
                raise ApplyFailed(f"{error}; {second}") from error
            if isinstance(error, OSError | UsageError):
                raise ApplyFailed(str(error)) from error
            raise

    def undo(self) -> None:
        """Puts the texts in the files' places even where nginx then refuses its configuration, which is said.

        Raises:
            ApplyFailed: a file could not be put there, as on a full disk, or they are as wanted, but nginx was not or
                could not be reloaded; the message says which.
        """
        self._put()
        try:
            verdict = self.nginx.test()
            if not verdict.valid:
                raise ApplyFailed(f"nginx refuses its configuration: {verdict.message}")
            reload(self.nginx.master, value_of(self.nginx.config, "worker_processes"), self.clock, self.patience)
            self.nginx.read_running()
        except (ApplyFailed, UsageError, OSError) as error:
            names = ", ".join(str(path) for path in self.texts if not is_kept(path))
            raise ApplyFailed(f"{names} is as it was, but nginx was not reloaded to it: {error}") from None
        except PlantGone:
            return

    def _put(self) -> None:
        """Puts the texts in the files' places.

        Raises:
            ApplyFailed: it could not be done.
        """
        for path, text in self.texts.items():
            try:
                # What is kept beside a file holds its text, which may be for fewer eyes than our settings are.
                _own_file.write(path, text, 0o600 if is_kept(path) else 0o644)
            except (UsageError, OSError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                raise ApplyFailed(f"{path} could not be written: {why}") from None

    def _put_back(self, why: BaseException) -> None:
        """Puts back what was there, after `why`.

        Raises:
            ApplyFailed: that failed too.
        """
        try:
            self._put()
        except ApplyFailed as error:
            raise ApplyFailed(f"{why}; {error}; 'trimtab runs undo' puts it back later") from why

    def _test(self) -> None:
        verdict = self.nginx.test()
        if not verdict.valid:
            raise ApplyRefused(f"nginx refuses the configuration: {verdict.message}")
        for path, text in self.texts.items():
            if text is not None and not is_kept(path) and path not in verdict.files:
                raise ApplyRefused(f"nginx does not read {path}")

    def _verify(self, seen: Generations, expected: Mapping[str, int]) -> tuple[str, ...]:
        """Makes sure that what is in force is what was meant.

        Raises:
            ApplyFailed: it is not.
        """
        nginx, notes = self.nginx, list[str]()
        nginx.read_running()
        for knob, value in expected.items():
            if nginx.in_force[knob] != value:
                raise ApplyFailed(f"{knob} is {nginx.in_force[knob]} after the reload, not {value}")
        files = min((n for pid, _ in seen.workers if (n := open_files(pid)) is not None), default=None)
        if files is not None and files < nginx.in_force["worker_connections"]:
            notes.append(f"a process may have only {files} files open, so it cannot hold all its connections")
        wait_ms = expected.get("keepalive_timeout_ms", _WATCHED_MS + 1)
        if wait_ms <= _WATCHED_MS and nginx.page is not None and status.outlives(nginx.page, wait_ms / 1000):
            raise ApplyFailed(f"an idle connection is kept for longer than {wait_ms} ms after the reload")
        if seen.old:
            count, verb = (
                ("1 process", "finishes its")
                if len(seen.old) == 1
                else (f"{len(seen.old)} processes", "finish their")
            )
            notes.append(f"{count} of the previous configuration still {verb} requests")
        return tuple(notes)
