"""M/M/m/K/N against the solved Markov chain, identities, limits and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.queueing.mmmkn import Mmmkn, Stationary, Vector

rates = st.floats(1e-3, 1e3)
small = st.builds(
    Mmmkn,
    users=st.integers(1, 30),
    servers=st.integers(1, 12),
    think_rate_hz=rates,
    service_rate_hz=rates,
)


def solved_chain(queue: Mmmkn) -> Vector:
    """The stationary distribution from the generator matrix: p Q = 0, sum of p = 1."""
    top = queue.users
    generator = np.zeros((top + 1, top + 1))
    for n in range(top + 1):
        if n < top:
            generator[n, n + 1] = (queue.users - n) * queue.think_rate_hz
        if n > 0:
            generator[n, n - 1] = min(n, queue.servers) * queue.service_rate_hz
        generator[n, n] = -generator[n].sum()
    system = np.vstack([generator.T / np.abs(generator).max(), np.ones(top + 1)])
    target = np.zeros(top + 2)
    target[-1] = 1.0
    solution: Vector = np.linalg.lstsq(system, target, rcond=None)[0]
    return solution


@given(small)
def test_it_is_the_stationary_distribution_of_the_chain(queue: Mmmkn) -> None:
    p = queue.probabilities()
    assert p.sum() == pytest.approx(1.0)
    # Detailed balance, the residual of a birth-death chain, in relative terms.
    n = np.arange(1, len(p))
    up = p[:-1] * (queue.users - n + 1) * queue.think_rate_hz
    down = p[1:] * np.minimum(n, queue.servers) * queue.service_rate_hz
    assert np.allclose(up, down, rtol=1e-9, atol=1e-290)


@given(
    st.builds(
        Mmmkn,
        users=st.integers(1, 20),
        servers=st.integers(1, 8),
        think_rate_hz=st.floats(0.1, 10),
        service_rate_hz=st.floats(0.1, 10),
    )
)
def test_it_agrees_with_the_solved_generator_matrix(queue: Mmmkn) -> None:
    assert np.allclose(queue.probabilities(), solved_chain(queue), atol=1e-8)


@given(small)
def test_littles_law_and_flow_balance_hold(queue: Mmmkn) -> None:
    means = queue.solve()
    busy = means.throughput_hz / queue.service_rate_hz
    assert means.in_system == pytest.approx(means.in_queue + busy)
    assert means.residence_s == pytest.approx(means.queue_delay_s + 1 / queue.service_rate_hz)
    clicks_hz = (queue.users - means.in_system) * queue.think_rate_hz
    cancelled_hz = 1e-15 * queue.users * queue.think_rate_hz  # nearly all users are in the system
    least_hz = 1e-9 * clicks_hz + 10 * cancelled_hz
    assert means.throughput_hz == pytest.approx(clicks_hz, abs=least_hz)


def test_one_server_is_the_machine_repairman() -> None:
    users, think_s, service_s = 12, 5.0, 0.6
    ratio = service_s / think_s
    idle = 1 / sum(math.factorial(users) / math.factorial(users - n) * ratio**n for n in range(users + 1))
    means = Mmmkn(users, 1, 1 / think_s, 1 / service_s).solve()
    assert means.throughput_hz == pytest.approx((1 - idle) / service_s)
    # The response time law: R = N / X - Z.
    assert means.residence_s == pytest.approx(users / means.throughput_hz - think_s)


def test_many_rare_users_approach_m_m_m() -> None:
    servers, service_hz, arrival_hz = 4, 1.0, 3.0
    load = arrival_hz / service_hz
    head = sum(load**k / math.factorial(k) for k in range(servers))
    tail = load**servers / math.factorial(servers) / (1 - load / servers)
    erlang_c = tail / (head + tail)
    users = 200_000
    means = Mmmkn(users, servers, arrival_hz / users, service_hz).solve()
    assert means.queue_delay_s == pytest.approx(erlang_c / (servers * service_hz - arrival_hz), rel=1e-3)


def test_a_server_for_each_user_leaves_no_queue() -> None:
    means = Mmmkn(50, 50, 0.2, 3.0).solve()
    assert means.in_queue == 0.0
    assert means.residence_s == pytest.approx(1 / 3.0)


@settings(deadline=None)
@given(
    users=st.sampled_from([1_000, 50_000]),
    servers=st.integers(1, 60_000),
    think_s=st.floats(0.01, 1000),
    service_s=st.floats(1e-4, 100),
)
def test_it_stays_finite_and_balanced_for_tens_of_thousands_of_users(
    users: int, servers: int, think_s: float, service_s: float
) -> None:
    means = Mmmkn(users, servers, 1 / think_s, 1 / service_s).solve()
    assert all(math.isfinite(v) for v in (means.throughput_hz, means.in_system, means.residence_s))
    assert means.throughput_hz <= servers / service_s * (1 + 1e-9)
    assert means.residence_s == pytest.approx(users / means.throughput_hz - think_s, rel=1e-6, abs=1e-6 * think_s)


@pytest.mark.parametrize(
    "broken",
    [
        {"users": 0},
        {"servers": 0},
        {"think_rate_hz": 0.0},
        {"service_rate_hz": math.inf},
        {"users": 10**9},
    ],
)
def test_a_parameter_outside_its_domain_is_refused_by_name(broken: dict[str, float]) -> None:
    good: dict[str, float] = {"users": 5, "servers": 2, "think_rate_hz": 1.0, "service_rate_hz": 1.0}
    with pytest.raises(ValueError, match=next(iter(broken))):
        Mmmkn(**{**good, **broken})  # type: ignore[arg-type]


def test_the_means_follow_from_their_definition() -> None:
    means = Stationary(throughput_hz=4.0, in_system=10.0, in_queue=6.0)
    assert (means.residence_s, means.queue_delay_s) == (2.5, 1.5)
