"""CPU and memory of one generator process that plays 10,000 browsers of TPC-W (shopping mix).

Every answer is the same page of 12 KB with six images, which a browser's cache keeps after its first page. Times are
divided by 2, so that each browser clicks about every 3.5 s. Browsers come from five source addresses, because one has
too few ports for four connections each, and close them after each page, because many machines permit fewer than
40,000 descriptors. Looked at: CPU per interaction, resident memory, how late the generator is.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

from _common import conditions, cores, favour, peak_bytes, responder, save

from trimtab.clock import SystemClock
from trimtab.load import LoadRun
from trimtab.workloads._population import Closed, Connection, Population
from trimtab.workloads.tpcw import Tpcw

BROWSERS = 10_000
SOURCES = 5
TIME_SCALE = 2.0
DURATION_S = 40.0
MEASURED = (15.0, 35.0)


def populations() -> list[Population]:
    """The browsers, some from each address; no page is refused for its name."""
    (all_of_them,) = Tpcw(browsers=BROWSERS, time_scale=TIME_SCALE).populations()
    assert all_of_them.graph is not None
    graph = dataclasses.replace(all_of_them.graph, name_marker=None)
    return [
        dataclasses.replace(
            all_of_them,
            arrivals=Closed(BROWSERS // SOURCES),
            graph=graph,
            connection=Connection.PER_PAGE,
            source=f"127.0.0.{10 + number}",
        )
        for number in range(SOURCES)
    ]


def page() -> bytes:
    """The answer to everything."""
    images = "".join(f'<img src="/shop/images/{n}.png">' for n in range(6))
    items = "".join(f'<a data-item="{n}" href="/shop/product_detail?item={n}">an item</a>' for n in range(1, 51))
    body = f"<!DOCTYPE html><body>{images}{items}".ljust(12_000).encode()
    return b"HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def main() -> None:
    """Runs it and writes the result."""
    facts, (server, client) = conditions(), cores()
    peak = 0
    with tempfile.NamedTemporaryFile() as reply:
        Path(reply.name).write_bytes(page())
        with (
            responder(server, Path(reply.name)) as (_, target),
            LoadRun(
                target, populations(), DURATION_S, SystemClock(), interval_s=1, cpu=client, measured=MEASURED
            ) as run,
        ):
            favour(run.pid)
            raw: list[dict[str, Any]] = []
            for interval in run.follow():
                if interval.at_s < DURATION_S - 0.5:
                    peak = peak_bytes(run.pid)
                (one,) = interval.classes
                raw.append({"at_s": round(interval.at_s, 2), "pages": one.pages, "requests": one.requests})
            whole = run.wait()
    (one,) = whole.classes
    assert one.browsing is not None
    measured = sum(i.time.count for i in one.browsing.interactions)
    figures = {
        "browsers": BROWSERS,
        "interactions_per_s": round(measured / one.browsing.duration_s, 1),
        "interactions": one.pages,
        "requests": one.requests,
        "connections": one.connections,
        "cpu_us_per_interaction": round(whole.cpu_s / max(one.pages, 1) * 1e6, 1),
        "cpu_us_per_request": round(whole.cpu_s / max(one.requests, 1) * 1e6, 1),
        "peak_rss_mib": round(peak / 2**20, 1),
        "kib_per_browser": round(peak / BROWSERS / 1024, 1),
        "late_p99_ms": round((whole.lateness.p99_s or 0) * 1e3, 2),
        "errors": dict(one.errors),
    }
    save("browsers", "python benchmarks/load/browsers.py", facts, figures, raw)


if __name__ == "__main__":
    main()
