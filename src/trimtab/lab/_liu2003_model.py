"""Fig. 6: what M/M/m/K/N predicts for the settings of a sweep, calibrated from the sweep itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trimtab.queueing.liu2003 import Sessions, fig6, held_lognormal_s
from trimtab.report.track import Track
from trimtab.testbed.setups import Setup


def predicted(setup: Setup, sweep: Mapping[int, Sequence[Track]]) -> dict[int, float]:
    """Response time in s that the model gives for each setting of a sweep.

    Args:
        setup: its workload and keep-alive time.
        sweep: MaxRequestWorkers to its repeats.
    """
    load = setup.workload
    think_s, sigma_s = load.think_mean_s / load.time_scale, load.think_sigma_s / load.time_scale
    sessions = Sessions(
        session_rate_hz=load.rate_scale / load.session_gap_mean_s,
        session_pages=load.session_pages_mean,
        burst_length=load.burst_mean,
        think_s=think_s,
        held_s=held_lognormal_s(think_s, sigma_s, setup.spec.keep_alive_timeout_ms / 1000),
    )
    windows = [w for repeats in sweep.values() for t in repeats for w in t.windows]
    return {p.servers: p.response_time_s for p in fig6(windows, "max_request_workers", sessions)}
