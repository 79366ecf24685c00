"""Apache's status page: its address, and the limit in force as it shows.

The scoreboard on the page has one character for each of the MaxRequestWorkers slots of the running server, and one
more for each slot beyond them that is not free (modules/generators/mod_status.c).
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TypeVar

from trimtab.clock import SystemClock
from trimtab.errors import NotMeasured, UsageError
from trimtab.plants.apache.configuration import Configuration
from trimtab.sensors._polled_page import PolledPage, ask
from trimtab.sensors._status_page import answer, comes_from
from trimtab.sensors._tcp_listeners import Listener
from trimtab.sensors.server_status import ServerStatus

N = TypeVar("N", int, float)
_PATIENCE_S = 2.0
_ANY = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}
_EVASIVE = frozenset({"evasive20_module", "evasive_module"})


def candidates(configuration: Configuration, listeners: tuple[Listener, ...]) -> list[str]:
    """URLs at which the status page may be, likeliest first.

    The Core Rule Set of ModSecurity writes a line for each request to a Host of digits (its 920350), here 240 MB a
    day. So the page is asked for by the name `localhost` first where it may be.

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
        if host == "127.0.0.1" and "security2_module" in configuration.modules:
            hosts.append(f"localhost:{port}")
        hosts.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    return [f"http://{host}{path}" for path in dict.fromkeys([*paths, "/server-status"]) for host in hosts]


def askable(configuration: Configuration, urls: list[str]) -> list[str]:
    """Those of some addresses of the page at which it may be asked for again and again.

    mod_evasive takes more than DOSPageCount requests for one page within DOSPageInterval, as shipped 2 within a
    second, for an attack. It then refuses whatever comes from that address, such as from a proxy on this machine, for
    as long as requests come, and runs DOSSystemCommand, which often closes a firewall to it.

    Raises:
        UsageError: at none of them; the message says how to allow it.
    """
    if _EVASIVE.isdisjoint(configuration.modules) or not urls:
        return urls
    hosts = {url: comes_from(url) for url in urls}
    spared = [pattern for one in configuration.named("doswhitelist") for pattern in one.args]
    if found := [url for url in urls if any(fnmatchcase(hosts[url], pattern) for pattern in spared)]:
        return found
    host = hosts[urls[0]]
    raise UsageError(
        "mod_evasive would take three questions a second for the status page for an attack, and block whatever comes "
        f"from {host}: add 'DOSWhitelist {host}' to its settings and reload Apache"
    )


def find(urls: list[str]) -> str:
    """The first address at which there is a status page; else the first that is too busy to reply in time.

    Raises:
        UsageError: there is none; the message says how to turn it on.
    """
    problems, slow = list[str](), ""
    for url in urls:
        try:
            if ask(ServerStatus(url, SystemClock(), _PATIENCE_S)) is not None:
                return url
            slow = slow or url
        except (NotMeasured, UsageError) as error:
            problems.append(str(error) if url in str(error) else f"no status page at {url}: {error}")
    if slow:
        return slow
    raise UsageError(next((one for one in problems if "allow it" in one), (problems or ["it listens nowhere"])[0]))


def scoreboard(url: str, patience_s: float = _PATIENCE_S) -> str | None:
    """The scoreboard, one character per slot; None when the page does not reply in time or is not there."""
    try:
        page = ask(ServerStatus(url, SystemClock(), patience_s))
    except NotMeasured:
        return None
    return None if page is None else page.text.get("Scoreboard")


def busy(board: str) -> int:
    """Workers on a scoreboard that serve, or hold a connection open."""
    return sum(1 for slot in board if slot not in "_.SI")


def agrees(board: str, limit: int) -> bool:
    """Whether a server with this MaxRequestWorkers would show this scoreboard."""
    return len(board) >= limit and "." not in board[limit:]


def limit(board: str, threads: int) -> int:
    """MaxRequestWorkers by a scoreboard that does not agree with what the files say.

    Whole processes: threads of one of before a reload, which finish beyond the limit, are shown one by one.
    """
    return len(board) // threads * threads


class _Serving(PolledPage[dict[int, float]]):
    """The page for people: process id to how long its oldest request is under way; nothing of ExtendedStatus Off."""

    def understood(self, reply: bytes) -> dict[int, float]:
        """Parses a whole reply.

        Raises:
            NotMeasured: it is no HTTP.
        """
        row = rb"<b>\d+-\d+</b></td><td>(\d+)</td><td>[^<]*</td><td>(<b>W</b>)?[^<]*(?:<b>.</b>\s*)?</td>"
        found = dict[int, float]()
        for pid, serves, since_s in re.findall(row + rb"<td>[^<]*</td><td>(\d+)</td>", answer(reply, self.url)[2]):
            found[int(pid)] = max(found.get(int(pid), 0.0), float(since_s) if serves else 0.0)
        return found


def serving_s(url: str) -> dict[int, float]:
    """Process id to how long its oldest request is under way, of the processes that the page for people lists.

    Empty when the page does not reply in time or has no such list (ExtendedStatus Off).
    """
    return _listed(_Serving(url, SystemClock(), _PATIENCE_S))


class _Slots(PolledPage[dict[int, int]]):
    """The page for people: process id to the number of its slot; nothing where ExtendedStatus is off."""

    def understood(self, reply: bytes) -> dict[int, int]:
        """Parses a whole reply.

        Raises:
            NotMeasured: it is no HTTP.
        """
        rows = re.findall(rb"<b>(\d+)-\d+</b></td><td>(\d+)</td>", answer(reply, self.url)[2])
        return {int(pid): int(slot) for slot, pid in rows}


def slots(url: str) -> dict[int, int]:
    """Process id to the number of its slot, of the processes that the page for people lists.

    Empty when the page does not reply in time or has no such list (ExtendedStatus Off).
    """
    return _listed(_Slots(url, SystemClock(), _PATIENCE_S))


def _listed(page: PolledPage[dict[int, N]]) -> dict[int, N]:
    """What a page lists by process id; nothing where it does not reply in time, or lists none."""
    try:
        return ask(page) or {}
    except NotMeasured:
        return {}
