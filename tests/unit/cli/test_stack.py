"""`trimtab tune stack FILE`: what the file may say, which knobs it moves, how a search is asked for."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Said, Trimtab
from trimtab.clock import SystemClock
from trimtab.core import Clock, Plant
from trimtab.errors import UsageError
from trimtab.plants.stack import description
from trimtab.plants.stack.tiers import attached
from trimtab.store import Store

TIER = '''"""The plant in memory as a tier: all of them live by one clock."""
from tests._memory_plant import FakeClock, FakeSensor, MemoryPlant

CLOCK = FakeClock()

class Shop(MemoryPlant):
    name = "shop"

    def __init__(self, note):
        super().__init__()
        self.clock, self.note = CLOCK, note
        self._sensors = (FakeSensor(self.readings, gives="response_time_s request_rate_hz"),)

    @property
    def notes(self):
        return (self.note,) if self.note else ()

    def objection(self, configuration):
        return "a timeout of 101 is refused" if configuration.get("timeout") == 101 else ""

def add_arguments(parser):
    parser.add_argument("--pid", type=int, help="process id")
    parser.add_argument("--note", action="append", default=[], help="a note")
    parser.add_argument("--quiet", action="store_true", help="says nothing")

def from_arguments(args, clock):
    made = Shop(" ".join(args.note))
    made.pid = args.pid
    return made

PLANT = Shop
'''
FILE = """
[tiers.web]
plant = "shop"
note = ["hello", "there"]
[tiers.db]
plant = "shop"
quiet = true
[objective]
minimize = "response_time_s"
subject-to = ["request_rate_hz>=1"]
"""
SEARCH = ("--controller", "nelder_mead", "--window", "2s")

Tune = Callable[..., Said]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "stack.toml"
    path.write_text(FILE)
    return path


@pytest.fixture
def tune(trimtab: Trimtab, tmp_path: Path, file: Path) -> Iterator[Tune]:
    """Tunes the stack with a file of this text, and with these words."""
    (tmp_path / "plants" / "shop.py").write_text(TIER)

    def run(text: str = FILE, *words: object) -> Said:
        file.write_text(text)
        return trimtab("tune", "stack", file, *SEARCH, *(words or ("--trials", 4, "--remeasure", 2)))

    yield run
    sys.modules.pop("trimtab.plants.shop", None)


def test_two_tiers_are_searched_as_one_and_the_run_can_be_replayed_and_shown(
    tune: Tune, trimtab: Trimtab, store: Path, file: Path
) -> None:
    said = tune()
    assert said.code == 0, said.err
    run = Store(store).run(1)
    assert [knob.name for knob in run.plan.knobs] == ["web.workers", "web.timeout", "db.workers", "db.timeout"]
    assert (run.plan.plant, run.plan.extras["stack"]) == ("shop+shop", FILE)
    assert "note" in said.out and "hello there" in said.out
    file.unlink()
    assert trimtab("runs", "replay", 1).out == f"run 1: all {len(Store(store).moves(1))} moves were reproduced\n"
    assert "web.workers" in trimtab("runs", "show", 1).out


def test_the_file_says_what_counts_and_the_command_line_goes_before_it(tune: Tune, store: Path) -> None:
    tune()
    tune(FILE, "--trials", 2, "--maximize", "request_rate_hz", "--subject-to", "response_time_s<=9s")
    first, second = (Store(store).run(i).plan.settings.objective for i in (1, 2))
    assert str(first) == "minimize response_time_s subject to request_rate_hz >= 1"
    assert str(second) == "maximize request_rate_hz subject to request_rate_hz >= 1, response_time_s <= 9s"


@pytest.mark.parametrize(
    ("inside", "words", "moved"),
    [
        ("", (), ["web.workers", "web.timeout", "db.workers", "db.timeout"]),
        ('knobs = ["db.*"]', (), ["db.workers", "db.timeout"]),
        (
            'knobs = ["db.*"]',
            ("--knob", "*.timeout", "--knob", "web.workers"),
            ["web.timeout", "db.timeout", "web.workers"],
        ),
        ("", ("--knob", "db.workers", "--knob", "db.*"), ["db.workers", "db.timeout"]),
    ],
)
def test_patterns_say_which_knobs_are_moved(
    tune: Tune, store: Path, inside: str, words: tuple[str, ...], moved: list[str]
) -> None:
    said = tune(inside + FILE, "--trials", 2, *words)
    assert said.code == 0, said.err
    assert [knob.name for knob in Store(store).run(1).plan.knobs] == moved


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tiers.web", "stack.toml: it is not TOML: Expected ']'"),
        ("", "it names no tier"),
        ("[tiers]", "it names no tier"),
        ("[tiers]\nweb = 5", "tiers.web 5 is not a table: write [tiers.web] with plant = ..."),
        ("tiers = 5", "tiers 5 is not a table: write [tiers.NAME] with plant = ..."),
        ("clients = 5\n" + FILE, "clients 5 is not a table: write [clients] with url = ..."),
        ('knobs = "web.*"\n' + FILE, "knobs 'web.*' is not a list"),
        ("[tier.web]\n" + FILE, "unknown key 'tier'; did you mean tiers?"),
        (FILE + "[objektive]\n", "unknown key 'objektive'; did you mean objective?"),
        (FILE + "maximise = 1\n", "unknown key 'objective.maximise'; did you mean maximize?"),
        (FILE + 'maximize = "request_rate_hz"\n', "has minimize and maximize: write one of them"),
        (FILE.replace("tiers.db", 'tiers."d b"'), "tier 'd b': a name is of small letters"),
        (FILE.replace('plant = "shop"', 'plant = "shp"'), "[tiers.web]: unknown plant 'shp'"),
        (FILE.replace('plant = "shop"', "", 1), "[tiers.web] names no server: write plant = ..., one of "),
        (FILE.replace('"shop"', '"stack"'), "[tiers.web] names no server"),
        (FILE.replace("quiet", "quite"), "[tiers.db] has no key 'quite': there are pid, note, quiet"),
        (FILE.replace("quiet = true", "quiet = 1"), "[tiers.db]: quiet must be true or false, not 1"),
        (FILE.replace("quiet = true", 'pid = "x"'), "[tiers.db]: argument --pid: invalid int value: 'x'"),
        (FILE.replace("quiet = true", "pid = [1]"), "[tiers.db]: pid must be text or a number, not [1]"),
        (FILE.replace("quiet = true", "pid = true"), "[tiers.db]: pid must be text or a number, not True"),
        (FILE.replace('"response_time_s"', '"respons_time_s"'), "did you mean response_time_s?"),
        (
            FILE.replace('"response_time_s"', '"accept_queue_delay_s"'),
            "accept_queue_delay_s is not measured on stack",
        ),
        (FILE.replace(">=1", ">1"), "write METRIC<=VALUE or METRIC>=VALUE"),
        ('knobs = ["wb.*"]' + FILE, "unknown knob 'wb.*': stack has web.workers, web.timeout"),
        (FILE + "[clients]\n", "[clients] names no workload: write workload = ..., one of "),
        (FILE + '[clients]\nworkload = "closed"\n', "unknown workload 'closed'"),
        (FILE + '[clients]\nworkload = "closed-loop"\n', "[clients]: the following arguments are required: --url"),
        (FILE + '[clients]\nworkload = "closed-loop"\nurl = "ftp://x"\n', "is not a URL of the form http://"),
        (
            FILE + '[clients]\nworkload = "closed-loop"\nurl = "http://127.0.0.1:1/"\n',
            "cannot connect to 127.0.0.1:1",
        ),
        (FILE + '[clients]\nworkload = "closed-loop"\nusers = 3\n', "[clients] has no key 'users': there are url"),
        (FILE.replace('"shop"\nquiet = true', '"simulated"'), "simulated time and of this machine's do not mix"),
    ],
)
def test_what_is_wrong_in_the_file_is_one_line_and_nothing_is_done(
    tune: Tune, store: Path, text: str, message: str
) -> None:
    said = tune(text)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1), said.err
    assert message in said.err
    assert not store.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--trials", 1), "--trials 1 is too few"),
        (("--trials", 4, "--duration", "1m"), "--trials and --duration exclude each other"),
        (("--trials", 4, "--remeasure", 1), "--remeasure 1 is not allowed: it must be 0, or 2 to 1000"),
        (("--trials", 4, "--remeasure", 10**9), f"--remeasure {10**9} is not allowed: it must be 0, or 2 to 1000"),
        (("--trials", 4, "--budget-of-harm", "0"), "--budget-of-harm 0 is not allowed"),
        (("--trials", 4, "--budget-of-harm", "120%"), "--budget-of-harm 120% is not allowed"),
        (("--trials", 4, "--budget-of-harm", "5s"), "--budget-of-harm: '5s' is not a value in ratio"),
        (("--trials", 4, "--mode", "advise"), "a search by trials has to make its changes"),
        (("--trial-length", "0s"), "a window of 0 s is too short"),
        (("--duration", "20s"), "duration 20s is too short for a search: 10 windows of 2 s are measured again"),
        (
            ("--trials", 4, "--controller", "trim", "--remeasure", 3),
            "--remeasure 3: trim judges each change by itself",
        ),
    ],
)
def test_what_is_wrong_in_a_search_is_one_line_and_nothing_is_done(
    tune: Tune, store: Path, words: tuple[object, ...], message: str
) -> None:
    said = tune(FILE, *words)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1), said.err
    assert message in said.err
    assert not store.exists()


def test_a_duration_is_as_many_trials_as_fit_beside_the_turns(tune: Tune, store: Path) -> None:
    tune(FILE, "--duration", "1m", "--settle", "1s", "--remeasure", 3, "--budget-of-harm", "5%")
    search = Store(store).run(1).plan.search
    assert search is not None
    assert search.rounds == 1, "a second one would outlast the duration"
    assert (search.trials, search.remeasure, search.budget, search.trial_s) == (14, 3, 0.05, 2.0)


def test_the_file_may_stand_behind_options(trimtab: Trimtab, tune: Tune, file: Path) -> None:
    assert trimtab("tune", "stack", *SEARCH, file, "--trials", 2).code == 0
    assert "arguments are required: FILE" in trimtab("tune", "stack", *SEARCH).err


def test_a_file_that_others_can_write_is_not_believed(tune: Tune, trimtab: Trimtab, file: Path) -> None:
    file.chmod(0o666)
    for words in (("tune", "stack", file), ("observe", "stack", file), ("doctor", file)):
        said = trimtab(*words)
        assert (said.code, said.err.count("\n")) == (2, 1), said
        assert "can be written by everybody" in said.err
    assert trimtab("doctor", os.devnull).code == 2
    assert "No such file" in trimtab("doctor", "/no/such/stack.toml").err


def test_the_doctor_says_of_each_tier_which_knobs_can_be_moved_and_why_another_cannot(
    tune: Tune, trimtab: Trimtab, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(args: argparse.Namespace, clock: Clock) -> Plant:
        if args.quiet:
            raise UsageError("no server has this pid")
        found: Plant = made(args, clock)
        return found

    said = trimtab("doctor", file)
    assert said.code == 0, said.err
    assert "yes  tier web: shop, 2 knobs" in said.out
    assert "yes  tier web workers: 10 workers now, 1..100 by 1 possible (live)" in said.out
    assert "yes  tier web note: hello there" in said.out
    assert "yes  knobs: 4 are to be moved" in said.out
    assert "yes  objective: minimize response_time_s subject to request_rate_hz >= 1" in said.out
    shop = sys.modules["trimtab.plants.shop"]
    made = shop.from_arguments
    monkeypatch.setattr(shop, "from_arguments", refuses)
    found = [json.loads(line) for line in trimtab("doctor", file, "--json").out.splitlines()]
    wrong = next(one for one in found if one["subject"] == "tier db")
    assert not wrong["usable"] and wrong["detail"].endswith("[tiers.db]: no server has this pid")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FILE.replace('plant = "shop"\nquiet', 'plant = "shp"\nquiet'), "[tiers.db]: unknown plant 'shp'"),
        (FILE.replace('plant = "shop"\nquiet', "quiet"), "[tiers.db] names no server: write plant = ..., one of "),
        (FILE.replace("quiet", "quite"), "[tiers.db] has no key 'quite': there are pid, note, quiet"),
        (FILE.replace("quiet = true", "pid = [1]"), "[tiers.db]: pid must be text or a number, not [1]"),
        (FILE.replace('"response_time_s"', '"respons_time_s"'), "did you mean response_time_s?"),
        (FILE.replace(">=1", ">1"), "write METRIC<=VALUE or METRIC>=VALUE"),
    ],
)
def test_what_is_wrong_whatever_runs_here_ends_the_doctor_as_it_ends_a_run(
    trimtab: Trimtab, tune: Tune, file: Path, text: str, message: str
) -> None:
    file.write_text(text)
    said = trimtab("doctor", file)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1), said.err
    assert message in said.err


def test_the_doctor_says_of_an_objective_that_nothing_measures_it_here(
    trimtab: Trimtab, tune: Tune, file: Path
) -> None:
    file.write_text(FILE[: FILE.index("[objective]")] + '[objective]\nminimize = "cpu_ratio"\n')
    said = trimtab("doctor", file, "--json")
    (wrong,) = [one for one in map(json.loads, said.out.splitlines()) if one["subject"] == "objective"]
    assert said.code == 0
    assert not wrong["usable"] and "cpu_ratio is not measured on stack here" in wrong["detail"]


def test_knobs_that_no_tier_has_end_the_doctor_once_it_has_said_what_there_is(
    trimtab: Trimtab, tune: Tune, file: Path
) -> None:
    file.write_text('knobs = ["app.*"]\n' + FILE)
    said = trimtab("doctor", file)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "unknown knob 'app.*': stack has web.workers" in said.err
    assert "yes  objective: " in said.out and "knobs:" not in said.out


def test_of_a_stored_run_a_server_that_was_started_anew_is_found_without_its_process_id(tune: Tune) -> None:
    gone, here = 2**22 + 1, os.getpid()
    said = description.parse(FILE.replace("quiet = true", f"pid = {gone}"), "the file")
    assert attached(said, "db", Path("/"), SystemClock(), 0).pid == gone
    assert attached(said, "db", Path("/"), SystemClock(), 0, stored=True).pid is None
    still = description.parse(FILE.replace("quiet = true", f"pid = {here}"), "the file")
    assert attached(still, "db", Path("/"), SystemClock(), 0, stored=True).pid == here


def test_observing_a_stack_moves_nothing_and_shows_its_knobs_by_tier(
    tune: Tune, trimtab: Trimtab, file: Path
) -> None:
    said = trimtab("observe", "stack", file, "--window", "2s", "--duration", "4s", "--json")
    assert said.code == 0, said.err
    events = [json.loads(line) for line in said.out.splitlines()]
    windows = [event for event in events if event["type"] == "window"]
    notes = [event["text"] for event in events if event["type"] == "note"]
    assert len(notes) == len(set(notes)) > 0, "each note of a plant is told once, in every verb"
    assert set(windows[0]["configuration"]) == {"web.workers", "web.timeout", "db.workers", "db.timeout"}
    sources = {one["source"] for one in windows[0]["measured"]}
    assert {"web/fake", "db/fake"} <= sources
