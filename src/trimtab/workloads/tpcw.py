"""TPC-W's emulated browsers, on a bookstore that marks its pages: the load of Chung and Hollingsworth 2004 (Table 1).

A closed population of browsers: click, fetch the page and its images, think, move on by the mix's thresholds.
Everything that the specification fixes stands in `tpcw.toml`, with its sources.

    think time        min(-7 s ln u, 70 s) / time_scale                          clause 5.3.2.1
    session           ends at the first move to Home after min(-900 s ln u, 3600 s) / time_scale
    next page         the first of the row whose threshold is at least a draw of 1..9999        clause 5.2.2
    customers         8 of 10 sessions are a known customer's: NURand over 1..customers; the others register

| specification     | here                              | unit     | shape  | default           |
|-------------------|-----------------------------------|----------|--------|-------------------|
| EB                | browsers                          | browsers | scalar | 10                |
| mix (WIPS, b, o)  | mix                               |          |        | shopping          |
| NUM_CUSTOMERS     | customers                         |          | scalar | 2880 x browsers   |
| NUM_ITEMS         | items                             |          | scalar | 10000             |
| ramp-up, interval | ramp_up_s, measure_s, ramp_down_s | s        | scalar | 600, 1800, 300    |

Departures from the specification
- `time_scale` divides every time of the user, think time, session and the parts of the run, and nothing of the
  server's, its cache times and limits. With a scale other than 1 the figures are no TPC-W result; their report says
  so.
- Nothing is audited, no TLS and no payment gateway.
- A page that fails (a status from 400, another page than was asked for, no answer) is counted as failed and not as an
  interaction. Its browser thinks, and begins anew at Home within the same session, with its cookies. A page of which
  only an image failed counts as failed too; its browser goes on.
- Images are kept for as long as their Cache-Control max-age says, in real seconds, within a session; an image without
  max-age is fetched at every page. A stale one is fetched whole, not asked for by its tag.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

from trimtab.load_reports import Summary
from trimtab.workloads._distribution import ClippedExponential
from trimtab.workloads._graph import Graph, NuRand, Page
from trimtab.workloads._phases import Phases
from trimtab.workloads._population import Closed, Population, required
from trimtab.workloads._tpcw_pages import Shop, asks
from trimtab.workloads._tpcw_result import CUSTOMERS_PER_BROWSER, TpcwResult, judged
from trimtab.workloads._traffic import Traffic


class TpcwMix(StrEnum):
    """The specification's mixes."""

    BROWSING = "browsing"
    SHOPPING = "shopping"
    ORDERING = "ordering"


@dataclass(frozen=True, kw_only=True)
class Tpcw(Traffic):
    """Browsers of TPC-W; the shop's pages lie under the path of the URL, or under /shop where it has none.

    Args:
        browsers: how many.
        mix: which of the specification's mixes: browsing, shopping or ordering.
        customers: customers of the population; 0 for 2880 for each browser.
        items: items of the population.
        time_scale: divides every time of the users and of the run's parts.
        ramp_up_s: part of the run before the measurement, divided by the time scale.
        measure_s: part of the run that is measured, divided by the time scale.
        ramp_down_s: part of the run after the measurement, divided by the time scale.
    """

    browsers: int = 10
    mix: TpcwMix = TpcwMix.SHOPPING
    customers: int = 0
    items: int = 10_000
    time_scale: float = 1.0
    ramp_up_s: float = 600.0
    measure_s: float = 1800.0
    ramp_down_s: float = 300.0

    def check(self) -> None:
        """Refuses what no population can be made of."""
        required(1 <= self.browsers <= 1_000_000, "browsers", self.browsers, "1 to 1000000")
        required(0 <= self.customers < 10**9, "customers", self.customers, "0, for 2880 x browsers, to 999999999")
        sizes = [size for size, _ in data()["nurand"]["search"]]
        required(self.items in sizes, "items", self.items, f"one of {', '.join(map(str, sizes))}")
        required(0 < self.time_scale < math.inf, "time_scale", f"{self.time_scale:g}", "more than 0 and finite")
        required(0 < self.measure_s < math.inf, "measure", f"{self.measure_s:g} s", "more than 0 and finite")
        for name in ("ramp_up_s", "ramp_down_s"):
            value = getattr(self, name)
            required(0 <= value < math.inf, name, f"{value:g}", "at least 0 and finite")
        required(len(self.urls) == 1 and "?" not in self.urls[0].path, "url", len(self.urls), "one path, the shop's")
        required(not self.objects, "object", len(self.objects), "left out: the pages name their images")

    def population(self) -> Population:
        """The population of the browsers."""
        shared = self.shared()
        del shared["pages"], shared["objects"]
        think = data()["think_time"]
        return Population(
            arrivals=Closed(self.browsers),
            think_s=ClippedExponential(think["mean_s"] / self.time_scale, think["max_s"] / self.time_scale),
            graph=self.graph(),
            **shared,
        )

    def graph(self) -> Graph:
        """The shop as these browsers walk it."""
        facts, scale = data(), self.time_scale
        order, session = facts["pages"]["order"], facts["session"]
        ways = asks(self._shop())
        least_s, most_s = facts["think_time"]["first_s"]
        return Graph(
            pages=tuple(
                Page(name, ways[name], tuple(row))
                for name, row in zip(order, facts["mix"][self.mix]["thresholds"], strict=True)
            ),
            start=facts["pages"]["start"],
            session_s=ClippedExponential(session["mean_s"] / scale, session["max_s"] / scale),
            first_click_s=(least_s / scale, most_s / scale),
            memories=self._shop().memories,
            name_marker="data-page",
            image_connections=session["image_connections"],
        )

    def phases(self) -> Phases:
        """The parts of the run, scaled."""
        scale = self.time_scale
        return Phases(self.ramp_up_s / scale, self.measure_s / scale, self.ramp_down_s / scale)

    def judged(self, summary: Summary) -> TpcwResult:
        """The specification's figures of a run of these browsers, and whether it is valid."""
        return judged(self, data(), summary)

    def _shop(self) -> Shop:
        facts = data()
        customers = self.customers or CUSTOMERS_PER_BROWSER * self.browsers
        skew = next((a for _, last, a in facts["nurand"]["customer"] if customers <= last), None)
        required(skew is not None, "customers", customers, "within the specification's table")
        (path,) = (url.path for url in self.urls)
        return Shop(
            path=path.rstrip("/") or "/shop",
            customer=NuRand(skew or 0, 1, customers),
            items=self.items,
            search_a=dict(facts["nurand"]["search"])[self.items],
            facts=facts,
            today=date.today(),
        )


@cache
def data() -> dict[str, Any]:
    """TPC-W as data."""
    return tomllib.loads(files(__package__).joinpath("tpcw.toml").read_text(encoding="utf-8"))


WORKLOAD = Tpcw
