"""What a run of the load generator adds up from its reports."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests._memory_plant import StillClock
from tests.unit.test_load_reports import CLASS, INTERVAL, SUMMARY
from trimtab import load
from trimtab.errors import UsageError
from trimtab.workloads._population import Closed, Population, Url

USERS = Population(class_name="all", arrivals=Closed(5), pages=(Url("/"),))


class Generator:
    """Sends two intervals and a summary, whatever it is asked."""

    pid = 1

    def __init__(self, name: str) -> None:
        self.name = name

    def __iter__(self) -> Iterator[str]:
        for report in (
            INTERVAL | {"classes": [CLASS | {"waited_s": 2.5, "patience_left_s": 0.0}]},
            INTERVAL | {"duration_s": 0.5, "classes": [CLASS | {"waited_s": 1.25, "patience_left_s": 60.0}]},
            SUMMARY | {"classes": [CLASS | {"patience_left_s": 60.0}]},
        ):
            yield json.dumps(report)

    def send(self, message: Any) -> None:
        """Takes the order."""

    def remarks(self) -> str:
        return ""

    def close(self) -> None:
        """Has nothing to end."""


@pytest.mark.parametrize("target", ["[::1]:80", "192.0.2.1:80"])
def test_a_source_on_loopback_is_refused_where_it_cannot_reach_the_target(
    monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.setattr(load, "Native", Generator)
    clients = Population(class_name="all", arrivals=Closed(5), source="127.0.0.2")
    with pytest.raises(UsageError, match="is not allowed: it must be left out: from there no way leads"):
        load.LoadRun(target, [clients], 2.0, StillClock(0.0), allow_remote=True)
    with load.LoadRun("127.1.2.3:80", [clients], 2.0, StillClock(0.0)) as run:
        run.wait()


def test_what_requests_waited_has_those_that_failed_until_their_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "Native", Generator)
    with load.LoadRun("127.0.0.1:1", [USERS], 2.0, StillClock(0.0)) as run:
        run.wait()
        assert run.waited_s == 2.5 + 1.25 + 60.0
