"""Requests for a status page, one at a time and without blocking, and the parsed page."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import math
import os
import select
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from trimtab.core.sensor import Clock
from trimtab.errors import NotMeasured
from trimtab.trust import printable

_LARGEST_BYTES = 8 << 20
"""Far more than the page of the largest server: a worker that was broken into could send for ever."""
_WHOLE_S = 10.0
"""Longer than any caller waits for a page. A reply that has begun and is not whole by then is given up."""
_BEYOND_S = 0.02
"""What has come is read for this long beyond the caller's patience, so that a reply in parts takes one call only."""
Endpoint = tuple[int, tuple[str, int] | str]
"""Family and address of a socket; that of a Unix socket is its path."""

_APART = "give it a virtual host of its own, at 'Listen 127.0.0.1:8081'"
_TAKEN = f"the site answers there, perhaps by a RewriteRule of an .htaccess: {_APART}"


@dataclass(frozen=True)
class Page:
    """Reply of mod_status to `?auto`.

    Args:
        text: its fields by name.
        size_bytes: length of the whole reply.
    """

    text: Mapping[str, str]
    size_bytes: int

    def number(self, name: str) -> float | None:
        """A field as a finite number; None when it is none, or is absent, as totals are with ExtendedStatus off."""
        try:
            number = float(self.text.get(name, "nan"))
        except ValueError:
            return None
        return number if math.isfinite(number) else None


def answer(reply: bytes, url: str) -> tuple[str, str, bytes]:
    """Status code, reason phrase and body of a whole HTTP reply.

    Raises:
        NotMeasured: it is no such reply.
    """
    head, separator, body = reply.partition(b"\r\n\r\n")
    version, _, status = head.split(b"\r\n", 1)[0].decode("latin-1").partition(" ")
    if not separator or not status or not version.startswith("HTTP/"):
        raise NotMeasured(f"{url} did not answer in HTTP")
    code, _, words = status.partition(" ")
    return code, words, body


def parse(reply: bytes, url: str) -> Page:
    """The page from a whole HTTP reply.

    Raises:
        NotMeasured: it is no reply, an error, or not a status page; the message says how to turn the page on.
    """
    status, reason, body = answer(reply, url)
    if status != "200":
        raise NotMeasured(f"{url} answered {printable(f'{status} {reason}'.strip())}: {advice(status, url)}")
    fields = dict(line.partition(": ")[::2] for line in body.decode("latin-1").splitlines())
    if "BusyWorkers" not in fields:
        raise NotMeasured(f"{url} is not the page of mod_status: {_TAKEN}")
    return Page(fields, len(reply))


def advice(status: str, url: str) -> str:
    """How to turn the status page on, given the HTTP status it now answers with."""
    if status in ("401", "403"):
        host, ours = urlsplit(url).hostname, comes_from(url)
        who = "local" if ours == host or ipaddress.ip_address(ours).is_loopback else f"ip {ours}"
        return f"allow it: 'Require {who}' in the <Location> of the status page, then reload"
    if status.startswith("3"):
        return f"its virtual host sends it elsewhere: {_APART}"
    how = "'a2enmod status' or <Location /server-status> SetHandler server-status, then reload"
    return f"turn it on: {how}; where it is on, {_TAKEN}" if status == "404" else f"turn it on: {how}"


def comes_from(url: str) -> str:
    """The address from which a server of this machine sees us ask for a page; nothing is sent.

    At an interface with several addresses it may be another than that of the page.

    Args:
        url: the page.
    """
    parts = urlsplit(url)
    with contextlib.suppress(OSError, UnicodeError):
        family, _, _, _, address = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as asked:
            asked.connect(address)
            return str(asked.getsockname()[0])
    return "127.0.0.1"


class Fetch:
    """A request that is under way.

    Args:
        addresses: where to connect, as from getaddrinfo; the next one is tried when nobody listens on one.
        request: the bytes to send.
        clock: the loop's clock.
    """

    def __init__(self, addresses: list[Endpoint], request: bytes, clock: Clock) -> None:
        self._addresses = list(addresses)
        self._request = request
        self._clock = clock
        self._reply = bytearray()
        self._began_s = math.inf
        self._sent = False
        self._refused = 0
        self._socket = self._connect()

    def advance(self, patience_s: float = 0.0) -> bytes | None:
        """The whole reply once it is there; None while it is not.

        Args:
            patience_s: longest time to wait for it, in seconds, however many steps it takes.

        Raises:
            NotMeasured: it failed, is too long, or began too long ago.
        """
        until_s = self._clock.now_s() + patience_s
        try:
            if self._refused:
                raise OSError(self._refused, os.strerror(self._refused))
            while self._ready(until_s):
                if not self._sent:
                    if error := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                        raise OSError(error, os.strerror(error))
                    self._socket.send(self._request)
                    self._sent = True
                    self._waiting.modify(self._socket, select.POLLIN)
                    continue
                data = self._socket.recv(1 << 16)
                if not data:
                    return bytes(self._reply)
                if not self._reply:
                    self._began_s = self._clock.now_s()
                self._reply += data
                if len(self._reply) > _LARGEST_BYTES:
                    raise NotMeasured(f"the status page is longer than {_LARGEST_BYTES} bytes")
        except OSError as error:
            if error.errno != errno.ECONNREFUSED or not self._addresses:
                raise NotMeasured(f"the status page: {error.strerror or error}") from None
            self._socket.close()
            self._socket = self._connect()
        if self._clock.now_s() - self._began_s > _WHOLE_S:
            raise NotMeasured(f"the status page is not whole {_WHOLE_S:g} s after its first byte")
        return None

    def close(self) -> None:
        """Gives the request up; may be called twice."""
        self._socket.close()

    def _connect(self) -> socket.socket:
        """A connection under way to the next address.

        Raises:
            NotMeasured: there is no socket for it, as for ::1 where IPv6 is switched off.
        """
        family, address = self._addresses.pop(0)
        try:
            connection = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        except OSError as why:
            raise NotMeasured(f"the status page: {why.strerror}") from None
        self._waiting = select.poll()
        self._waiting.register(connection, select.POLLOUT)
        error = connection.connect_ex(address)
        # A Unix socket says at once what a TCP socket says later: nobody listens, or (EAGAIN) its queue is full.
        self._refused = 0 if error == errno.EINPROGRESS else error
        return connection

    def _ready(self, until_s: float) -> bool:
        """Whether there is time for another step, and it need not wait longer than until then."""
        left_s = until_s - self._clock.now_s()
        return left_s > -_BEYOND_S and bool(self._waiting.poll(max(0.0, left_s) * 1000))
