"""The figures of liu2003 from stored runs on the testbed: pure functions."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from trimtab.drawing import Figure
from trimtab.lab._tables import means
from trimtab.report.style import BLUE, GREEN, GREY, ORANGE, RED, logarithmic, svg
from trimtab.report.text import seconds
from trimtab.report.track import Track

Sweep = Mapping[int, Sequence[Track]]
"""MaxRequestWorkers to its repeats."""


def curve(sweep: Sweep, metric: str) -> tuple[list[int], list[float], list[float]]:
    """Settings, means and standard deviations over repeats of a metric, where it was measured."""
    found = {m: means(r, metric) for m, r in sorted(sweep.items())}
    found = {m: v for m, v in found.items() if v}
    spread = [statistics.stdev(v) if len(v) > 1 else 0.0 for v in found.values()]
    return list(found), [statistics.fmean(v) for v in found.values()], spread


def response_times(sweep: Sweep, default: int) -> str:
    """Fig. 4: response time against MaxRequestWorkers, mean and standard deviation over repeats."""

    def draw(figure: Figure) -> None:
        axes: Any = figure.subplots()
        m, mean, spread = curve(sweep, "response_time_s")
        low = [min(s, 0.9 * v) for v, s in zip(mean, spread, strict=True)]
        axes.errorbar(m, mean, yerr=[low, spread], fmt="o-", color=ORANGE, capsize=3, label="server side, Eq. (1)")
        m, mean, _ = curve(sweep, "client_page_time_s")
        axes.plot(m, mean, "s--", color=GREY, markersize=4, label="client side")
        axes.axvline(default, color=RED, linewidth=0.9, linestyle=":", label=f"shipped default {default}")
        _worker_axis(axes, list(sweep))
        logarithmic(axes, seconds)
        axes.set_ylabel("response time per page")
        axes.legend()

    return svg(draw, 6.8, 3.8)


def causes(sweep: Sweep) -> str:
    """Fig. 10 and 11: accept-queue time, service time, CPU and memory against MaxRequestWorkers."""

    def draw(figure: Figure) -> None:
        grid: Any = figure.subplots(2, 1, sharex=True, squeeze=False)
        upper, lower = grid[0][0], grid[1][0]
        lines = (("response_time_s", ORANGE, "RT"), ("accept_queue_delay_s", BLUE, "AQT"))
        for name, colour, text in (*lines, ("service_time_s", GREEN, "ST (one request)")):
            m, mean, _ = curve(sweep, name)
            positive = [(a, b) for a, b in zip(m, mean, strict=True) if b > 0]
            upper.plot(
                [a for a, _ in positive], [b for _, b in positive], "o-", color=colour, markersize=4, label=text
            )
        for name, colour, text in (("cpu_ratio", BLUE, "CPU"), ("memory_ratio", RED, "memory demand")):
            m, mean, spread = curve(sweep, name)
            percent = [100 * v for v in mean]
            error = [100 * v for v in spread]
            lower.errorbar(m, percent, yerr=error, fmt="o-", color=colour, markersize=4, capsize=3, label=text)
        lower.axhline(100, color=GREY, linewidth=0.8)
        logarithmic(upper, seconds)
        _worker_axis(lower, list(sweep))
        upper.set_ylabel("time")
        lower.set_ylabel("% of what it may use")
        upper.legend()
        lower.legend()

    return svg(draw, 6.8, 5.4)


def model(measured: Sweep, predicted: Mapping[int, float]) -> str:
    """Fig. 6: response time measured and predicted by M/M/m/K/N."""

    def draw(figure: Figure) -> None:
        axes: Any = figure.subplots()
        m, mean, spread = curve(measured, "response_time_s")
        low = [min(s, 0.9 * v) for v, s in zip(mean, spread, strict=True)]
        axes.errorbar(m, mean, yerr=[low, spread], fmt="o-", color=ORANGE, capsize=3, label="measured")
        axes.plot(list(predicted), list(predicted.values()), "^--", color=BLUE, label="M/M/m/K/N")
        _worker_axis(axes, list(measured))
        logarithmic(axes, seconds)
        axes.set_ylabel("response time per page")
        axes.legend()

    return svg(draw, 6.8, 3.8)


def _worker_axis(axes: Any, settings: Sequence[int]) -> None:
    """The axis of MaxRequestWorkers, logarithmic, with the settings that were tried as ticks."""
    axes.set_xscale("log")
    axes.set_xticks(settings, [str(m) for m in settings])
    axes.minorticks_off()
    axes.set_xlabel("MaxRequestWorkers")
