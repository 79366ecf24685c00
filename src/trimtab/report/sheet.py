"""A page of tables and figures that is not about stored runs: one HTML file without network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from trimtab import __version__
from trimtab.report.page import Plot


@dataclass(frozen=True)
class Table:
    """A table.

    Args:
        title: what it shows.
        head: titles of the columns.
        rows: their cells, as text.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def sheet(
    title: str, headline: str, plots: Sequence[Plot], tables: Sequence[Table] = (), simulated: bool = False
) -> str:
    """The page.

    Args:
        title: what it is about.
        headline: what came of it, in one sentence.
        plots: figures, in order.
        tables: tables, before the figures.
        simulated: True when no real server took part.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files("trimtab.report").joinpath("sheet.html").read_text(encoding="utf-8"))
    return template.render(
        title=title, headline=headline, plots=plots, tables=tables, simulated=simulated, version=__version__
    )
