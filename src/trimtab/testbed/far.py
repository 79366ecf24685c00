"""Clients far away: a network of this process's own, with a device whose packets arrive later.

A client there asks at `SERVER`, and the server at 127.0.0.1 sees it come from another address. Each packet of either
way passes a thread, which swaps the addresses and hands it back after the delay. Both pairs of addresses have the
same sum, so that no checksum changes. The network is gone with its process.
"""

from __future__ import annotations

import collections
import ctypes
import fcntl
import os
import select
import socket
import struct
import threading
import time

from trimtab.errors import TrimtabError

SERVER = "10.9.117.249"
"""Where clients reach what listens at 127.0.0.1."""
_CLIENT, _SEEN, _AT = "10.9.0.1", "10.9.1.2", "127.0.0.1"
_DEVICE = b"far0"
_NEW_NETWORK, _TUN, _BARE, _SET_DEVICE = 0x40000000, 0x0001, 0x1000, 0x400454CA
_SET_FLAGS, _SET_ADDRESS, _SET_MASK, _UP = 0x8914, 0x8916, 0x891C, 0x41


def enter(delay_s: float) -> None:
    """Moves this thread, and what it starts from now on, into such a network.

    Args:
        delay_s: time that a packet takes, in seconds: half a round trip.

    Raises:
        TrimtabError: it may not, or the kernel has no TUN devices.
    """
    try:
        if ctypes.CDLL(None, use_errno=True).unshare(_NEW_NETWORK) != 0:
            raise OSError(ctypes.get_errno(), "a network namespace of its own")
        device = _connected()
    except OSError as error:
        raise TrimtabError(f"no network with clients far away can be made here: {error}") from error
    threading.Thread(target=_hand_on, args=(device, delay_s), daemon=True).start()


def _connected() -> int:
    """The device, up and with its address, beside a loopback that is up.

    Raises:
        OSError: the kernel refuses one of it.
    """
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, _SET_DEVICE, struct.pack("16sH14x", _DEVICE, _TUN | _BARE))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for request, address in ((_SET_ADDRESS, _CLIENT), (_SET_MASK, "255.255.0.0")):
            fcntl.ioctl(
                asked, request, struct.pack("16sHH4s8x", _DEVICE, socket.AF_INET, 0, socket.inet_aton(address))
            )
        for name in (b"lo", _DEVICE):
            fcntl.ioctl(asked, _SET_FLAGS, struct.pack("16sH14x", name, _UP))
    for setting, value in (("route_localnet", "1"), ("rp_filter", "0")):
        for where in ("all", _DEVICE.decode()):
            with open(f"/proc/sys/net/ipv4/conf/{where}/{setting}", "w", encoding="ascii") as file:
                file.write(value)
    return device


def _hand_on(device: int, delay_s: float) -> None:
    """Hands packets on for as long as the process lasts."""
    client, server, seen, at = map(socket.inet_aton, (_CLIENT, SERVER, _SEEN, _AT))
    swapped = {client + server: seen + at, at + seen: server + client}
    late: collections.deque[tuple[float, bytes]] = collections.deque()
    while True:
        left_s = max(0.0, late[0][0] - time.monotonic()) if late else None
        if select.select([device], [], [], left_s)[0]:
            packet = os.read(device, 1 << 16)
            if (to := swapped.get(packet[12:20])) is not None:
                late.append((time.monotonic() + delay_s, packet[:12] + to + packet[20:]))
        while late and late[0][0] <= time.monotonic():
            os.write(device, late.popleft()[1])
