"""Ports for private servers."""

from __future__ import annotations

import socket
from pathlib import Path

from trimtab.testbed._private import free_ports


def test_ports_are_free_and_apart_and_none_that_the_kernel_gives_to_clients() -> None:
    found = free_ports(20)
    assert len(set(found)) == 20
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in found:
        assert 10_000 <= port < first
        with socket.socket() as one:
            one.bind(("127.0.0.1", port))
