"""nginx's page of stub_status, and its keep-alive time as seen from outside."""

from __future__ import annotations

import re
import socket
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from trimtab.clock import SystemClock
from trimtab.errors import NotMeasured, UsageError
from trimtab.plants.nginx.configuration import Configuration
from trimtab.plants.nginx.stub_status import HOW_TO, StubStatus
from trimtab.plants.nginx.syntax import Directive
from trimtab.sensors._polled_page import ask, is_here

_PATIENCE_S = 2.0
_LARGEST_BYTES = 1 << 16
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: (\d{1,5})(?:\r\n|\Z)")
_NOT_PLAIN = frozenset({"ssl", "quic", "proxy_protocol"})


@dataclass(frozen=True)
class Page:
    """A page of stub_status.

    Args:
        url: its address.
        host: the name that its server goes by; None for any.
        own_keep_alive: whether its server or location has a keep-alive time of its own.
        logged: where it is said that requests for it are logged; empty where they are not, or that is not known.
    """

    url: str
    host: str | None
    own_keep_alive: bool = False
    logged: str = ""


def candidates(configuration: Configuration) -> list[Page]:
    """URLs at which such a page may be, by the configuration."""
    found = []
    for one in configuration.anywhere("stub_status"):
        around = next((d for d in configuration.directives if d.opens == one.block), None)
        if around is not None and around.name == "server":
            path, server = "/", around.opens
        elif around is not None and around.name == "location":
            path, server = "".join(around.args[-1:]), around.block
        else:
            continue
        if not path.startswith("/"):
            continue
        servers = [d for d in configuration.directives if d.block == server]
        names = [name for d in servers if d.name == "server_name" for name in d.args]
        host = next((name for name in names if re.fullmatch(r"[A-Za-z0-9.-]+", name)), None)
        inside = [d for d in configuration.directives if d.block in (server, one.block)]
        own = any(d.name == "keepalive_timeout" for d in inside)
        logged = _logged(configuration, one)
        found += [Page(f"http://{at}{path}", host, own, logged) for at in _listens(servers)]
    return found


def _logged(configuration: Configuration, page: Directive) -> str:
    """Where it is said that requests at the place of a directive are logged, by the innermost block that says so.

    Empty where they are not, or only under a condition. nginx has a log where none is named.
    """
    block = page.block
    while block:
        logs = [one for one in configuration.directives if one.block == block and one.name == "access_log"]
        if logs:
            sure = (one for one in logs if one.args != ("off",) and not any(arg[:3] == "if=" for arg in one.args))
            return next((one.where for one in sure), "")
        block = next((one.block for one in configuration.directives if one.opens == block), "")
    return "nginx's own, as none is named"


def find(configuration: Configuration, url: str | None) -> Page:
    """The first page that answers, or that is too busy to.

    Args:
        configuration: searched for `stub_status`.
        url: the page that the user named; None to look for one.

    Raises:
        UsageError: there is none; the message says how to turn it on.
    """
    known = candidates(configuration) if url is None else [Page(url, None)]
    problems = []
    for page in known:
        try:
            ask(StubStatus(page.url, SystemClock(), page.host, _PATIENCE_S))
        except NotMeasured as error:
            problems.append(str(error))
        else:
            return page
    raise UsageError(problems[0] if problems else f"this nginx has no page of stub_status: {HOW_TO}")


def outlives(page: Page, time_s: float) -> bool | None:
    """Whether nginx keeps an idle connection longer than that, give or take a second.

    Returns:
        None where it cannot be told: the page's server has a time of its own, or the page did not answer.
    """
    parts = urlsplit(page.url)
    if page.own_keep_alive:
        return None
    request = f"GET {parts.path} HTTP/1.1\r\nHost: {page.host or parts.netloc}\r\n\r\n".encode("ascii")
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 80), _PATIENCE_S) as connection:
            connection.sendall(request)
            if not _replied(connection):
                return None
            return not _closed(connection, time_s + 1.0)
    except OSError:
        return None


def _replied(connection: socket.socket) -> bool:
    """Whether a whole page has come in time; a worker that was broken into may send a byte now and then for ever."""
    until_s, came = time.monotonic() + _PATIENCE_S, b""
    while len(came) < _LARGEST_BYTES and (left_s := until_s - time.monotonic()) > 0:
        connection.settimeout(left_s)
        came += (more := connection.recv(1 << 12))
        if not more:
            return True  # closed after its reply
        head, ends, body = came.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if ends and length and len(body) >= int(length[1]):
            return True
    return False


def _closed(connection: socket.socket, within_s: float) -> bool:
    """Whether the other end closes an idle connection, or sends what nobody asked for, within that time."""
    connection.settimeout(within_s)
    try:
        connection.recv(1)
    except TimeoutError:
        return False
    return True


def _listens(server: list[Directive]) -> list[str]:
    """Addresses on this machine at which a server listens in plain HTTP, as they stand in a URL."""
    lines = [one for one in server if one.name == "listen"]
    found = [] if lines else ["127.0.0.1:80"]
    for one in lines:
        if not one.args or one.args[0].startswith("unix:") or not _NOT_PLAIN.isdisjoint(one.args[1:]):
            continue
        text = one.args[0]
        host, colon, port = ("", ":", text) if text.isdigit() else text.rpartition(":")
        if not colon or text.endswith("]"):
            host, port = text, "80"
        host = {"": "127.0.0.1", "*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)
        found.append(f"{host}:{port}")
    return [at for at in found if _is_here(at)]


def _is_here(at: str) -> bool:
    """Whether an address is one of this machine's."""
    try:
        found = socket.getaddrinfo(urlsplit(f"http://{at}").hostname, None, type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        return False
    return all(is_here(int(entry[0]), str(entry[4][0])) for entry in found)
