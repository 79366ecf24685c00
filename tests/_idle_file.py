"""The mapped file of a run as the shim would write it: idle periods and their histograms."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

from trimtab.gate.run_directory import RunDirectory
from trimtab.sensors import _shared_file
from trimtab.sensors._shared_file import Idle

NONE = Idle(*12 * (0,))
SENSE_AT, SETTINGS_AT, IDLE_AT = 192, 256, 320
HISTOGRAM_AT = {"intervals_50ms": 12_288, "intervals": 20_480, "ended": 24_576, "left": 28_672}
SECOND_NS = 1_000_000_000


def a_run(directory: Path, name: str = "web") -> RunDirectory:
    """The run directory of a server that has the shim in it."""
    run_dir = RunDirectory(name, directory / name)
    run_dir.directory.mkdir(parents=True)
    _shared_file.create(run_dir.shared)
    return run_dir


def count(path: Path, idle: Idle = NONE, **histograms: Mapping[int, int]) -> None:
    """Sets what has been counted: idle periods, and bins of the histograms that are named."""
    fields = (getattr(idle, name) for name in Idle.__dataclass_fields__)
    with path.open("r+b") as file:
        file.seek(IDLE_AT)
        file.write(struct.pack("=12Q", *fields))
        for name, bins in histograms.items():
            for index, value in bins.items():
                file.seek(HISTOGRAM_AT[name] + 8 * index)
                file.write(struct.pack("=Q", value))


def served(path: Path, connections: int, requests: int, service_ns: int) -> None:
    """Sets what was served: connections, requests, and the sum of their times."""
    with path.open("r+b") as file:
        file.seek(SENSE_AT)
        file.write(struct.pack("=6Q", connections, 0, requests, service_ns, 0, 0))


def settings(path: Path) -> tuple[int, int, int, int]:
    """What the shim reads: time and time of a trial in ns, one idle period in so many, and who is in charge."""
    found: tuple[int, int, int, int] = struct.unpack_from("=QQII", path.read_bytes(), SETTINGS_AT)
    return found
