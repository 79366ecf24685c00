"""Every error of trimtab, in one tree.

TrimtabError
├── UsageError          used wrongly: one line, exit 2, nothing changed
├── NotMeasured         a sensor could not read; never stands for the value 0
├── NativeError         a native program did not start, broke off or spoke nonsense
├── StoreError          the run store cannot be opened, read or written
└── PlantError          the system under control
    ├── ApplyRefused    the change is not valid there; nothing was changed
    ├── ApplyFailed     the change did not take; the configuration before it was restored
    ├── OperatorEdit    somebody else set this knob; it stands down
    └── PlantGone       the server ended
"""

from __future__ import annotations


class TrimtabError(Exception):
    """Something trimtab could not do; exit code 1 unless a subclass says otherwise."""

    exit_code = 1


class UsageError(TrimtabError):
    """Used wrongly: an unknown name, a value outside its domain, a missing permission known before the start."""

    exit_code = 2


class NotMeasured(TrimtabError):
    """A sensor could not read a value; the window is recorded without it and with the reason."""


class NativeError(TrimtabError):
    """A native program did not start, ended early or sent something that is not its protocol."""


class StoreError(TrimtabError):
    """The run store cannot be opened, read or written."""


class PlantError(TrimtabError):
    """The system under control refused, failed or ended."""


class ApplyRefused(PlantError):
    """The change was found invalid before it was applied; nothing changed."""


class ApplyLater(ApplyRefused):
    """The change may not be made now, and perhaps later: nothing changed, and it is no failure of the run's."""


class ApplyFailed(PlantError):
    """The change did not take; the configuration before it has been restored."""


class OperatorEdit(PlantError):
    """A knob was edited from outside; it stands down until trimtab is started again.

    Args:
        knob: the knob's name.
        message: the finding in one line.
    """

    def __init__(self, knob: str, message: str) -> None:
        super().__init__(message)
        self.knob = knob


class PlantGone(PlantError):
    """The server has ended; measurements until then are kept."""
