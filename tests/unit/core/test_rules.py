"""How far a change goes that would break a rule among knobs."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from trimtab.core import Domain, How, Knob, Role
from trimtab.core.rules import within_rules


def knob(name: str, domain: Domain) -> Knob:
    return Knob(name, name, "", domain, domain.minimum, How.LIVE, "nothing", "a test", Role.OTHER)


KNOBS = (knob("least", Domain(0, 100)), knob("most", Domain(0, 100)), knob("mode", Domain.choice("a", "b")))
START = {"least": 10, "most": 20, "mode": 0}


def ordered(configuration: Mapping[str, int]) -> str:
    """At least 5 apart, and mode b only where the most is above 50."""
    if configuration["least"] + 5 > configuration["most"]:
        return "least and most are not 5 apart"
    return "b needs more than 50" if configuration["mode"] and configuration["most"] <= 50 else ""


def reached(changes: Mapping[str, int], now: Mapping[str, int] = START) -> dict[str, int]:
    return within_rules(changes, now, KNOBS, ordered)


def test_what_breaks_no_rule_is_done_whole() -> None:
    assert reached({"least": 60, "most": 90}) == {"least": 60, "most": 90}


def test_what_breaks_one_goes_as_far_as_it_lets_it() -> None:
    assert reached({"least": 60}) == {"least": 15}
    assert reached({"least": 60, "most": 40}) == {"least": 35, "most": 40}


def test_a_knob_that_makes_room_for_another_goes_first() -> None:
    assert reached({"mode": 1, "least": 60, "most": 60}) == {"mode": 1, "least": 55, "most": 60}


def test_a_choice_stays_where_it_cannot_be_had() -> None:
    assert reached({"mode": 1, "most": 30}) == {"most": 30}
    assert reached({"mode": 1}) == {}


def test_where_a_rule_is_broken_already_only_all_of_the_changes_can_mend_it() -> None:
    broken = {"least": 30, "most": 20, "mode": 0}
    assert reached({"least": 10}, broken) == {"least": 10}
    assert reached({"least": 25}, broken) == {}


values = st.fixed_dictionaries({"least": st.integers(0, 100), "most": st.integers(0, 100), "mode": st.integers(0, 1)})


@given(values)
def test_what_is_reached_breaks_no_rule_and_lies_on_the_way(wanted: dict[str, int]) -> None:
    there = {**START, **reached(wanted)}
    assert ordered(there) == ""
    for name, value in wanted.items():
        assert min(START[name], value) <= there[name] <= max(START[name], value)


@given(values)
def test_no_number_could_go_further_by_itself(wanted: dict[str, int]) -> None:
    there = {**START, **reached(wanted)}
    for name in ("least", "most"):
        if there[name] != wanted[name]:
            step = 1 if wanted[name] > there[name] else -1
            assert ordered({**there, name: there[name] + step})
