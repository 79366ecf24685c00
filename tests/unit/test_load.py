"""What a run of the load generator adds up from its reports."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests._memory_plant import StillClock
from tests.unit.test_load_reports import CLASS, INTERVAL, SUMMARY
from trimtab import load
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


def test_what_requests_waited_has_those_that_failed_until_their_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "Native", Generator)
    with load.LoadRun("127.0.0.1:1", [USERS], 2.0, StillClock(0.0)) as run:
        run.wait()
        assert run.waited_s == 2.5 + 1.25 + 60.0
