"""Processes with threads that stay after a reload, for one long request, keep the places of new ones."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from tests.servers._private_apache import UNDER_WAY, Bed, private
from tests.servers._under_gate import until
from trimtab.errors import ApplyFailed, ApplyLater
from trimtab.plants.apache import status
from trimtab.plants.apache.reload import Patience
from trimtab.testbed.apache_config import Mpm

pytestmark = [pytest.mark.server, pytest.mark.apache]


def one_long_request(bed: Bed, stack: ExitStack) -> None:
    """A request that has been under way for longer than a change waits for."""
    client = stack.enter_context(socket.create_connection(("127.0.0.1", bed.testbed.port)))
    client.sendall(UNDER_WAY)
    url = bed.testbed.status_url
    until(lambda: max(status.serving_s(url).values(), default=0.0) > 5.0, "the request is not under way")


@pytest.mark.parametrize("mpm", ["worker", "event"])
def test_no_change_is_made_where_new_processes_would_find_too_few_places(mpm: Mpm) -> None:
    with private(mpm, server_limit=8) as bed, ExitStack() as stack:
        apache = bed.attach()
        one_long_request(bed, stack)
        with pytest.raises(ApplyLater, match=r"1 process with long requests .*ServerLimit 8 leaves too few"):
            apache.apply({"keep_alive_timeout_ms": 200})
        assert not bed.snippet.exists()
        applied = apache.apply({"max_request_workers": 7 * bed.threads})
        assert applied.configuration["max_request_workers"] == 7 * bed.threads


def test_a_change_is_made_where_there_are_places_enough() -> None:
    with private("event") as bed, ExitStack() as stack:
        apache = bed.attach()
        one_long_request(bed, stack)
        applied = apache.apply({"keep_alive_timeout_ms": 200})
        assert applied.configuration["keep_alive_timeout_ms"] == 200
        apache.restore()
        assert not bed.snippet.exists()


def test_a_way_back_is_made_where_new_processes_find_fewer_places_than_there_were() -> None:
    # Without spare workers, an old process that is slow to end leaves Apache with fewer new ones, and places enough.
    with private("event", server_limit=8, spare_workers=(32, 36)) as bed, ExitStack() as stack:
        apache = bed.attach()
        apache.apply({"keep_alive_timeout_ms": 200})
        until(lambda: len(apache._server.generations().workers) == 8, "not all processes have started again")
        one_long_request(bed, stack)
        with pytest.raises(ApplyLater, match="leaves too few"):
            apache.apply({"keep_alive_timeout_ms": 250})
        back = apache.apply({"keep_alive_timeout_ms": 300})
        assert back.configuration["keep_alive_timeout_ms"] == 300


def test_where_nobody_would_serve_after_it_a_way_back_waits_and_so_does_an_undo() -> None:
    with private("event", max_request_workers=4, server_limit=1) as bed, ExitStack() as stack:
        apache, url = bed.attach(), bed.testbed.status_url
        apache._patience = Patience(shrink_s=1.0)
        apache.apply({"keep_alive_timeout_ms": 200})
        one_long_request(bed, stack)
        with pytest.raises(ApplyLater, match=r"1 process with long requests .*ServerLimit 1 leaves none"):
            apache.apply({"keep_alive_timeout_ms": 300})
        assert apache.configuration()["keep_alive_timeout_ms"] == 200
        with pytest.raises(ApplyFailed, match=r"is as it was, but Apache was not reloaded to it: .* leaves none"):
            apache.restore()
        assert status.scoreboard(url) is not None, "the other workers serve on"
        stack.close()
        until(lambda: max(status.serving_s(url).values(), default=0.0) < 5.0, "the request has not ended")
        apache.restore()
        assert (apache.configuration()["keep_alive_timeout_ms"], bed.snippet.exists()) == (300, False)
