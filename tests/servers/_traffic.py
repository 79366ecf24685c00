"""One run of the load generator against a scripted server."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

from trimtab.clock import SystemClock
from trimtab.load import LoadRun
from trimtab.load_reports import Summary
from trimtab.workloads._population import ConstantRate, Population, Step, Url


def start(
    target: str, *populations: Population, duration_s: float, seed: int = 1, interval_s: float = 0.1
) -> LoadRun:
    """A run that has begun."""
    return LoadRun(target, populations, duration_s, SystemClock(), interval_s=interval_s, seed=seed)


def summary(target: str, *populations: Population, duration_s: float, seed: int = 1) -> Summary:
    """The summary of a run to its end."""
    with start(target, *populations, duration_s=duration_s, seed=seed) as run:
        return run.wait()


def finished(target: str, *populations: Population, count: int, seed: int = 1) -> Summary:
    """The summary once so many sessions have begun and ended, however long the machine takes over it."""
    with start(target, *populations, duration_s=600, seed=seed) as run:
        begun = 0
        for interval in run.follow():
            begun += sum(one.sessions for one in interval.classes)
            if begun == count and not interval.active_sessions:
                break
        return run.stop()


def sessions(count: int, path: str, *, rate_hz: float = 100.0, **fields: Any) -> Population:
    """That many sessions, at equal distances from the start on."""
    # The schedule ends half a gap after the last arrival, clear of rounding.
    stop = Step((count - 0.5) / rate_hz, 0.0)
    fields = {"class_name": "all", "arrivals": ConstantRate(rate_hz), "schedule": (stop,), **fields}
    return Population(pages=(Url(path),), **fields)


@contextlib.contextmanager
def closed_port() -> Iterator[str]:
    """An address of this machine where nobody listens; nobody else is given the port while this lasts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{probe.getsockname()[1]}"
