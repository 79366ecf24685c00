"""The summary of chung2004's experiments, from stored runs.

Where the machine's pace was measured beside the shop, ratios of a run are those at its mean pace, as the searches
themselves count (`trimtab.search.pace`); rates, and the paper's best of all trials, are as they were.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from trimtab.core import MoveState, Window
from trimtab.lab import Claim, Page
from trimtab.lab._tables import interval, table
from trimtab.lab.chung2004 import METRIC, MIX, MIXES, OURS, SINGLE, START, WINNERS, winner
from trimtab.referee.turns import Seen, at_one_pace, slope_in
from trimtab.report.search import mattering
from trimtab.report.track import Track, estimate
from trimtab.search.pace import levelled, mean_of, pace_of
from trimtab.trials import MEASURE

PAPERS_GAIN = {"browsing": 0.15, "shopping": 0.16, "ordering": 0.05}
"""Fig. 4: each mix's best configuration over the default; the best of 200 trials, not measured again."""
PAPERS_TABLE_3 = {
    "cache_mem": "8 MB: 13 / 17 / 21",
    "cache_swap_low": "90: 91 / 86 / 91",
    "cache_swap_high": "95: 96 / 96 / 96",
    "maximum_object_size": "4096 KB: 4096 / 4096 / 5888",
    "minimum_object_size": "0 KB: 0 / 50 / 306",
    "maximum_object_size_in_memory": "8 KB: 6 / 256 / 2560",
    "store_objects_per_bucket": "20: 15 / 25 / 105",
    "minSpareThreads": "minProcessors 5: 1 / 16 / 102",
    "maxThreads": "maxProcessors 20: 11 / 16 / 131",
    "acceptCount": "10: 6 / 21 / 136",
    "socket.appReadBufSize": "bufferSize 2048: 2049 / 3585 / 6657",
    "binlog_cache_size": "32768: 63488 / 153600 / 284672",
    "delayed_insert_limit": "100: 200 / 400 / 700",
    "max_connections": "100: 201 / 451 / 701",
    "delayed_queue_size": "1000: 2600 / 9100 / 7100",
    "join_buffer_size": "8388600: 407552 / 407552 / 407552",
    "net_buffer_length": "16384: 31744 / 38912 / 34816",
    "table_open_cache": "table_cache 64: 873 / 905 / 761",
    "thread_stack": "65535: 102400 / 1018880 / 773120",
}
"""Table 3, by the name that the parameter has today: default, and the best for browsing / shopping / ordering."""
PAPERS_NOISE = 0.019
"""Table 4: standard deviation of the untuned system, as a share."""
NEAR = 0.95
"""A search has adapted to a mix once a trial is this near to what that mix's winner gives."""
LIKE = 0.9
"""Two runs whose starts sold less alike are not compared: the machine was faster or slower."""
LOST = 0.9
"""A trial below this share of the start's throughput is a bad one."""
SPOILED = 0.1
"""With more failed requests for an interaction a window does not measure the start: what was tried before acts on."""


def summary(page: Page) -> list[str]:
    """The sections of `summary.md`."""
    text: list[str] = []
    if noise := page.tracks("noise"):
        text += _noise(noise)
    if single := page.tracks("single"):
        text += _single(single)
    for mix in MIXES:
        if found := page.parts.get(f"search-{mix}"):
            text += _searches(mix, found)
    text += _table_3(page)
    if cross := page.parts.get("cross"):
        text += _cross(cross)
    if change := page.parts.get("change"):
        text += _change(change, page.parts.get("cross", {}))
    return text


def _tried(track: Track) -> list[Window]:
    """The trials of a search: without its shop's warm-up, and without what was measured again in the end."""
    ends = [m.index for m in track.moves if m.proposed.phase == MEASURE or m.proposed.finished]
    return [w for w in _warm(track) if not ends or w.index <= ends[0]]


def _warm(track: Track) -> tuple[Window, ...]:
    """A run's windows once its shop was warm."""
    return track.windows[0 if track.search is None else track.search.warming :]


def _rates(windows: Sequence[Window]) -> list[float]:
    return [w.readings[METRIC] for w in windows if w.readings.get(METRIC, 0.0) > 0]


def _noise(tracks: Sequence[Track]) -> list[str]:
    """How much the untuned shop differs from trial to trial."""
    rows = []
    for track in tracks:
        rates = _rates(track.windows)
        if len(rates) > 1:
            level = list(_at_one_pace(track).values())
            left = statistics.stdev(level) * math.sqrt((len(level) - 1) / (len(level) - 2)) if len(level) > 2 else 0.0
            shown = [f"{one / statistics.fmean(rates):.2%}" for one in (statistics.stdev(rates), left)]
            seed = str(track.run.plan.settings.seed)
            rows.append((track.label, seed, f"{statistics.fmean(rates):.1f}", *(shown if left else (shown[0], "-"))))
    head = ("", "seed", ">interactions/s", ">standard deviation of a trial", ">at one pace of the machine")
    return ["## The untuned shop", "", *table(head, rows), f"The paper's: {PAPERS_NOISE:.1%} of 110.4 WIPS.", ""]


def _single(tracks: Sequence[Track]) -> list[str]:
    """Ratio of each single setting to the start, by seed."""
    head = ("setting", *(f">seed {track.run.plan.settings.seed}" for track in tracks))
    rows = [(name, *(_turns(track, setting) for track in tracks)) for name, setting in SINGLE.items()]
    said = "Ratios of interactions/s to the start's before and after, between the two by time: mean (standard error)."
    return ["## Single settings", "", said, "", *table(head, rows), ""]


def _turns(track: Track, setting: Mapping[str, int]) -> str:
    ratios = to_start(track, setting)
    if len(ratios) < 2:
        return "-"
    return f"{statistics.fmean(ratios):.3f} ({statistics.stdev(ratios) / math.sqrt(len(ratios)):.3f})"


def to_start(track: Track, setting: Mapping[str, int]) -> list[float]:
    """For each window with a setting its rate to the start's before and after, between the two by time."""
    return _over_start(track, _windows(track, setting))


def _over_start(track: Track, windows: Sequence[Window]) -> list[float]:
    """The rates of windows, each to the start's before and after, between the two by time."""
    rates = _at_one_pace(track)
    starts = {w.index: rates[w.index] for w in _windows(track, {}) if w.index in rates and not _spoiled(w)}
    seen = [(w.index, rates[w.index]) for w in windows if w.index in rates]
    return [rate / float(np.interp(at, list(starts), list(starts.values()))) for at, rate in seen if starts]


def _spoiled(window: Window) -> bool:
    failed = window.readings.get("client_error_rate_hz", 0.0)
    return failed > SPOILED * window.readings.get(METRIC, 0.0)


def _windows(track: Track, setting: Mapping[str, int]) -> list[Window]:
    """A run's windows with a setting; what that does not name is as at the start."""
    wanted = {**track.run.plan.initial, **setting}
    return [w for w in _warm(track) if all(w.configuration.get(n) == v for n, v in wanted.items())]


def _at_one_pace(track: Track) -> dict[int, float]:
    """Each window's rate at the run's mean pace of the machine, by its index."""
    level = at_one_pace(_seen(track), track.run.plan.settings.objective)
    return {w.index: one.value for w, one in zip(track.windows, level, strict=True) if one.value}


def _seen(track: Track) -> list[Seen]:
    """A run's windows as searches keep them."""
    plan = track.run.plan
    return [Seen.of(w, [knob.name for knob in plan.knobs], plan.settings.objective) for w in track.windows]


def _searches(mix: str, found: Mapping[str, list[Track]]) -> list[str]:
    """Table of each search's trials, as ratios to the start: a shop may become faster by itself in those minutes."""
    rows = []
    for label, repeats in found.items():
        for track in repeats:
            tried = _tried(track)
            at, still = _at_one_pace(track), {w.index for w in _windows(track, {})}
            ratios = _over_start(track, tried)
            start = [at[w.index] for w in tried if w.index in at and w.index in still]
            if not start:
                continue
            most = max(_rates(tried)) / statistics.fmean(_rates([w for w in tried if w.index in still]))
            bad = sum(ratio < LOST for ratio in ratios) / len(ratios)
            refused = sum(move.state in (MoveState.REFUSED, MoveState.FAILED) for move in track.moves[: len(tried)])
            rows.append(
                (
                    label,
                    str(track.run.plan.settings.seed),
                    f"{statistics.fmean(start):.1f}",
                    str(len(tried)),
                    str(refused),
                    f"{statistics.fmean(ratios):.3f}",
                    f"{statistics.fmean(ratios[10:] or ratios):.3f}",
                    f"{min(ratios):.3f}",
                    f"{bad:.0%}",
                    f"{most:.3f}",
                    _again(track),
                )
            )
    head = (
        *("search", "seed", ">start, interactions/s", ">trials", ">refused", ">mean of all", ">after the tenth"),
        *(">worst", f">below {LOST:g}", ">best of all (the paper's figure)", "winner, measured again in turn"),
    )
    said = "Ratios are to the start's rate before and after, between the two by time, at the machine's "
    said += "mean pace where that was measured; the best of all as it was, to the start's among the trials. "
    said += "After a refused change what was before stays in force."
    gain = f"The paper's best of 200 trials: {1 + PAPERS_GAIN[mix]:.2f}."
    return [
        f"## The {mix} mix",
        "",
        said,
        "",
        *table(head, rows),
        gain,
        "",
    ]


def _again(track: Track) -> str:
    """The re-measurement of a search's winner, or what ended the run before."""
    claim = track.search.claim if track.search is not None else None
    if claim is None or claim.gain is None or claim.low is None or claim.high is None:
        return (track.run.detail or "-") if claim is None else claim.why
    return f"{claim.gain:.3f} ({claim.low:.3f} to {claim.high:.3f}): {claim.verdict}"


def _table_3(page: Page) -> list[str]:
    """Settings that our searches found, beside the paper's Table 3."""
    found = {mix: page.parts.get(f"search-{mix}", {}).get(OURS, []) for mix in MIXES}
    every = [track for repeats in found.values() for track in repeats]
    if not every:
        return []
    winners = {mix: [winner(track) for track in repeats] for mix, repeats in found.items()}
    matters: Counter[str] = Counter()
    for track in every:
        if track.search is not None:
            found_of = mattering(track.search, track.run.plan.settings.objective)
            matters.update(one.knob for one in found_of if one.matters)
    rows = []
    for knob in every[0].run.plan.knobs:
        start = every[0].run.plan.initial.get(knob.name, knob.default)
        values = [
            ", ".join(knob.domain.shown(one[knob.name]) if knob.name in one else "-" for one in winners[mix])
            for mix in MIXES
        ]
        paper = PAPERS_TABLE_3.get(knob.native_name, "-")
        told_apart = f"{matters[knob.name]} of {len(every)}"
        rows.append((knob.name, knob.domain.shown(start), *values, told_apart, paper))
    head = ("knob", ">start", *(f"{mix}, by seed" for mix in MIXES), ">matters in", "the paper's")
    said = (
        "Settings that each search named last, where they are not the start's, and in how many a knob matters by the "
        "trials. The paper's: default, then browsing / shopping / ordering."
    )
    return ["## Table 3: settings that were found", "", said, "", *table(head, rows)]


def _change(change: Mapping[str, list[Track]], cross: Mapping[str, list[Track]]) -> list[str]:
    """Fig. 5: how many trials each search takes to come near to a mix's best once the mix has changed."""
    rows = []
    for label, repeats in change.items():
        for track in repeats:
            seed = track.run.plan.settings.seed
            alike = _as_fast(track, cross, seed)
            for number, mix in enumerate(MIXES):
                rates = _as_anew([w for w in track.windows if w.readings.get(MIX) == number], cross, mix, seed)
                best = _best(cross, mix, seed) if alike else None
                after = next((k + 1 for k, rate in enumerate(rates) if best and rate >= NEAR * best), None)
                near = "-" if best is None else "never" if after is None else str(after)
                late = statistics.fmean(rates[-5:]) if rates else None
                shown = [f"{rate:.1f}" if rate else "-" for rate in (rates[0] if rates else None, late, best)]
                rows.append((label, str(seed), mix, str(len(rates)), *shown, near))
    head = ("search", "seed", "mix", ">trials", ">first", ">last five", ">best of start and its winner")
    said = f"Interactions/s. Near: within {1 - NEAR:.0%} of the better of start and the mix's winner, measured anew; "
    said += "all at the pace that the machine had then. "
    said += f"Not told where the start sold more or less then, by more than {1 - LIKE:.0%}: the machine was another."
    return ["## Fig. 5: the mix changes", "", *table((*head, ">near after"), rows), said, ""]


def _as_fast(track: Track, cross: Mapping[str, list[Track]], seed: int) -> bool:
    """Whether the start sold as much when the winners were measured anew, under the mix that a search begins with."""
    began = _as_anew([w for w in _windows(track, {}) if w.readings.get(MIX) == 0], cross, MIXES[0], seed)
    anew = [rate for one in _of_seed(cross, MIXES[0], seed) for rate in _anew(one, START)]
    if not began or not anew:
        return False
    return LIKE <= statistics.fmean(began) / statistics.fmean(anew) <= 1 / LIKE


def _best(cross: Mapping[str, list[Track]], mix: str, seed: int) -> float | None:
    """The better of the start and a mix's own winner under it, measured anew; None where it was not."""
    found = [_anew(track, of) for track in _of_seed(cross, mix, seed) for of in (START, mix)]
    return max((statistics.fmean(rates) for rates in found if rates), default=None)


def _anew(track: Track, of: str) -> list[float]:
    """The rates that one run measured with the start, or with a mix's winner, at the machine's mean pace in it."""
    level = _at_one_pace(track)
    windows = _windows(track, track.run.plan.extras.get(WINNERS, {}).get(of, {}))
    return [level[w.index] for w in windows if w.index in level]


def _of_seed(cross: Mapping[str, list[Track]], mix: str, seed: int) -> list[Track]:
    """The runs in which a seed's winners were measured anew under a mix."""
    return [track for track in cross.get(mix, []) if track.run.plan.settings.seed == seed]


def _as_anew(windows: Sequence[Window], cross: Mapping[str, list[Track]], mix: str, seed: int) -> list[float]:
    """The rates of windows at the pace that the machine had when a mix's winner was measured anew."""
    for track in _of_seed(cross, mix, seed):
        seen = _seen(track)
        b, then = slope_in(seen, track.run.plan.settings.objective).value, mean_of([one.pace for one in seen])
        paces = [(w, pace_of(w.readings)) for w in windows if w.readings.get(METRIC, 0.0) > 0]
        return [math.exp(-levelled(-math.log(w.readings[METRIC]), z, b, then)) for w, z in paces]
    return _rates(windows)


def _ratios(cross: Mapping[str, list[Track]], of: str, mix: str) -> list[float]:
    """The rates of all turns with a mix's winner under one mix, each to the start's before and after."""
    tracks = cross.get(mix, [])
    return [one for track in tracks for one in to_start(track, track.run.plan.extras.get(WINNERS, {}).get(of, {}))]


def _cross(cross: Mapping[str, list[Track]]) -> list[str]:
    """Fig. 4: each winner under each mix, measured anew."""
    rows = [
        (f"winner of {of}", *(interval(_ratios(cross, of, mix), lambda v: f"{v:.3f}") for mix in MIXES))
        for of in MIXES
    ]
    head = ("setting", *(f">{mix}" for mix in MIXES))
    said = "Ratios to the start's rate before and after, between the two by time: means of all turns of all seeds, "
    said += "with their 95 % intervals. None: the servers refused that setting."
    return ["## Fig. 4: one mix's winner under all three", "", *table(head, rows), said, ""]


def _gain(mix: str) -> Claim:
    def measured(page: Page) -> float | None:
        found = _ratios(page.parts.get("cross", {}), mix, mix)
        return estimate(found).low if found else None

    said = f"{mix}: the winner measured anew gains (lower end of the 95 % interval above 1)"
    return Claim(said, f"{1 + PAPERS_GAIN[mix]:.2f}, the best of 200 trials", 1.0, math.inf, measured)


CLAIMS = tuple(_gain(mix) for mix in MIXES)
