"""How clients fared in a run: pages, requests given up, and the time that all of them waited together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from trimtab.core import Window

WAITING = "client_outstanding_requests"
WAITED = "client_waited_s"
PATIENCE_LEFT = "client_patience_left_s"


def total(name: str, windows: Sequence[Window]) -> float:
    """A rate or a level, summed over time; windows without it count as 0."""
    return math.fsum(w.readings.get(name, 0.0) * w.duration_s for w in windows)


def within_s(windows: Sequence[Window]) -> float:
    """Seconds that all clients together waited within windows; a request that failed counts until its time-out.

    Runs from before 26 November 2026 do not tell how early one failed: there it counts until it did.
    """
    return total(WAITING, windows) + math.fsum(w.readings.get(PATIENCE_LEFT, 0.0) for w in windows)


def waited_s(windows: Sequence[Window]) -> float:
    """Seconds that all clients together had a request due and no reply yet, those that failed until their time-out.

    What visits that were given up would still have asked for counts like the run's other requests: else a server that
    drives visitors away would cost them less. Runs from before 26 November 2026 do not tell how much that is.

    No window covers the time in which a change is made and settles, but the clients count on. In runs from before
    they did, that time counts as the worse of the two windows around it.
    """
    if windows and all(WAITED in w.readings for w in (windows[0], windows[-1])):
        first, last = windows[0], windows[-1]
        return (within_s(windows[:1]) + last.readings[WAITED] - first.readings[WAITED]) * _to_asked(windows)
    levels = [w.readings.get(WAITING, 0.0) for w in windows]
    gaps_s = [max(0.0, after.start_s - before.start_s - before.duration_s) for before, after in pairwise(windows)]
    gaps = math.fsum(gap_s * max(pair) for gap_s, pair in zip(gaps_s, pairwise(levels), strict=True))
    return (within_s(windows) + gaps) * _to_asked(windows)


def _to_asked(windows: Sequence[Window]) -> float:
    """Requests that there would have been had no visit been given up, over those that there were."""
    asked = math.fsum(total(name, windows) for name in ("client_request_rate_hz", "client_error_rate_hz"))
    return 1 + total("client_unasked_rate_hz", windows) / max(1.0, asked)


def later(windows: Sequence[Window]) -> Sequence[Window]:
    """The windows of the second half of a run's time; the first of them may begin before it."""
    if not windows:
        return windows
    middle_s = (windows[0].start_s + windows[-1].start_s + windows[-1].duration_s) / 2
    earlier = sum(w.start_s <= middle_s for w in windows)
    return windows[max(0, earlier - 1) :]


def level(windows: Sequence[Window]) -> float:
    """Requests due and without a reply, failed ones until their time-out, of all clients, as the mean over time."""
    span_s = windows[-1].start_s + windows[-1].duration_s - windows[0].start_s if windows else 0.0
    return waited_s(windows) / span_s if span_s > 0 else 0.0


def page_time_s(windows: Sequence[Window]) -> float | None:
    """Mean time of a page for the client, over pages; None when none was completed."""
    known = [w for w in windows if "client_page_time_s" in w.readings]
    pages = total("client_page_rate_hz", known)
    if not pages:
        return None
    spent = (w.readings["client_page_time_s"] * w.readings["client_page_rate_hz"] * w.duration_s for w in known)
    return math.fsum(spent) / pages


def time_text(value_s: float | None) -> str:
    """A time as a person reads it."""
    if value_s is None:
        return "no page"
    return f"{value_s:.1f} s" if value_s >= 1 else f"{value_s * 1e3:.3g} ms"


def in_all(label: str, windows: Sequence[Window]) -> str:
    """One line on a whole run."""
    pages, errors = total("client_page_rate_hz", windows), total("client_error_rate_hz", windows)
    waited, lost = waited_s(windows), f"{errors:.0f} request{'' if round(errors) == 1 else 's'} given up"
    return f"{label}: {pages:.0f} pages, {lost}, clients waited {waited:.0f} s together"
