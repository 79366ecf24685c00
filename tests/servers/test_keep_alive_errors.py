"""No client sees an error because idle connections end: thousands of requests whose intervals straddle the time."""

from __future__ import annotations

import pytest

from tests.servers._kept import PAGE, SERVERS, Server, kept
from tests.servers._traffic import start
from tests.servers._under_gate import PATIENCE_S
from trimtab.workloads._distribution import Exponential
from trimtab.workloads._population import Closed, Connection, Population, Url

pytestmark = [pytest.mark.server, pytest.mark.apache]
TIME_MS, USERS = 50, 24


def straddling() -> Population:
    """Users whose requests come 50 ms after one another on average: intervals lie on both sides of the time."""
    return Population(
        class_name="all",
        arrivals=Closed(USERS),
        pages=(Url(PAGE),),
        session_pages=Exponential(40.0),
        burst_requests=Exponential(4.0),
        object_gap_s=Exponential(TIME_MS / 1000),
        think_s=Exponential(TIME_MS / 1000),
        connection=Connection.UNTIL_SERVER_CLOSES,
    )


@pytest.mark.parametrize("server", SERVERS)
def test_no_request_fails_while_connections_end_between_requests(server: Server) -> None:
    with kept(server) as bed:
        bed.keep(TIME_MS)
        with start(f"127.0.0.1:{bed.port}", straddling(), duration_s=PATIENCE_S) as run:
            requests = 0
            for interval in run.follow():
                requests += interval.classes[0].requests
                if requests > 3000 and bed.idle().cut > 200 and bed.idle().intervals > 500:
                    break
            (all_,) = run.stop().classes
        idle = bed.idle()
        print(f"{server}: {all_.requests} requests, {all_.resent} sent again, {idle}")
        assert dict(all_.errors) == {}
        assert all_.requests > 1000 and idle.intervals > 500
        assert idle.cut > 200, "hardly a connection has ended"
        # A request that crosses the end of its connection is sent again (RFC 9110, 9.2.2): that is rare.
        assert all_.resent < idle.cut / 4
