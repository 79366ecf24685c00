"""The generator's reports are read strictly."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from trimtab.errors import NativeError
from trimtab.load_reports import Interval, Summary, parse, to_json

LATENCY = {"count": 0, "mean_s": None, "p50_s": None, "p95_s": None, "p99_s": None, "max_s": None, "histogram": None}
TIMES = ("page_intended", "page_actual", "request_intended", "request_actual", "connect", "first_byte")
COUNTS = ("requests", "pages", "sessions", "connections", "body_bytes", "resent", "outstanding", "unsent")
CLASS = {"class": "all", "errors": {"reset": 2}, **dict.fromkeys(COUNTS, 3), **dict.fromkeys(TIMES, LATENCY)}
INTERVAL = {
    "type": "interval",
    "at_s": 2.0,
    "duration_s": 1.0,
    "classes": [CLASS],
    "active_sessions": 4,
    "lateness": LATENCY,
}
SUMMARY = {
    "type": "summary",
    "duration_s": 2.0,
    "classes": [CLASS],
    "lateness": LATENCY,
    "cpu_s": 0.1,
    "stopped_early": True,
}


def test_reports_keep_every_figure() -> None:
    interval, summary = parse(INTERVAL), parse(SUMMARY)
    assert isinstance(interval, Interval)
    assert isinstance(summary, Summary)
    assert to_json(interval) == INTERVAL | {"classes": (CLASS,)}
    assert to_json(summary) == SUMMARY | {"classes": (CLASS,)}
    assert interval.classes[0].page_intended.mean_s is None
    assert summary.classes[0].errors == {"reset": 2}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ((), "Interval with an unknown key 'surprise'"),
        (("classes", 0), "Class with an unknown key 'surprise'"),
        (("classes", 0, "connect"), "Latency with an unknown key 'surprise'"),
        (("lateness",), "Latency with an unknown key 'surprise'"),
    ],
)
def test_an_unknown_key_anywhere_is_an_error(path: tuple[str | int, ...], message: str) -> None:
    report = copy.deepcopy(INTERVAL)
    inner: Any = report
    for step in path:
        inner = inner[step]
    inner["surprise"] = 1
    with pytest.raises(NativeError, match=message):
        parse(report)


def test_a_missing_key_and_an_unknown_type_are_errors() -> None:
    with pytest.raises(NativeError, match="Interval with no key 'at_s'"):
        parse({key: value for key, value in INTERVAL.items() if key != "at_s"})
    with pytest.raises(NativeError, match="unknown type 'other'"):
        parse({"type": "other"})
