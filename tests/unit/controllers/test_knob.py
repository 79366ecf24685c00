from __future__ import annotations

import dataclasses

from tests._curve import NAME, seen, window_of, worker_knob
from trimtab.controllers._knob import integer_knob, unjudged
from trimtab.core import Objective, Role


def test_the_worker_limit_is_moved_where_there_is_one_and_else_the_first_knob() -> None:
    keep_alive = dataclasses.replace(worker_knob(), name="keep_alive_timeout_ms", role=Role.KEEP_ALIVE)
    other = dataclasses.replace(worker_knob(), name="other", role=Role.OTHER)
    assert integer_knob((keep_alive, worker_knob()), "m").name == NAME
    assert integer_knob((keep_alive, other), "m") is keep_alive


def test_a_window_is_judged_only_when_objective_samples_and_configuration_are_known() -> None:
    knob, objective = worker_knob(), Objective()
    whole = seen(20, response_time_s=1.0)
    assert unjudged(objective, whole, knob, 200) == ""
    assert "only 200 requests" in unjudged(objective, whole, knob, 201)
    assert unjudged(objective, window_of(20, {"response_time_s": 1.0}, samples=None), knob, 999) == ""
    assert "response_time_s was not measured" in unjudged(objective, seen(20), knob, 1)
    assert NAME in unjudged(objective, dataclasses.replace(whole, configuration={}), knob, 1)
