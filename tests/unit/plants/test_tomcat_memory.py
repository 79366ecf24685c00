"""The memory that a configuration takes: buffers in the heap, stacks beside it."""

from __future__ import annotations

from trimtab.core.memory import MIB, Need, Room, overfull
from trimtab.plants.tomcat.memory import beside, in_heap

from .test_tomcat_knobs import AJP, HTTP, layout, made

DIALS = made(layout(HTTP, AJP))[0]
SHIPPED = {dial.knob.name: dial.knob.default for dial in DIALS}


def test_it_is_two_buffers_for_each_connection_to_plan_for_of_each_connector() -> None:
    (need,) = in_heap(
        DIALS, {**SHIPPED, "read_buffer_bytes": MIB}, {HTTP.endpoint: 100, AJP.endpoint: 10}, 256 * MIB, 7
    )
    assert need.size_bytes == 128 * (MIB + 8192) + 16 * (8192 + 8192)
    assert need.what == "the buffers of 144 connections (110 were the most so far)"
    assert (need.where, need.limit_bytes) == ("half of the heap of Tomcat (pid 7)", 128 * MIB)


def test_what_fills_half_of_the_heap_is_refused_and_what_debian_ships_never_is() -> None:
    peaks = {HTTP.endpoint: 150, AJP.endpoint: 0}
    start = in_heap(DIALS, SHIPPED, peaks, 256 * MIB, 7)
    large = in_heap(DIALS, {**SHIPPED, "read_buffer_bytes": MIB, "write_buffer_bytes": MIB // 2}, peaks, 256 * MIB, 7)
    assert overfull(large, start).endswith("more than 90% of the 128 MiB of half of the heap of Tomcat (pid 7)")
    assert not overfull(start, start)
    crowded = in_heap(DIALS, SHIPPED, {HTTP.endpoint: 100_000, AJP.endpoint: 0}, 256 * MIB, 7)
    assert not overfull(crowded, crowded), "it was so at the start"


def test_where_the_heap_has_no_limit_that_is_known_nothing_is_said() -> None:
    assert in_heap(DIALS, SHIPPED, {HTTP.endpoint: 100, AJP.endpoint: 0}, None, 7) == ()


def test_threads_that_are_kept_need_their_stacks_and_those_that_may_come_need_none() -> None:
    def stacks(**values: int) -> Need:
        (need,) = beside(DIALS, {**SHIPPED, **values}, [Room("group x", 768 * MIB)])
        return need

    assert stacks(max_threads=8000) == stacks()
    assert stacks() == Need("the stacks of 10 spare threads", 10 * MIB, "group x", 768 * MIB)
    assert not overfull((stacks(min_spare_threads=400),), (stacks(),))
    assert "3200 spare threads (3200 MiB): more than 90%" in overfull((stacks(min_spare_threads=3200),), (stacks(),))
