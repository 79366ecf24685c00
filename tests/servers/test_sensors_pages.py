"""The time of a page from inside an unmodified Apache against known pages and the clients' own page time."""

from __future__ import annotations

import contextlib

import pytest

from tests._noise import agree, noisy
from tests.servers._under_gate import PAGE, under_gate, until
from trimtab.clock import SystemClock
from trimtab.load import LoadRun
from trimtab.sensors._shared_file import SharedFile
from trimtab.sensors.load_generator import LoadGenerator
from trimtab.sensors.pages import Pages, threshold
from trimtab.testbed.content import cgi_url
from trimtab.workloads._distribution import Constant, Lognormal
from trimtab.workloads._population import Closed, Connection, Population, Url

pytestmark = [pytest.mark.server, pytest.mark.apache]

READERS, OBJECTS, WINDOW_S = 12, 4, 5.0


@noisy("the clients' times hold what a busy machine adds between their processes and the server's")
@pytest.mark.parametrize("connection", [Connection.UNTIL_SERVER_CLOSES, Connection.PER_PAGE])
def test_the_page_time_is_that_of_the_clients_whether_they_keep_their_connections_or_not(
    connection: Connection,
) -> None:
    """Pages of a program of 60 ms and three files, 80 ms apart; a thought of a second and a half after each.

    Some clients keep their connections in both cases, since only those show the server what a thought is.
    """
    clock = SystemClock()
    reader = Population(
        class_name="all",
        arrivals=Closed(READERS // 2),
        session_pages=Constant(1e6),
        burst_requests=Constant(OBJECTS),
        object_gap_s=Lognormal(0.08, 0.02),
        think_s=Lognormal(1.5, 0.3),
        pages=(Url(cgi_url(60)),),
        objects=(Url(PAGE),),
    )
    with under_gate(workers=READERS + 4, gate=False) as bed:
        pages = Pages(bed.run_dir.shared, clock)
        others = Population(**{**vars(reader), "connection": connection})
        load = LoadRun(f"127.0.0.1:{bed.port}", (reader, others), 120, clock)
        with load, contextlib.closing(pages), contextlib.closing(SharedFile(bed.run_dir.shared)) as file:
            until(lambda: threshold(file.histograms().intervals) is not None, "no thoughts were seen")
            client = LoadGenerator(load, clock)
            for sensor in (pages, client):
                sensor.begin()
            clock.sleep(WINDOW_S)
            seen, theirs = pages.read(), client.read()
            load.stop()
    print(f"{connection.value}: {dict(seen)}, clients {theirs}")
    agree(seen["page_rate_hz"], theirs["client_page_rate_hz"], 0.15, "pages per second")
    agree(seen["page_time_s"], theirs["client_page_time_s"], 0.15, "page time")
