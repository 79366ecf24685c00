"""SURGE's users on a private Apache that serves SURGE's files."""

from __future__ import annotations

from collections import Counter

import pytest

from trimtab.clock import SystemClock
from trimtab.load import LoadRun
from trimtab.target import parse_target
from trimtab.testbed import lu2001
from trimtab.testbed.apache import ApacheTestbed
from trimtab.workloads._surge_files import FileSet

pytestmark = [pytest.mark.server, pytest.mark.apache]


def test_the_users_of_two_classes_get_every_file_that_they_ask_for_over_connections_of_their_own() -> None:
    with ApacheTestbed(lu2001.server(time_scale=60, workers=32)) as bed:
        target = parse_target(bed.url(""), False)
        clients = lu2001.clients({"premium": 10, "basic": 20}, time_scale=60)
        with LoadRun(target.endpoint, clients, 60.0, SystemClock(), seed=5) as run:
            pages: Counter[str] = Counter()
            for interval in run.follow():
                pages.update({one.class_name: one.pages for one in interval.classes})
                if pages["premium"] > 80 and pages["basic"] > 160:
                    break
            summary = run.stop()
    premium, basic = summary.classes
    assert (premium.class_name, basic.class_name) == ("premium", "basic")
    for one, users in ((premium, 10), (basic, 20)):
        assert one.errors == {}
        assert one.sessions == users, "a user equivalent never ends"
        assert one.pages > users
        # A page has at least six files, and a connection lasts for a page.
        assert one.requests > 5 * one.connections >= 5 * users
    sizes = FileSet().sizes_bytes
    weights = [1 / rank for rank in range(1, len(sizes) + 1)]
    expected = sum(w * size for w, size in zip(weights, sizes, strict=True)) / sum(weights)
    sent = sum(c.body_bytes for c in summary.classes) / sum(c.requests for c in summary.classes)
    # Few requests decide on the mean of a heavy tail.
    assert sent == pytest.approx(expected, rel=0.6)
