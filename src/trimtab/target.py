"""The server that a URL names: its address, its Host header and the path; on this machine unless told otherwise."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from trimtab.errors import TrimtabError, UsageError


@dataclass(frozen=True)
class Target:
    """Target of requests.

    Args:
        address: numeric address, without brackets.
        port: TCP port.
        host: value of the Host header.
        path: path and query of the URL; empty when it has none.
    """

    address: str
    port: int
    host: str
    path: str

    @property
    def endpoint(self) -> str:
        """Address and port in one, with brackets around an IPv6 address."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"

    def require_reachable(self) -> None:
        """Opens and closes one connection.

        Raises:
            TrimtabError: nobody accepts there.
        """
        try:
            socket.create_connection((self.address, self.port), 5.0).close()
        except OSError as error:
            raise TrimtabError(f"cannot connect to {self.endpoint}: {error.strerror or error}") from None


def parse_target(url: str, allow_remote: bool = False) -> Target:
    """The target of an http URL.

    Args:
        url: such as `http://127.0.0.1:8080/index.html`.
        allow_remote: permit an address outside 127.0.0.0/8 and ::1.

    Raises:
        UsageError: not an http URL, a port that is none, an unknown host or no host name, or not this machine.
    """
    try:
        parts = urlsplit(url)
        port = 80 if parts.port is None else parts.port
    except ValueError as error:
        raise UsageError(f"{url!r} is not a URL: {error}") from None
    if parts.scheme != "http" or not parts.hostname or parts.username is not None or parts.fragment:
        raise UsageError(f"{url!r} is not a URL of the form http://HOST[:PORT][/PATH]")
    if port == 0:
        raise UsageError(f"{url!r} has the port 0, allowed is 1 to 65535")
    addresses = _resolve(parts.hostname, port)
    near = [address for address in addresses if ipaddress.ip_address(address).is_loopback]
    if not near and not allow_remote:
        raise UsageError(
            f"{parts.hostname} ({addresses[0]}) is not this machine (127.0.0.0/8 or ::1); "
            "add --allow-remote if you may load that server"
        )
    return Target((near or addresses)[0], port, parts.netloc, _path(parts))


def _resolve(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise UsageError(f"unknown host {host!r}: {error.strerror or error}") from None
    except UnicodeError:
        raise UsageError(f"{host!r} is not a host name: between its dots stand 1 to 63 characters") from None
    # IPv4 first: a server on both families is rarer than one that knows only IPv4.
    return [str(entry[4][0]) for entry in sorted(found, key=lambda entry: entry[0] != socket.AF_INET)]


def _path(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "") if parts.path or parts.query else ""
