"""Whoever starts many processes that look like a Tomcat, or one with very many parts, holds nobody up for long."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests._jvm import CONNECTOR, ENDPOINT, POOL, SOCKETS, Bench, bench
from trimtab.errors import UsageError
from trimtab.plants import tomcat
from trimtab.plants.tomcat.findings import chosen
from trimtab.plants.tomcat.process import TomcatProcess

__all__ = ["bench"]


def with_connectors(bench: Bench, number: int) -> None:
    """It has so many."""
    beans = bench.jvm.beans
    for port in range(8081, 8080 + number):
        for bean in (CONNECTOR, ENDPOINT, SOCKETS):
            own = {} if bean is SOCKETS else {"localPort": port}
            beans[bean.replace("8080", str(port))] = {**beans[bean], **own}


def test_to_look_at_many_connectors_takes_as_many_questions_as_to_look_at_one(bench: Bench) -> None:
    bench.attach()
    one = bench.jvm.asked
    with_connectors(bench, 40)
    plant = bench.attach()
    assert bench.jvm.asked == 2 * one
    assert sum(knob.name.startswith("max_threads") for knob in plant.knobs()) == 40


def test_each_connector_says_for_itself_whether_buffers_are_kept_for_others(bench: Bench) -> None:
    with_connectors(bench, 2)
    bench.jvm.beans[SOCKETS]["bufferPool"] = 500
    names = {knob.name for knob in bench.attach().knobs() if "buffer" in knob.name}
    assert names == {"read_buffer_bytes@8081", "write_buffer_bytes@8081"}


def test_more_connectors_or_pools_than_a_tomcat_has_are_refused_in_one_line(bench: Bench) -> None:
    with_connectors(bench, 65)
    with pytest.raises(UsageError, match="it says that it has 65 connectors, and trimtab looks at 64 at most"):
        bench.attach()
    del bench.jvm.beans[CONNECTOR], bench.jvm.beans[ENDPOINT]
    bench.attach()
    bench.jvm.beans |= {POOL.replace("shop", str(number)): bench.jvm.beans[POOL] for number in range(256)}
    with pytest.raises(UsageError, match="257 JDBC pools"):
        bench.attach()


def of(pid: int, user: int) -> TomcatProcess:
    """A process of a user."""
    return TomcatProcess(pid, 1, Path("/usr/bin/java"), (), user)


def test_the_doctor_looks_at_a_few_of_each_other_user_in_turn_and_says_how_many_it_leaves_out() -> None:
    me, one, other = os.geteuid(), os.geteuid() + 1, os.geteuid() + 2
    strangers = [of(pid, one) for pid in range(100)]
    looked_at, left = chosen([*strangers, of(200, other), *(of(pid, me) for pid in range(300, 310))])
    assert [each.user for each in looked_at] == [me] * 10 + [one, other, one, one, one]
    (line,) = left
    assert line.detail == f"96 more that uid {one} runs were not looked at"


def test_where_none_is_found_the_doctor_says_that_one_in_an_applications_own_jar_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TomcatProcess, "running", list)
    (found,) = tomcat.probe()
    assert not found.usable and "own jar, as Spring Boot's, cannot be steered" in found.enable
