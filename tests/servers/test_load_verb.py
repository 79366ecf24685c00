"""trimtab load against a real server, as a user runs it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests._scripted_server import ScriptedServer
from tests.servers._traffic import closed_port
from tests.servers._under_gate import PATIENCE_S, until
from trimtab.cli import main
from trimtab.processes import start_of

pytestmark = pytest.mark.server


def test_json_gives_one_line_per_interval_and_one_for_the_whole_run(capsys: pytest.CaptureFixture[str]) -> None:
    # 50 requests are due in half a second; a busy machine may leave some without an answer at the end.
    stream = ["--workload", "open-arrivals", "--rate", "100", "--step", "495ms=0"]
    arguments = [*stream, "--duration", "1s", "--interval", "250ms", "--json"]
    with ScriptedServer() as server:
        code = main(["load", f"http://{server.target}/ok?ms=5", *arguments])
        seen = server.seen()["requests"]
    out, err = capsys.readouterr()
    *intervals, summary = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert {one["type"] for one in intervals} == {"interval"}
    assert sum(one["duration_s"] for one in intervals) == pytest.approx(summary["duration_s"], abs=0.001)
    assert len(intervals) > 1
    assert summary["type"] == "summary"
    (one,) = summary["classes"]
    assert one["requests"] > 0 and one["errors"] == {}
    assert one["requests"] + one["outstanding"] + one["unsent"] == 50
    assert one["requests"] <= seen["/ok?ms=5"] <= one["requests"] + one["outstanding"]


def test_a_person_gets_progress_on_stderr_and_a_table_on_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    classes = [
        {"workload": "closed-loop", "class": "gold", "connections": 2, "url": ["/ok?ms=5=1"], "source": "127.0.0.2"},
        # 20 of them are due in the first half.
        {
            "workload": "open-arrivals",
            "class": "lead",
            "rate": 40,
            "step": ["490ms=0"],
            "url": ["/status?code=404=1"],
        },
    ]
    path = tmp_path / "populations.json"
    path.write_text(json.dumps(classes))
    arguments = ["--populations", str(path), "--duration", "1s", "--interval", "500ms"]
    with ScriptedServer() as server:
        assert main(["load", f"http://{server.target}", *arguments]) == 0
        seen = server.seen()
    out, err = capsys.readouterr()
    assert seen["peers"]["127.0.0.2"] == 2
    assert "gold" in err
    assert "http_4xx" in err
    for text in ("gold: ", "lead: ", "page, from intended start", "request, from actual send"):
        assert text in out
    refused = re.search(r"errors: http_4xx (\d+)", out)
    assert refused is not None and 0 < int(refused[1]) <= seen["requests"]["/status?code=404"] <= 20
    assert "errors: none" in out
    assert "generator: " in out


def test_a_server_that_is_not_there_is_one_line_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    with closed_port() as target:
        assert main(["load", f"http://{target}/", "--workload", "wagon"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("trimtab: cannot connect to 127.0.0.1:")
    assert err.count("\n") == 1


def test_a_run_without_a_single_answer_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--workload", "open-arrivals", "--duration", "500ms", "--interval", "500ms", "--json"]
    with ScriptedServer() as server:
        assert main(["load", f"http://{server.target}/reset", *arguments]) == 1
    assert "no request succeeded: reset" in capsys.readouterr().err


def test_redirects_are_said_for_nobody_follows_them(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--workload", "open-arrivals", "--rate", "20", "--duration", "500ms", "--interval", "500ms"]
    with ScriptedServer() as server:
        assert main(["load", f"http://{server.target}/status?code=302", *arguments]) == 0
    out = capsys.readouterr().out
    told = re.search(r"all: (\d+) requests", out)
    assert told is not None and int(told[1]) > 0
    assert f"redirects: {told[1]} of the requests, not followed: the pages were not asked for" in out


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_stopping_it_still_gives_the_summary_and_leaves_no_generator(number: signal.Signals, code: int) -> None:
    with ScriptedServer() as server:
        command = [sys.executable, "-m", "trimtab", "load", f"http://{server.target}/ok"]
        process = subprocess.Popen(
            [*command, "--workload", "closed-loop", "--connections", "2", "--interval", "100ms", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A test run in the background of a shell ignores SIGINT, and so would all that it starts.
            preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
        )
        assert process.stdout is not None
        process.stdout.readline()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (code, "")
    assert json.loads(out.splitlines()[-1])["stopped_early"] is True
    assert len(children) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(int(children[0]), 0)


def test_killing_it_leaves_no_generator() -> None:
    with ScriptedServer() as server:
        command = [sys.executable, "-m", "trimtab", "load", f"http://{server.target}/ok"]
        process = subprocess.Popen(
            [*command, "--workload", "closed-loop", "--interval", "100ms", "--json"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        process.stdout.readline()
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        process.communicate()
        # An orphan that has ended may wait for init to collect it.
        until(lambda: start_of(int(child)) is None, "the generator goes on")
