"""What a MariaDB says on the wire, for servers of tests that say what they like."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable

OK = b"\0\0\0\2\0\0\0"
END = b"\xfe\0\0\2\0"
LONG, DATE, TEXT, DECIMAL = 3, 10, 253, 246
"""Types of columns."""


def packet(number: int, content: bytes) -> bytes:
    """A packet.

    Args:
        number: which one it is since the last statement.
        content: its content, shorter than 16 MiB.
    """
    return len(content).to_bytes(3, "little") + bytes([number % 256]) + content


def packets(*contents: bytes, first: int = 1) -> bytes:
    """Packets one after the other."""
    return b"".join(itertools.starmap(packet, enumerate(contents, first)))


def greeting(plugin: bytes = b"mysql_native_password") -> bytes:
    """What it says first; it names a plugin by which clients prove who they are."""
    flags = b"\xff\xf7\x21\2\0\xff\x81\x15"
    salt = b"12345678\0", b"123456789012\0"
    return b"\x0a10.11-MariaDB\0" + b"\1\0\0\0" + salt[0] + flags + bytes(10) + salt[1] + plugin + b"\0"


HELLO = packet(0, greeting()) + packet(2, OK) + 4 * packet(1, OK)
"""What a client hears until its first statement: it is greeted, let in, and spoken to in UTF-8, as it likes."""


def column(kind: int) -> bytes:
    """The description of a column of this type."""
    return b"\3def\0\0\0\1a\0" + struct.pack("<BHIBHBH", 12, 33, 100, kind, 0, 0, 0)


def value(text: bytes) -> bytes:
    """A value of a row, shorter than 251 bytes."""
    return bytes([len(text)]) + text


def answer(kinds: Iterable[int], *rows: Iterable[bytes]) -> bytes:
    """Rows, as the answer to a statement."""
    columns = [column(kind) for kind in kinds]
    return packets(bytes([len(columns)]), *columns, END, *(b"".join(map(value, row)) for row in rows), END)
