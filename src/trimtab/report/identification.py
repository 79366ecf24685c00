"""The report of an identification: the model, how well each order predicts, and Fig. 5 or 6 of lu2001."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from trimtab.drawing import Figure
from trimtab.identification.model import PAPER
from trimtab.identification.order import TANGIBLE_RATIO, Prediction
from trimtab.identification.result import Identified
from trimtab.identification.signals import Kind
from trimtab.report.sheet import Plot, Table, sheet
from trimtab.report.style import BLUE, GREEN, GREY, INK, ORANGE, RED, svg

_WHAT = {
    Kind.RELATIVE: "delay ratio of {lower} to {upper}",
    Kind.LOGARITHMIC: "delay ratio of {lower} to {upper} in logarithms",
    Kind.ABSOLUTE: "delay of {upper}",
}


_OUTPUT = {
    Kind.RELATIVE: "delay ratio",
    Kind.LOGARITHMIC: "logarithm of the delay ratio",
    Kind.ABSOLUTE: "change of the delay in s",
}


def render(found: Identified, simulated: bool) -> str:
    """The page.

    Args:
        found: its result.
        simulated: True when no real server took part.
    """
    what = _WHAT[found.pair.kind].format(upper=found.pair.upper, lower=found.pair.lower)
    order = found.model.order
    figures = "Fig. 6" if found.pair.kind is Kind.ABSOLUTE else "Fig. 5"
    plots = [
        Plot(
            "Estimated parameters",
            f"{figures}(a) of lu2001: the estimates of order {order} as windows come in.",
            parameters(found),
        ),
        Plot(
            "Measured and predicted",
            f"{figures}(b) of lu2001, for each order: each window of the second run, predicted one window before.",
            comparison(found),
        ),
        Plot(
            "Prediction error by order",
            f"The least order that no higher one betters by more than {TANGIBLE_RATIO:.0%} is chosen.",
            errors(found),
        ),
    ]
    headline = f"The {what} is of order {order}: {found.model}"
    return sheet(f"Identification of the {what}", headline, plots, [_parameters(found), _orders(found)], simulated)


def _parameters(found: Identified) -> Table:
    """The parameters with their standard errors, beside the paper's where they compare."""
    order = found.model.order
    known = PAPER.get(found.pair.kind)
    paper = known.theta if known is not None and order == 2 else None
    names = [*(f"a{j + 1}" for j in range(order)), *(f"b{j + 1}" for j in range(order))]
    values = zip(names, found.model.theta, found.chosen.errors, strict=True)
    rows = [
        (name, f"{value:.4g}", f"{error:.2g}", f"{paper[index]:g}" if paper else "-")
        for index, (name, value, error) in enumerate(values)
    ]
    rows.append(("steady-state gain", f"{found.model.gain:.4g}", "", f"{known.gain:.3g}" if known else "-"))
    return Table("Model", ("parameter", "here", "standard error", "lu2001, on its server"), rows)


def _orders(found: Identified) -> Table:
    """How well each order predicts."""
    rows = [
        (
            f"{c.model.order}{', chosen' if c is found.chosen else ''}",
            str(c.model),
            f"{c.rms:.4g}",
            f"{c.fit_ratio:.0%}",
            str(c.equations),
            str(c.checked),
        )
        for c in found.candidates
    ]
    head = ("order", "parameters", "error on the second seed", "fit", "windows used", "windows judged by")
    return Table("Orders", head, rows)


def parameters(found: Identified) -> str:
    """The estimates at successive sampling instants: Fig. 5(a) and 6(a); the paper's values where they compare."""

    def draw(figure: Figure) -> None:
        axes: Any = figure.subplots()
        minutes = [(index + 1) * found.period_s / 60 for index, _ in found.trace]
        order, colours = found.model.order, (BLUE, GREEN, ORANGE, RED, GREY, INK)
        paper = PAPER[found.pair.kind].theta if order == 2 and found.pair.kind in PAPER else ()
        names = [*(f"a{j + 1}" for j in range(order)), *(f"b{j + 1}" for j in range(order))]
        for index, name in enumerate(names):
            colour = colours[index % len(colours)]
            values = [estimate.theta[index] for _, estimate in found.trace]
            style = "-" if name.startswith("a") else "--"
            axes.plot(minutes, values, style, color=colour, linewidth=1.6, label=f"{name} = {values[-1]:.3g}")
            if paper:
                axes.plot([minutes[-1]], [paper[index]], "D", color=colour, markersize=5, clip_on=False)
        if paper:
            axes.plot([], [], "D", color=GREY, label="lu2001, on its server")
        axes.set_xlabel("time in min")
        axes.set_ylabel("estimated parameter")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))

    return svg(draw, 9.5, 3.6)


def comparison(found: Identified) -> str:
    """Measured against predicted on the second seed, a row for each order: Fig. 5(b) to (d)."""

    def draw(figure: Figure) -> None:
        rows: Any = figure.subplots(len(found.candidates), 1, sharex=True, sharey=True, squeeze=False)
        for axes, candidate in zip(rows[:, 0], found.candidates, strict=True):
            order = candidate.model.order
            shown = _with_gaps(found.predicted[order])
            minutes = [(p.index + 1) * found.period_s / 60 for p in shown]
            axes.plot(minutes, [p.measured for p in shown], ".-", color=INK, linewidth=1.0, label="measured")
            axes.plot(minutes, [p.predicted for p in shown], ".--", color=ORANGE, linewidth=1.2, label="predicted")
            chosen = ", chosen" if candidate is found.chosen else ""
            axes.set_title(f"order {order}{chosen}: root mean square error {candidate.rms:.3g}")
            axes.set_ylabel(_OUTPUT[found.pair.kind])
        rows[0, 0].legend(loc="upper right", ncols=2)
        rows[-1, 0].set_xlabel("time in min since the warm-up")

    return svg(draw, 9.5, 1.0 + 2.0 * len(found.candidates))


def _with_gaps(shown: Sequence[Prediction]) -> list[Prediction]:
    """The predictions with nothing where windows could not be used, so that no line bridges them."""
    kept: list[Prediction] = []
    for one in shown:
        if kept and one.index > kept[-1].index + 1:
            kept.append(Prediction(one.index - 1, math.nan, math.nan))
        kept.append(one)
    return kept


def errors(found: Identified) -> str:
    """The prediction error on the second seed against the order."""

    def draw(figure: Figure) -> None:
        axes: Any = figure.subplots()
        orders = [str(c.model.order) for c in found.candidates]
        colours = [ORANGE if c is found.chosen else GREY for c in found.candidates]
        bars = axes.bar(orders, [c.rms for c in found.candidates], color=colours, width=0.5)
        axes.bar_label(bars, [f"{c.rms:.3g}" for c in found.candidates])
        axes.margins(y=0.15)
        axes.set_xlabel("order of the model")
        unit = " in s" if found.pair.kind is Kind.ABSOLUTE else ""
        axes.set_ylabel(f"root mean square error{unit}")

    return svg(draw, 4.6, 3.0)
