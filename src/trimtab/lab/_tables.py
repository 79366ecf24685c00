"""Shared by the summaries of all experiments: tables in Markdown, means with intervals, figures by repeat."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from trimtab.core import Window
from trimtab.report.track import Estimate, Track, estimate

Shown = Callable[[float], str]


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table and an empty line after it.

    Args:
        columns: titles; one that begins with ">" is of numbers, to the right.
        rows: cells.
    """
    rule = "|".join("---:" if title.startswith(">") else "---" for title in columns)
    lines = [f"| {' | '.join(title.removeprefix('>') for title in columns)} |", f"|{rule}|"]
    return [*lines, *(f"| {' | '.join(cells)} |" for cells in rows), ""]


def interval(values: Sequence[float] | Estimate, shown: Shown) -> str:
    """A mean and its 95 % interval; "-" without values."""
    if not values:
        return "-"
    e = values if isinstance(values, Estimate) else estimate(values)
    if e.low is None or e.high is None:
        return shown(e.mean)
    return f"{shown(e.mean)} ({shown(max(0.0, e.low))} to {shown(e.high)})"


def spread(values: Sequence[float], shown: Shown) -> str:
    """A mean and the range over repeats."""
    middle = shown(statistics.fmean(values))
    return middle if len(values) < 2 else f"{middle} ({shown(min(values))} to {shown(max(values))})"


def mean(windows: Iterable[Window], metric: str) -> float | None:
    """Mean of a metric over the time that it was measured."""
    seen = [(w.readings[metric], w.duration_s) for w in windows if metric in w.readings]
    return sum(v * s for v, s in seen) / sum(s for _, s in seen) if seen else None


def means(repeats: Iterable[Track], metric: str) -> list[float]:
    """The mean of a metric in each repeat that measured it."""
    return [v for t in repeats if (v := mean(t.windows, metric)) is not None]


def side_by_side(labels: Mapping[str, Sequence[Track]]) -> Iterator[tuple[int, list[Track]]]:
    """The runs of each repeat, one for each label, to be drawn beside one another; repeats count from 1."""
    for number in range(max(len(repeats) for repeats in labels.values())):
        yield number + 1, [repeats[number] for repeats in labels.values() if number < len(repeats)]


def listed(values: Iterable[object]) -> str:
    """The value of each repeat; "never" for none."""
    return ", ".join("never" if v is None else str(v) for v in values)


def ranges(numbers: Iterable[int]) -> str:
    """Whole numbers as the command line takes them: "1-3,7"."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and parts[-1][-1] == number - 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)
