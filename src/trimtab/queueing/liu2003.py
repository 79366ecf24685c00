"""How liu2003 calibrates M/M/m/K/N for Apache, and its predictions for each MaxClients (Section III, Fig. 6).

    mu_m = 1 / (BurstLength x ST_m + KeepAliveTimeOut)                                          Eq. (2)
    N = SessionRate x (SessionLength / mu_m + ThinkTime x (SessionLength - 1))                  Little's result
    RT = AQT + BL x ST_m                                                                        Eq. (1)

| paper              | here                  | unit     | shape  |
|--------------------|-----------------------|----------|--------|
| m = MaxClients     | servers               | workers  | scalar |
| mu_m               | service_rate_hz       | Hz       | scalar |
| ST_m               | service_time_s        | s        | scalar |
| BurstLength        | Sessions.burst_length | requests | scalar |
| BL                 | Measured.burst_length | requests | scalar |
| KeepAliveTimeOut   | held_s                | s        | scalar |
| 1 / lambda         | think_s               | s        | scalar |
| SessionRate        | session_rate_hz       | Hz       | scalar |
| SessionLength      | session_pages         | pages    | scalar |
| N                  | users                 | users    | scalar |
| RT                 | response_time_s       | s        | scalar |

Departures from the paper
- The paper assumes that think times are mostly longer than the keep-alive time and takes the latter as the time
  that a worker is held between pages. `held_s` is that value by default; with scaled time give the mean of
  min(think, keep-alive), which `held_lognormal_s` computes for the paper's think times.
- Eq. (2) takes the burst length from the workload model, as the paper says; Eq. (1) takes that of the
  connections, as its sensor measures it. They differ where a think time is shorter than the keep-alive time and one
  connection carries several pages.
- N is rounded to the nearest user, at least 1.
- The paper does not say whether its predicted response time contains the keep-alive time that Eq. (2) puts into
  the service. A user does not wait for it, so `response_time_s` is Eq. (1), without it; `residence_s` is with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from trimtab.core import Window
from trimtab.queueing.mmmkn import Mmmkn


@dataclass(frozen=True)
class Sessions:
    """The traffic as the model sees it.

    Args:
        session_rate_hz: sessions started per second.
        session_pages: mean pages in a session.
        burst_length: mean requests in a page.
        think_s: mean time between a page's end and the next click, in seconds.
        held_s: mean time that a worker is held after a page, in seconds: the keep-alive time, or less.
    """

    session_rate_hz: float
    session_pages: float
    burst_length: float
    think_s: float
    held_s: float


@dataclass(frozen=True)
class Measured:
    """Measurements of a run at one setting.

    Args:
        servers: m, workers.
        service_time_s: ST_m, mean time of a request in a worker, in seconds.
        burst_length: requests per connection, as the sensor of Eq. (1) counts them.
        response_time_s: measured response time, in seconds; None when not measured.
    """

    servers: int
    service_time_s: float
    burst_length: float
    response_time_s: float | None = None


@dataclass(frozen=True)
class Predicted:
    """The model's prediction for one setting.

    Args:
        servers: m, workers.
        response_time_s: AQT + BL x ST_m, in seconds.
        residence_s: the model's own time in system, keep-alive time included, in seconds.
        measured_s: the measured response time, in seconds; None when not measured.
    """

    servers: int
    response_time_s: float
    residence_s: float
    measured_s: float | None


def service_rate_hz(burst_length: float, service_time_s: float, held_s: float) -> float:
    """mu_m: pages per second that one worker can serve.

    Args:
        burst_length: requests per page.
        service_time_s: ST_m, in seconds.
        held_s: time that the worker is held after the page, in seconds.
    """
    return 1.0 / (burst_length * service_time_s + held_s)  # Eq. (2)


def concurrent_sessions(sessions: Sessions, page_rate_hz: float) -> float:
    """N: sessions in progress, by Little's result.

    Args:
        sessions: the traffic.
        page_rate_hz: mu_m.
    """
    between_s = sessions.think_s * (sessions.session_pages - 1.0)
    return sessions.session_rate_hz * (sessions.session_pages / page_rate_hz + between_s)


def held_lognormal_s(mean_s: float, sigma_s: float, keep_alive_s: float) -> float:
    """Mean of min(think, keep-alive) for lognormal think times.

    Args:
        mean_s: mean think time, in seconds.
        sigma_s: standard deviation of the think time, in seconds; more than 0.
        keep_alive_s: keep-alive time, in seconds.
    """
    if keep_alive_s <= 0:
        return 0.0
    sigma = math.sqrt(math.log1p((sigma_s / mean_s) ** 2))
    z = (math.log(keep_alive_s / mean_s) + sigma**2 / 2) / sigma
    normal = NormalDist()
    return mean_s * normal.cdf(z - sigma) + keep_alive_s * (1.0 - normal.cdf(z))


def predict(measured: Measured, sessions: Sessions) -> Predicted:
    """The model's response time at one setting.

    Args:
        measured: ST_m and burst length there.
        sessions: the traffic.

    Raises:
        ValueError: a value is outside its domain.
    """
    rate_hz = service_rate_hz(sessions.burst_length, measured.service_time_s, sessions.held_s)
    users = max(1, round(concurrent_sessions(sessions, rate_hz)))
    queue = Mmmkn(users, measured.servers, 1.0 / sessions.think_s, rate_hz).solve()
    return Predicted(
        servers=measured.servers,
        response_time_s=queue.queue_delay_s + measured.burst_length * measured.service_time_s,  # Eq. (1)
        residence_s=queue.residence_s,
        measured_s=measured.response_time_s,
    )


def calibrate(windows: Iterable[Window], knob: str) -> tuple[Measured, ...]:
    """ST_m, burst length and response time for each worker limit, as means weighted by the windows' requests.

    Args:
        windows: windows of a sweep; those that lack the readings or were aborted do not count.
        knob: name of the worker limit in their configurations.

    Returns:
        One entry for each worker limit, in increasing order.
    """
    groups: dict[int, list[Window]] = {}
    needed = ("service_time_s", "burst_length", "response_time_s")
    for window in windows:
        if not window.aborted and all(name in window.readings for name in needed):
            groups.setdefault(window.configuration[knob], []).append(window)
    return tuple(Measured(servers, *(_mean(groups[servers], name) for name in needed)) for servers in sorted(groups))


def fig6(windows: Iterable[Window], knob: str, sessions: Sessions) -> tuple[Predicted, ...]:
    """Predicted beside measured response time for each worker limit of a sweep: Fig. 6.

    Args:
        windows: windows of a sweep over the worker limit.
        knob: its name in their configurations.
        sessions: the traffic.
    """
    return tuple(predict(measured, sessions) for measured in calibrate(windows, knob))


def _mean(windows: Sequence[Window], name: str) -> float:
    """Mean over windows, weighted by their requests where those are known for all."""
    weights = [float(w.samples or 0) for w in windows]
    if not all(weights):
        weights = [1.0] * len(windows)
    return math.fsum(k * w.readings[name] for k, w in zip(weights, windows, strict=True)) / math.fsum(weights)
