"""The generator's reports are read strictly."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from trimtab import codec
from trimtab.load_reports import Interval, Summary

LATENCY = {"count": 0, "mean_s": None, "p50_s": None, "p95_s": None, "p99_s": None, "max_s": None, "histogram": None}
TIMES = ("page_intended", "page_actual", "request_intended", "request_actual", "connect", "first_byte")
COUNTS = ("requests", "pages", "sessions", "connections", "body_bytes", "resent", "outstanding", "unsent")
CLASS = {
    "class": "all",
    "errors": {"reset": 2},
    **dict.fromkeys(COUNTS, 3),
    "patience_left_s": 2.5,
    "waited_s": 1.5,
    "unasked": 3,
    **dict.fromkeys(TIMES, LATENCY),
}
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


def parse(message: dict[str, Any]) -> Interval | Summary:
    found: Interval | Summary = codec.decode(json.dumps(message), Interval | Summary)  # type: ignore[arg-type]
    return found


def test_reports_keep_every_figure() -> None:
    interval, summary = parse(INTERVAL), parse(SUMMARY)
    assert isinstance(interval, Interval)
    assert isinstance(summary, Summary)
    assert json.loads(codec.encode(interval)) == INTERVAL
    assert json.loads(codec.encode(summary)) == SUMMARY
    assert interval.classes[0].page_intended.mean_s is None
    assert summary.classes[0].errors == {"reset": 2}


def test_waiting_is_that_of_all_classes_and_patience_left_stands_beside_it() -> None:
    interval = parse(INTERVAL | {"duration_s": 0.5, "classes": [CLASS, CLASS | {"patience_left_s": 4.0}]})
    assert isinstance(interval, Interval)
    assert interval.waited_s == 1.5 + 1.5
    assert interval.patience_left_s == 6.5


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ((), ""),
        (("classes", 0), " - at `$.classes[0]`"),
        (("classes", 0, "connect"), " - at `$.classes[0].connect`"),
        (("lateness",), " - at `$.lateness`"),
    ],
)
def test_an_unknown_key_anywhere_is_an_error(path: tuple[str | int, ...], place: str) -> None:
    report = json.loads(json.dumps(INTERVAL))
    inner: Any = report
    for step in path:
        inner = inner[step]
    inner["surprise"] = 1
    with pytest.raises(ValueError, match=re.escape(f"unknown field `surprise`{place}")):
        parse(report)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"type": "other"}, "Invalid value 'other' - at `\\$.type`"),
        ({"active_sessions": "four"}, "Expected `int`, got `str` - at `\\$.active_sessions`"),
        ({"active_sessions": None}, "Expected `int`, got `null`"),
        ({"classes": {}}, "Expected `array`, got `object`"),
    ],
)
def test_a_wrong_type_is_an_error(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse(INTERVAL | changed)


def test_a_missing_key_is_an_error() -> None:
    with pytest.raises(ValueError, match="missing required field `at_s`"):
        parse({key: value for key, value in INTERVAL.items() if key != "at_s"})
