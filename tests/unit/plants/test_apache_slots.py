"""Which slot of prefork's scoreboard a process is in, from what was seen."""

from __future__ import annotations

from trimtab.plants.apache.slots import APART_S, FRESH_S, Slots


def test_a_new_process_takes_the_lowest_slot_that_is_free() -> None:
    slots = Slots(2, {10: 0, 12: 3}, {10, 12})
    for child in (20, 21, 22):
        slots.start(child, 1.0)
    assert [slots.known[child] for child in (20, 21, 22)] == [1, 2, 4]
    assert slots.within({10, 12, 20, 21}) == {10, 20}


def test_one_that_has_ended_and_was_not_noticed_still_has_its_slot() -> None:
    slots = Slots(2, {10: 0, 11: 1}, {10, 11})
    slots.look({10, 11})
    slots.start(20, 1.0)
    assert slots.known[20] == 2
    slots.look({20})
    slots.start(21, 2.0)
    assert slots.known[21] == 0


def test_where_a_slot_is_not_known_fewer_than_the_limit_have_to_be_there() -> None:
    slots = Slots(2, {10: 5}, {10, 11})
    slots.start(20, 1.0)  # 11 may be below the limit, 10 is not
    slots.start(21, 1.0)
    assert slots.within({20, 21}) == {20}


def test_only_those_started_at_the_second_time_and_just_now_are_fresh() -> None:
    slots = Slots(1, {}, {10})
    slots.start(20, 1.0)
    assert not slots.only_fresh([1.0], 1.0), "the first time"
    second_s = 1.1 + APART_S
    slots.start(21, second_s)
    assert slots.only_fresh([second_s], second_s)
    assert not slots.only_fresh([1.0, second_s], second_s), "one of the first time is still there"
    assert not slots.only_fresh([second_s], second_s + 2 * FRESH_S), "it may serve by now"
