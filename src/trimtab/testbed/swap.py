"""Swap on compressed memory (zram), shared by all testbeds of the machine and removed with the last one.

A memory limit alone makes the kernel kill; with swap an overcommitted server becomes slow, as on the machines of
liu2003. Every function here is called with the registry's lock held.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from trimtab import codec, own
from trimtab.core.finding import Finding
from trimtab.errors import TrimtabError
from trimtab.testbed.registry import Registry

MAXIMUM_BYTES = 8 * 2**30
CONTROL = Path("/sys/class/zram-control")
STATE = "swap-device"


@dataclass(frozen=True)
class Device:
    """The swap device that trimtab set up.

    Args:
        path: such as /dev/zram0.
        added: whether the device was made for trimtab, to be removed again.
    """

    path: str
    added: bool


def acquire(registry: Registry) -> str:
    """Sets the device up when no testbed has yet.

    Returns:
        The device's path.

    Raises:
        TrimtabError: it cannot be set up, with the reason in one line.
    """
    if os.geteuid() != 0:
        raise TrimtabError("swap needs root")
    state = registry.directory / STATE
    device = _read(state)
    if device is not None and device.path in _active():
        return device.path
    device = _free_device()
    # Written first: a crash between here and swapon leaves a state that the next release clears.
    state.write_text(codec.encode(device), encoding="utf-8")
    try:
        _set_up(device)
    except (OSError, subprocess.CalledProcessError) as error:
        release(registry)
        raise TrimtabError(f"swap on {device.path} failed: {_said(error)}") from None
    return device.path


def release(registry: Registry) -> None:
    """Removes the device unless a recorded testbed still needs it.

    Raises:
        TrimtabError: the kernel does not give it back.
    """
    state = registry.directory / STATE
    device = _read(state)
    if device is None or any(r.swap for r in registry.records()):
        return
    try:
        if device.path in _active():
            subprocess.run([_tool("swapoff"), device.path], check=True, capture_output=True, text=True)
        name = Path(device.path).name
        _reset(Path("/sys/block") / name)
        if device.added:
            (CONTROL / "hot_remove").write_text(name.removeprefix("zram"), encoding="ascii")
    except (OSError, subprocess.CalledProcessError) as error:
        raise TrimtabError(f"cannot remove swap on {device.path}: {_said(error)}") from None
    state.unlink()


def probe() -> tuple[Finding, ...]:
    """Whether a testbed can have swap on zram here; looks and changes nothing."""
    subject = "swap for testbeds (zram)"
    if not CONTROL.exists() and not Path("/dev/zram0").exists():
        return (Finding(subject, False, "this kernel has no zram loaded", "modprobe zram"),)
    if os.geteuid() != 0:
        return (Finding(subject, False, "setting it up needs root", "run as root"),)
    return (Finding(subject, True, "zram is there and may be set up"),)


def _read(state: Path) -> Device | None:
    try:
        return codec.decode(state.read_text(encoding="utf-8"), Device)
    except (OSError, ValueError):
        return None


def _active() -> list[str]:
    return [line.split()[0] for line in Path("/proc/swaps").read_text(encoding="utf-8").splitlines()[1:]]


def _free_device() -> Device:
    """A zram device that nobody uses, a new one when there is none."""
    if not CONTROL.exists():
        with contextlib.suppress(OSError):
            subprocess.run([_tool("modprobe"), "zram"], check=False, capture_output=True)
    for block in sorted(Path("/sys/block").glob("zram*")):
        if (block / "disksize").read_text(encoding="ascii").strip() == "0":
            return Device(f"/dev/{block.name}", added=False)
    try:
        number = (CONTROL / "hot_add").read_text(encoding="ascii").strip()
    except OSError as error:
        raise TrimtabError(f"no free zram device: {error.strerror}") from None
    return Device(f"/dev/zram{number}", added=True)


def _set_up(device: Device) -> None:
    block = Path("/sys/block") / Path(device.path).name
    if not Path(device.path).exists():
        major, minor = (int(n) for n in (block / "dev").read_text(encoding="ascii").split(":"))
        os.mknod(device.path, 0o600 | 0o060000, os.makedev(major, minor))
    # lz4 decompresses fastest of those that every kernel with zram offers; its absence is no reason to fail.
    with contextlib.suppress(OSError):
        (block / "comp_algorithm").write_text("lz4", encoding="ascii")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    (block / "disksize").write_text(str(min(MAXIMUM_BYTES, memory // 2)), encoding="ascii")
    for command in ([_tool("mkswap"), device.path], [_tool("swapon"), "-p", "100", device.path]):
        subprocess.run(command, check=True, capture_output=True, text=True)


def _reset(block: Path) -> None:
    """Frees the device's memory; udev may hold it open for a moment."""
    for attempt in range(50):
        try:
            (block / "reset").write_text("1", encoding="ascii")
            return
        except OSError:
            if attempt == 49:
                raise
            time.sleep(0.1)


def _tool(name: str) -> str:
    """The tool's absolute path."""
    found = own.program(name)
    if found is None:
        raise TrimtabError(f"{name} is not installed (package util-linux or kmod)")
    return found


def _said(error: OSError | subprocess.CalledProcessError) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return str(error.stderr or error).strip().replace("\n", " ")
    return str(error)
