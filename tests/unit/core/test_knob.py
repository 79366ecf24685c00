"""A knob's domain: numbers, ratios, choices and switches; what is not in it is refused in words."""

from __future__ import annotations

import pytest
from tests._curve import worker_knob

from trimtab.core import Domain, How, Knob, Role, of_role
from trimtab.errors import UsageError

MODES = Domain.choice("static", "dynamic", "ondemand")


def test_the_values_of_a_choice_are_the_places_of_its_names() -> None:
    assert [MODES.shown(value) for value in (0, 1, 2)] == ["static", "dynamic", "ondemand"]
    assert 3 not in MODES
    assert Domain.switch().shown(1) == "on"


def test_a_choice_that_does_not_exist_is_refused_with_the_names_of_those_that_do() -> None:
    knob = Knob("pm", "pm", "", MODES, 1, How.RELOAD, "a reload", "how the pool grows", Role.POOL_GROWTH)
    with pytest.raises(UsageError, match="pm 3 is outside static or dynamic or ondemand"):
        knob.validated(3)


def test_choices_are_counted_from_0() -> None:
    with pytest.raises(ValueError, match=r"2 choices are the values 0\.\.1"):
        Domain(0, 2, 1, "", ("a", "b"))


def test_a_knob_is_found_by_its_role() -> None:
    worker = worker_knob()
    assert of_role((worker,), Role.WORKER_LIMIT) is worker
    assert of_role((worker,), Role.KEEP_ALIVE) is None
