"""One change of Apache's configuration: write, test, reload, verify, and put back on any failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from trimtab.core import Clock
from trimtab.errors import ApplyFailed, ApplyRefused, PlantGone, UsageError
from trimtab.plants._own_file import read, write
from trimtab.plants.apache import status
from trimtab.plants.apache.attached import Attached
from trimtab.plants.apache.drain import drain
from trimtab.plants.apache.knobs import limits
from trimtab.plants.apache.process import Generations
from trimtab.plants.apache.reload import Patience, reload
from trimtab.processes import children

_CROWD_PATIENCE_S = 0.2
"""A status page that takes longer to reply waits for a worker: the server is crowded."""


@dataclass(frozen=True)
class Change:
    """A new text for our file, and what must hold once it is in force.

    Args:
        apache: the running Apache.
        clock: for the waits.
        patience: how long a reload may take.
        path: our file.
        text: what it shall hold; None to have it gone.
    """

    apache: Attached
    clock: Clock
    patience: Patience
    path: Path
    text: str | None

    def bring(self, expected: Mapping[str, int]) -> tuple[str, ...]:
        """Brings the change into force.

        Args:
            expected: knob name to the value that must be in force then.

        Returns:
            What the user should know, one line each.

        Raises:
            ApplyRefused: Apache does not accept it; the file is as it was.
            ApplyFailed: it did not take; the file and the running configuration are as they were.
            PlantGone: Apache ended; the file is as it was.
        """
        try:
            previous = read(self.path)
            write(self.path, self.text)
        except OSError as error:
            raise ApplyRefused(f"cannot write {self.path}: {error.strerror}") from None
        except UsageError as error:
            raise ApplyRefused(str(error)) from None
        try:
            self._test()
        except BaseException as error:
            self._put_back(previous, error)
            raise
        try:
            stuck = self._make_room(limits(self.apache.config).max_request_workers)
            seen = reload(self.apache.parent, self.clock, self.patience)
            return (*self._verify(seen, expected), *stuck)
        except PlantGone as error:
            self._put_back(previous, error)
            raise
        except BaseException as error:
            try:
                replace(self, text=previous).undo()
            except ApplyFailed as second:
                raise ApplyFailed(f"{error}; {second}") from error
            if isinstance(error, OSError | UsageError):
                raise ApplyFailed(str(error)) from error
            raise

    def undo(self) -> None:
        """Puts the text in the file's place even where Apache then refuses its configuration, which is said.

        Raises:
            ApplyFailed: the file could not be put there, as on a full disk, or it is as wanted, but Apache was not or
                could not be reloaded; the message says which.
        """
        self._put(self.text)
        try:
            verdict = self.apache.test()
            if not verdict.valid:
                raise ApplyFailed(f"Apache refuses its configuration: {verdict.message}")
            self._make_room(limits(self.apache.config).max_request_workers)
            reload(self.apache.parent, self.clock, self.patience)
            self.apache.read_running()
        except (ApplyFailed, UsageError, OSError) as error:
            raise ApplyFailed(f"{self.path} is as it was, but Apache was not reloaded to it: {error}") from None
        except PlantGone:
            return

    def _put(self, text: str | None) -> None:
        """Puts a text in the file's place.

        Raises:
            ApplyFailed: it could not be done; the file is as it is.
        """
        try:
            write(self.path, text)
        except (UsageError, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise ApplyFailed(
                f"{self.path} could not be put back: {why}; once that is mended, 'trimtab runs undo' does it"
            ) from None

    def _put_back(self, text: str | None, why: BaseException) -> None:
        """Puts back what was there, after `why`.

        Raises:
            ApplyFailed: that failed too.
        """
        try:
            self._put(text)
        except ApplyFailed as error:
            raise ApplyFailed(f"{why}; {error}") from why

    def _test(self) -> None:
        try:
            verdict = self.apache.test()
        except UsageError as error:
            raise ApplyRefused(str(error)) from None
        if not verdict.valid:
            raise ApplyRefused(f"Apache refuses the configuration: {verdict.message}")
        if self.text is not None and self.path not in verdict.files:
            raise ApplyRefused(f"Apache does not read {self.path}")

    def _make_room(self, limit: int) -> tuple[str, ...]:
        """Before prefork is reloaded, where its limit shrinks or it is crowded: see `drain`."""
        apache = self.apache
        if apache.limits.mpm != "prefork":
            return ()
        shrinks = limit < apache.in_force["max_request_workers"]
        board = status.scoreboard(apache.status_url, _CROWD_PATIENCE_S)
        crowded = board is None or status.busy(board) > apache.in_force["max_request_workers"] / 2
        if not shrinks and not crowded:
            return ()
        left = 0
        if crowded:
            # Nobody accepts meanwhile, so one long request must not hold this up for long.
            left = drain(apache.parent, self.clock, apache.status_url, 0, self.patience.crowd_s, noticed=shrinks)
        if shrinks and (left or not crowded):
            left = drain(apache.parent, self.clock, apache.status_url, limit, self.patience.shrink_s)
        return (blocked(left),) if left and shrinks else ()

    def _verify(self, seen: Generations, expected: Mapping[str, int]) -> tuple[str, ...]:
        """Makes sure that what is in force is what was meant.

        Raises:
            ApplyFailed: it is not.
        """
        apache, notes = self.apache, []
        apache.read_running()
        for knob, value in expected.items():
            if apache.in_force[knob] != value:
                raise ApplyFailed(f"{knob} is {apache.in_force[knob]} after the reload, not {value}")
        threads = apache.limits.threads_per_child
        workers, limit = len(seen.workers) * threads, apache.in_force["max_request_workers"]
        if workers > limit:
            raise ApplyFailed(f"{workers} workers run after the reload, more than the limit of {limit}")
        if seen.old:
            notes.append(f"{len(seen.old)} processes of the previous configuration still finish their connections")
        ending = len(children(apache.parent.pid)) - len(seen.workers)
        if lost := apache.blocked(ending):
            notes.append(blocked(lost))
        if not seen.workers:
            notes.append("no new process has started yet: the old ones hold all the places")
        return tuple(notes)


def blocked(places: int) -> str:
    """What to say of places that prefork has lost."""
    return f"up to {places} of prefork's places stay blocked until Apache is stopped and started (its AH00167)"
