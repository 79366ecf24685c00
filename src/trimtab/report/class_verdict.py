"""Verdict on runs with a guarantee to classes of clients: kept or not, class by class, for terminal and page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trimtab.core import Verdict, of_class
from trimtab.guarantee import RELATIVE, WITHIN, DelayGuarantee, Score, scores, settled
from trimtab.report.text import desired, seconds
from trimtab.report.track import Track
from trimtab.report.verdict import Judged

HEAD = (
    *("run", "class", "desired", "delay, mean ± sd", "of the desired", f"within {WITHIN:.0%}"),
    "windows in which it could not be met",
)
_BASIS = (
    f"second half of every run; a guarantee is kept when the mean of what was measured is within {WITHIN:.0%} of the "
    "desired, one of a delay also when it is shorter; windows in which nobody waits say nothing of ratios"
)


def judge(groups: Mapping[str, Sequence[Track]], guarantee: DelayGuarantee) -> tuple[Judged, list[tuple[str, ...]]]:
    """The headline, which is good when the last label kept its guarantee, and a line for every label and class.

    Args:
        groups: label to its repeats, the baseline first; at least one.
        guarantee: their guarantee.

    Returns:
        (verdict, rows under `HEAD`).
    """
    said, rows, verdict = [], list[tuple[str, ...]](), Verdict.UNMEASURED
    for label, tracks in groups.items():
        windows = [window for track in tracks for window in settled(track.windows)]
        found = scores(guarantee, windows)
        for k, score in enumerate(found):
            unmet = sum(_unmet(track, score.name) for track in tracks)
            rows.append((label, *_row(guarantee, k, score), f"{unmet} of {len(windows)}"))
        broken = [score.name for score in found if score.kept is False]
        text, verdict = (
            (f"not kept for {' and '.join(broken)}", Verdict.WORSE) if broken else ("kept", Verdict.BETTER)
        )
        unknown = [score.name for k, score in enumerate(found) if score.kept is None and _is_promised(guarantee, k)]
        if all(score.kept is None for score in found):
            text, verdict = "nothing can be said: nobody waited, or no delay was measured", Verdict.UNMEASURED
        elif unknown and not broken:
            text = f"kept, but of {' and '.join(unknown)} nothing can be said"
        said.append(text if len(groups) == 1 else f"{label} {text}")
    return Judged(verdict, f"{guarantee.kind.capitalize()} delay guarantee: {'; '.join(said)}", _BASIS), rows


def _is_promised(guarantee: DelayGuarantee, k: int) -> bool:
    """Whether something is promised to class k; the first of a relative guarantee is only what others refer to."""
    return k > 0 or guarantee.kind != RELATIVE


def _unmet(track: Track, name: str) -> int:
    """Number of settled windows in which the controller said that a class's guarantee could not be met."""
    stuck = {move.index for move in track.moves if of_class("unmet", name) in move.move.evidence}
    return sum(window.index in stuck for window in settled(track.windows))


def _row(guarantee: DelayGuarantee, k: int, score: Score) -> tuple[str, ...]:
    delay = "none"
    if score.delay_s is not None:
        delay = f"{guarantee.percentile(k)}{seconds(score.delay_s)} ± {seconds(score.delay_sd_s)}"
    half = " to ".join(f"{one:.0%}" for one in score.quotient_half)
    share = "-" if score.quotient is None else f"{score.quotient:.0%} (half of the windows {half})"
    if score.delay_s is None and score.quotient is not None:
        share = f"over {score.quotient:.0%}, by the wait of those who were not served"
    within = "-" if score.within is None else f"{score.within:.0%} of {score.windows} windows"
    return score.name, desired(guarantee, k), delay, share, within
