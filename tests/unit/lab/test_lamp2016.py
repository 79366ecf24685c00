"""The blocks of lamp2016's factorials, what the programs print, and the summary of what was stored."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from trimtab.core import Window
from trimtab.events import Outcome, Status
from trimtab.lab import Arm
from trimtab.lab import lamp2016 as lab
from trimtab.lab._engine import _plan
from trimtab.lab._lamp2016_beds import Cell
from trimtab.lab._lamp2016_programs import _of_ab, _of_slap, _of_sysbench, _of_wrk
from trimtab.lab._results import write_results
from trimtab.lab.lamp2016 import CONTROL, LAB, LEFT, METRIC, ONLINE, P99, PARTS, SET, TUNED, arms, label
from trimtab.plants.linux import knobs
from trimtab.store import Store

AB = """
Complete requests:      81234
Failed requests:        2
Requests per second:    10153.99 [#/sec] (mean)
Percentage of the requests served within a certain time (ms)
  50%      9
  99%     24
 100%     51 (longest request)
"""
WRK = """
  Latency Distribution
     50%    2.10ms
     99%  850.00us
  Socket errors: connect 0, read 1, write 0, timeout 3
  Non-2xx or 3xx responses: 5
Requests/sec:  20311.22
"""


SLAP = """
Benchmark
	Running for engine innodb
	Average number of seconds to run all queries: 0.250 seconds
"""
SYSBENCH = """
SQL statistics:
    transactions:                        1500   (187.37 per sec.)
    queries:                             30000  (3747.40 per sec.)
    ignored errors:                      2      (0.25 per sec.)
Latency (ms):
         99th percentile:                      123.28
"""


def test_what_mariadbs_benchmarks_say_is_read() -> None:
    assert _of_slap(SLAP) == {"benchmark_score": 4000.0}
    assert _of_sysbench(SYSBENCH) == {
        "benchmark_score": 3747.40,
        "benchmark_p99_s": pytest.approx(0.12328),
        "benchmark_errors": 2.0,
    }
    assert _of_slap("Error when connecting to server") is None
    assert _of_sysbench("FATAL: unable to connect") is None


def test_ab_and_wrk_are_read() -> None:
    assert _of_ab(AB) == {"benchmark_score": 10153.99, "benchmark_p99_s": 0.024, "benchmark_errors": 2.0}
    assert _of_wrk(WRK) == {
        "benchmark_score": 20311.22,
        "benchmark_p99_s": pytest.approx(850e-6),
        "benchmark_errors": 9.0,
    }
    assert _of_ab("apr_socket_connect(): Connection refused") is None
    assert _of_wrk("unable to connect") is None


@pytest.mark.parametrize("part", PARTS)
def test_a_block_has_every_cell_once_and_a_control_more(part: str) -> None:
    found = arms(part, 7)
    counts = Counter(arm.label for arm in found)
    assert set(counts.values()) == {1}
    assert CONTROL in counts
    assert len(counts) == math.prod(len(f.levels) for f in PARTS[part].factors) + 1
    control = next(arm for arm in found if arm.label == CONTROL)
    (same,) = (arm for arm in found if arm.label != CONTROL and arm.extras == control.extras)
    assert same.bed == control.bed
    assert [arm.label for arm in arms(part, 8)] != [arm.label for arm in found]


def test_the_control_changes_only_what_it_says() -> None:
    control = next(arm for arm in arms("stack", 1) if arm.label == CONTROL)
    assert isinstance(control.bed, Cell) and control.bed.values == ()


def test_every_level_is_a_value_of_a_knob_of_the_kernel_or_the_usual_one() -> None:
    there = {knob.name: knob for knob in knobs.of_threads(1_400_000, raising=True, real_time=False)}
    there |= {one.knob.name: one.knob for one in knobs.MACHINE}
    for part in PARTS.values():
        for factor in part.factors:
            for level in factor.levels[1:]:
                name, value = SET[factor.name, level]
                assert name == "group_swappiness" or there[name].validated(value) == value


def stored(store: Store, part: str, seeds: tuple[int, ...], short_slice: float) -> list[int]:
    """Synthetic runs, in which the short slice does this to the score."""
    chance, ids = Random(5), []
    for seed in seeds:
        for arm in arms(part, seed):
            acting = short_slice if arm.extras["levels"].get("slice") == "0.1 ms" else 1.0
            ids.append(one_run(store, arm, 1000 * acting * math.exp(chance.gauss(0, 0.01))))
    return ids


def one_run(store: Store, arm: Arm, score: float) -> int:
    writer = store.begin(_plan(arm))
    writer.window(Window(0, 0.0, arm.window_s, {}, {METRIC: score, P99: 10 / score}))
    writer.finish(Outcome(Status.DONE, "", 1, False))
    return writer.run_id


def test_the_summary_finds_a_planted_effect_and_sets_it_beside_the_papers_claim(tmp_path: Path) -> None:
    store = Store(None)
    ids = stored(store, "apache-one", (1, 2, 3), 0.95)
    write_results(LAB, tmp_path, store, ids)
    text = (tmp_path / "summary.md").read_text()
    assert "84 measurements in 3 blocks; 0 gave none." in text
    row = next(line for line in text.splitlines() if line.startswith("| slice | 0.1 ms |"))
    assert "-5" in row or "-4.9" in row
    assert "| rr slice (placebo) |" in text and "| slice |" in text
    assert "apache-one: slice 0.1 ms against its default, lower end | short is best | 0.9" in text
    assert "10,219.1 |" in text and "+8.22%" in text
    assert (tmp_path / "apache-one-score.svg").stat().st_size > 1000


@pytest.mark.usefixtures("undrawn")
def test_one_block_is_shown_and_not_analysed(tmp_path: Path) -> None:
    store = Store(None)
    write_results(LAB, tmp_path, store, stored(store, "wrk", (1,), 1.0))
    assert "it takes 2 blocks" in (tmp_path / "summary.md").read_text()


@pytest.mark.usefixtures("undrawn")
def test_the_combined_score_needs_both_benchmarks(tmp_path: Path) -> None:
    store = Store(None)
    ids = [*stored(store, "apache-two", (1, 2), 1.0), *stored(store, "php-two", (1, 2), 1.0)]
    write_results(LAB, tmp_path, store, ids)
    text = (tmp_path / "summary.md").read_text()
    assert "Table 3" in text and "printed: +41.55%" in text and "two cores" in text and "one core" not in text


@pytest.mark.usefixtures("undrawn")
def test_tuned_runs_stand_beside_those_left_alone_and_the_best_cell_of_the_factorial(tmp_path: Path) -> None:
    store = Store(None)
    ids = stored(store, "stack", (1, 2, 3), 1.25)
    for seed in (1, 2, 3):
        for arm in arms(ONLINE, seed):
            ids.append(run_of_two_halves(store, arm, 0.020 if arm.label == TUNED else 0.040))
    write_results(LAB, tmp_path, store, ids)
    text = (tmp_path / "summary.md").read_text()
    assert "| 1 | 40.0 | 20.0 | slice_us 100 |" in text
    assert "tuned over left alone: 0.500 (0.500 to 0.500)." in text
    assert re.search(r"The best cell of the factorial, over its control: 0\.(7[7-9]|8[0-3])", text)


def run_of_two_halves(store: Store, arm: Arm, later_p99_s: float) -> int:
    """A run that ends with the short slice, and whose second half has this percentile."""
    writer = store.begin(_plan(arm, initial={"slice_us": 2800}))
    for number, (p99_s, slice_us) in enumerate(((0.04, 2800), (later_p99_s, 100 if arm.label == TUNED else 2800))):
        start_s = number * arm.window_s
        writer.window(Window(number, start_s, arm.window_s, {"slice_us": slice_us}, {METRIC: 60.0, P99: p99_s}))
    writer.finish(Outcome(Status.DONE, "", 2, False))
    return writer.run_id


def test_the_order_of_tuned_and_left_alone_changes_from_seed_to_seed() -> None:
    first = [arms(ONLINE, seed)[0].label for seed in (1, 2)]
    assert set(first) == {LEFT, TUNED}


def test_a_cell_is_named_by_its_levels() -> None:
    assert label({"slice": "5 ms", "nice": "-5"}) == "slice 5 ms, nice -5"
    assert lab.RR.placebo
