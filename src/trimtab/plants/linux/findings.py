"""The doctor's findings on the kernel's knobs: which exist here, which can be set, and why not the others."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from pathlib import Path

from trimtab.core import Finding
from trimtab.errors import UsageError
from trimtab.plants.linux import knobs, watchdog

_DEBUGFS = Path("/sys/kernel/debug")
_FEATURES = _DEBUGFS / "sched" / "features"
_LOCKDOWN = Path("/sys/kernel/security/lockdown")
_SEEN = ("PREEMPT_SHORT", "RUN_TO_PARITY", "PLACE_LAG")


def findings() -> tuple[Finding, ...]:
    """All findings."""
    return (*_threads(), *_machine(), *_groups(), *_rest())


def _threads() -> Iterable[Finding]:
    try:
        base_ns = knobs.base_slice_ns()
    except OSError as error:
        why = f"the kernel's scheduler cannot be asked: {error.strerror}"
        yield Finding("scheduling of a thread", False, why, "see the reason")
        return
    if base_ns:
        yield Finding(
            "slice of a thread",
            True,
            f"{base_ns / 1e6:g} ms where nobody has set it; 0.1 to 100 ms, without privilege",
        )
    else:
        why = "this kernel's scheduler has no slices for threads"
        yield Finding("slice of a thread", False, why, "boot Linux 6.12 or later")
    yield Finding("policy of a thread", True, "other or batch, without privilege")
    if knobs.may_raise():
        yield Finding("nice level of a thread", True, "-20 to 19, and can be put back")
    else:
        why = "no permission (CAP_SYS_NICE) to put a lower level back"
        yield Finding("nice level of a thread", False, why, knobs.lets_raise())
    try:
        watchdog.require_bounds()
        yield Finding("SCHED_RR", True, f"with --allow-real-time, under a watchdog of {watchdog.LEASE_S:g} s")
    except UsageError as error:
        yield Finding("SCHED_RR", False, str(error), "see the reason")


def _machine() -> Iterable[Finding]:
    for one in knobs.MACHINE:
        name = one.knob.native_name
        if why := knobs.hindrance(one):
            debug = one.path.is_relative_to(_DEBUGFS)
            yield Finding(name, False, why + (_locked() if debug else ""), _mount() if debug else _enabled(one.path))
            continue
        text = one.path.read_text(encoding="ascii").strip()
        yield Finding(name, True, f"{text} now; of the whole machine, moved only with --allow-machine-wide")


def _enabled(path: Path) -> str:
    """What lets a file of the kernel's settings be set, where it is not to be set from here."""
    if not path.exists():
        return "boot a kernel that has it"
    return "run outside of this container: in here root too may only read it" if os.geteuid() == 0 else "run as root"


def _groups() -> Iterable[Finding]:
    path = Path("/sys/fs/cgroup/memory/memory.swappiness")
    if path.exists():
        yield Finding(
            "swappiness of a control group", True, "version 1: where a server has a memory group of its own"
        )
    else:
        why = "control groups of version 2 have no swappiness"
        yield Finding("swappiness of a control group", False, why, "mount the memory controller as version 1")


def _rest() -> Iterable[Finding]:
    yield Finding("preemption", True, _preemption())
    try:
        words = _FEATURES.read_text(encoding="ascii").split()
        shown = ", ".join(word for word in words if word.removeprefix("NO_") in _SEEN)
        yield Finding("scheduler features", True, f"{shown}; shown, never moved")
    except OSError as error:
        yield Finding("scheduler features", False, f"{_FEATURES}: {error.strerror}{_locked()}", _mount())


def _preemption() -> str:
    """How the kernel preempts itself, as it names it."""
    try:
        return (_DEBUGFS / "sched" / "preempt").read_text(encoding="ascii").strip()
    except OSError:
        words = [word for word in platform.version().split() if word.startswith("PREEMPT")]
        return (
            f"built with {words[0] if words else 'no preemption of the kernel'}; the mode in force is in debugfs only"
        )


def _locked() -> str:
    """Whether the kernel is locked down."""
    try:
        return f" (lockdown: {_LOCKDOWN.read_text(encoding='ascii').strip()})"
    except OSError:
        return ""


def _mount() -> str:
    return f"as root: mount -t debugfs debugfs {_DEBUGFS}, where the kernel has it and is not locked down"
