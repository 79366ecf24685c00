"""trimtab load --workload tpcw against a shop that refuses what no browser would send."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests._small_shop import SmallShop
from trimtab.cli import main

pytestmark = pytest.mark.server

PARTS = ["--ramp-up", "100s", "--measure", "1000s", "--ramp-down", "100s"]
RUN = ["--workload", "tpcw", "--browsers", "20", "--time-scale", "400", "--interval", "1s", *PARTS]


def test_a_shop_is_walked_as_its_pages_say(capsys: pytest.CaptureFixture[str]) -> None:
    with SmallShop() as shop:
        assert main(["load", f"{shop.url}/shop/", *RUN, "--mix", "ordering", "--json"]) == 0
        noted = shop.noted()
    out, err = capsys.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    summary, result = lines[-2:]
    assert (err, result["type"], result["failed"], result["metric"]) == ("", "tpcw", 0, "WIPSo")
    assert summary["classes"][0]["errors"] == {}
    total = sum(one["count"] for one in result["interactions"])
    assert result["wips"] == pytest.approx(total / result["measured_s"])
    # The shop has seen every page that was counted, and each browser fetched an image once a session.
    seen = Counter(one["page"] for one in noted)
    shown = {one["page"]: one["count"] for one in result["interactions"]}
    assert all(seen[page] >= count for page, count in shown.items())
    assert seen["images/logo.png"] <= summary["classes"][0]["sessions"]
    every = [one["browsing"] for line in lines[:-2] for one in line["classes"]]
    assert sum(i["time"]["count"] for b in every for i in b["interactions"]) == summary["classes"][0]["pages"]
    returning = [one for one in noted if one["page"] == "home" and one["fields"]]
    assert returning[0]["fields"][0][0] == "customer"
    assert {one["cookies"].get("customer") for one in noted} >= {one["fields"][0][1] for one in returning[:5]}


def test_a_page_that_fails_makes_the_run_invalid_and_does_not_end_it(capsys: pytest.CaptureFixture[str]) -> None:
    with SmallShop() as shop:
        shop.refuse("best_sellers")
        assert main(["load", shop.url, *RUN, "--mix", "browsing"]) == 0
    out = capsys.readouterr().out
    assert "interactions failed" in out
    assert "http_4xx" in next(line for line in out.splitlines() if "best_sellers" in line)
    assert "divided by 400" in out
