"""Result of a run of TPC-W's browsers: WIPS, each interaction against its limit, whether the run is valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trimtab.load_reports import Browsing, Summary

if TYPE_CHECKING:
    from trimtab.workloads.tpcw import Tpcw

CUSTOMERS_PER_BROWSER = 2880
"""Customers of the population for each browser."""
# A mean think time is outside its range when it is so by this many standard errors: the law's mean is its lower end.
_SIGMAS = 4.0


@dataclass(frozen=True)
class TpcwInteraction:
    """One page in the measured part of a run.

    Args:
        page: its name.
        count: interactions completed.
        share_percent: share of all; None without any.
        mix_percent: the specification's share.
        mean_s: mean time.
        p90_s: 90th percentile of the time.
        limit_s: what the specification allows it to be.
        errors: interactions that failed, by kind.
    """

    page: str
    count: int
    share_percent: float | None
    mix_percent: float
    mean_s: float | None
    p90_s: float | None
    limit_s: float
    errors: dict[str, int]


@dataclass(frozen=True)
class TpcwResult:
    """The specification's figures of a run.

    Args:
        mix: browsing, shopping or ordering.
        metric: the specification's name of its throughput: WIPSb, WIPS or WIPSo.
        wips: interactions completed per second of the measured part.
        browsers: how many.
        time_scale: what the times of the users were divided by.
        measured_s: length of the measured part.
        interactions: by page.
        failed: interactions that failed.
        think_mean_s: mean think time, scaled.
        session_mean_s: mean length of the sessions that ended, scaled; None where none did.
        valid: the run meets what the specification asks of it, by the scaled times.
        why_not: what it does not meet.
        note: what the figures are not.
    """

    mix: str
    metric: str
    wips: float
    browsers: int
    time_scale: float
    measured_s: float
    interactions: tuple[TpcwInteraction, ...]
    failed: int
    think_mean_s: float | None
    session_mean_s: float | None
    valid: bool
    why_not: tuple[str, ...]
    note: str

    def table(self) -> str:
        """The figures for a person."""
        lines = [
            f"{self.metric} {self.wips:.2f} ({self.mix} mix, {self.browsers} browsers, "
            f"{self.measured_s:.1f} s measured)",
            f"  {'':<24}{'count':>8}{'share':>9}{'mix':>9}{'mean':>10}{'p90':>10}{'limit':>8}  errors",
        ]
        for one in self.interactions:
            share = "-" if one.share_percent is None else f"{one.share_percent:.2f} %"
            errors = ", ".join(f"{kind} {n}" for kind, n in one.errors.items()) or "none"
            lines.append(
                f"  {one.page:<24}{one.count:>8}{share:>9}{one.mix_percent:>7.2f} %{_time(one.mean_s):>10}"
                f"{_time(one.p90_s):>10}{one.limit_s:>6.0f} s  {errors}"
            )
        lines.append(f"  think time {_time(self.think_mean_s)}, session {_time(self.session_mean_s)} (means)")
        lines.append("  valid" if self.valid else "  not valid: " + "; ".join(self.why_not))
        return "\n".join([*lines, f"  {self.note}"])


def judged(traffic: Tpcw, facts: Mapping[str, Any], summary: Summary) -> TpcwResult:
    """The specification's figures of a run.

    Args:
        traffic: the browsers.
        facts: TPC-W as data.
        summary: the whole run.
    """
    found = next((one.browsing for one in summary.classes if one.class_name == traffic.class_name), None)
    assert found is not None, "the browsers' class has walked a graph"
    total, mix = sum(one.time.count for one in found.interactions), traffic.mix
    rows = tuple(
        TpcwInteraction(
            page=one.page,
            count=one.time.count,
            share_percent=100 * one.time.count / total if total else None,
            mix_percent=facts["mix"][mix]["percent"][one.page],
            mean_s=one.time.mean_s,
            p90_s=one.p90_s,
            limit_s=float(facts["response_limit_s"][one.page]),
            errors=dict(one.errors),
        )
        for one in found.interactions
    )
    # An interval that was cut off before it began has no length.
    wips = total / found.duration_s if found.duration_s > 0 else 0.0
    failed = sum(sum(row.errors.values()) for row in rows)
    why = _why_not(traffic, rows, wips, failed, facts, found)
    return TpcwResult(
        mix=mix,
        metric=facts["metric"]["names"][mix],
        wips=wips,
        browsers=traffic.browsers,
        time_scale=traffic.time_scale,
        measured_s=found.duration_s,
        interactions=rows,
        failed=failed,
        think_mean_s=found.think.mean_s,
        session_mean_s=found.session.mean_s,
        valid=not why,
        why_not=why,
        note=_note(traffic.time_scale),
    )


def _note(time_scale: float) -> str:
    if time_scale == 1:
        return "not a TPC-W result: nothing is audited"
    return (
        f"not a TPC-W result: think times, sessions and the parts of the run are divided by {time_scale:g}, "
        "the limits are not; nothing is audited"
    )


def _why_not(
    traffic: Tpcw,
    rows: Sequence[TpcwInteraction],
    wips: float,
    failed: int,
    facts: Mapping[str, Any],
    found: Browsing,
) -> tuple[str, ...]:
    """Requirements that a run does not meet, each in a few words."""
    metric, think, phases = facts["metric"], facts["think_time"], traffic.phases()
    browsers, time_scale = traffic.browsers, traffic.time_scale
    why = [
        f"90 % of {row.page} within {_time(row.p90_s)}, the limit is {row.limit_s:g} s"
        for row in rows
        if row.p90_s is not None and row.p90_s > row.limit_s
    ]
    if failed:
        why.append(f"{failed} interactions failed")
    fewest, most = (browsers * time_scale / per for per in reversed(metric["browsers_per_wips"]))
    if not fewest < wips < most:
        why.append(f"{wips:.2f} interactions/s from {browsers} browsers, must be {fewest:.2f} to {most:.2f}")
    least = CUSTOMERS_PER_BROWSER * browsers
    if 0 < traffic.customers < least:
        why.append(f"{traffic.customers} customers, must be {least} for {browsers} browsers")
    if any(step.factor != 1 for step in traffic.schedule):
        why.append("the number of browsers changes, must stay the same")
    for name, length_s, least_s in (
        ("ramp-up", phases.ramp_up_s, metric["spec_ramp_up_s"]),
        ("measurement", found.duration_s, metric["spec_measurement_s"]),
    ):
        # The generator's clock counts nanoseconds.
        if length_s < least_s / time_scale - 1e-6:
            why.append(f"a {name} of {length_s:.1f} s, must be {least_s / time_scale:.1f} s")
    low_s, high_s = (limit_s / time_scale for limit_s in think["accepted_mean_s"])
    if found.think.mean_s is not None:
        slack_s = _SIGMAS * low_s / found.think.count**0.5
        if not low_s - slack_s <= found.think.mean_s <= high_s + slack_s:
            why.append(f"a mean think time of {_time(found.think.mean_s)}, must be {_time(low_s)} to {_time(high_s)}")
    return tuple(why)


def _time(value_s: float | None) -> str:
    if value_s is None:
        return "-"
    return f"{value_s:.2f} s" if value_s >= 1 else f"{value_s * 1e3:.1f} ms"
