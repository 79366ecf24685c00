"""The report of an identification: the model, how well each order predicts, and Fig. 5 or 6 of lu2001."""

from __future__ import annotations

from trimtab.identification.figures import comparison, errors, parameters
from trimtab.identification.order import TANGIBLE_RATIO
from trimtab.identification.result import PAPER, Identified
from trimtab.identification.signals import Kind
from trimtab.report.page import Plot
from trimtab.report.sheet import Table, sheet

_WHAT = {
    Kind.RELATIVE: "delay ratio of {lower} to {upper}",
    Kind.LOGARITHMIC: "delay ratio of {lower} to {upper} in logarithms",
    Kind.ABSOLUTE: "delay of {upper}",
}


def render(found: Identified, simulated: bool) -> str:
    """The page.

    Args:
        found: what was found.
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
        (name, f"{value:.4g}", f"{error:.2g}", f"{paper[place]:g}" if paper else "-")
        for place, (name, value, error) in enumerate(values)
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
