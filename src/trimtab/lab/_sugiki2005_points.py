"""Throughput and times of sugiki2005's runs over their steady stretches, and the controllers against fixed times."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trimtab.core import Window
from trimtab.lab._tables import mean
from trimtab.lab.sugiki2005 import AUTO
from trimtab.plants.keep_alive.knobs import KEEP_ALIVE
from trimtab.report.track import Track

LEAST_THROUGHPUT, MOST_RESPONSE = 0.95, 1.05
"""The share that a controller is to reach of the best fixed time."""


@dataclass(frozen=True)
class Point:
    """One run over one steady stretch.

    Args:
        load: its load.
        clients: how many.
        label: setting or controller.
        seed: seed of the load.
        requests_hz: replies per second.
        mbytes_hz: megabytes of bodies per second.
        response_s: time per request, with those who still wait: requests outstanding over replies per second.
        reply_s: mean time of the requests that were answered.
        errors_hz: failed requests per second.
        keep_alive_s: mean of the time in force.
    """

    load: str
    clients: int
    label: str
    seed: int
    requests_hz: float
    mbytes_hz: float
    response_s: float
    reply_s: float
    errors_hz: float
    keep_alive_s: float


def steady(track: Track) -> list[tuple[str, tuple[Window, ...]]]:
    """The load and the windows of each steady stretch of a run: those whose middles lie in it."""
    found = []
    for load, since_s, until_s in track.run.plan.extras["steady"]:
        inside = tuple(w for w in track.windows if since_s <= w.start_s + w.duration_s / 2 < until_s)
        found.append((str(load), inside))
    return found


def clients(track: Track) -> int:
    """How many there were."""
    return int(track.run.plan.extras["clients"])


def points(tracks: Sequence[Track]) -> list[Point]:
    """All stretches in which replies came; a summary counts the missing ones as losses."""
    found = []
    for track in tracks:
        for load, windows in steady(track):
            rate_hz = mean(windows, "client_request_rate_hz")
            waiting = mean(windows, "client_outstanding_requests")
            if not rate_hz or waiting is None:
                continue
            found.append(
                Point(
                    load,
                    clients(track),
                    track.label,
                    track.run.plan.settings.seed,
                    rate_hz,
                    (mean(windows, "client_byte_rate_bytes_hz") or 0.0) / 1e6,
                    waiting / rate_hz,
                    mean(windows, "client_response_time_s") or 0.0,
                    mean(windows, "client_error_rate_hz") or 0.0,
                    statistics.fmean(w.configuration[KEEP_ALIVE] for w in windows) / 1e3,
                )
            )
    return found


Table = Mapping[int, Mapping[str, list[Point]]]
"""Clients to label to repeats."""


def table_of(found: Iterable[Point], load: str) -> Table:
    """The points of one load, in order of clients."""
    rows: dict[int, dict[str, list[Point]]] = defaultdict(lambda: defaultdict(list))
    for one in sorted(found, key=lambda p: p.clients):
        if one.load == load:
            rows[one.clients][one.label].append(one)
    return rows


@dataclass(frozen=True)
class Verdict:
    """A controller against the best fixed times for as many clients.

    Args:
        clients: how many.
        label: the controller.
        learned_s: the times that it settled at, by repeat.
        best: the fixed time with the highest throughput, and that with the shortest response time.
        throughput_ratio: its mean throughput over the highest.
        response_ratio: its mean response time over the shortest.
    """

    clients: int
    label: str
    learned_s: tuple[float, ...]
    best: tuple[str, str]
    throughput_ratio: float
    response_ratio: float

    @property
    def reached(self) -> bool:
        """Whether it is at least 95 % and at most 105 % of the best."""
        return self.throughput_ratio >= LEAST_THROUGHPUT and self.response_ratio <= MOST_RESPONSE


def verdicts(rows: Table) -> list[Verdict]:
    """Every controller for every number of clients with fixed times to compare it with."""
    found = []
    for clients, labels in rows.items():
        rates = {k: statistics.fmean(p.requests_hz for p in repeats) for k, repeats in labels.items()}
        times = {k: statistics.fmean(p.response_s for p in repeats) for k, repeats in labels.items()}
        fixed = [label for label in labels if label not in AUTO]
        if not fixed:
            continue
        quickest, fullest = min(fixed, key=times.__getitem__), max(fixed, key=rates.__getitem__)
        for label in (one for one in labels if one in AUTO):
            learned = tuple(p.keep_alive_s for p in labels[label])
            ratios = (rates[label] / rates[fullest], times[label] / times[quickest])
            found.append(Verdict(clients, label, learned, (fullest, quickest), *ratios))
    return found


def histogram(windows: Iterable[Window], metric: str = "intervals_50ms") -> dict[int, float]:
    """Counts by bin over windows."""
    counts: dict[int, float] = defaultdict(float)
    for window in windows:
        for name, value in window.readings.items():
            base, _, index = name.partition("@")
            if base == metric and index:
                counts[int(index)] += value
    return dict(counts)
