"""What runs with a guarantee to classes of clients show, in words and figures: kept or not, class by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimtab.core import of_class
from trimtab.guarantee import ABSOLUTE, HYBRID, DelayGuarantee, Score, scores, settled
from trimtab.report.figures import seconds
from trimtab.report.track import Track
from trimtab.report.verdict import Verdict

BASIS = (
    "second half of every run; a guarantee is kept when the mean of what was measured is within 10 % of the desired"
)


@dataclass(frozen=True)
class ClassRow:
    """One line of the table of classes: how a class fared in the runs of one label."""

    label: str
    name: str
    desired: str
    delay: str
    share: str
    within: str
    unmet: str


def judge(groups: Mapping[str, Sequence[Track]], guarantee: DelayGuarantee) -> tuple[Verdict, list[ClassRow]]:
    """The headline, which is good when the last label kept its guarantee, and a line for every label and class.

    Args:
        groups: label to its repeats, the baseline first; at least one.
        guarantee: what they guarantee.
    """
    said, rows, kept = [], [], False
    for label, tracks in groups.items():
        windows = [window for track in tracks for window in settled(track.windows)]
        found = scores(guarantee, windows)
        for k, score in enumerate(found):
            unmet = sum(_unmet(track, score.name) for track in tracks)
            rows.append(_row(label, guarantee, k, score, unmet, len(windows)))
        broken = [score.name for score in found if score.kept is False]
        if all(score.kept is None for score in found):
            text = "nothing can be said, no delay was measured"
        else:
            text = f"not kept for {' and '.join(broken)}" if broken else "kept"
        kept = text == "kept"
        said.append(text if len(groups) == 1 else f"{label} {text}")
    return Verdict(f"{guarantee.kind.capitalize()} delay guarantee: {'; '.join(said)}", kept, BASIS, ()), rows


def desired(guarantee: DelayGuarantee, k: int) -> str:
    """What class k is promised."""
    if guarantee.kind == ABSOLUTE:
        return seconds(guarantee.desired[k])
    if k == 0:
        return f"at most {seconds(guarantee.desired[0])}" if guarantee.kind == HYBRID else "the reference"
    return f"{guarantee.desired_ratio(k):.3g} times {guarantee.classes[k - 1]}"


def _unmet(track: Track, name: str) -> int:
    """In how many settled windows the controller said that a class could not have what it was promised."""
    stuck = {move.index for move in track.moves if of_class("unmet", name) in move.move.evidence}
    return sum(window.index in stuck for window in settled(track.windows))


def _row(label: str, guarantee: DelayGuarantee, k: int, score: Score, unmet: int, windows: int) -> ClassRow:
    delay = "none" if score.delay_s is None else f"{seconds(score.delay_s)} ± {seconds(score.delay_sd_s)}"
    share = "-" if score.quotient is None else f"{score.quotient:.0%} ± {score.quotient_sd:.0%}"
    within = "-" if score.within is None else f"{score.within:.0%} of {score.windows} windows"
    return ClassRow(label, score.name, desired(guarantee, k), delay, share, within, f"{unmet} of {windows}")
