"""Whether somebody listens where a server is to listen anew: it would end in the reload, as no test tells."""

from __future__ import annotations

import errno
import socket

from trimtab.errors import NotMeasured
from trimtab.sensors._namespace import in_network_of
from trimtab.sensors._status_page import Endpoint
from trimtab.sensors._tcp_listeners import listening


def in_use(endpoint: Endpoint, pid: int) -> bool:
    """Whether somebody listens there; what else may be wrong with an address is not judged.

    Args:
        endpoint: family and address. A TCP port is tried without listening, with the options that servers set; at a
            Unix socket's a connection is begun and closed, as PHP-FPM does (`fpm_socket_unix_test_connect`).
        pid: the server, in whose network namespace the port is. Where that may not be entered, whoever listens at
            the port counts, at whatever address.
    """
    family, address = endpoint
    if isinstance(address, str):
        try:
            with socket.socket(family) as trial:
                trial.setblocking(False)
                return trial.connect_ex(address) in (0, errno.EAGAIN)
        except OSError:
            return False
    try:
        return in_network_of(pid, lambda: _bound(family, address))
    except NotMeasured:
        return address[1] in {port for _, port in listening(pid).values()}


def _bound(family: int, address: tuple[str, int]) -> bool:
    """Whether a TCP address of this network namespace is another socket's."""
    try:
        with socket.socket(family) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            trial.bind(address)
    except (OSError, OverflowError) as error:
        return isinstance(error, OSError) and error.errno == errno.EADDRINUSE
    return False
