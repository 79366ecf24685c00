"""Table of a run of the load generator: one line per interval, a table at the end."""

from __future__ import annotations

from trimtab.load_reports import Class, Interval, Latency, Summary

_ROWS = (
    ("page, from intended start", "page_intended"),
    ("page, from actual start", "page_actual"),
    ("request, from intended send", "request_intended"),
    ("request, from actual send", "request_actual"),
    ("connect", "connect"),
    ("first byte", "first_byte"),
)


def progress(interval: Interval) -> str:
    """One interval in one line."""
    parts = [_brief(one, interval.duration_s, len(interval.classes) > 1) for one in interval.classes]
    return f"{interval.at_s:7.1f} s  {'  |  '.join(parts)}  |  {interval.active_sessions} sessions"


def table(summary: Summary) -> str:
    """The whole run: per class the counts, the times from the intended and the actual start, and the errors."""
    lines: list[str] = []
    for one in summary.classes:
        lines += [*_class(one, summary.duration_s), ""]
    late = summary.lateness
    lines.append(
        f"generator: {summary.cpu_s:.2f} s of CPU in {summary.duration_s:.1f} s, "
        f"late by {_time(late.p50_s)} (p50), {_time(late.p99_s)} (p99), {_time(late.max_s)} (max)"
        + ("; stopped early" if summary.stopped_early else "")
    )
    return "\n".join(lines)


def _brief(one: Class, duration_s: float, named: bool) -> str:
    page = one.page_intended
    text = f"{one.requests / duration_s:7.1f} requests/s  page {_time(page.mean_s)} (p95 {_time(page.p95_s)})"
    wrong = [f"{kind} {count}" for kind, count in one.errors.items() if count]
    wrong += [f"unsent {one.unsent}"] if one.unsent else []
    return (f"{one.class_name} " if named else "") + text + (f"  {', '.join(wrong)}" if wrong else "")


def _class(one: Class, duration_s: float) -> list[str]:
    lines = [
        f"{one.class_name}: {one.requests} requests ({one.requests / duration_s:.1f}/s), {one.pages} pages, "
        f"{one.sessions} sessions, {one.connections} connections, {one.body_bytes / 1e6:.1f} MB",
        f"  {'':<28}{'count':>9}{'mean':>10}{'p50':>10}{'p95':>10}{'p99':>10}{'max':>10}",
    ]
    for title, name in _ROWS:
        value: Latency = getattr(one, name)
        times = "".join(f"{_time(t):>10}" for t in (value.mean_s, value.p50_s, value.p95_s, value.p99_s, value.max_s))
        lines.append(f"  {title:<28}{value.count:>9}{times}")
    errors = ", ".join(f"{kind} {count}" for kind, count in one.errors.items() if count) or "none"
    lines.append(f"  errors: {errors}; resent after an idle close: {one.resent}")
    # The request of a wrong page has its time above.
    if any(count for kind, count in one.errors.items() if kind != "wrong_page"):
        lines.append("  the times of pages and requests are without those that failed, by a time-out too")
    if one.redirected and one.browsing is None:
        lines.append(f"  redirects: {one.redirected} of the requests, not followed: the pages were not asked for")
    lines.append(f"  at the end without a reply: {one.outstanding}, of these not yet sent: {one.unsent}")
    return lines


def _time(value_s: float | None) -> str:
    if value_s is None:
        return "-"
    return f"{value_s:.2f} s" if value_s >= 1 else f"{value_s * 1e3:.2f} ms"
