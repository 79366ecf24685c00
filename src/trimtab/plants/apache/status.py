"""Apache's status page: where it is, and what it says of the limit in force.

The scoreboard on the page has one character for each of the MaxRequestWorkers places of the running server, and one
more for each place beyond them that is not free (modules/generators/mod_status.c).
"""

from __future__ import annotations

import http.client
import re
import urllib.parse

from trimtab.errors import UsageError
from trimtab.plants.apache.configuration import Configuration
from trimtab.processes import Listener

HOW_TO = "load mod_status (a2enmod status) with '<Location /server-status> SetHandler server-status, Require local'"
_MOST_BYTES = 8 << 20
"""Far more than the page of the largest server: a worker that was broken into could send for ever."""
_ANY = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}


def candidates(configuration: Configuration, listeners: tuple[Listener, ...]) -> list[str]:
    """Where the status page may be, likeliest first.

    Args:
        configuration: the evaluation, searched for `SetHandler server-status`.
        listeners: the addresses on which this Apache listens.
    """
    paths = [
        argument
        for d in configuration.named("sethandler")
        if d.args[:1] == ("server-status",)
        for section, argument in d.context
        if section == "location" and argument.startswith("/")
    ]
    hosts = []
    for address, port in listeners:
        host = _ANY.get(address, address)
        hosts.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    return [f"http://{host}{path}" for path in dict.fromkeys([*paths, "/server-status"]) for host in hosts]


def fields(url: str, patience_s: float) -> dict[str, str]:
    """The lines of the status page in its machine-readable form, by their label.

    Args:
        url: its address; a query is left out.
        patience_s: time to wait for a reply, in seconds.

    Raises:
        UsageError: it is off, forbidden, or not Apache's; the message says how to turn it on.
        TimeoutError: the server did not reply in time.
    """
    status, text = _get(f"{url.partition('?')[0]}?auto", patience_s)
    if status in (401, 403):
        raise UsageError(f"the status page {url} is forbidden ({status}): allow it with 'Require local'")
    found = {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}
    if status != 200 or "Scoreboard" not in found:
        raise UsageError(f"no status page at {url} ({status}): {HOW_TO}")
    return found


def find(urls: list[str], patience_s: float) -> str:
    """The first address at which there is a status page; else the first that is too busy to reply in time.

    Raises:
        UsageError: there is none; the message says how to turn it on.
    """
    problems, slow = [], []
    for url in (u if "?" in u else f"{u}?auto" for u in urls):
        try:
            fields(url, patience_s)
        except TimeoutError:
            slow.append(url)
        except UsageError as error:
            problems.append(str(error))
        else:
            return url
    if slow:
        return slow[0]
    raise UsageError(next((p for p in problems if "forbidden" in p), problems[0] if problems else f"none: {HOW_TO}"))


def scoreboard(url: str, patience_s: float) -> str | None:
    """One character per place for a worker; None when the page does not reply in time or is not there."""
    try:
        return fields(url, patience_s)["Scoreboard"]
    except (TimeoutError, UsageError):
        return None


def busy(board: str) -> int:
    """Workers on a scoreboard that serve, or hold a connection open."""
    return sum(1 for place in board if place not in "_.SI")


def agrees(board: str, limit: int) -> bool:
    """Whether a server with this MaxRequestWorkers would show this scoreboard."""
    return len(board) >= limit and "." not in board[limit:]


def places(url: str, patience_s: float) -> dict[int, int]:
    """Process id to the number of its place, of the processes that the page for people lists.

    Empty when the page does not reply in time or has no such list (ExtendedStatus Off).
    """
    try:
        status, text = _get(url.partition("?")[0], patience_s)
    except (TimeoutError, UsageError):
        return {}
    rows = re.findall(r"<b>(\d+)-\d+</b></td><td>(\d+)</td>", text) if status == 200 else []
    return {int(pid): int(place) for place, pid in rows}


def _get(url: str, patience_s: float) -> tuple[int, str]:
    """Status code and body of a page.

    Raises:
        UsageError: it cannot be fetched.
        TimeoutError: the server did not reply in time.
    """
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=patience_s)
    try:
        query = f"?{parts.query}" if parts.query else ""
        connection.request("GET", f"{parts.path or '/'}{query}", headers={"Connection": "close"})
        reply = connection.getresponse()
        return reply.status, reply.read(_MOST_BYTES).decode(errors="replace")
    except TimeoutError:
        raise
    except (OSError, http.client.HTTPException) as error:
        raise UsageError(f"no status page at {url}: {error}") from None
    finally:
        connection.close()
