"""Cross-check of the load generator with httperf, which liu2003 used: the same WAGON sessions, sent by both in turn.

The server's service time is known and differs between sessions, so the mean is right only if every session sends
as many requests as it should and each is timed from its first byte sent to its last byte received.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests._noise import agree, noisy
from tests._scripted_server import ScriptedServer
from tests.servers._traffic import start
from trimtab.workloads._distribution import Constant
from trimtab.workloads._population import ConstantRate, Population, Step, Url
from trimtab.workloads.wagon import Wagon

pytestmark = pytest.mark.server

RATE_HZ = 12.0
SESSIONS = 18
PAIRS = 3
# Neighbours that delay one of the two would show as a difference between them.
NICENESS = -10 if os.geteuid() == 0 else 0


class Shape(NamedTuple):
    pages: int
    burst: int
    think_s: float
    service_ms: int

    @property
    def path(self) -> str:
        return f"/ok?ms={self.service_ms}"


def wagon_shapes() -> list[Shape]:
    """Sessions drawn from Table II, think time 0.025 s; within one, all pages are alike, for both tools."""
    wagon, rng = Wagon(time_scale=1200.0), np.random.default_rng(2003)

    def lognormal(mean: float, sigma: float) -> float:
        variance = np.log1p((sigma / mean) ** 2)
        return float(rng.lognormal(np.log(mean) - variance / 2, np.sqrt(variance)))

    return [
        Shape(
            max(1, round(lognormal(wagon.session_pages_mean, wagon.session_pages_sigma))),
            max(1, round(rng.normal(wagon.burst_mean, wagon.burst_sigma))),
            lognormal(wagon.think_mean_s, wagon.think_sigma_s) / wagon.time_scale,
            10 + 10 * (number % 4),
        )
        for number in range(SESSIONS)
    ]


def session_log(shapes: list[Shape]) -> str:
    """The sessions as httperf reads them: a page's first request, its objects indented below it."""
    pages = [f"{s.path} think={s.think_s:.6f}\n" + f"    {s.path}\n" * (s.burst - 1) for s in shapes]
    return "\n".join(page * shape.pages for page, shape in zip(pages, shapes, strict=True))


def populations(shapes: list[Shape]) -> list[Population]:
    """The sessions as one population each, which arrives once."""
    return [
        Population(
            class_name="all",
            arrivals=ConstantRate(1.0),
            session_pages=Constant(float(shape.pages)),
            burst_requests=Constant(float(shape.burst)),
            think_s=Constant(shape.think_s),
            pages=(Url(shape.path),),
            schedule=(Step(0.0, 0.0), Step((at + 1) / RATE_HZ, 1.0), Step((at + 1) / RATE_HZ + 0.5, 0.0)),
        )
        for at, shape in enumerate(shapes)
    ]


def by_trimtab(server: ScriptedServer, shapes: list[Shape]) -> tuple[int, float]:
    """Requests and mean response time in seconds."""
    with start(server.target, *populations(shapes), duration_s=60) as run:
        os.setpriority(os.PRIO_PROCESS, run.pid, NICENESS)
        started = 0
        for interval in run.follow():
            started += sum(one.sessions for one in interval.classes)
            if started == len(shapes) and not interval.active_sessions:
                break
        (one,) = run.stop().classes
    assert one.errors == {}
    assert one.request_actual.mean_s is not None
    return one.requests, one.request_actual.mean_s


def by_httperf(server: ScriptedServer, log: Path) -> tuple[int, float]:
    """Requests and mean response time in seconds."""
    httperf = shutil.which("httperf")
    assert httperf, "httperf is not installed"
    said = subprocess.run(
        [
            *("nice", "-n", str(NICENESS), httperf, "--hog"),
            *("--server=127.0.0.1", f"--port={server.port}", f"--rate={RATE_HZ:g}"),
            *(f"--wsesslog={SESSIONS},1,{log}", "--max-connections=1", "--max-piped-calls=1"),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    ).stdout
    replies = re.search(r"replies (\d+)", said)
    times = re.search(r"Reply time \[ms\]: response ([\d.]+) transfer ([\d.]+)", said)
    assert replies, said
    assert times, said
    return int(replies[1]), (float(times[1]) + float(times[2])) / 1000


@noisy("the two programs take turns, and what else runs may slow all three turns of one")
def test_httperf_sees_the_same_mean_response_time_on_the_same_sessions(tmp_path: Path) -> None:
    shapes = wagon_shapes()
    log = tmp_path / "sessions.log"
    log.write_text(session_log(shapes))
    requests = sum(shape.pages * shape.burst for shape in shapes)
    served_s = sum(shape.pages * shape.burst * shape.service_ms / 1000 for shape in shapes)
    means_s: list[tuple[float, float]] = []
    with ScriptedServer() as server:
        os.setpriority(os.PRIO_PROCESS, server.pid, NICENESS)
        for _ in range(PAIRS):
            ours, theirs = by_trimtab(server, shapes), by_httperf(server, log)
            assert (ours[0], theirs[0]) == (requests, requests)
            assert ours[1] > served_s / requests
            means_s.append((ours[1], theirs[1]))
    # Whatever else the machine does can only add to a response time: compare the least of each tool's repeats.
    least_ours_s, least_theirs_s = (min(column) for column in zip(*means_s, strict=True))
    agree(least_ours_s, least_theirs_s, 0.1, f"mean response time of ours and httperf's, of {means_s}")
