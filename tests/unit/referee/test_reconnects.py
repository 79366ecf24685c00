"""A shorter keep-alive time brings the same requests in more connections: that is no more load."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from tests.unit.referee.test_rule import Bench

RATE_HZ, SERVICE_S, WINDOWS = 50.0, 0.02, 40
SHORTER_MS = 1250


def outcome(seed: int, utilisation: float, factor: float) -> str:
    """What becomes of a keep-alive time with which each connection brings two requests in place of four.

    Args:
        seed: source of the noise, which is 12 % from window to window.
        utilisation: of the CPU.
        factor: of the response time, by the change.
    """
    rng, bench, noise = random.Random(seed), Bench(), 0.0
    for index in range(12 + WINDOWS):
        changed = index >= 12
        if index == 12:
            bench.change(k=SHORTER_MS)
        load_hz = RATE_HZ * math.exp(rng.gauss(0, 0.05))
        noise = 0.4 * noise + math.sqrt(1 - 0.4**2) * rng.gauss(0, 0.12)
        rho = min(0.93, load_hz * utilisation / RATE_HZ)
        cost_s = SERVICE_S / (1 - rho) * math.exp(noise) * (factor if changed else 1.0)
        connections_hz = load_hz / (2 if changed else 4)
        readings = {"request_rate_hz": load_hz, "connection_rate_hz": connections_hz, "cpu_ratio": rho}
        bench.see(1, cost_s, **readings, busy_workers=load_hz * cost_s, idle_workers=50.0)
        if changed and bench.backs:
            return "taken back"
        if bench.state.incumbent["k"] == SHORTER_MS:
            return "better"
    return "on trial"


@pytest.mark.parametrize("utilisation", [0.4, 0.6])
@pytest.mark.parametrize(("factor", "wanted"), [(2.0, "taken back"), (1.5, "taken back"), (0.6, "better")])
def test_what_it_does_to_the_response_time_is_told_all_the_same(
    utilisation: float, factor: float, wanted: str
) -> None:
    found = Counter(outcome(seed, utilisation, factor) for seed in range(1, 41))
    assert found[wanted] >= 36, found


@pytest.mark.parametrize(("inside", "known"), [(2.0, True), (60.0, False)])
def test_how_many_requests_a_connection_has_is_told_only_where_nothing_piles_up(inside: float, known: bool) -> None:
    same = {"busy_workers": inside, "idle_workers": 50.0}
    bench = Bench().see(12, cpu_ratio=0.5, connection_rate_hz=12.5, **same)
    bench.change(k=SHORTER_MS).see(3, 0.025, cpu_ratio=0.5, connection_rate_hz=20.0, **same)
    found = bench.state.experiment.effect_by_requests()
    assert (found is not None) is known
    if known:
        assert found.size > bench.state.experiment.effect().size
