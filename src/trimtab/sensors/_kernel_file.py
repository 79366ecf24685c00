"""A kernel file that is opened once and read from its start each time, and the formats that such files have."""

from __future__ import annotations

import os
from pathlib import Path

from trimtab.errors import NotMeasured

_SIZE_BYTES = 1 << 16
"""For one read; the kernel gives less at a time where a file has many records, a page of /proc/vmstat, say."""


class KernelFile:
    """One file of /proc or of a control group.

    Args:
        path: where it is.

    Raises:
        NotMeasured: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise NotMeasured(f"{path}: {os.strerror(error.errno or 0)}") from None

    def read(self) -> bytes:
        """Content of the file now, all of it: with a thousand CPUs /proc/stat takes more than one read.

        Raises:
            NotMeasured: it cannot be read, as when its process or group is gone.
        """
        found = b""
        try:
            while more := os.pread(self._fd, _SIZE_BYTES, len(found)):
                found += more
            return found
        except OSError as error:
            raise NotMeasured(f"{self.path}: {os.strerror(error.errno or 0)}") from None

    def number(self) -> int:
        """Its only number.

        Raises:
            NotMeasured: it cannot be read or holds something else.
        """
        text = self.read()
        try:
            return int(text)
        except ValueError:
            raise NotMeasured(f"{self.path} holds {text[:40]!r}, not a number") from None

    def table(self) -> dict[bytes, int]:
        """Its lines of a name and a number; other lines are left out.

        Raises:
            NotMeasured: it cannot be read.
        """
        return table(self.read())

    def close(self) -> None:
        """Closes it; may be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()


def table(text: bytes) -> dict[bytes, int]:
    """Lines of a name, a number and perhaps a unit, as in memory.stat and (with kB made bytes) in meminfo."""
    found: dict[bytes, int] = {}
    for line in text.splitlines():
        words = line.replace(b":", b" ").split()
        if len(words) >= 2 and words[1].isdigit():
            found[words[0]] = int(words[1]) * (1024 if words[2:3] == [b"kB"] else 1)
    return found


def counter(text: bytes, group: bytes, name: bytes) -> int:
    """One counter of /proc/net/snmp or netstat: a group has a line of names and one of values, each led by its name.

    Raises:
        NotMeasured: there is no such counter.
    """
    lines = [line.split() for line in text.splitlines() if line.startswith(group + b":")]
    if len(lines) != 2 or name not in lines[0]:
        raise NotMeasured(f"this kernel has no counter {name.decode()} in {group.decode()}")
    return int(lines[1][lines[0].index(name)])
