"""What came of a guarantee to classes of clients: only what the second half of its windows shows."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.cli._class_lines import desired_text
from trimtab.cli._progress import shown
from trimtab.core.window import Window
from trimtab.guarantee import WITHIN, DelayGuarantee, Score, scores, settled


def class_summary(guarantee: DelayGuarantee, windows: Sequence[Window]) -> list[str]:
    """A line per class: desired, achieved, spread, share of windows within 10 %."""
    half = settled(windows)
    if not half:
        return []
    lines = [f"the last {len(half)} windows, mean ± standard deviation:"]
    found = scores(guarantee, half)
    width = max(len(name) for name in guarantee.classes)
    for k, score in enumerate(found):
        lines.append(f"  {score.name:<{width}}  {_text(guarantee, k, score)}")
    judged = [score for score in found if score.kept is not None]
    broken = [score.name for score in judged if not score.kept]
    if broken:
        lines.append(f"so:    not kept for {', '.join(broken)}: the mean is more than {WITHIN:.0%} off")
    elif judged:
        lines.append(f"so:    kept: every mean is within {WITHIN:.0%} of what is desired")
    else:
        lines.append("so:    nothing can be said: no delay was measured")
    return lines


def _text(guarantee: DelayGuarantee, k: int, score: Score) -> str:
    """How one class fared."""
    if score.delay_s is None:
        return "no connection was given to a worker"
    metric = guarantee.delays[k]
    text = f"delay {shown(metric, score.delay_s)} ± {shown(metric, score.delay_sd_s)}"
    if score.quotient is None or score.within is None:
        return text
    desired = f"desired {desired_text(guarantee, k)}"
    return (
        f"{text}, {desired}: {score.quotient:.0%} ± {score.quotient_sd:.0%} of it, "
        f"within {WITHIN:.0%} in {score.within:.0%} of {score.windows} windows"
    )
