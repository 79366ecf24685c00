"""The mapped file that the shim in every process of a server writes its counters into, as Python makes and reads it.

The layout is that of `native/wire/src/shared.rs`, in the machine's byte order; both sides are tested with the same
golden offsets. Only what Python uses is here:

| offset | what                                                                                     |
|--------|------------------------------------------------------------------------------------------|
| 0      | magic u64, version u32, bytes before the slots u32, number of slots u32, bytes of each u32 |
| 24     | token, 16 bytes                                                                           |
| 40     | gate starts so far u32, gate's process id u32, source of wake-up connections u32, flags u32 |
| 192    | u64 each: connections, sum of delays ns, requests, sum of service times ns, bytes, clipped |
| 256    | keep-alive time ns u64, time of a trial ns u64, one idle period in so many is a trial u32, mode u32 |
| 320    | 12 times u64: what idle periods came to, see `Idle`                                        |
| 12288  | histogram of request intervals in steps of 50 ms: 1024 times u64                           |
| 20480  | the same by `floor_ns`: 512 times u64                                                      |
| 24576  | idle periods that the shim or the server ended, by `floor_ns`: 512 times u64               |
| 28672  | idle periods that the client ended, by `floor_ns`: 512 times u64                           |
| 32768  | slots of 64 bytes: state u32, class u16, at 8 the process id of who has it u32            |
| 4227072 | whether the gate lends to the workers u32; 16448 bytes on the lanes, 4224 bytes a class   |
| 4243584 | in the first lane, and so in each: connections that workers took for themselves u64      |
"""

from __future__ import annotations

import mmap
import os
import secrets
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.errors import NotMeasured

MAGIC = b"TRIMTAB\0"
VERSION = 3
HEADER_BYTES = 32_768
SLOTS = 65_536
SLOT_BYTES = 64
LANES_BYTES = 286_784
_LANES_AT, _LANE_BYTES, _TAKEN_AT = HEADER_BYTES + SLOTS * SLOT_BYTES, 4_224, 16_448 + 64
FLAG_SENSE = 1
_SHAPE = struct.Struct("=8sIIII")
_IDENTITY = struct.Struct("=16sIIII")
_SENSE = struct.Struct("=6Q")
SETTINGS = struct.Struct("=QQII")
_IDLE = struct.Struct("=12Q")
_SLOT = struct.Struct(f"=I4xI{SLOT_BYTES - 12}x")
_IN_SERVICE = (2, 3)
"""States of a slot: in the hands of a worker, and kept alive between requests."""
_WORD, _LONG = struct.Struct("=I"), struct.Struct("=Q")
_IDENTITY_AT, _SENSE_AT, SETTINGS_AT, _IDLE_AT = 24, 192, 256, 320
_STEPS, _BUCKETS = 1024, 512
_INTERVALS_50MS_AT, _INTERVALS_AT, _ENDED_AT, _LEFT_AT = 12_288, 20_480, 24_576, 28_672
MODE_SERVER, MODE_FIXED, MODE_AUTO = 0, 1, 2
"""Values of the mode: the keep-alive time is the server's own, the operator's, a controller's."""
_FIRST_WAKE_SOURCE, _WAKE_SOURCES = 0x7F80_0002, 0x007F_FFF0
"""127.128.0.2 and up: nobody's usual loopback address."""


@dataclass(frozen=True)
class Counters:
    """Totals of the shim since the file was made.

    Args:
        connections: connections that a worker received.
        delay_ns: sum of their waits until then, in nanoseconds.
        requests: requests answered.
        service_ns: sum of their times from the first byte read to the last byte written, in nanoseconds.
        sent_bytes: bytes of these answers.
        clipped: connections that could not be followed.
    """

    connections: int
    delay_ns: int
    requests: int
    service_ns: int
    sent_bytes: int
    clipped: int


@dataclass(frozen=True)
class KeepAlive:
    """How long the shim keeps an idle connection.

    Args:
        time_ns: after how long it is ended; 0 leaves it to the server.
        trial_ns: time after which a trial's idle period is ended; 0: there are none.
        trial_every: one idle period in so many is a trial; 0: none is.
        mode: MODE_SERVER, MODE_FIXED or MODE_AUTO.
    """

    time_ns: int
    trial_ns: int
    trial_every: int
    mode: int


@dataclass(frozen=True)
class Idle:
    """Totals of idle periods, each from an answer to the next request or the end, since the file was made.

    Args:
        intervals: periods that a request ended.
        interval_ns: sum of their lengths.
        idle_ns: sum of the lengths of all periods.
        held_ns: the part of it in which a worker waited for nothing but the one connection.
        cut: periods that the shim ended.
        expired: periods that the server ended by itself.
        left: periods that the client ended.
        server_ms: keep-alive time that the server itself last asked for; 0 is not seen.
        spared: periods that lasted longer than the time because it was not certain that nothing was under way.
        firsts: connections whose first request is answered.
        first_wait_ns: sum of their waits from when a worker had the connection until its first byte.
        first_service_ns: sum of their times from then to the last byte of that answer.
    """

    intervals: int
    interval_ns: int
    idle_ns: int
    held_ns: int
    cut: int
    expired: int
    left: int
    server_ms: int
    spared: int
    firsts: int
    first_wait_ns: int
    first_service_ns: int


@dataclass(frozen=True)
class Histograms:
    """How long idle periods were, as counts since the file was made.

    Args:
        intervals_50ms: request intervals; bin I begins at I times 50 ms, the last one has no end.
        intervals: request intervals; bin I begins at `floor_ns(I)`.
        ended: idle periods that the shim or the server ended, by `floor_ns`: a lower bound of their request interval.
        left: idle periods that the client ended, by `floor_ns`.
    """

    intervals_50ms: tuple[int, ...]
    intervals: tuple[int, ...]
    ended: tuple[int, ...]
    left: tuple[int, ...]


class SharedFile:
    """The file, read with read(2): who maps a file that another shortens dies of it.

    Only the keep-alive time is written through a mapping, and only into a file that nobody but root and who writes
    could shorten.

    Args:
        path: where it is.
        write: whether the keep-alive time is to be set.

    Raises:
        NotMeasured: it cannot be read (or written), or is of another version.
    """

    def __init__(self, path: Path, write: bool = False) -> None:
        self._path = path
        try:
            # A pipe would be waited for.
            self._fd = os.open(path, (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise NotMeasured(f"{path}: {error.strerror}") from None
        try:
            self._check(write)
        except BaseException:
            self.close()
            raise

    def _check(self, write: bool) -> None:
        """Makes sure that it is the file of this version, and may be written where that is wanted."""
        path, found = self._path, os.fstat(self._fd)
        if not stat.S_ISREG(found.st_mode):
            raise NotMeasured(f"{path} is not the shim's mapped file: it is not a file")
        if write and found.st_uid not in (0, os.geteuid()):
            raise NotMeasured(f"{path} belongs to uid {found.st_uid}, who could shorten it under the write")
        if found.st_size < HEADER_BYTES:
            raise NotMeasured(f"{path} is not the shim's mapped file: it is too short")
        magic, version, *shape = self._read(_SHAPE, 0)
        if (magic, version, shape) != (MAGIC, VERSION, [HEADER_BYTES, SLOTS, SLOT_BYTES]):
            other = f"its layout is version {version}" if magic == MAGIC else "it has another beginning"
            raise NotMeasured(f"{path} is not a mapped file of this trimtab (version {VERSION}): {other}")

    def counters(self) -> Counters:
        """The totals now."""
        return Counters(*self._read(_SENSE, _SENSE_AT))

    def idle(self) -> Idle:
        """Totals of idle periods now."""
        return Idle(*self._read(_IDLE, _IDLE_AT))

    def histograms(self) -> Histograms:
        """How long they were so far."""
        return Histograms(
            self._counts(_INTERVALS_50MS_AT, _STEPS),
            self._counts(_INTERVALS_AT, _BUCKETS),
            self._counts(_ENDED_AT, _BUCKETS),
            self._counts(_LEFT_AT, _BUCKETS),
        )

    def keep_alive(self) -> KeepAlive:
        """How long the shim keeps an idle connection now."""
        return KeepAlive(*self._read(SETTINGS, SETTINGS_AT))

    def set_keep_alive(self, wanted: KeepAlive) -> None:
        """Sets the keep-alive time from now on; the file must have been opened for writing.

        Each value is one store, the time the last: the shim, which reads without a lock, never sees half of one.

        Raises:
            NotMeasured: the file has been shortened, or was not opened for writing.
        """
        self._read(SETTINGS, SETTINGS_AT)
        try:
            mapped = mmap.mmap(self._fd, mmap.PAGESIZE)
        except (OSError, ValueError) as error:
            raise NotMeasured(f"{self._path}: {error}") from None
        with mapped, memoryview(mapped) as raw, raw.cast("Q") as longs, raw.cast("I") as words:
            words[SETTINGS_AT // 4 + 4] = wanted.trial_every
            words[SETTINGS_AT // 4 + 5] = wanted.mode
            longs[SETTINGS_AT // 8 + 1] = wanted.trial_ns
            longs[SETTINGS_AT // 8] = wanted.time_ns

    def lends(self) -> bool:
        """Whether the workers may accept for themselves now."""
        return bool(self._read(_WORD, _LANES_AT)[0])

    def taken(self, classes: int) -> tuple[int, ...]:
        """Connections that workers took for themselves, for each of the first classes."""
        return tuple(self._read(_LONG, _LANES_AT + _TAKEN_AT + _LANE_BYTES * number)[0] for number in range(classes))

    def holders(self) -> tuple[int, ...]:
        """The process that has each connection in service, slot by slot."""
        raw = self._read(struct.Struct(f"{SLOTS * SLOT_BYTES}s"), HEADER_BYTES)[0]
        return tuple(pid for state, pid in _SLOT.iter_unpack(raw) if state in _IN_SERVICE)

    def _counts(self, at: int, number: int) -> tuple[int, ...]:
        counts: tuple[int, ...] = self._read(struct.Struct(f"={number}Q"), at)
        return counts

    def _read(self, what: struct.Struct, at: int) -> tuple[Any, ...]:
        """Unpacks values at an offset of the file.

        Raises:
            NotMeasured: it cannot be read, or the file has been shortened.
        """
        try:
            raw = os.pread(self._fd, what.size, at)
        except OSError as error:
            raise NotMeasured(f"{self._path}: {error.strerror}") from None
        if len(raw) < what.size:
            raise NotMeasured(f"{self._path} has been shortened")
        return what.unpack(raw)

    def senses(self) -> bool:
        """Whether the shim was asked to count."""
        return bool(self._read(_IDENTITY, _IDENTITY_AT)[4] & FLAG_SENSE)

    def gated(self) -> bool:
        """Whether a gate is, or has been, in front of the server."""
        return bool(self._read(_IDENTITY, _IDENTITY_AT)[1])

    def close(self) -> None:
        """Closes it; may be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def must_grow(first: tuple[int, ...], last: tuple[int, ...]) -> None:
    """Refuses sums and counts of which one has become less: a process of the server has written over them.

    Args:
        first: earlier totals.
        last: later totals.

    Raises:
        NotMeasured: one has become less.
    """
    if any(now < before for before, now in zip(first, last, strict=True)):
        raise NotMeasured("the shim's counters went backwards: something has written over them")


def floor_ns(index: int) -> int:
    """The shortest duration in a bin of a histogram, in nanoseconds: eight bins to the octave, exact below 8 ns."""
    return index if index < 8 else (8 + index % 8) << (index // 8 - 1)


def create(path: Path) -> None:
    """Makes the file for a server that is about to start, with a token of its own and counting switched on.

    It has all its memory from the start: who first touches a page for which there is no room later, as where /run is
    full, gets SIGBUS, and that would be the server's workers.

    Args:
        path: path at which nothing exists yet.

    Raises:
        OSError: it cannot be made, or there is no room for it.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, HEADER_BYTES + SLOTS * SLOT_BYTES + LANES_BYTES)
        wake_source = _FIRST_WAKE_SOURCE + secrets.randbelow(_WAKE_SOURCES)
        identity = _IDENTITY.pack(secrets.token_bytes(16), 0, 0, wake_source, FLAG_SENSE)
        os.pwrite(fd, identity, _IDENTITY_AT)
        os.pwrite(fd, _SHAPE.pack(MAGIC, VERSION, HEADER_BYTES, SLOTS, SLOT_BYTES), 0)
    except OSError as error:
        error.filename = os.fspath(path)  # it is known by its descriptor alone
        raise
    finally:
        os.close(fd)
