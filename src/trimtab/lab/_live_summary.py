"""What a summary adds where M of a gate moved live: how long a change took, and when its memory was back."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from trimtab.core import Window
from trimtab.lab._gated import SPARE_FACT
from trimtab.report.figures import seconds
from trimtab.report.track import Track


def live(labels: Mapping[str, Sequence[Track]], reloads: Mapping[str, Sequence[Track]]) -> list[str]:
    """How long a change took with and without a reload, and when the memory of workers without work was back.

    Args:
        labels: label to repeats of the runs in which M moved live; there is one at least.
        reloads: label to repeats of the same methods with reloads; may be empty.

    Returns:
        Lines of Markdown.
    """
    facts = next(iter(labels.values()))[0].run.plan.host
    kept = f" (it keeps {facts[SPARE_FACT]})" if SPARE_FACT in facts else ""
    lines = [
        f"A change of M ends nobody: processes beyond it leave when the server itself lets idle ones go{kept}, one a "
        "second, and hold their memory until then. By method: the time that a change took, here and by reload where "
        "those runs are in these results (medians); from when on memory demand stayed within its limit, and the mean "
        "response time since then, by repeat.",
        "",
        "| method | a change, live | by reload | memory within its limit from | RT since then |",
        "|---|---:|---:|---|---|",
    ]
    for label, repeats in labels.items():
        found = [within_memory(t) for t in repeats]
        since = ", ".join(f"{windows[0].start_s:.0f} s" if windows else "never" for windows in found)
        took = f"{_took(repeats)} | {_took(reloads.get(label, ()))}"
        lines.append(f"| {label} | {took} | {since} | {', '.join(map(_mean_time, found))} |")
    return [*lines, ""]


def within_memory(track: Track) -> tuple[Window, ...]:
    """The windows at a run's end in which memory demand was never above its limit, nor unknown."""
    above = [i for i, w in enumerate(track.windows) if w.readings.get("memory_ratio", math.inf) > 1.0]
    return track.windows[above[-1] + 1 if above else 0 :]


def _took(repeats: Sequence[Track]) -> str:
    """The median time of a change."""
    times = [m.took_s for t in repeats for m in t.applied() if m.took_s is not None]
    return seconds(statistics.median(times)) if times else "-"


def _mean_time(windows: Sequence[Window]) -> str:
    """The mean response time of some windows."""
    times = [w.readings["response_time_s"] for w in windows if "response_time_s" in w.readings]
    return seconds(statistics.fmean(times)) if times else "-"
