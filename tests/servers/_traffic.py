"""One run of the load generator: against a scripted server, or a real one that is changed meanwhile."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from trimtab.clock import SystemClock
from trimtab.core import Plant
from trimtab.load import LoadRun
from trimtab.load_reports import Summary
from trimtab.workloads._distribution import Constant
from trimtab.workloads._population import Closed, Connection, ConstantRate, Population, Step, Url


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


def users(name: str, pages: Sequence[Url], number: int, think_s: float) -> Population:
    """Users who never leave, each with a connection that is kept."""
    pages, think, endless = tuple(pages), Constant(think_s), Constant(1e9)
    return Population(class_name=name, arrivals=Closed(number), pages=pages, think_s=think, session_pages=endless)


def once(pages: Sequence[Url], rate_hz: float) -> Population:
    """Users who come for one request each."""
    pages, arrivals = tuple(pages), ConstantRate(rate_hz)
    return Population(class_name="once", arrivals=arrivals, pages=pages, connection=Connection.PER_REQUEST)


def errors(summary: Summary) -> dict[str, dict[str, int]]:
    """What failed, by class."""
    return {one.class_name: dict(one.errors) for one in summary.classes if one.errors}


def changed_in_mid_traffic(
    plant: Plant, port: int, clients: Sequence[Population], changes: Iterable[dict[str, int]]
) -> Summary:
    """What became of the requests while a server was changed again and again; in the end it is as it was."""
    clock = SystemClock()
    with LoadRun(f"127.0.0.1:{port}", clients, 300.0, clock, seed=1) as run:
        clock.sleep(0.5)
        for values in changes:
            assert plant.apply(values).configuration.items() >= values.items()
            clock.sleep(0.5)
        said = run.stop()
    plant.restore()
    for one in said.classes:
        longest_s = one.request_intended.max_s
        print(f"{one.class_name}: {one.requests} ok, {one.resent} resent, at most {longest_s} s")
    assert all(one.requests > 10 for one in said.classes), "there was traffic"
    return said


@contextlib.contextmanager
def closed_port() -> Iterator[str]:
    """An address of this machine where nobody listens; nobody else is given the port while this lasts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{probe.getsockname()[1]}"
