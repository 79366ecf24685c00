"""M/M/m/K/N: N users think, wait in a buffer and are served by m servers (liu2003, Section III).

A birth-death chain over the users n in the system, waiting or in service, n = 0 ... N; K, the places to wait, is
infinite, as the paper has it:

    birth rate  (N - n) lambda            a thinking user clicks
    death rate  min(n, m) mu_m
    p_n / p_(n-1) = (N - n + 1) lambda / (min(n, m) mu_m),   sum of p_n = 1

    X = sum of p_n min(n, m) mu_m         throughput
    RT = L / X,  AQT = L_q / X            Little's law, with L = sum of n p_n and L_q = sum of max(n - m, 0) p_n

The products are summed as logarithms and normalised by their largest, so N may be in the tens of thousands.

| paper     | here           | unit     | shape      |
|-----------|----------------|----------|------------|
| lambda    | think_rate_hz  | Hz       | scalar     |
| m         | servers        | workers  | scalar     |
| mu_m      | service_rate_hz| Hz       | scalar     |
| N         | users          | users    | scalar     |
| p_n       | probabilities  |          | (N + 1,)   |
| RT        | residence_s    | s        | scalar     |
| AQT       | queue_delay_s  | s        | scalar     |

Departures from the paper
- The paper cites Lavenberg 1983 for the formula and prints none; this is the stationary solution of the chain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]

MAX_STATES = 10_000_000


@dataclass(frozen=True)
class Mmmkn:
    """The stationary M/M/m/K/N.

    Args:
        users: N, at least 1.
        servers: m, at least 1.
        think_rate_hz: lambda, the reciprocal of the mean think time; more than 0.
        service_rate_hz: mu_m of one server; more than 0.

    Raises:
        ValueError: a parameter is outside its domain.
    """

    users: int
    servers: int
    think_rate_hz: float
    service_rate_hz: float

    def __post_init__(self) -> None:
        if not 1 <= self.users < MAX_STATES:
            raise ValueError(f"users {self.users} is outside 1..{MAX_STATES - 1}")
        if self.servers < 1:
            raise ValueError(f"servers {self.servers} must be at least 1")
        for name in ("think_rate_hz", "service_rate_hz"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} {value} must be more than 0 and finite")

    def probabilities(self) -> Vector:
        """p_n for n = 0 ... N; they sum to 1."""
        n = np.arange(1, self.users + 1)
        births = np.log(self.users - n + 1.0) + math.log(self.think_rate_hz)
        deaths = np.log(np.minimum(n, self.servers)) + math.log(self.service_rate_hz)
        logarithms = np.concatenate(([0.0], np.cumsum(births - deaths)))
        weights = np.exp(logarithms - logarithms.max())
        p: Vector = weights / weights.sum()
        return p

    def solve(self) -> Stationary:
        """The stationary means."""
        p = self.probabilities()
        n = np.arange(len(p), dtype=float)
        throughput = float(p @ np.minimum(n, self.servers)) * self.service_rate_hz
        return Stationary(
            throughput_hz=throughput,
            in_system=float(p @ n),
            in_queue=float(p @ np.maximum(n - self.servers, 0.0)),
        )


@dataclass(frozen=True)
class Stationary:
    """Stationary means of a queue.

    Args:
        throughput_hz: X, pages served per second.
        in_system: L, users waiting or in service.
        in_queue: L_q, users waiting.
    """

    throughput_hz: float
    in_system: float
    in_queue: float

    @property
    def residence_s(self) -> float:
        """Mean time from a click to the end of its service, L / X."""
        return self.in_system / self.throughput_hz

    @property
    def queue_delay_s(self) -> float:
        """Mean time in the buffer, L_q / X."""
        return self.in_queue / self.throughput_hz
