"""The report of the demonstration: liu2003's figures beside those of the runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from trimtab.report.figures import plain, seconds
from trimtab.report.page import PaperRow, render
from trimtab.report.track import Track, tracks
from trimtab.store import Store

TITLE = "Apache under WAGON load: 150 workers, all started at once, and with trimtab"


def page(store: Store, run_ids: Sequence[int]) -> str:
    """The page, from the stored runs of the demonstration, untuned and tuned in turn."""
    found = tracks(store, run_ids)
    return render(store, run_ids, TITLE, paper_rows(found))


def paper_rows(found: Sequence[Track]) -> tuple[PaperRow, ...]:
    """Table I and Fig. 14 beside the runs; empty where a response time is missing."""
    shipped, tuned = (_mean([t for t in found if (t.label == "default") is first]) for first in (True, False))
    if shipped is None or tuned is None:
        return ()

    at = {(t.run.id, w.index): w.start_s + w.duration_s for t in found for w in t.windows}
    first = [at[t.run.id, m.index] for t in found for m in t.applied()[:1]]
    today = "a memory limit and one core of today's, in place of 256 MB and a Pentium III; time runs faster"
    pool = f"{today}; all 150 are started at once: Debian's own pool starts 5, and does well on this load by itself"
    rows = [
        PaperRow("response time with 150 workers", "50 s at 150 workers (Table I, dynamic)", seconds(shipped), pool),
        PaperRow(
            "response time at the better setting", "1 s at 650 workers (Table I, dynamic)", seconds(tuned), today
        ),
        PaperRow("factor between them", "50; 10 or more in all cases (abstract)", plain(shipped / tuned)),
    ]
    if first:
        ours = f"{statistics.fmean(first):.0f} s to the first change, mean of {len(first)} runs"
        remark = "the paper's times are to convergence; what came after the first change is in the figures above"
        rows.append(PaperRow("speed", "2 min (heuristic), 14 min (fuzzy control), Fig. 14", ours, remark))
    return tuple(rows)


def _mean(found: Sequence[Track]) -> float | None:
    """Mean response time over the second halves of some runs; None when not measured."""
    means = [statistics.fmean(values) for t in found if (values := t.settled("response_time_s"))]
    return statistics.fmean(means) if means else None
