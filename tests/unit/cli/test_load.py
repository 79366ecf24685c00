"""trimtab load: bad input gets one line and exit code 2, and nothing is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.test_load_reports import CLASS, SUMMARY, parse
from trimtab.cli import main
from trimtab.cli._load_table import table

HERE = "http://127.0.0.1:1/"
WAGON = ["--workload", "wagon"]

BAD = [
    ([], "the following arguments are required: URL"),
    ([HERE], "no workload: give --workload, one of closed-loop, open-arrivals, specweb99, surge, tpcw, wagon"),
    ([HERE, "--workload", "wagn"], "did you mean 'wagon'?"),
    ([HERE, *WAGON, "--rate", "3"], "unknown option 'rate'; options: --class"),
    ([HERE, *WAGON, "--speed", "3"], "unrecognized arguments: --speed"),
    ([HERE, *WAGON, "--time-scale", "0"], "time_scale 0 is not allowed"),
    ([HERE, *WAGON, "--step", "870=2"], "is not a duration"),
    ([HERE, *WAGON, "--source", "10.0.0.1"], "127.0.0.0/8"),
    ([HERE, *WAGON, "--timeout", "0s"], "timeout 0 s is not allowed"),
    ([HERE, *WAGON, "--timeout", "50000h"], "timeout 1.8e+08 s is not allowed: it must be more than 0"),
    ([HERE, *WAGON, "--step", "50000h=2"], "step time 1.8e+08 s is not allowed"),
    ([HERE, *WAGON, "--rate-scale", "1e-9", "--step", "1s=1e7"], "step factor 1e+07 is not allowed"),
    ([HERE, *WAGON, "--duration", "50000h"], "duration 1.8e+08 s is not allowed: it must be at most 1e+08 s"),
    ([HERE, "--workload", "tpcw", "--time-scale", "1e-6"], "duration 2.7e+09 s is not allowed"),
    ([HERE, "--workload", "specweb99", "--round-trip", "50000h"], "round trip 1.8e+08 s is not allowed"),
    ([HERE, *WAGON, "--duration", "60"], "'60' is not a duration"),
    ([HERE, *WAGON, "--duration", "1s", "--interval", "2s"], "at most the duration"),
    ([HERE, *WAGON, "--interval", "0.0000001ms"], "interval 0.0000001ms is not allowed: it must be at least 1ms"),
    ([HERE, *WAGON, "--duration", "0s"], "interval 1s is not allowed"),
    ([HERE, *WAGON, "--seed", "-1"], "--seed -1 is not allowed"),
    ([HERE, "--workload", "closed-loop", "--connection", "never"], "is not one of until-server-closes"),
    ([HERE, "--workload", "closed-loop", "--connections", "0"], "connections 0 is not allowed"),
    (["http://127.0.0.1:1/a", *WAGON, "--url", "/b"], "exclude each other"),
    ([HERE, *WAGON, "--zipf", "1"], "zipf 1 is not allowed: it must be 0 with a single URL"),
    (["http://192.0.2.1/", *WAGON], "add --allow-remote"),
    (["ftp://127.0.0.1/", *WAGON], "is not a URL"),
    ([HERE, *WAGON, "--populations", "x.json"], "--populations brings its own workloads"),
    ([HERE, "--workload", "tpcw", "--duration", "60s"], "give --ramp-up, --measure and --ramp-down"),
    ([HERE, "--workload", "tpcw", "--mix", "standard"], "is not one of browsing, shopping, ordering"),
    ([HERE, "--workload", "tpcw", "--items", "7"], "items 7 is not allowed: it must be one of 1000, 10000"),
    ([HERE, "--workload", "tpcw", "--time-scale", "0"], "time_scale 0 is not allowed"),
    ([HERE, "--workload", "tpcw", "--object", "/a"], "the pages name their images"),
    ([HERE, "--populations", "/nowhere/at/all.json"], "No such file"),
    ([HERE, "--populations", "/dev/null"], "populations file /dev/null is not a regular file"),
    (["http://127.0.0.1:0/", *WAGON], "'http://127.0.0.1:0/' has the port 0, allowed is 1 to 65535"),
]


@pytest.mark.parametrize(("arguments", "said"), BAD)
def test_bad_input_gets_one_plain_line_and_exit_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["load", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.startswith("trimtab: ")
    assert err.count("\n") == 1


def test_a_broken_populations_file_says_which_entry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "populations.json"
    path.write_text('[{"workload": "wagon", "burst": 3}]')
    assert main(["load", HERE, "--populations", str(path)]) == 2
    assert "wagon has no 'burst'" in capsys.readouterr().err


def test_a_table_says_whose_times_it_has_where_some_failed() -> None:
    said = "the times of pages and requests are without those that failed, by a time-out too"
    whole = {**SUMMARY, "classes": [{**CLASS, "errors": {}}]}
    assert said in table(parse(SUMMARY))  # type: ignore[arg-type]
    assert said not in table(parse(whole))  # type: ignore[arg-type]


def test_help_has_the_default_of_each_workload_that_has_another(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["load", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--users USERS (in surge: user equivalents, default 100) how many (default 400)" in text
    assert "--timeout TIMEOUT (in surge: default 10m) time after which" in text
    assert "or ordering, default shopping) how often each class" in text


def test_help_has_every_option_of_every_workload_and_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["load", "--help"]) == 0
    text = capsys.readouterr().out
    for flag in ("--time-scale", "--rate-scale", "--connections", "--poisson", "--zipf", "--step", "--source"):
        assert f"  {flag} " in text
    assert "example: trimtab load" in text
