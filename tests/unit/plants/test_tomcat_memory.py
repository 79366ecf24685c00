"""The heap that the buffers of connections take."""

from __future__ import annotations

from trimtab.core.memory import MIB, overfull
from trimtab.plants.tomcat.memory import needs

from .test_tomcat_knobs import AJP, HTTP, layout, made

DIALS = made(layout(HTTP, AJP))[0]
SHIPPED = {dial.knob.name: dial.knob.default for dial in DIALS}


def test_it_is_two_buffers_for_each_of_the_most_connections_of_each_connector() -> None:
    (need,) = needs(
        DIALS, {**SHIPPED, "read_buffer_bytes": MIB}, {HTTP.endpoint: 100, AJP.endpoint: 10}, 256 * MIB, 7
    )
    assert need.size_bytes == 100 * (MIB + 8192) + 10 * (8192 + 8192)
    assert need.what == "the buffers of 110 connections, the most there were"
    assert (need.where, need.limit_bytes) == ("half of the heap of Tomcat (pid 7)", 128 * MIB)


def test_what_fills_half_of_the_heap_is_refused_and_what_debian_ships_never_is() -> None:
    peaks = {HTTP.endpoint: 150, AJP.endpoint: 0}
    start = needs(DIALS, SHIPPED, peaks, 256 * MIB, 7)
    large = needs(DIALS, {**SHIPPED, "read_buffer_bytes": MIB, "write_buffer_bytes": MIB // 2}, peaks, 256 * MIB, 7)
    assert overfull(large, start).endswith("more than 90% of the 128 MiB of half of the heap of Tomcat (pid 7)")
    assert not overfull(start, start)
    crowded = needs(DIALS, SHIPPED, {HTTP.endpoint: 100_000, AJP.endpoint: 0}, 256 * MIB, 7)
    assert not overfull(crowded, crowded), "it was so at the start"


def test_where_the_heap_has_no_limit_that_is_known_nothing_is_said() -> None:
    assert needs(DIALS, SHIPPED, {HTTP.endpoint: 100, AJP.endpoint: 0}, None, 7) == ()
