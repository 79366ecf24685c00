"""A page: a headline, figures and tables, as one HTML file without network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from trimtab import __version__


@dataclass(frozen=True)
class Table:
    """A table.

    Args:
        title: what it shows.
        head: titles of the columns; empty where they need none.
        rows: their cells, as text.
        folded: True where it is unfolded by a click.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    folded: bool = False


@dataclass(frozen=True)
class Plot:
    """A figure with its caption, ready for the page."""

    title: str
    caption: str
    svg: str


def sheet(
    title: str,
    headline: str,
    plots: Sequence[Plot],
    tables: Sequence[Table] = (),
    simulated: bool = False,
    *,
    good: bool = False,
    basis: str = "",
    after: Sequence[Table] = (),
) -> str:
    """The page.

    Args:
        title: its subject.
        headline: the result in one sentence.
        plots: figures, in order.
        tables: tables before the figures; those without rows are left out, here and below.
        simulated: True when no real server took part.
        good: True where the headline is good news.
        basis: the evidence behind the headline; may be empty.
        after: tables after the figures.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files("trimtab.report").joinpath("page.html").read_text(encoding="utf-8"))
    return template.render(
        title=title,
        headline=headline,
        plots=plots,
        tables=[table for table in tables if table.rows],
        simulated=simulated,
        good=good,
        basis=basis,
        after=[table for table in after if table.rows],
        version=__version__,
    )
