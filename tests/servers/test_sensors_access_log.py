"""Requests that a real Apache answers with an error, as its access log tells them, by `observe`'s sensors."""

from __future__ import annotations

import contextlib
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

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


def test_requests_that_fail_are_counted_whatever_their_clients_send(apache: Logging) -> None:
    with contextlib.closing(
        Apache.attach(SystemClock(), apache.pid, apache.status_url, os.fspath(apache.snippet_directory))
    ) as plant:
        (sensor,) = (one for one in plant.sensors() if isinstance(one, AccessLog))
        assert ask(apache, "/fail", "before the window") == 503
        time.sleep(0.1)  # a client has its reply a little before it is logged
        sensor.begin()
        began_s = time.monotonic()
        for number in range(30):
            agent = '" 503 1 "' if number % 2 else "me \\"
            assert ask(apache, "/fail" if number % 3 == 0 else "/file500.html", agent) == (
                503 if number % 3 == 0 else 200
            )
        time.sleep(0.1)
        found, took_s = sensor.read()["error_rate_hz"], time.monotonic() - began_s
    assert found * took_s == pytest.approx(10, rel=0.05)


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
