"""A run of sugiki2005's lab on each of its servers: small, but whole, from the start to the stored windows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests._noise import Noise, noisy
from trimtab.lab import Context
from trimtab.lab._engine import Made, run_arm
from trimtab.lab._sugiki2005_beds import KeptAlive
from trimtab.lab._sugiki2005_points import histogram, points, steady
from trimtab.lab.sugiki2005 import SETTINGS, arms
from trimtab.plants.keep_alive.knobs import KEEP_ALIVE
from trimtab.report.track import Track, tracks
from trimtab.store import Store

pytestmark = [pytest.mark.server, pytest.mark.apache]

CLIENTS = 60


def ran(label: str, server: str) -> Track:
    store = Store(None)
    arm = next(a for a in arms("standard", 1) if a.label == label)
    bed = KeptAlive(CLIENTS, SETTINGS[label], server=server, warm_s=1.5)
    extras = {"clients": CLIENTS, "steady": [["standard", 0.0, 4.0]]}
    (track,) = tracks(
        store, [run_arm(replace(arm, bed=bed, duration_s=4.0, extras=extras), Context(store), Made(store))]
    )
    return track


@pytest.mark.parametrize("server", ["prefork", "event", "nginx"])
def test_a_fixed_time_is_in_force_and_the_clients_are_served_without_errors(server: str) -> None:
    track = ran("400 ms", server)
    assert {w.configuration[KEEP_ALIVE] for w in track.windows} == {400}
    (point,) = points([track])
    assert point.errors_hz == 0
    assert point.requests_hz > 0
    assert point.reply_s is not None and point.reply_s >= 0.1, "a round trip"
    ended_hz = [w.readings["connections_cut_rate_hz"] for w in track.windows]
    assert sum(ended_hz) > 0, "thoughts outlast 400 ms"


@noisy("a generator that is late makes its intervals longer")
def test_the_histogram_has_the_intervals_that_the_clients_drew() -> None:
    """The hill is the generator's own, after Fig. 7; that the server's side sees it agrees with no paper."""
    track = ran("15 s", "prefork")
    (windows,) = (found for _, found in steady(track))
    counts = histogram(windows)
    within = sum(count for k, count in counts.items() if k < 20)
    assert within > 50
    if sum(counts.get(k, 0) for k in range(3, 9)) <= 0.9 * within:
        raise Noise(f"intervals by steps of 50 ms: {counts}")
    assert sum(w.readings.get("connections_cut_rate_hz", 0.0) for w in windows) == 0


def test_off_is_the_servers_own_and_every_request_has_a_connection() -> None:
    track = ran("off", "prefork")
    connections, requests = (
        sum(w.readings[f"client_{what}_rate_hz"] * w.duration_s for w in track.windows)
        for what in ("connection", "request")
    )
    # Each client has one under way at most at either end.
    assert abs(connections - requests) <= CLIENTS < requests
