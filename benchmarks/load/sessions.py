"""Resident memory of one generator process with 100,000 concurrent sessions.

First with the connection closed after each page, then with every session's connection kept open, where there are as
many sessions as this machine permits descriptors, up to 100,000. Sessions come from twenty source addresses,
because one has too few ports, within 60 s; they click every 200 s on average, so that a slow server does not fill
the descriptors with connections that wait. Target: the most memory that the process ever held with 100,000
sessions is under 1 GiB.
"""

from __future__ import annotations

import resource
from typing import Any

from _common import conditions, cores, favour, peak_bytes, responder, save

from trimtab.clock import SystemClock
from trimtab.load import LoadRun
from trimtab.workloads._distribution import Constant, Exponential
from trimtab.workloads._population import Connection, ConstantRate, Population, Step

SESSIONS = 100_000
SOURCES = 20
RAMP_S = 60.0
DURATION_S = 70.0
SPARE_DESCRIPTORS = 100


def populations(sessions: int, connection: Connection) -> list[Population]:
    """A twentieth of the sessions from each address."""
    rate_hz = sessions / SOURCES / RAMP_S
    return [
        Population(
            class_name="all",
            arrivals=ConstantRate(rate_hz),
            session_pages=Constant(1e9),
            think_s=Exponential(200.0),
            connection=connection,
            # Half a gap before the next arrival would be due, clear of rounding.
            schedule=(Step(RAMP_S - 0.5 / rate_hz, 0.0),),
            source=f"127.0.0.{10 + number}",
            timeout_s=60.0,
        )
        for number in range(SOURCES)
    ]


def measured(sessions: int, connection: Connection, raw: list[dict[str, Any]]) -> dict[str, Any]:
    """One run; its intervals are added to `raw`."""
    server, client = cores()
    most, peak = 0, 0
    with (
        responder(server) as (_, target),
        LoadRun(
            target, populations(sessions, connection), DURATION_S, SystemClock(), interval_s=1, cpu=client
        ) as run,
    ):
        favour(run.pid)
        for interval in run.follow():
            if interval.at_s < DURATION_S - 0.5:
                peak = peak_bytes(run.pid)
            most = max(most, interval.active_sessions)
            raw.append(
                {
                    "connection": connection,
                    "at_s": round(interval.at_s, 2),
                    "active_sessions": interval.active_sessions,
                    "peak_rss_bytes": peak,
                    "requests": interval.classes[0].requests,
                    "errors": dict(interval.classes[0].errors),
                }
            )
        (whole,) = run.wait().classes
    return {
        "sessions": most,
        "connections": whole.connections,
        "peak_rss_mib": round(peak / 2**20, 1),
        "bytes_per_session": round(peak / most),
        "requests": whole.requests,
        "errors": dict(whole.errors),
    }


def main() -> None:
    """Runs both and writes the result."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    facts = conditions() | {"descriptors": limit}
    raw: list[dict[str, Any]] = []
    closed = measured(SESSIONS, Connection.PER_PAGE, raw)
    kept = measured(min(SESSIONS, limit - SPARE_DESCRIPTORS), Connection.UNTIL_SERVER_CLOSES, raw)
    figures = {f"closed_after_page_{key}": value for key, value in closed.items()}
    figures |= {f"kept_open_{key}": value for key, value in kept.items()}
    figures |= {
        "target": "100000 sessions under 1024 MiB",
        "met": closed["sessions"] >= SESSIONS and closed["peak_rss_mib"] < 1024 and not closed["errors"],
    }
    save("sessions", "python benchmarks/load/sessions.py", facts, figures, raw)


if __name__ == "__main__":
    main()
