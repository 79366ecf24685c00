"""`keep-alive set` and `show`, and what `observe` and `tune` do with the plant of that name."""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests._idle_file import NONE, SECOND_NS, count, settings
from tests._memory_plant import FakeClock
from tests.unit.cli.conftest import Trimtab
from trimtab import discovery
from trimtab.controllers._intervals import EDGES_S, Tally
from trimtab.controllers._survival import Survival
from trimtab.core import Window, of_class
from trimtab.gate import run_directory
from trimtab.gate.run_directory import RunDirectory
from trimtab.plants.keep_alive import KeepAlive
from trimtab.plants.keep_alive.idle_periods import held_ratio, histogram
from trimtab.plants.keep_alive.knobs import KEEP_ALIVE
from trimtab.sensors import _shared_file
from trimtab.sensors.keep_alive import SENSOR
from trimtab.store import Store

MS = 1_000_000


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run directory whose path is short enough for the sockets in it, wherever pytest keeps its own."""
    with tempfile.TemporaryDirectory(prefix="tt-", dir="/tmp") as short:
        monkeypatch.setattr(run_directory, "base", lambda: Path(short) / "run")
        yield Path(short) / "run"


@pytest.fixture
def run_dir(base: Path) -> Iterator[RunDirectory]:
    """A run of this process."""
    mine = run_directory.claim("web")
    _shared_file.create(mine.shared)
    yield mine
    mine.release()


def test_a_time_is_set_and_control_is_given_back(trimtab: Trimtab, run_dir: RunDirectory) -> None:
    said = trimtab("keep-alive", "set", "400ms")
    first, before = said.out.splitlines()
    assert (said.code, first, said.err) == (0, "web: fixed, 400ms (was the server's own)", "")
    assert before.startswith("connections that are open already keep the server's own time"), "said once"
    assert settings(run_dir.shared) == (400 * MS, 900 * MS, 32, 1)
    assert trimtab("keep-alive", "set", "auto", "--name", "web").out == "web: auto, 400ms (was fixed, 400ms)\n"
    assert settings(run_dir.shared) == (400 * MS, 900 * MS, 32, 2)
    assert trimtab("keep-alive", "set", "server").out == "web: the server's own (was auto, 400ms)\n"
    assert settings(run_dir.shared) == (0, 0, 0, 0)


def test_what_is_in_force_and_what_was_counted_is_shown(trimtab: Trimtab, run_dir: RunDirectory) -> None:
    seen = replace(NONE, intervals=2000, interval_ns=420 * SECOND_NS, cut=30, expired=4, left=5, spared=6)
    count(run_dir.shared, replace(seen, server_ms=5000))
    trimtab("keep-alive", "set", "1500ms")
    out = trimtab("keep-alive", "show").out
    for part in (
        "web: fixed, 1.5s\n",
        "one idle connection in 32 is given 3s",
        "the server's own time: 5s\n",
        "2,000, 210 ms on average",
        "30 at the time, 4 by the server, 5 by clients",
        "in progress: 6\n",
    ):
        assert part in out
    body = json.loads(trimtab("keep-alive", "show", "--json").out)
    assert (body["in_charge"], body["time_ms"], body["server_ms"], body["cut"]) == ("fixed", 1500, 5000, 30)
    trimtab("keep-alive", "set", "server")
    count(run_dir.shared, NONE)
    body = json.loads(trimtab("keep-alive", "show", "--json").out)
    assert (body["in_charge"], body["time_ms"], body["server_ms"]) == ("server", None, None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "the following arguments are required: ACTION"),
        (["set"], "the following arguments are required: TIME|auto|server"),
        (["set", "-400ms"], "the following arguments are required: TIME|auto|server"),
        (["set", "--", "-400ms"], "keep-alive '-400ms': write auto, server or a time such as 400ms or 15s"),
        (["set", "400"], "keep-alive '400': write auto, server or a time such as 400ms or 15s"),
        (["set", "0s"], "keep-alive '0s' is outside of 1ms to 1h"),
        (["set", "2h"], "keep-alive '2h' is outside of 1ms to 1h"),
        (["set", "400ms", "--name", "other"], "no run is named 'other'; there is web"),
        (["show", "400ms"], "unrecognized arguments: 400ms"),
    ],
)
def test_bad_input_is_one_line_and_sets_nothing(
    trimtab: Trimtab, run_dir: RunDirectory, arguments: list[str], said: str
) -> None:
    result = trimtab("keep-alive", *arguments)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert said in result.err
    assert settings(run_dir.shared) == (0, 0, 0, 0)


@pytest.mark.parametrize("verb", [["keep-alive", "set", "1s"], ["keep-alive", "show"], ["observe", "keep-alive"]])
def test_a_server_without_the_shim_and_a_shim_of_another_version_are_one_line(
    trimtab: Trimtab, base: Path, verb: list[str]
) -> None:
    result = trimtab(*verb)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert "no server runs under trimtab: start it with 'trimtab run ... -- SERVER ...'" in result.err
    mine = run_directory.claim("web")
    _shared_file.create(mine.shared)
    with mine.shared.open("r+b") as file:
        file.seek(8)
        file.write(struct.pack("=I", 1))
    result = trimtab(*verb)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert "its layout is version 1" in result.err


def test_a_run_that_was_killed_can_be_set_but_not_learn(
    trimtab: Trimtab, run_dir: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunDirectory, "owner", lambda self: None)
    monkeypatch.setattr(RunDirectory, "gated", lambda self: True)
    result = trimtab("keep-alive", "set", "auto")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "the 'trimtab run' of 'web' was killed" in result.err
    assert trimtab("keep-alive", "set", "300ms").code == 0


def test_the_loop_runs_on_the_plant_with_its_own_habits(trimtab: Trimtab, run_dir: RunDirectory, store: Path) -> None:
    said = trimtab("tune", "keep_alive", "--duration", "40ms", "--window", "20ms", "--settle", "0s")
    assert (said.code, said.err) == (0, "")
    plan = Store(store).run(1).plan
    assert (plan.plant, plan.controller) == ("keep-alive", "keep-alive-cost")
    assert [knob.name for knob in plan.knobs] == [KEEP_ALIVE]
    assert plan.settings.objective.metric == "accept_queue_delay_s"
    trimtab("keep-alive", "set", "auto")
    refused = trimtab("tune", "keep-alive", "--duration", "10s")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "is learned already" in refused.err


def test_observing_draws_the_intervals_with_the_time_marked(trimtab: Trimtab, run_dir: RunDirectory) -> None:
    trimtab("keep-alive", "set", "500ms")
    said = trimtab("observe", "keep-alive", "--window", "10ms", "--duration", "20ms")
    assert (said.code, said.err) == (0, "")
    drawings = said.out.count("keep-alive time: fixed, 500ms; ")
    limited = ("--window", "10ms", "--duration", "20ms", "--subject-to", "idle_connections>=1")
    assert "idle_connections >= 1 is broken" in trimtab("observe", "keep-alive", *limited).out
    assert drawings == said.out.count("   500ms  ----------------------------------------") >= 1
    lines = trimtab("observe", "keep-alive", "--window", "10ms", "--duration", "20ms", "--json").out.splitlines()
    assert lines and all(json.loads(line)["configuration"] == {KEEP_ALIVE: 500} for line in lines)


def bin_of(duration_s: float) -> int:
    return next(i for i in range(len(EDGES_S)) if duration_s < EDGES_S[i + 1])


def tally(time_s: float, **periods: dict[float, int]) -> Tally:
    """Idle periods by how they ended: their length in s to their number."""
    readings = {
        of_class(how, str(bin_of(length_s))): number
        for how, lengths in periods.items()
        for length_s, number in lengths.items()
    }
    return Tally().seen(readings, time_s, 1e9, 1.0)


def test_the_histogram_has_a_bar_for_every_half_octave_and_the_time_at_its_place() -> None:
    lines = histogram(
        tally(0.45, intervals={0.3: 800, 0.0001: 8}, intervals_left={0.3: 100}, intervals_ended={0.451: 400}), 0.45
    )
    assert lines[0].startswith("idle for  █ until the next request")
    assert lines[1].split() == ["0", "8"]
    row = next(line for line in lines if line.startswith("   270ms"))
    assert (row.count("█"), row.count("▒"), row.split()[-1]) == (36, 4, "900")
    at = next(i for i, line in enumerate(lines) if "the time in force" in line)
    assert lines[at].startswith("   450ms")
    assert lines[at - 1].startswith("   400ms") and lines[at - 1].count("░") == 18
    assert at == len(lines) - 1


def windows_at(time_ms: int, number: int, **readings: float) -> list[Window]:
    return [Window(i, 5.0 * i, 5.0, {KEEP_ALIVE: time_ms}, readings) for i in range(number)]


def drawn(run_dir: RunDirectory, windows: list[Window]) -> str:
    plant = KeepAlive(FakeClock(), run_dir)
    lines = list(map(plant.drawing(), windows))[-1]
    plant.close()
    return "\n".join(lines).removeprefix("keep-alive time: ")


def test_what_is_cut_in_a_burst_is_what_the_trials_say_would_have_asked_again_soon(run_dir: RunDirectory) -> None:
    """Beyond 400 ms, by the trials: 30 ask within as long again, 60 later or never."""
    readings = {
        "connections_cut_rate_hz": 20.0,
        "idle_connections": 12.0,
        "idle_held_workers": 12.0,
        of_class("intervals", str(bin_of(0.2))): 1000,
        of_class("intervals", str(bin_of(0.6))): 30,
        of_class("intervals_ended", str(bin_of(0.401))): 2790,
        of_class("intervals_left", str(bin_of(0.7))): 10,
        of_class("intervals_ended", str(bin_of(0.91))): 50,
    }
    count(run_dir.shared, replace(NONE, server_ms=5000))
    text = drawn(run_dir, windows_at(400, 3, **readings))
    assert "cut: 20 Hz, 300 so far: 100 in a burst, 200 in thought; now 33% in a burst" in text
    assert "would have asked again within 800ms" in text
    least, most = text.partition("kept for the server's own 5s they would hold ")[2].split(",")[0].split(" to ")
    assert 12 < float(least) < float(most) < 12 * 5 / 0.3
    assert "idle periods of the last 15s" in text


def test_without_enough_trials_nothing_is_said_of_bursts(run_dir: RunDirectory) -> None:
    readings = {"connections_cut_rate_hz": 20.0, of_class("intervals_ended", str(bin_of(0.401))): 100}
    text = drawn(run_dir, windows_at(400, 1, **readings))
    assert "cut: 20 Hz, 100 so far; too few have been left longer to tell which were in a burst" in text
    assert "idle connections: not measured" in text


def test_at_the_servers_own_time_nothing_is_cut(run_dir: RunDirectory) -> None:
    readings = {"connections_cut_rate_hz": 0.0, "connections_expired_rate_hz": 0.4}
    text = drawn(run_dir, windows_at(15_000, 1, **readings))
    assert text.startswith("the server's own; ")
    assert "cut: nothing, the server's own time is in force; it ended 0.4 Hz itself" in text


def test_the_doctor_says_what_is_in_force(trimtab: Trimtab, run_dir: RunDirectory) -> None:
    trimtab("keep-alive", "set", "400ms")
    (found,) = discovery.load("trimtab.plants", "keep-alive").probe()
    assert (found.usable, found.detail) == (True, "fixed, 400ms; moved live with 'trimtab keep-alive set'")
    run_dir.shared.unlink()
    (found,) = discovery.load("trimtab.plants", "keep-alive").probe()
    assert not found.usable and found.enable
    run_dir.release()
    (found,) = discovery.load("trimtab.plants", "keep-alive").probe()
    assert (found.usable, found.detail) == (False, "no server runs under trimtab")


def test_a_run_that_changed_the_time_is_undone(
    trimtab: Trimtab, run_dir: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller that has seen the end of a burst at 300 ms comes down, and the run is undone afterwards."""
    real = SENSOR.read
    burst = {"intervals_50ms@5": 500, "interval_rate_hz": 500.0}
    monkeypatch.setattr(SENSOR, "read", lambda self: {**real(self), **burst})
    how = ("--controller", "keep-alive", "--option", "alpha=0.5", "--window", "20ms", "--settle", "0s")
    said = trimtab("tune", "keep-alive", *how, "--duration", "60ms")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[-1].endswith("trimtab runs undo 1")
    assert settings(run_dir.shared)[3] == 1 and 0 < settings(run_dir.shared)[0] < 15_000 * MS
    undone = trimtab("runs", "undo", "1")
    assert (undone.code, undone.out) == (0, "run 1: undone; in force now: keep_alive_ms 15000\n")
    assert settings(run_dir.shared) == (0, 0, 0, 0)


def test_a_new_time_is_a_new_sample(run_dir: RunDirectory) -> None:
    readings = {"connections_cut_rate_hz": 0.0, of_class("intervals", str(bin_of(0.2))): 1000}
    text = drawn(run_dir, [*windows_at(800, 3, **readings), *windows_at(400, 1, **readings)])
    assert "idle periods of the last 5s" in text


def test_idle_connections_would_hold_the_more_workers_the_longer_they_are_kept() -> None:
    """All pauses last 10 s: at 5 s ten times as many are held as at half a second."""
    seen = Survival(tally(0.5, intervals={10.0: 1000}))
    least, most = held_ratio(seen, 0.5, 5.0)
    assert least == pytest.approx(most)
    trials = 0.5 + 0.5 / 32
    assert least == pytest.approx(5.0 / trials, rel=0.02)
    cut = Survival(tally(0.5, intervals_ended={0.501: 1000, 1.01: 32}))
    least, most = held_ratio(cut, 0.5, 5.0)
    assert least < 2.5 < most
