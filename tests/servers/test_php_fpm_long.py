"""A request that takes far longer than all others: a reload would serve nothing until it is done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.servers._private_fpm import DEBIAN, Asked, Bed, private, until
from trimtab.clock import SystemClock
from trimtab.errors import ApplyLater, UsageError
from trimtab.plants.php_fpm import status
from trimtab.plants.php_fpm.plant import PhpFpm

pytestmark = pytest.mark.server
LONG_S = 5.5
"""Longer than a change waits for where nothing else is usual."""


def longest_s(bed: Bed) -> float:
    page = status.StatusPage(bed.testbed.listen, "/status", False)
    found = status.ask(page, SystemClock(), 1.0, "json&full")
    return 0.0 if found is None else found.longest_s


def test_no_change_is_made_beside_a_very_long_request_but_the_way_back_is() -> None:
    with private() as bed:
        fpm = bed.attach()
        fpm.apply({"max_children": 6})
        under_way = Asked(bed, (9000,))
        until(lambda: longest_s(bed) > LONG_S, "the request is not under way")
        with pytest.raises(ApplyLater, match=r"a request of pool www is under way for \d+ s: a reload would serve"):
            fpm.apply({"max_children": 7})
        assert bed.snippet.read_text().endswith("pm.max_children = 6\n")
        fpm.apply({"max_children": 5})
        assert under_way.wait() == ["done"]
        assert longest_s(bed) < LONG_S, "what an idle worker served last is not under way"
        fpm.restore()


def test_an_undo_waits_for_no_idle_worker_as_what_keeps_them_busy_may_be_what_is_to_be_undone() -> None:
    """Nothing undid the trial of a killed run for as long as it did harm."""

    def refused() -> bool:
        try:
            bed.attach().close()
        except UsageError as error:
            return "did not answer" in str(error)
        return False

    with private() as bed:
        fpm = bed.attach()
        fpm.apply({"pm": 0, "max_children": 3})
        fpm.close()
        under_way = Asked(bed, (9000,) * 4)
        until(refused, "a worker is idle")
        later = PhpFpm.attach(SystemClock(), bed.testbed.pid, "www", undoes=True)
        assert any("does not answer: what somebody has edited since" in note for note in later.notes)
        later.undo_leftover()
        assert (later.configuration(), later.leftover(), bed.snippet.exists()) == (DEBIAN, "", False)
        assert under_way.wait() == ["done"] * 4


def test_where_all_requests_are_long_one_more_is_no_reason_to_wait() -> None:
    with private() as bed:
        fpm = bed.attach()
        fpm.derive({"request_rate_hz": 0.1, "busy_workers": 1.0, "idle_workers": 1.0})  # ten seconds each
        under_way = Asked(bed, (8000,))
        until(lambda: longest_s(bed) > LONG_S, "the request is not under way")
        fpm.apply({"max_children": 6})
        assert under_way.wait() == ["done"]
        fpm.restore()


def test_a_pool_that_starts_its_workers_on_demand_is_not_asked_while_it_has_none() -> None:
    """Each of hundreds on a shared machine would start one to answer, all at a time."""
    with private(pools=("www", "late")) as bed:
        bed.write("zz-late.conf", "[late]\npm = ondemand\n")
        bed.restart_pool()
        fpm, late = bed.attach(), replace(bed, pool="late")
        until(lambda: late.workers() == 0, "who answered at its start has not ended")
        fpm.prepare({"max_children": 6})
        assert late.workers() == 0
