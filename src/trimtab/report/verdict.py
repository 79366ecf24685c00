"""The one judge of whether runs were for the better, for the terminal, the page and the lab.

A run whose changes are trials is judged as its referee judged it: what was kept was found better, trial by trial, and
the factors multiply. A run of a method that moves something in every window is judged by the referee's estimate, at
equal load, of the windows before its first change and those of its second half. Runs of several labels are compared
by Welch's interval over their repeats, because only whole runs are independent of one another; the best of several
looks better than it is, so their intervals hold for all of them together (Bonferroni). A factor without an interval,
as of one run each, is no proof.

Of a run that kept only its last windows these alone are judged, from where the referee stood before them.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trimtab.core import Limit, Objective, Verdict, Window
from trimtab.events import restored
from trimtab.referee import Course
from trimtab.referee.estimate import MARGIN, SMALL_GAIN, Effect
from trimtab.referee.experiment import compared
from trimtab.referee.measure import measured
from trimtab.referee.turns import factor
from trimtab.report.text import plain, setting, shown, words
from trimtab.report.track import Estimate, Track, estimate, ratio
from trimtab.trials import MEASURE, SearchState

WORTHWHILE = 1.05
"""A ratio of whole runs below this is no improvement, whatever its interval."""
_LIVE = "windows before the first change against the second half of the run, at equal load by the referee's estimate"
_TRIALS = "every change was a trial, judged by the referee at equal load; what was not found better was taken back"
_TURNS = "start and winner of the search measured again in turn; the interval is 95 %, over turns"
_NO_TURNS = "the trials of the search alone: start and winner were not measured in turn"
_REPEATS = "second half of every run; intervals are 95 %, over repeats"
_TOGETHER = "for all labels together"


@dataclass(frozen=True)
class Row:
    """One line of the comparison: a label's repeats."""

    label: str
    repeats: int
    cost: Estimate
    settings: str
    against: Estimate | None


@dataclass(frozen=True)
class Judged:
    """Verdict on some runs.

    Args:
        verdict: better, worse, same (nothing changed, or by less than matters), not told apart, not measured.
        headline: the verdict in a sentence, with the factor and its interval.
        basis: the evidence behind it.
        gain: how many times better; None where nothing was changed or no factor is known.
        before: windows of a single run that stand for its start.
        after: windows of a single run that stand for its end; empty where the end is as the start.
        rows: the comparison of several labels.
    """

    verdict: Verdict
    headline: str
    basis: str = ""
    gain: Estimate | None = None
    before: tuple[Window, ...] = ()
    after: tuple[Window, ...] = ()
    rows: tuple[Row, ...] = ()

    @property
    def improved(self) -> bool:
        """Whether it is for the better."""
        return self.verdict is Verdict.BETTER


def interval(name: str, e: Estimate) -> str:
    """A mean with its interval as a person reads it."""
    if e.low is None or e.high is None:
        return f"{shown(name, e.mean)} (one sample, no interval)"
    return f"{shown(name, e.mean)} ({shown(name, max(0.0, e.low))} to {shown(name, e.high)})"


def judge_run(track: Track) -> Judged:
    """Verdict on one run: its end against its start, or against the first of its windows that were kept."""
    search = track.run.plan.search
    if (
        track.search is not None
        and search is not None
        and search.remeasure
        and (track.begun_before or track.applied())
    ):
        return _left(track, _searched(track, track.search))
    # A trial that ended within the windows that were kept may have begun before them.
    known = track.applied() or (track.begun_before and track.stood is not None)
    found = _changed(track) if known else _unchanged(track)
    if track.begun_before:
        alone = f"In the windows from {track.forgotten} on, which alone were kept"
        found = replace(found, headline=f"{alone}: {found.headline[:1].lower()}{found.headline[1:]}")
    return _left(track, found)


def _unchanged(track: Track) -> Judged:
    """A run none of whose changes is known to have come into force."""
    if track.cut_short:
        text = "What came of the only change is not known: the run ended while it was made"
        return Judged(Verdict.UNMEASURED, text, before=track.windows)
    return Judged(Verdict.SAME, "Nothing was changed", before=track.windows)


def _changed(track: Track) -> Judged:
    """A run that changed something."""
    course = track.course()
    if course is None:
        return Judged(Verdict.UNMEASURED, "What the referee knew before them was not kept, so nothing can be said")
    for event in track.events:
        course.tell(event)
    if not track.applied() and not course.trials:
        return _unchanged(track)
    found = _live(track) if course.cost_s is None else _trials(track, course)
    if broken := _broken(track.run.plan.settings.objective, found.after):
        text = f"No improvement is claimed: {_listed(broken)} is broken at the end"
        return Judged(Verdict.WORSE, text, found.basis)
    return found


def _left(track: Track, found: Judged) -> Judged:
    """The verdict, and what the run has left in force where that is another than it would be by the verdict."""
    if track.run.restored:
        said = restored(track.run.status, track.run.detail, len(track.run.plan.subjects))
    elif track.unrestored:
        said = track.unrestored
    elif track.run.unfinished and (track.applied() or track.cut_short):
        said = "trimtab was killed, and has put nothing back"
    else:
        return found
    return replace(found, headline=f"{found.headline}; {said}")


def _searched(track: Track, state: SearchState[Any]) -> Judged:
    """A search: start and winner measured in turn at its end, never the best of its trials."""
    claim, objective = state.claim, track.run.plan.settings.objective
    basis = _TURNS if state.turns else _NO_TURNS
    before = track.untouched()
    if claim is None:
        text = "The search ended before its winner was measured again, so no improvement is claimed"
        return Judged(Verdict.UNMEASURED, text, basis, before=before)
    again = {move.index + 1 for move in track.moves if move.move.phase == MEASURE}
    start, winner = (
        tuple(w for w in track.windows if w.index in again and w.configuration.items() >= wanted.items())
        for wanted in (state.start, state.winner)
    )
    kept = winner if claim.verdict is Verdict.BETTER else ()
    if claim.gain is None:
        text = f"{claim.why[:1].upper()}{claim.why[1:]}"
        return Judged(claim.verdict, text, basis, before=start or before, after=kept)
    gain = Estimate(claim.gain, claim.low, claim.high, claim.turns)
    if claim.verdict is Verdict.BETTER:
        text = f"{words(objective.metric).capitalize()}: {claim.why}"
    else:
        text = f"{claim.why[:1].upper()}{claim.why[1:]}"
    return Judged(claim.verdict, text, basis, gain, start, kept)


def _broken(objective: Objective, after: Sequence[Window]) -> list[Limit]:
    """The limits that most of some windows break, so that nothing else counts."""
    return [one for one in objective.limits if 2 * sum((one.margin(w) or 0.0) < 0 for w in after) > len(after)]


def _listed(limits: Sequence[Limit]) -> str:
    """Limits in a sentence."""
    return " and ".join(map(str, limits))


def compare(groups: Mapping[str, Sequence[Track]], objective: Objective) -> Judged:
    """Verdict on runs of several labels, the first against every other one; a label alone is judged by its own runs.

    Args:
        groups: label to its repeats, the baseline first; at least one.
        objective: the objective compared.
    """
    labels = list(groups)
    base, others = _means(groups[labels[0]], objective.metric), len(labels) - 1
    rows = tuple(
        row
        for label in labels
        if (row := _row(label, groups[label], objective, [] if label == labels[0] else base, others))
    )
    if len(labels) == 1:
        return replace(_repeats(groups[labels[0]], objective), rows=rows)
    judged = [(row.against, row.label) for row in rows if row.against is not None]
    if not judged:
        where = "in both" if others == 1 else f"with {labels[0]} and any other"
        return replace(_unmeasured(objective, where), rows=rows)
    broken = {label: _broken(objective, [w for t in groups[label] for w in t.second_half()]) for label in labels}
    newly = {label: [one for one in broken[label] if one not in broken[labels[0]]] for label in labels}
    gain, best = max(judged, key=lambda one: (not newly[one[1]], (one[0].low or 0.0) > 1, one[0].mean))
    found = _say(gain, math.log(WORTHWHILE), objective, f"with {best}", f"with {labels[0]}")
    if newly[best]:
        text = f"No improvement is claimed: {_listed(newly[best])} is broken with {best}, and not with {labels[0]}"
        found = Judged(Verdict.WORSE, text, gain=gain)
    if silent := [label for label in labels[1:] if label not in {name for _, name in judged}]:
        said = f"nothing can be said of {', '.join(silent)}, where {objective.metric} was not measured above 0"
        found = replace(found, headline=f"{found.headline}; {said}")
    return replace(found, basis=_REPEATS if others == 1 else f"{_REPEATS}, {_TOGETHER}", rows=rows)


def _trials(track: Track, course: Course) -> Judged:
    """A run whose changes are trials, as the referee judged them."""
    objective, knobs = track.run.plan.settings.objective, track.knobs
    kept = [one for one in course.trials if one.judgement.verdict is Verdict.BETTER]
    now = course.judgement
    open_end = f"; on trial at the end: {now.why}" if now is not None and not now.final else ""
    first, before = track.windows[0].configuration, track.untouched() if track.applied() else ()
    # The first window that was kept may be of the very trial that was found better.
    as_before = kept and all(kept[-1].configuration.get(name) == first.get(name) for name in knobs)
    if not kept or (as_before and not track.begun_before):
        said = _counted(Counter(one.judgement.verdict for one in course.trials)) or "none came to a verdict"
        text = f"No change was kept, so no improvement is claimed; of those tried: {said}{open_end}"
        return Judged(Verdict.SAME, text, _TRIALS, before=before)
    last = kept[-1]
    after = tuple(w for w in track.windows if w.configuration == last.configuration)
    sizes = [(one.judgement.effect, one.judgement.error) for one in kept]
    known = [(size, error) for size, error in sizes if size is not None and error is not None and size < -2 * error]
    if len(known) < len(kept):
        text = f"Better, though by how much is not known: {last.judgement.why}"
        return Judged(Verdict.BETTER, text, _TRIALS, None, before, after)
    whole = Effect(sum(s for s, _ in known), math.hypot(*(error for _, error in known)), 0.0)
    found = _say(_factor(whole, len(after)), SMALL_GAIN, objective, *_ends(track))
    return replace(found, basis=_TRIALS, before=before, after=after)


def _live(track: Track) -> Judged:
    """A run whose method moves something in every window."""
    objective, before = track.run.plan.settings.objective, track.untouched()
    half = track.windows[round(len(track.windows) / 2)].index
    after = tuple(w for w in track.windows if w.index >= half and w.index > before[-1].index) if before else ()
    effect = compared(*(tuple(measured(w, objective) for w in side) for side in (before, after)))
    if effect is None:
        return replace(_unmeasured(objective, "before and after"), before=before, after=after)
    gain = _factor(effect, min(len(before), len(after)))
    found = _say(gain, SMALL_GAIN, objective, *_ends(track))
    return replace(found, basis=_LIVE, before=before, after=after)


def _ends(track: Track) -> tuple[str, str]:
    """The end of a run and its beginning, as a sentence has them."""
    return "at the end of the run", "in the first of them" if track.begun_before else "at its start"


def _repeats(tracks: Sequence[Track], objective: Objective) -> Judged:
    """Verdict on one label: its run, or the mean over its runs, each judged by itself.

    Runs without a factor count by their verdict: one that changed nothing has the factor 1, one that broke a limit
    leaves no improvement to be claimed, and of others it is said how many there are.
    """
    found = [judge_run(track) for track in tracks]
    known = [math.log(one.gain.mean) for one in found if one.gain is not None]
    if len(found) == 1:
        return found[0]
    verdicts: Counter[Verdict] = Counter(one.verdict for one in found)
    silent: Counter[Verdict] = Counter(
        one.verdict for one in found if one.gain is None and one.verdict is not Verdict.SAME
    )
    counted = f"{len(found)} runs, each by itself: {_counted(verdicts)}"
    if silent[Verdict.WORSE]:
        return Judged(Verdict.WORSE, f"No improvement is claimed; {counted}", found[-1].basis)
    if not known:
        if len({one.headline for one in found}) == 1:
            return found[-1]
        verdict = next(iter(verdicts)) if len(verdicts) == 1 else Verdict.OPEN
        return Judged(verdict, counted, found[-1].basis)
    logs = estimate([*known, *(0.0 for one in found if one.gain is None and one.verdict is Verdict.SAME)])
    low, high = (None if v is None else math.exp(v) for v in (logs.low, logs.high))
    gain = Estimate(math.exp(logs.mean), low, high, logs.count)
    judged = _say(gain, SMALL_GAIN, objective, "at the end of the runs", "at their start")
    left_out = f"; of {len(found)} runs without those that give no factor: {_counted(silent)}" if silent else ""
    headline = f"{judged.headline}{left_out}"
    return replace(judged, headline=headline, basis=f"{found[-1].basis}; the interval is 95 %, over repeats")


def _counted(verdicts: Mapping[Verdict, int]) -> str:
    """How often there was each verdict."""
    return ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())


def _factor(effect: Effect, count: int) -> Estimate:
    """How many times better, with two standard errors to both sides as the referee has it."""
    low, high = (math.exp(-(effect.size + side * effect.error)) for side in (2, -2))
    return Estimate(math.exp(-effect.size), low, high, count)


def _means(tracks: Sequence[Track], metric: str) -> list[float]:
    """The settled mean of each run that measured the metric."""
    return [statistics.fmean(s) for t in tracks if (s := t.settled(metric))]


def _row(
    label: str, tracks: Sequence[Track], objective: Objective, baseline: Sequence[float], others: int
) -> Row | None:
    """The row of a label; None where it measured nothing.

    Args:
        label: the label.
        tracks: its repeats.
        objective: the objective compared.
        baseline: the baseline's means; none for the baseline itself.
        others: how many labels are compared with it.
    """
    means = _means(tracks, objective.metric)
    if not means:
        return None
    against = None
    if baseline and min(*baseline, *means) > 0:
        better, worse = (means, baseline) if objective.minimize else (baseline, means)
        against = ratio(better, worse, others)
    return Row(label, len(means), estimate(means), _settings(tracks), against)


def _settings(tracks: Sequence[Track]) -> str:
    """Configuration in the last windows, with the range over repeats."""
    last, said = [t.windows[-1].configuration for t in tracks if t.windows], []
    for name in tracks[0].knobs:
        values = [one[name] for one in last if name in one]
        if not values:
            continue
        ends = [setting(name, value, tracks[0].run.plan.knobs) for value in dict.fromkeys((min(values), max(values)))]
        said.append(f"{name} {' to '.join(ends)}")
    return ", ".join(said)


def _unmeasured(objective: Objective, where: str) -> Judged:
    return Judged(Verdict.UNMEASURED, f"{objective.metric} was not measured above 0 {where}: nothing can be said")


def _say(gain: Estimate, least: float, objective: Objective, here: str, there: str) -> Judged:
    """The verdict on a gain `here` over `there`, and its sentence.

    Args:
        gain: how many times better.
        least: logarithm of the least factor that matters.
        objective: the objective compared.
        here: the better side.
        there: the baseline.
    """
    name = words(objective.metric)
    if gain.low is None or gain.high is None:
        text = f"{name.capitalize()} {here} is {plain(gain.mean)} times as good as {there}; a single run is no proof"
        return Judged(Verdict.OPEN, text, gain=gain)
    span = f"(95 % interval {factor(gain.low)} to {factor(gain.high)})"
    apart, size = not gain.low <= 1 <= gain.high, math.log(gain.mean)
    if apart and size >= least:
        text = f"{name.capitalize()} is {plain(gain.mean)} times better {here} than {there} {span}"
        return Judged(Verdict.BETTER, text, gain=gain)
    if apart and size <= -least:
        low, high = (1 / end if end else math.inf for end in (gain.high, gain.low))
        span = f"(95 % interval {factor(low)} to {factor(high)})"
        text = f"Worse: {name} {here} is {plain(1 / gain.mean)} times worse than {there} {span}"
        return Judged(Verdict.WORSE, text, gain=gain)
    within = math.exp(-MARGIN) < gain.low and gain.high < math.exp(MARGIN)
    text = f"No improvement shown: {name} {here} is {plain(gain.mean)} times as good as {there} {span}"
    return Judged(Verdict.SAME if within else Verdict.OPEN, text, gain=gain)
