"""The report of a design: the root locus, Fig. 3 of lu2001, and the predicted step response."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trimtab.design.pi import Design
from trimtab.design.poles import root_locus
from trimtab.design.specification import Specification
from trimtab.drawing import Figure
from trimtab.report.sheet import Plot, Table, sheet
from trimtab.report.style import BLUE, GREEN, GREY, INK, ORANGE, RED, svg

MOST_SHOWN = 10.0
"""A response that leaves all bounds is drawn up to so many times the reference."""
SHOWN_FACTOR = 20.0
"""The locus is drawn up to this many times the gain of the design."""


def page(design: Design, svg_text: str, facts: Sequence[tuple[str, str]]) -> str:
    """The page of a design.

    Args:
        design: the design.
        svg_text: its figure.
        facts: names and texts of facts on it.
    """
    caption = (
        "Left: the closed-loop poles as the gain grows from 0. Right: a unit step of the reference, by the model."
    )
    headline = f"Gain {design.gain:g} and zero {design.zero:g}: " + (
        "does not settle" if design.settling_s is None else f"settles in {design.settling_s:g} s"
    )
    plots = [Plot("Closed loop", caption, svg_text)]
    return sheet("Design of a PI controller", headline, plots, [Table("In figures", (), facts)])


def picture(design: Design, specification: Specification) -> str:
    """Root locus and predicted step response, side by side."""

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
        _locus(left, design)
        _step(right, design, specification)

    return svg(draw, 11.0, 4.8)


def _locus(axes: Any, design: Design) -> None:
    """The traces of the closed-loop poles as the gain grows from 0, with the poles of the design on them."""
    gains = design.gain * np.concatenate(([0.0], np.geomspace(1e-3, SHOWN_FACTOR, 800)))
    traces = np.array(root_locus(design.model, design.zero, list(gains)))
    circle = np.exp(1j * np.linspace(0, 2 * np.pi, 400))
    axes.plot(circle.real, circle.imag, color=GREY, linewidth=1.0, linestyle="--", label="limit of stability")
    for index, trace in enumerate(traces.T):
        label = f"gain from 0 to {SHOWN_FACTOR * design.gain:g}" if index == 0 else None
        axes.plot(trace.real, trace.imag, ".", color=BLUE, markersize=1.8, label=label)
    axes.plot(traces[0].real, traces[0].imag, "x", color=INK, markersize=7, label="open-loop poles")
    zeros = np.array([complex(design.zero), *np.roots(design.model.b)])
    axes.plot(zeros.real, zeros.imag, "o", mfc="none", color=INK, label="zeros")
    poles = np.array(design.poles)
    axes.plot(poles.real, poles.imag, "s", color=ORANGE, markersize=6, label="poles of this design")
    axes.set_xlim(-1.4, 1.4)
    axes.set_ylim(-1.6, 1.2)
    axes.set_aspect("equal")
    axes.set_title(f"Root locus, gain {design.gain:g}, zero {design.zero:g}")
    axes.set_xlabel("real part of z")
    axes.set_ylabel("imaginary part of z")
    axes.legend(loc="lower center", ncols=2, fontsize=8.5)


def _step(axes: Any, design: Design, specification: Specification) -> None:
    """The predicted output after a unit step of the reference, with the settling time and its band."""
    last_s = 1.3 * max(specification.settling_s, design.settling_s or 0.0)
    times = [index * design.period_s for index in range(len(design.response))]
    band = specification.band_ratio
    axes.axhspan(1 - band, 1 + band, color=GREEN, alpha=0.2, label=f"reference ± {band:.0%}")
    response = [value if abs(value) <= MOST_SHOWN else math.nan for value in design.response]
    axes.plot(times, response, "o-", color=BLUE, markersize=4, linewidth=1.2, label="predicted output")
    axes.axvline(specification.settling_s, color=RED, linestyle="--", linewidth=1.0, label="wanted settling time")
    if design.settling_s is not None:
        text = f"settles in {design.settling_s:g} s"
        axes.axvline(design.settling_s, color=ORANGE, linestyle=":", linewidth=1.6, label=text)
    shown = [value for at, value in zip(times, response, strict=True) if at <= last_s and not math.isnan(value)]
    axes.set_xlim(0, last_s)
    axes.set_ylim(1.05 * min(0.0, *shown), 1.05 * max(1.0 + band, *shown))
    axes.set_title("Predicted step response")
    axes.set_xlabel("time in s")
    axes.set_ylabel("output, of the reference")
    axes.legend(loc="lower right")
