"""The mapped file that the shim in every process of a server writes its counters into, as Python makes and reads it.

The layout is that of `native/wire/src/shared.rs`, in the machine's byte order; both sides are tested with the same
golden offsets. Only what Python uses is here:

| offset | what                                                                                     |
|--------|------------------------------------------------------------------------------------------|
| 0      | magic u64, version u32, bytes before the slots u32, number of slots u32, bytes of each u32 |
| 24     | token, 16 bytes                                                                           |
| 40     | gate starts so far u32, gate's process id u32, source of wake-up connections u32, flags u32 |
| 192    | u64 each: connections, sum of delays ns, requests, sum of service times ns, bytes, clipped |
| 12288  | slots                                                                                     |
"""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
import struct
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import NotMeasured

MAGIC = b"TRIMTAB\0"
VERSION = 1
HEADER_BYTES = 12_288
SLOTS = 65_536
SLOT_BYTES = 64
FLAG_SENSE = 1
_SHAPE = struct.Struct("=8sIIII")
_IDENTITY = struct.Struct("=16sIIII")
_SENSE = struct.Struct("=6Q")
_IDENTITY_AT, _SENSE_AT = 24, 192
_FIRST_WAKE_SOURCE, _WAKE_SOURCES = 0x7F80_0002, 0x007F_FFF0
"""127.128.0.2 and up: nobody's usual loopback address."""


@dataclass(frozen=True)
class Counters:
    """What the shim has counted since the file was made.

    Args:
        connections: connections that a worker received.
        delay_ns: sum of their waits until then, in nanoseconds.
        requests: requests answered.
        service_ns: sum of their times from the first byte read to the last byte written, in nanoseconds.
        sent_bytes: bytes written in answer to them.
        clipped: connections that could not be followed.
    """

    connections: int
    delay_ns: int
    requests: int
    service_ns: int
    sent_bytes: int
    clipped: int


class SharedFile:
    """A mapping of the file, for reading.

    Args:
        path: where it is.

    Raises:
        NotMeasured: it cannot be read, or is of another version.
    """

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                if os.fstat(file.fileno()).st_size < HEADER_BYTES:
                    raise NotMeasured(f"{path} is not the shim's mapped file: it is too short")
                self._map = mmap.mmap(file.fileno(), HEADER_BYTES, prot=mmap.PROT_READ)
        except OSError as error:
            raise NotMeasured(f"{path}: {error.strerror}") from None
        magic, version, *shape = _SHAPE.unpack_from(self._map, 0)
        if (magic, version, shape) != (MAGIC, VERSION, [HEADER_BYTES, SLOTS, SLOT_BYTES]):
            self.close()
            other = f"its layout is version {version}" if magic == MAGIC else "it has another beginning"
            raise NotMeasured(f"{path} is not a mapped file of this trimtab (version {VERSION}): {other}")

    def counters(self) -> Counters:
        """What has been counted so far."""
        return Counters(*_SENSE.unpack_from(self._map, _SENSE_AT))

    def senses(self) -> bool:
        """Whether the shim was asked to count."""
        return bool(_IDENTITY.unpack_from(self._map, _IDENTITY_AT)[4] & FLAG_SENSE)

    def close(self) -> None:
        """Unmaps it; may be called twice."""
        with contextlib.suppress(BufferError):
            self._map.close()


def create(path: Path) -> None:
    """Makes the file for a server that is about to start, with a token of its own and counting switched on.

    Args:
        path: where; nothing may be there.

    Raises:
        OSError: it cannot be made.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(fd, HEADER_BYTES + SLOTS * SLOT_BYTES)
        wake_source = _FIRST_WAKE_SOURCE + secrets.randbelow(_WAKE_SOURCES)
        identity = _IDENTITY.pack(secrets.token_bytes(16), 0, 0, wake_source, FLAG_SENSE)
        os.pwrite(fd, identity, _IDENTITY_AT)
        os.pwrite(fd, _SHAPE.pack(MAGIC, VERSION, HEADER_BYTES, SLOTS, SLOT_BYTES), 0)
    finally:
        os.close(fd)
