"""`--subject-to`: limits on other readings than the one to make best, from the command line to the end of a run."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from tests.unit.cli.conftest import Trimtab
from trimtab.core import Limit, Objective
from trimtab.store import Store

RUN = ("tune", "simulated", "--controller", "fuzzy", "--minimize", "memory_ratio", "--duration", "10m", "--seed", "1")
LIMIT = "accept_queue_delay_s<=20ms"


def last_workers(store: Path, run: int) -> float:
    """The limit of workers in the second half of a run, in the middle."""
    windows = Store(store).windows(run)
    return median(one.configuration["max_request_workers"] for one in windows[len(windows) // 2 :])


def test_memory_alone_takes_the_workers_away_and_under_a_limit_on_the_wait_they_stay(
    trimtab: Trimtab, store: Path
) -> None:
    trimtab(*RUN)
    said = trimtab(*RUN, "--subject-to", LIMIT)
    assert last_workers(store, 1) <= 3
    assert last_workers(store, 2) >= 15
    assert said.out.startswith(
        "run 2: fuzzy on simulated, minimize memory_ratio subject to accept_queue_delay_s <= 20ms"
    )
    assert "\nlimit: accept_queue_delay_s <= 20ms was kept in " in said.out
    assert "accept_queue_delay_s <= 20ms is broken" in said.out
    assert Store(store).run(2).plan.settings.objective.limits == (Limit("accept_queue_delay_s", 0.02, True, "20ms"),)


def test_a_run_under_limits_can_be_replayed(trimtab: Trimtab) -> None:
    trimtab(*RUN, "--subject-to", LIMIT)
    assert trimtab("runs", "replay", "1").code == 0


def test_observe_says_which_windows_break_a_limit_and_changes_nothing(trimtab: Trimtab) -> None:
    said = trimtab("observe", "memory", "--duration", "10s", "--subject-to", "request_rate_hz>=30")
    assert "request_rate_hz >= 30 is broken" in said.out
    assert trimtab("observe", "memory", "--duration", "10s", "--subject-to", "request_rate_hz>=3").code == 0


def test_a_limit_that_was_not_measured_is_said(trimtab: Trimtab) -> None:
    said = trimtab(*RUN, "--duration", "1m", "--subject-to", "client_page_time_p95_s<=2s")
    assert "fuzzy: client_page_time_p95_s was not measured" in said.out
    assert said.out.splitlines()[-1] == "limit: client_page_time_p95_s <= 2s was not measured"


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ("acept_queue_delay_s<=2s", "unknown metric 'acept_queue_delay_s'; did you mean accept_queue_delay_s?"),
        ("accept_queue_delay_s<=2", "'2' is not a duration"),
        ("accept_queue_delay_s=2s", "write METRIC<=VALUE or METRIC>=VALUE"),
        ("cpu_ratio<=80MB", "'80MB' is not a value in ratio: write a number or a percentage, such as 0.8 or 80%"),
        ("cpu_ratio<=80", "80 is 8000 %: write 80% or 0.8"),
        ("memory_bytes<=3e9", "'3e9' is not a value in bytes"),
        ("busy_workers<=-1", "'-1' is not a value in workers"),
    ],
)
def test_a_limit_that_is_none_is_refused_in_one_line_and_nothing_is_done(
    trimtab: Trimtab, store: Path, limit: str, why: str
) -> None:
    said = trimtab("tune", "memory", "--subject-to", limit)
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert f"--subject-to {limit!r}: " in said.err
    assert why in said.err
    assert not store.exists()


@pytest.mark.parametrize("verb", ["tune", "observe"])
def test_what_nothing_measures_here_is_refused_before_the_run(trimtab: Trimtab, store: Path, verb: str) -> None:
    said = trimtab(verb, "memory", "--choice", "--subject-to", "client_page_time_p95_s<=2s", "--duration", "10s")
    assert (said.code, store.exists()) == (2, False)
    assert said.err == (
        "trimtab: client_page_time_p95_s is not measured on memory here; "
        "measured: burst_length, request_rate_hz, response_time_s\n"
    )


def test_a_server_whose_usual_objective_nothing_measures_is_observed_all_the_same_and_not_tuned(
    trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for verb in ("tune", "observe"):
        monkeypatch.setattr(f"trimtab.cli.{verb}.chosen_objective", lambda args: Objective("memory_ratio"))
    assert trimtab("observe", "memory", "--choice", "--duration", "10s").code == 0
    said = trimtab("tune", "memory", "--choice", "--duration", "10s")
    assert (said.code, said.err.partition(";")[0]) == (2, "trimtab: memory_ratio is not measured on memory here")


@pytest.mark.parametrize(
    ("limit", "bound"),
    [
        ("memory_bytes<=300MiB", 300 * 2.0**20),
        ("cpu_ratio <= 80%", 0.8),
        ("cpu_ratio<=0.8", 0.8),
        ("cpu_ratio<=10", 10.0),
        ("cpu_ratio<=1600%", 16.0),
        ("request_rate_hz>=50Hz", 50.0),
        ("byte_rate_bytes_hz>=1KiB/s", 1024.0),
        ("busy_workers<=20", 20.0),
    ],
)
def test_bounds_are_read_in_the_units_of_their_metrics(
    trimtab: Trimtab, store: Path, limit: str, bound: float
) -> None:
    assert trimtab("tune", "memory", "--subject-to", limit, "--duration", "10s").code == 0
    (one,) = Store(store).run(1).plan.settings.objective.limits
    assert one.bound == pytest.approx(bound)
