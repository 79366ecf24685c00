"""The netlink messages about listening sockets, byte by byte."""

from __future__ import annotations

import socket
import struct

import pytest

from trimtab.errors import NotMeasured
from trimtab.sensors._arrivals import cpus
from trimtab.sensors._inet_diag import Address, listening, request
from trimtab.sensors._kernel_file import counter, table

LOCAL = Address(socket.AF_INET, socket.inet_aton("127.0.0.1"), 8080)
RECORDED_TAIL = bytes.fromhex(
    "050008000000000008000f00000000000c001500010000000000000006001600520000002800070000000000"
)


def reply(family: int, packed: bytes, length: int, limit: int, attributes: bytes = b"") -> bytes:
    body = struct.pack("=BBBB", family, 10, 0, 0)
    body += struct.pack(">HH", 8080, 0) + packed.ljust(16, b"\0") + bytes(16)
    body += struct.pack("=IQ", 0, 4711)
    body += struct.pack("=IIIII", 0, length, limit, 33, 99) + attributes
    return struct.pack("=IHHII", 16 + len(body), 20, 0, 1, 0) + body


def test_a_question_for_one_socket_asks_for_listening_ones_at_that_address_only() -> None:
    message = request(LOCAL, 7, dump=False)
    assert len(message) == 72
    assert struct.unpack_from("=IHHII", message) == (72, 20, 0x1, 7, 0)
    assert struct.unpack_from("=BBBxI", message, 16) == (socket.AF_INET, socket.IPPROTO_TCP, 1 << 6, 1 << 10)
    assert struct.unpack_from(">HH", message, 24) == (8080, 0)
    assert message[28:32] == LOCAL.packed
    assert message[32:60] == bytes(28)
    assert message[64:] == b"\xff" * 8


def test_a_question_for_a_port_is_a_dump() -> None:
    assert struct.unpack_from("=IHHII", request(LOCAL, 7, dump=True))[2] == 0x301


def test_backlog_limit_cookie_and_inode_are_read_from_the_reply() -> None:
    found = listening(reply(socket.AF_INET, LOCAL.packed, 37, 511))
    assert (found.address, found.length, found.limit, found.cookie, found.inode) == (LOCAL, 37, 511, 4711, 99)
    assert found.drops is None


def test_drops_are_read_from_the_attribute_of_socket_memory() -> None:
    memory = struct.pack("=HH9I", 40, 7, *range(8), 123)
    other = struct.pack("=HHI", 5, 8, 0)
    packed = socket.inet_pton(socket.AF_INET6, "::1")
    found = listening(reply(socket.AF_INET6, packed, 1, 128, other + memory))
    assert found.address == Address(socket.AF_INET6, packed, 8080)
    assert found.drops == 123


def test_a_reply_with_an_attribute_cut_short_has_no_drops() -> None:
    assert listening(reply(socket.AF_INET, LOCAL.packed, 1, 128, RECORDED_TAIL)).drops is None


def test_addresses_are_written_as_users_write_them() -> None:
    assert str(LOCAL) == "127.0.0.1:8080"
    assert str(Address(socket.AF_INET6, bytes(16), 80)) == "[::]:80"
    assert Address(socket.AF_INET6, bytes(16), 80).wildcard()


def test_counters_are_read_by_the_name_above_them() -> None:
    text = b"Ip: A B\nIp: 1 2\nTcp: RtoMin ActiveOpens PassiveOpens MaxConn\nTcp: 200 5 77 -1\n"
    assert counter(text, b"Tcp", b"PassiveOpens") == 77
    assert counter(text, b"Tcp", b"MaxConn") == -1
    for group, name in ((b"TcpExt", b"ListenDrops"), (b"Tcp", b"ListenDrops")):
        with pytest.raises(NotMeasured, match="no counter ListenDrops"):
            counter(text, group, name)


def test_tables_are_read_in_bytes() -> None:
    assert table(b"MemTotal:   24105 kB\nanon 12\nNode 0, zone\n") == {b"MemTotal": 24105 * 1024, b"anon": 12}


def test_lists_of_cpus_are_read_as_the_kernel_writes_them() -> None:
    assert cpus("0-2,5,7-8\n") == {0, 1, 2, 5, 7, 8}
    assert cpus("\n") == set()
