"""What a user types becomes traffic, or one line that says why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trimtab.errors import UsageError
from trimtab.files import MOST_BYTES
from trimtab.workloads._choice import populations_in, workload
from trimtab.workloads._distribution import Lognormal
from trimtab.workloads._population import Closed, Connection, ConstantRate, Poisson, Step, Url
from trimtab.workloads._traffic import parse_step, parse_url
from trimtab.workloads.wagon import Wagon


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("/a", Url("/a")),
        ("/a=3", Url("/a", 3)),
        ("/?p=12", Url("/?p=12")),
        ("/a?x=1&y=2", Url("/a?x=1&y=2")),
        ("/a?x=1=2.5", Url("/a?x=1", 2.5)),
        ("/a?x=1&y==2", Url("/a?x=1&y=", 2)),
    ],
)
def test_a_url_is_a_path_and_the_weight_after_the_equals_sign_that_is_no_parameters(text: str, url: Url) -> None:
    assert parse_url(text) == url


@pytest.mark.parametrize("text", ["/a?x=1=heavy", "/a=heavy", "a=1", "/a=0", ""])
def test_a_url_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_url(text)


def test_a_step_has_a_time_and_a_factor() -> None:
    assert parse_step("870s=2.0") == Step(870, 2)
    for text in ("870s", "870=2", "870s=x", "870s=-1"):
        with pytest.raises(UsageError):
            parse_step(text)


def test_options_as_typed_reach_the_population() -> None:
    given = {"connections": "50", "class_name": "gold", "connection": "per-request", "timeout_s": "400ms"}
    (population,) = workload("closed-loop", {**given, "urls": ["/a=2", "/b"], "schedule": ["5s=0"]}).populations()
    assert population.arrivals == Closed(50)
    assert (population.class_name, population.connection) == ("gold", Connection.PER_REQUEST)
    assert population.timeout_s == pytest.approx(0.4)
    assert population.pages == (Url("/a", 2), Url("/b"))
    assert population.schedule == (Step(5, 0),)


def test_open_arrivals_are_constant_unless_poisson_is_asked_for() -> None:
    assert workload("open-arrivals", {"rate": "100"}).populations()[0].arrivals == ConstantRate(100)
    assert workload("open-arrivals", {"rate": "100", "poisson": True}).populations()[0].arrivals == Poisson(100)


def test_zipf_replaces_the_weights_in_the_order_given() -> None:
    (population,) = workload("wagon", {"urls": ["/a=9", "/b", "/c"], "zipf": "1"}).populations()
    assert [url.weight for url in population.pages] == pytest.approx([1, 1 / 2, 1 / 3])


def test_zipf_over_one_url_is_an_ignored_option_and_so_an_error() -> None:
    with pytest.raises(UsageError, match="zipf"):
        Wagon(zipf=1.0)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("wagn", {}, "did you mean 'wagon'"),
        ("wagon", {"rate": "3"}, "unknown option 'rate'.*--rate-scale"),
        ("wagon", {"time_scale": "0"}, "time_scale 0"),
        ("wagon", {"time_scale": "x"}, "--time-scale 'x' is not a number"),
        ("closed-loop", {"connections": "1.5"}, "--connections '1.5' is not a whole number"),
        ("closed-loop", {"connection": "never"}, "--connection 'never' is not one of until-server-closes"),
        ("closed-loop", {"timeout_s": "5"}, "--timeout: '5' is not a duration"),
    ],
)
def test_bad_options_are_refused_with_what_is_allowed(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        workload(name, given)


def test_a_file_brings_several_classes(tmp_path: Path) -> None:
    entries = [
        {"workload": "wagon", "class": "gold", "time-scale": 30, "url": ["/a=2", "/b"], "source": "127.0.0.2"},
        {"workload": "open-arrivals", "class": "lead", "rate": 100, "poisson": True, "timeout": "5s"},
    ]
    path = tmp_path / "populations.json"
    path.write_text(json.dumps(entries))
    gold, lead = populations_in(path)
    assert (gold.class_name, gold.source, gold.think_s) == ("gold", "127.0.0.2", Lognormal(1.0, 1.0))
    assert (lead.arrivals, lead.timeout_s) == (Poisson(100), 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "populations file"),
        ("{}", "JSON list"),
        ("[]", "at least one"),
        ('[{"class": "a"}]', "names no workload"),
        ('[{"workload": "wagon", "rate": 3}]', "wagon has no 'rate'"),
        ('[{"workload": "wagon", "url": "/a"}]', "must be a list"),
        ('[{"workload": "wagon", "time-scale": true}]', "must be text or a number"),
        ('[{"workload": "open-arrivals", "poisson": "yes"}]', "must be true or false"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "populations.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        populations_in(path)


def test_what_is_no_file_or_too_long_is_refused_without_waiting_for_its_end(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^populations file /dev/null is not a regular file$"):
        populations_in(Path("/dev/null"))
    long = tmp_path / "long.json"
    with long.open("w") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(UsageError, match=f"^populations file {long} is longer than {MOST_BYTES} bytes$"):
        populations_in(long)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        populations_in(tmp_path / "none.json")
