"""A part of a Tomcat that goes, or does not answer for a while, keeps nothing else from being put back."""

from __future__ import annotations

import pytest

from tests._jvm import ENDPOINT, POOL, Bench, bench
from trimtab.errors import ApplyFailed, OperatorEdit, PlantGone

__all__ = ["bench"]
TRIAL = {"max_threads": 100, "pool_max_active": 50}


def threads(bench: Bench) -> object:
    return bench.jvm.beans[ENDPOINT]["maxThreads"]


def test_the_pool_of_an_application_that_is_redeployed_is_the_operators_and_the_run_goes_on(bench: Bench) -> None:
    plant = bench.attach()
    plant.apply(TRIAL)
    pool = bench.jvm.beans.pop(POOL)
    with pytest.raises(OperatorEdit, match="the Resource jdbc/shop has gone") as edit:
        plant.configuration()
    assert edit.value.knob == "pool_max_active"
    assert plant.apply({"max_threads": 150}).configuration["max_threads"] == 150
    bench.jvm.beans[POOL] = {**pool, "MaxActive": 100}
    assert plant.configuration()["pool_max_active"] == 100
    with pytest.raises(OperatorEdit):
        plant.apply({"pool_max_active": 60})
    with pytest.raises(OperatorEdit):
        plant.restore()
    assert (threads(bench), bench.jvm.beans[POOL]["MaxActive"]) == (200, 100)
    assert plant.leftover() == ""


@pytest.mark.parametrize("trial", [TRIAL, {"max_threads": 100}], ids=["its pool was moved", "its pool was not moved"])
def test_what_was_on_trial_goes_back_while_an_application_is_redeployed(bench: Bench, trial: dict[str, int]) -> None:
    plant = bench.attach()
    prepared = plant.prepare(trial)
    plant.commit(prepared)
    del bench.jvm.beans[POOL]
    plant.rollback(prepared)
    assert threads(bench) == 200


def test_an_application_that_goes_in_the_middle_of_a_change_keeps_no_other_knob_from_going_back(bench: Bench) -> None:
    plant = bench.attach()

    def goes(*words: str) -> None:
        if words[:2] == ("set", POOL):
            bench.jvm.beans.pop(POOL, None)

    bench.programs[-1].on = goes
    with pytest.raises(ApplyFailed, match="MaxIdle 50 was not taken"):
        plant.apply({"keep_alive_timeout_ms": 5000, "pool_max_active": 50})
    assert bench.jvm.beans[ENDPOINT]["keepAliveTimeout"] == 20_000
    assert bench.attach().leftover() == ""


def test_what_is_left_of_a_killed_run_is_undone_though_a_pool_has_gone(bench: Bench) -> None:
    bench.attach().apply(TRIAL)
    plant = bench.attach()
    del bench.jvm.beans[POOL]
    plant.undo_leftover()
    assert (threads(bench), plant.leftover()) == (200, "")


def silent(bench: Bench, seconds: float) -> None:
    """It does not answer for so long, and then does what it was asked meanwhile."""
    bench.jvm.silent = True
    begun_s = bench.clock.now - 100.0
    bench.clock.at.append((begun_s + seconds, lambda: setattr(bench.jvm, "silent", False)))


def test_one_that_answers_again_within_half_a_minute_is_restored(bench: Bench) -> None:
    plant = bench.attach()
    plant.apply(TRIAL)
    silent(bench, 20.0)
    plant.restore()
    assert (threads(bench), bench.jvm.beans[POOL]["MaxActive"], plant.leftover()) == (200, 100, "")


def test_one_that_falls_silent_in_the_middle_of_that_is_too(bench: Bench) -> None:
    plant = bench.attach()
    plant.apply(TRIAL)

    def falls(*words: str) -> None:
        if words[:2] == ("set", POOL):
            bench.programs[-1].on = lambda *words: None
            silent(bench, 20.0)

    bench.programs[-1].on = falls
    plant.restore()
    assert (threads(bench), bench.jvm.beans[POOL]["MaxActive"], plant.leftover()) == (200, 100, "")


@pytest.mark.parametrize("bean", [ENDPOINT, POOL])
def test_a_value_that_it_takes_only_once_it_answers_again_is_not_the_operators(bench: Bench, bean: str) -> None:
    plant = bench.attach()

    def falls(*words: str) -> None:
        if words[:2] == ("set", bean):
            bench.programs[-1].on = lambda *words: None
            silent(bench, 20.0)

    bench.programs[-1].on = falls
    with pytest.raises(PlantGone, match="did not answer"):
        plant.apply(TRIAL)
    plant.restore()
    assert (threads(bench), plant.leftover()) == (200, "")
    assert [bench.jvm.beans[POOL][name] for name in ("MaxActive", "MaxIdle")] == [100, 100]


def test_a_program_that_was_killed_is_started_anew_to_put_back_what_was_set(bench: Bench) -> None:
    plant = bench.attach()
    plant.apply(TRIAL)
    bench.programs[-1].died = True
    plant.restore()
    assert threads(bench) == 200
