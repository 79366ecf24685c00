"""Shared parts of the peers: methods of other projects, compared with in the lab, unjudged as their users run them.

A peer promises nothing of a server: it is not for `tune`. Each says where its equations come from; no code is copied.
"""

from __future__ import annotations

from trimtab.core import Window


def seen(window: Window) -> tuple[float, float] | None:
    """Mean time of a request in a worker, in seconds, and connections in workers; None when not measured.

    What a limiter of concurrency calls latency and inflight: the time since a request was let in.
    """
    latency_s, inflight = (window.readings.get(name, 0.0) for name in ("service_time_s", "busy_workers"))
    return (latency_s, inflight) if latency_s > 0 and inflight > 0 else None
