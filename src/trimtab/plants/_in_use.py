"""Whether somebody listens where a server is to listen anew: it would end in the reload, as no test tells."""

from __future__ import annotations

import errno
import socket

from trimtab.sensors._status_page import Endpoint


def in_use(endpoint: Endpoint) -> bool:
    """Whether somebody listens there; what else may be wrong with an address is not judged.

    Args:
        endpoint: family and address. A TCP port is tried without listening, with the options that servers set; at a
            Unix socket's a connection is begun and closed, as PHP-FPM does (`fpm_socket_unix_test_connect`).
    """
    family, address = endpoint
    try:
        with socket.socket(family) as trial:
            if family == socket.AF_UNIX:
                trial.setblocking(False)
                return trial.connect_ex(address) in (0, errno.EAGAIN)
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            trial.bind(address)
    except (OSError, OverflowError) as error:
        return isinstance(error, OSError) and error.errno == errno.EADDRINUSE
    return False
