"""nginx's settings that trimtab can move: their values by the configuration, and their domains.

Sources: https://nginx.org/en/docs/ngx_core_module.html and ngx_http_core_module.html#keepalive_timeout; the number of
processes that `auto` stands for is that of the CPUs that were online at its start (`ngx_os_init` in
src/os/unix/ngx_posix_init.c), whatever control group or affinity nginx runs in, but for C libraries that count those
of its affinity (musl).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.core import Domain, How, Knob, Role
from trimtab.errors import UsageError
from trimtab.plants.nginx.configuration import Configuration
from trimtab.plants.nginx.syntax import Directive

_RELOAD = "a reload: new processes take over, the old ones finish their requests and close idle kept connections"
_CUT = "a reload: new processes take over, the old ones close idle kept connections and cut what lasts beyond {s:g} s"
CUT = "worker_shutdown_timeout"
"""The directive by which old processes end with what they have."""
LEAST_CUT_MS = 10_000
"""Requests that are under way end within this, also those of a client who misses three packets in a row (1 + 2 + 4 s
until the last is sent again, RFC 6298); what lasts longer is a download, a WebSocket or a stream."""
_FEWEST = 16
"""Connections that a process keeps at least beside its listening sockets: sixteen clients, or eight and upstreams."""
CONNECTION_BYTES = 432
"""What a process keeps for each connection that it may have, from its start on (`ngx_event_process_init` in
src/event/ngx_event.c): one ngx_connection_t and two ngx_event_t; measured with nginx 1.22."""
_PER_CPU = 4
"""Most processes for each CPU: one that waits for a disk leaves its CPU to others; more would only take turns."""
LONGEST_KEEP_ALIVE_MS = 75_000
"""nginx's own default."""
_AUTO = "auto"
_UNITS_MS = {"y": 31_536_000_000, "M": 2_592_000_000, "w": 604_800_000, "d": 86_400_000, "h": 3_600_000}
_UNITS_MS |= {"m": 60_000, "s": 1000, "ms": 1, "": 1000}


@dataclass(frozen=True)
class Setting:
    """A knob's directive.

    Args:
        directive: its name.
        context: blocks in which it stands.
        default: its value where it is not set.
        suffix: unit after a number that trimtab writes.
    """

    directive: str
    context: tuple[str, ...]
    default: str
    suffix: str = ""

    def line(self, value: int) -> str:
        """The line that sets it."""
        return f"{self.directive} {self.word(value)};\n"

    def word(self, value: int) -> str:
        """A value as it is written."""
        return f"{value}{self.suffix}"


SETTINGS: Mapping[str, Setting] = {
    "worker_processes": Setting("worker_processes", (), "1"),
    "worker_connections": Setting("worker_connections", ("events",), "512"),
    "keepalive_timeout_ms": Setting("keepalive_timeout", ("http",), "75s", "ms"),
}
"""The directive of each knob; the first is moved where none is named."""


def kept_bytes(values: Mapping[str, int]) -> int:
    """What all processes of a configuration keep for connections.

    Args:
        values: knob to value.
    """
    return values["worker_processes"] * values["worker_connections"] * CONNECTION_BYTES


def set_by(configuration: Configuration, knob: str) -> Directive | None:
    """The directive that sets a knob; None where nginx's default holds."""
    setting = SETTINGS[knob]
    found = configuration.named(setting.directive, *setting.context)
    return found[-1] if found else None


def value_of(configuration: Configuration, knob: str) -> int:
    """The value of a knob, in its unit, by the configuration.

    Raises:
        UsageError: it is not one that nginx knows.
    """
    one = set_by(configuration, knob)
    text = SETTINGS[knob].default if one is None else "".join(one.args[:1])
    where = "" if one is None else f"{one.where}: "
    if knob == "keepalive_timeout_ms":
        return milliseconds(text, where)
    if knob == "worker_processes" and text == _AUTO:
        return configuration.cpus or os.sysconf("SC_NPROCESSORS_ONLN")
    if not text.isascii() or not text.isdigit():
        raise UsageError(f"{where}{text!r} is not a number")
    return int(text)


def counted(configuration: Configuration) -> bool:
    """Whether nginx has a process for each CPU that it counts."""
    one = set_by(configuration, "worker_processes")
    return one is not None and one.args[:1] == (_AUTO,)


def milliseconds(text: str, where: str = "") -> int:
    """A time as nginx writes it, such as 75, 300ms or "1m 30s"; without a unit it is in seconds.

    Raises:
        UsageError: it is not a time.
    """
    parts = re.findall(r"(\d+)(ms|[yMwdhms]?) *", text)
    if "".join(number + unit for number, unit in parts) != text.replace(" ", "") or not parts:
        raise UsageError(f"{where}{text!r} is not a time that nginx knows")
    return sum(int(number) * _UNITS_MS[unit] for number, unit in parts)


def cut_ms(configuration: Configuration) -> int | None:
    """The time after which an old process ends with what it has, in ms; None where it waits as long as it takes.

    Raises:
        UsageError: it is not a time.
    """
    found = configuration.named(CUT)
    return milliseconds("".join(found[-1].args[:1]), f"{found[-1].where}: ") or None if found else None


def knobs(now: Mapping[str, int], listeners: int, files: int | None, cut: int | None = None) -> dict[str, Knob]:
    """The knobs of an nginx, by name, whether they can be moved or not.

    Args:
        now: knob name to value in force.
        listeners: its listening sockets, each of which takes a connection of every process.
        files: the most files that a worker may have open; None for no limit.
        cut: the time after which an old process ends with what it has, in ms; None for never.
    """
    cost = _RELOAD if cut is None else _CUT.format(s=cut / 1000)
    cpus = os.sysconf("SC_NPROCESSORS_ONLN")
    most = max(_PER_CPU * cpus, now["worker_processes"])
    room = max(files or 1 << 20, now["worker_connections"])
    fewest = min(listeners + 1 + _FEWEST, now["worker_connections"])
    longest = max(LONGEST_KEEP_ALIVE_MS, now["keepalive_timeout_ms"])
    more_files = f"a process may have {files} files open: more needs a larger worker_rlimit_nofile"
    found = (
        Knob(
            "worker_processes",
            "worker_processes",
            "processes",
            Domain(1, most, 1, f"{_PER_CPU} for each of {cpus} CPUs; more would only take turns"),
            1,
            How.RELOAD,
            cost,
            "Processes that serve, each of them any number of connections at a time.",
            # Not a limit of workers: nobody may take it for the number of requests that are served at a time.
            Role.OTHER,
        ),
        Knob(
            "worker_connections",
            "worker_connections",
            "connections",
            Domain(fewest, room, 1, more_files if files else "far more than one process can serve"),
            512,
            How.RELOAD,
            cost,
            "Connections that one process may have, those to upstreams too; what comes beyond them is dropped.",
            Role.CONNECTION_LIMIT,
        ),
        Knob(
            "keepalive_timeout_ms",
            "keepalive_timeout",
            "ms",
            Domain(1, longest, 1, "a longer time would only hold idle connections"),
            75_000,
            How.RELOAD,
            cost,
            "Time that a connection is kept open for the next request.",
            Role.KEEP_ALIVE,
        ),
    )
    return {knob.name: knob for knob in found}
