"""Registry of every testbed on this machine, written before it is made, so that a crash leaves nothing behind.

One JSON file per testbed, one lock for all, in a directory that only this user can write.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trimtab import codec, own
from trimtab.files import write_whole
from trimtab.processes import Process
from trimtab.trust import require_trusted


@dataclass(frozen=True)
class Record:
    """Record of all that one testbed holds.

    Args:
        boot_id: the boot it belongs to; process ids mean nothing in another.
        owner: the process that made it.
        directory: its temporary directory.
        server: the server's first process; None before it is started.
        cgroups: its control groups.
        swap: whether it needs the shared swap device.
        users: the users that its processes run as, beside this one.
    """

    boot_id: str
    owner: Process
    directory: str
    server: Process | None = None
    cgroups: tuple[str, ...] = ()
    swap: bool = False
    users: tuple[int, ...] = ()

    @property
    def shared_memory(self) -> str:
        """Prefix of the names of its server's shared memory, where it needs any; letters and digits."""
        return f"trimtab{hashlib.sha256(self.directory.encode()).hexdigest()[:16]}"


class Registry:
    """The records of this user's testbeds.

    Args:
        directory: where they are; made when it does not exist.

    Raises:
        UsageError: others can change the directory.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or own.transient("testbed")
        self.directory.mkdir(mode=0o700, exist_ok=True)
        require_trusted(self.directory)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the machine-wide lock; the kernel frees it when the holder ends."""
        with (self.directory / "lock").open("w", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def write(self, record: Record) -> None:
        """Adds or replaces a record, whole or not at all."""
        write_whole(self._path(record), codec.encode(record))

    def remove(self, record: Record) -> None:
        """Forgets a record; may be called twice."""
        self._path(record).unlink(missing_ok=True)

    def records(self) -> list[Record]:
        """All records; a file that is not one is removed."""
        found = []
        for path in sorted(self.directory.glob("*.json")):
            try:
                found.append(codec.decode(path.read_text(encoding="utf-8"), Record))
            except FileNotFoundError:
                continue
            except ValueError:
                path.unlink(missing_ok=True)
        return found

    def _path(self, record: Record) -> Path:
        return self.directory / f"{Path(record.directory).name}.json"
