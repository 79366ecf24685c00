"""Requests that a real Apache answers with an error, as its access log tells them, by `observe`'s sensors."""

from __future__ import annotations

import contextlib
import os
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.servers._under_gate import until
from trimtab.clock import SystemClock
from trimtab.plants.apache import Apache
from trimtab.plants.apache.access_log import AccessLog
from trimtab.plants.apache.findings import findings
from trimtab.plants.apache.process import Parent
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed

pytestmark = [pytest.mark.server, pytest.mark.apache]
CONFIGURATION = r"""
LogFormat "%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" vhost_combined
CustomLog logs/access.log vhost_combined
Redirect 503 /fail
"""


class Logging(ApacheTestbed):
    """An Apache that writes Debian's access log, and where a path fails."""

    def furnish(self) -> None:
        super().furnish()
        (self.snippet_directory / "log.conf").write_text(CONFIGURATION)


@pytest.fixture
def apache() -> Iterator[Logging]:
    with Logging(ApacheSpec("prefork", max_request_workers=4, server_limit=4)) as bed:
        yield bed


def ask(bed: ApacheTestbed, path: str, agent: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(bed.url(path), headers={"User-Agent": agent})) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


def lines(bed: ApacheTestbed) -> int:
    """Requests of these clients in the log, where those for the status page are, too."""
    text = (bed.directory / "logs" / "access.log").read_text()
    return sum("/fail" in line or "/file500.html" in line for line in text.splitlines())


def test_requests_that_fail_are_counted_whatever_their_clients_send(apache: Logging) -> None:
    with contextlib.closing(
        Apache.attach(SystemClock(), apache.pid, apache.status_url, os.fspath(apache.snippet_directory))
    ) as plant:
        (sensor,) = (one for one in plant.sensors() if isinstance(one, AccessLog))
        assert ask(apache, "/fail", "before the window") == 503
        until(lambda: lines(apache) == 1, "it is not logged")  # a client has its reply a little before that
        first = sensor.state()
        for number in range(30):
            agent = '" 503 1 "' if number % 2 else "me \\"
            fails = number % 3 == 0
            assert ask(apache, "/fail" if fails else "/file500.html", agent) == (503 if fails else 200)
        until(lambda: lines(apache) == 31, "not all are logged")
        assert sensor.differences(1.0, first, sensor.state()) == {"error_rate_hz": 10.0}


def test_the_doctor_names_the_log(apache: Logging) -> None:
    (found,) = (one for one in findings(Parent.find(apache.pid)) if one.subject.endswith("errors of requests"))
    assert found.usable
    assert found.detail == f"from {apache.directory}/logs/access.log"


def test_an_apache_without_such_a_log_has_no_such_sensor() -> None:
    with (
        ApacheTestbed(ApacheSpec("prefork", max_request_workers=4, server_limit=4)) as bed,
        contextlib.closing(
            Apache.attach(SystemClock(), bed.pid, bed.status_url, os.fspath(bed.snippet_directory))
        ) as plant,
    ):
        assert not [one for one in plant.sensors() if isinstance(one, AccessLog)]
