"""How late the generator acts against its own schedule: 10,000 sessions, 5,000 requests per second, one core.

Sessions click every 2 s on average on a connection kept open; the server answers at once, on another core. Target:
the 99th percentile of the lateness over the whole run is at most 1 ms.
"""

from __future__ import annotations

import statistics
from typing import Any

from _common import conditions, cores, cpu_s, favour, responder, save

from trimtab.clock import SystemClock
from trimtab.load import LoadRun
from trimtab.workloads._distribution import Constant, Exponential
from trimtab.workloads._population import ConstantRate, Population, Step

SESSIONS = 10_000
RATE_HZ = 5_000
RAMP_S = 5.0
DURATION_S = 35.0


def population() -> Population:
    """Sessions that come within the ramp and stay."""
    arrivals_hz = SESSIONS / RAMP_S
    return Population(
        class_name="all",
        arrivals=ConstantRate(arrivals_hz),
        session_pages=Constant(1e9),
        think_s=Exponential(SESSIONS / RATE_HZ),
        schedule=(Step(RAMP_S - 0.5 / arrivals_hz, 0.0),),
    )


def main() -> None:
    """Runs once and writes the result."""
    facts = conditions()
    server, client = cores()
    raw: list[dict[str, Any]] = []
    with (
        responder(server) as (server_pid, target),
        LoadRun(target, [population()], DURATION_S, SystemClock(), interval_s=1, cpu=client) as run,
    ):
        favour(run.pid)
        for interval in run.follow():
            late = interval.lateness
            raw.append(
                {
                    "at_s": round(interval.at_s, 2),
                    "active_sessions": interval.active_sessions,
                    "requests_per_s": round(interval.classes[0].requests / interval.duration_s),
                    "lateness_p50_s": late.p50_s,
                    "lateness_p99_s": late.p99_s,
                    "lateness_max_s": late.max_s,
                }
            )
        summary = run.wait()
        server_cpu_s = cpu_s(server_pid)
    steady = [one for one in raw if one["at_s"] > RAMP_S + 1]
    rate_hz = statistics.median(one["requests_per_s"] for one in steady)
    late = summary.lateness
    if late.p50_s is None or late.p99_s is None or late.max_s is None:
        raise SystemExit("the generator did not report its lateness")
    figures = {
        "sessions": max(one["active_sessions"] for one in raw),
        "requests_per_s": rate_hz,
        "lateness_p50_ms": round(late.p50_s * 1e3, 3),
        "lateness_p99_ms": round(late.p99_s * 1e3, 3),
        "lateness_max_ms": round(late.max_s * 1e3, 3),
        "seconds_with_p99_over_1_ms": sum(one["lateness_p99_s"] > 0.001 for one in steady),
        "seconds": len(steady),
        "generator_cpu_ratio": round(summary.cpu_s / summary.duration_s, 3),
        "server_cpu_ratio": round(server_cpu_s / summary.duration_s, 3),
        "errors": dict(summary.classes[0].errors),
        "target": "lateness_p99_ms <= 1 at 5000 requests/s with 10000 sessions",
        "met": late.p99_s <= 0.001 and rate_hz >= 0.98 * RATE_HZ,
    }
    save("lateness", "python benchmarks/load/lateness.py", facts, figures, raw)


if __name__ == "__main__":
    main()
