"""One change of a pool: write, test, reload, verify, and put back on any failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from trimtab.core import Clock
from trimtab.errors import ApplyFailed, ApplyRefused, NotMeasured, PlantGone, UsageError
from trimtab.plants._own_file import read, write
from trimtab.plants.php_fpm import knobs, status
from trimtab.plants.php_fpm.attached import Attached
from trimtab.plants.php_fpm.reload import Patience, reload


@dataclass(frozen=True)
class Change:
    """A new text for our file, and what must hold once it is in force.

    Args:
        fpm: the running FPM.
        clock: for the waits.
        patience: how long a reload may take.
        path: our file.
        text: what it shall hold; None to have it gone.
    """

    fpm: Attached
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
            ApplyRefused: FPM does not accept it; the file is as it was.
            ApplyFailed: it did not take; the file and the running configuration are as they were.
            PlantGone: FPM ended; the file is as it was.
        """
        try:
            previous = read(self.path)
            write(self.path, self.text)
        except OSError as error:
            raise ApplyRefused(f"cannot write {self.path}: {error.strerror}") from None
        except UsageError as error:
            raise ApplyRefused(str(error)) from None
        try:
            self._test(expected)
        except BaseException:
            write(self.path, previous)
            raise
        try:
            return self._reloaded(expected)
        except PlantGone:
            write(self.path, previous)
            raise
        except BaseException as error:
            try:
                replace(self, text=previous).undo()
            except ApplyFailed as second:
                raise ApplyFailed(f"{error}; {second}") from error
            raise

    def undo(self) -> None:
        """Puts the text in the file's place even where FPM then refuses its configuration, which is said.

        Raises:
            ApplyFailed: the file is as wanted, or could not be written; FPM was not or could not be reloaded.
        """
        try:
            write(self.path, self.text)
        except (OSError, UsageError) as error:
            raise ApplyFailed(f"cannot put {self.path} back: {error}") from None
        try:
            self._test({})
            self._reloaded({})
        except (ApplyRefused, ApplyFailed, UsageError) as error:
            raise ApplyFailed(f"{self.path} is as it was, but PHP-FPM does not run with it: {error}") from None
        except PlantGone:
            return

    def _test(self, expected: Mapping[str, int]) -> None:
        """Makes sure that FPM would accept what is on disk, and that it is what was meant.

        Raises:
            ApplyRefused: it would not, or it is not.
        """
        try:
            verdict = self.fpm.test()
            found = knobs.values(self.fpm.read(), self.fpm.pool)
        except UsageError as error:
            raise ApplyRefused(str(error)) from None
        if not verdict.valid:
            raise ApplyRefused(f"PHP-FPM refuses the configuration: {verdict.message}")
        for name, value in expected.items():
            if found[name] != value:
                raise ApplyRefused(f"{name} would be {found[name]}, not {value}")

    def _reloaded(self, expected: Mapping[str, int]) -> tuple[str, ...]:
        """Reloads, and makes sure that what is in force is what was meant.

        Raises:
            ApplyFailed: it is not, or FPM did not reload in time.
        """
        fpm = self.fpm
        values = knobs.values(fpm.read(), fpm.pool)
        running = reload(fpm.master, fpm.pool, knobs.started(values), fpm.timeout_s, self.clock, self.patience)
        fpm.reloaded()
        for name, value in expected.items():
            if fpm.in_force[name] != value:
                raise ApplyFailed(f"{name} is {fpm.in_force[name]} after the reload, not {value}")
        if running > fpm.in_force["max_children"]:
            most = fpm.in_force["max_children"]
            raise ApplyFailed(f"{running} workers of pool {fpm.pool} run after the reload, more than {most}")
        return self._page()

    def _page(self) -> tuple[str, ...]:
        """Has the new generation say how it manages its workers.

        Raises:
            ApplyFailed: otherwise than was meant.
        """
        try:
            page = status.ask(self.fpm.place, self.clock, self.patience.page_s)
        except NotMeasured as error:
            raise ApplyFailed(f"the status page after the reload: {error}") from None
        if page is None:
            return ("the status page has not answered since the reload: the pool is busy with what waited",)
        wanted = knobs.PM[self.fpm.in_force["pm"]]
        if page.pm != wanted:
            raise ApplyFailed(f"pm is {page.pm} after the reload, not {wanted}")
        return ()
