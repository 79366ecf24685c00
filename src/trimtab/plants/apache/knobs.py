"""Apache's directives as it clips and rounds them: the limits of each multi-processing module, and their knobs.

Apache clips and rounds without a word on the console; the same is done here, so that what trimtab shows is what is
in force. Sources: https://httpd.apache.org/docs/2.4/mod/mpm_common.html, core.html#keepalivetimeout, and
`*_check_config` in server/mpm/*/*.c: the default of MaxRequestWorkers follows from the compiled-in ServerLimit and
ThreadsPerChild, not from the configured ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from trimtab.core import Domain, How, Knob, Role
from trimtab.errors import UsageError
from trimtab.plants.apache.configuration import Configuration
from trimtab.plants.apache.syntax import Directive

THREADED = ("worker", "event")
MPMS = ("prefork", *THREADED)
LONGEST_KEEP_ALIVE_MS = 60_000

DIRECTIVES: dict[str, tuple[str, ...]] = {
    "max_request_workers": ("maxrequestworkers", "maxclients"),
    "keep_alive_timeout_ms": ("keepalivetimeout",),
}
"""Knob to the lower-case names of the directives that set it; the first is the one that trimtab writes."""

NATIVE = {"max_request_workers": "MaxRequestWorkers", "keep_alive_timeout_ms": "KeepAliveTimeout"}

_BEHIND_A_PROXY = ("remoteipheader", "remoteipproxyprotocol")
"""Directives of mod_remoteip that nobody sets but for a proxy in front."""
_OTHER_THREADS = 2
"""Of a process with threads for its workers: its first one, and the one that accepts."""
_UNITS_MS = {None: 1000, "s": 1000, "ms": 1, "mi": 60_000, "h": 3_600_000}


@dataclass(frozen=True)
class Limits:
    """Limits in force.

    Args:
        mpm: prefork, worker or event.
        server_limit: most processes that this run of Apache may have.
        threads_per_child: worker threads per process; 1 for prefork.
        max_request_workers: workers at most.
        keep_alive_timeout_ms: time that a worker waits for the next request on a connection, in ms.
        spare_servers: idle processes below which prefork starts others.
        keep_alive: whether persistent connections are on.
        vhost_keep_alive: where a virtual host has its own KeepAliveTimeout, which overrides the general one.
        proxied: where it stands that requests come through a proxy; empty where that is not known.
    """

    mpm: str
    server_limit: int
    threads_per_child: int
    max_request_workers: int
    keep_alive_timeout_ms: int
    spare_servers: int
    keep_alive: bool
    vhost_keep_alive: tuple[str, ...]
    proxied: str = ""

    @property
    def values(self) -> dict[str, int]:
        """Knob name to value."""
        return {
            "max_request_workers": self.max_request_workers,
            "keep_alive_timeout_ms": self.keep_alive_timeout_ms,
        }


def mpm_of(configuration: Configuration) -> str:
    """The multi-processing module that is loaded or compiled in.

    Raises:
        UsageError: none that trimtab knows.
    """
    for mpm in MPMS:
        if f"mpm_{mpm}_module" in configuration.modules:
            return mpm
    raise UsageError(f"this Apache has none of the multi-processing modules {', '.join(MPMS)}")


def limits(configuration: Configuration) -> Limits:
    """Limits that follow from the directives once Apache has clipped and rounded them."""
    mpm = mpm_of(configuration)
    threaded = mpm in THREADED
    server_limit = max(1, _number(configuration, ("serverlimit",), 16 if threaded else 256))
    thread_limit = max(1, _number(configuration, ("threadlimit",), 64)) if threaded else 1
    threads = _number(configuration, ("threadsperchild",), 25) if threaded else 1
    threads = max(1, min(threads, thread_limit))
    workers = _number(configuration, DIRECTIVES["max_request_workers"], 400 if threaded else 256)
    processes = min(server_limit, max(1, workers // threads))
    timeouts = configuration.named("keepalivetimeout")
    general = [d for d in timeouts if not d.context]
    switch = [d for d in configuration.named("keepalive") if not d.context and d.args]
    proxied = [d.where for d in configuration.named(*_BEHIND_A_PROXY) if d.args and d.args[0].lower() != "off"]
    return Limits(
        mpm,
        server_limit,
        threads,
        processes * threads,
        milliseconds(general[-1]) if general else 5000,
        max(1, _number(configuration, ("minspareservers",), 5)),
        not switch or switch[-1].args[0].lower() != "off",
        tuple(d.where for d in timeouts if any(section == "virtualhost" for section, _ in d.context)),
        proxied[0] if proxied else "",
    )


def milliseconds(directive: Directive) -> int:
    """The value of a KeepAliveTimeout directive in ms; a number without a unit is in seconds.

    Raises:
        UsageError: it is not a time.
    """
    text = directive.args[0].lower() if directive.args else ""
    match = re.match(r"(\d+)(?:$|(s|ms|mi|h))", text)
    if match is None:
        raise UsageError(f"{directive.where}: {text!r} is not a time that Apache knows")
    return int(match[1]) * _UNITS_MS[match[2]]


def written(knob: str, value: int) -> str:
    """The line that sets a knob."""
    return f"{NATIVE[knob]} {value}{'ms' if knob == 'keep_alive_timeout_ms' else ''}"


def knobs(found: Limits, room: int | None = None) -> tuple[Knob, ...]:
    """The knobs of an Apache with these limits.

    Behind a proxy the keep-alive time becomes no shorter: one that keeps idle connections for longer sends requests
    into those that are just being closed, and its clients get a 502, of which nothing is seen here. So that time is
    to be longer than the proxy's own (AWS: 60 s).

    Args:
        found: its limits.
        room: processes and threads that its control groups let it have for its workers; None where nothing limits
            them.
    """
    step = found.threads_per_child
    ceiling, why = _ceiling(found, room)
    workers = Knob(
        "max_request_workers",
        NATIVE["max_request_workers"],
        "workers",
        Domain(step, ceiling, step, why),
        400 if found.mpm in THREADED else 256,
        How.RELOAD,
        "a graceful reload: idle keep-alive connections are closed and all workers start anew",
        "Requests served at the same time; connections beyond it wait in the accept queue.",
        Role.WORKER_LIMIT,
    )
    if not found.keep_alive:
        return (workers,)
    longest = max(LONGEST_KEEP_ALIVE_MS, found.keep_alive_timeout_ms)
    return (
        workers,
        Knob(
            "keep_alive_timeout_ms",
            NATIVE["keep_alive_timeout_ms"],
            "ms",
            Domain(
                found.keep_alive_timeout_ms if found.proxied else 1,
                longest,
                1,
                "a longer time would only hold idle workers",
            ),
            5000,
            How.RELOAD,
            "a graceful reload: idle keep-alive connections are closed and all workers start anew",
            "Time that a connection is kept open for the next request.",
            Role.KEEP_ALIVE,
        ),
    )


def _ceiling(found: Limits, room: int | None) -> tuple[int, str]:
    """The most workers that an Apache can have, and what limits them.

    Where a process cannot be forked the parent sleeps for ten seconds, once for each that it wants, and sees no
    signal meanwhile (`make_child` in server/mpm/*/*.c).
    """
    step, most = found.threads_per_child, found.server_limit * found.threads_per_child
    if room is not None:
        each = step + _OTHER_THREADS if found.mpm in THREADED else 1
        fits = max(room // each * step, found.max_request_workers)
        if fits < most:
            return fits, f"its control group has room for {room} processes and threads of its workers (pids.max)"
    product = f" x ThreadsPerChild {step}" if found.mpm in THREADED else ""
    return most, (
        f"ServerLimit {found.server_limit}{product} = {most}; more needs a larger ServerLimit in the "
        "configuration and a full restart, which trimtab never does"
    )


def _number(configuration: Configuration, names: tuple[str, ...], default: int) -> int:
    """The last value set outside of sections, read as C's atoi does; the default when there is none."""
    found = [d for d in configuration.named(*names) if not d.context and d.args]
    if not found:
        return default
    match = re.match(r"\s*[+-]?\d+", found[-1].args[0])
    return int(match[0]) if match else 0
