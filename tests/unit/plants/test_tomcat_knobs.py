"""The knobs of a Tomcat: their domains, their rules, and the order in which values are set."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.knob import Role
from trimtab.plants.tomcat import knobs
from trimtab.plants.tomcat.knobs import Dial, dials, objection, turn, wanted
from trimtab.plants.tomcat.layout import Connector, Executor, Layout, Pool, name_of

HTTP = Connector("c:type=Connector,port=80", 'c:type=ThreadPool,name="http-nio-80"', 80, False, "", False, False)
MORE = Connector("c:type=Connector,port=81", 'c:type=ThreadPool,name="http-nio-81"', 81, False, "", False, False)
AJP = Connector("c:type=Connector,port=9", 'c:type=ThreadPool,name="ajp-nio-9"', 9, True, "shared", False, False)
SHARED = Executor("c:type=Executor,name=shared", "shared")
SHOP = Pool('tomcat.jdbc:name="jdbc/shop",context=/shop,type=ConnectionPool', "jdbc/shop", False)
OTHER = Pool('c:type=DataSource,context=/other,name="jdbc/shop"', "jdbc/shop", True)


def made(layout: Layout, restart: bool = False, **values: int) -> tuple[tuple[Dial, ...], tuple[str, ...]]:
    """The knobs where everything is at its default but for some attributes."""
    found = {
        (bean, kind.attribute): values.get(kind.attribute, kind.default) for kind, _, _, bean, _, _ in wanted(layout)
    }
    return dials(layout, found, 1024, restart)


def layout(*connectors: Connector, executors: tuple[Executor, ...] = (), pools: tuple[Pool, ...] = ()) -> Layout:
    return Layout(connectors, executors, pools, (), ())


def names(layout_: Layout) -> list[str]:
    return [dial.knob.name for dial in made(layout_)[0]]


def test_one_connector_and_one_pool_have_plain_names() -> None:
    found = names(layout(HTTP, pools=(SHOP,)))
    assert found[:2] == ["max_threads", "min_spare_threads"]
    assert "pool_max_active" in found
    assert not any("@" in name for name in found)


def test_several_of_a_kind_are_told_apart_and_no_two_knobs_have_one_name() -> None:
    found = names(layout(HTTP, MORE, AJP, executors=(SHARED,), pools=(SHOP, OTHER)))
    assert len(set(found)) == len(found)
    assert {"max_threads@80", "max_threads@81", "max_threads@shared", "ajp_max_connections"} <= set(found)
    assert {"pool_max_active@/shop:jdbc/shop", "pool_max_active@/other:jdbc/shop"} <= set(found)


def test_what_shares_an_executor_has_no_threads_of_its_own() -> None:
    assert "ajp_max_threads" not in names(layout(HTTP, AJP, executors=(SHARED,)))


@given(value=st.integers(1, 9000))
def test_the_value_in_force_is_in_the_domain_whatever_the_grid(value: int) -> None:
    (limit, *_), _ = made(layout(HTTP), maxThreads=value)
    assert value in limit.knob.domain
    assert 1 <= limit.knob.domain.minimum <= 5
    assert limit.knob.role is Role.WORKER_LIMIT


def test_what_has_no_limit_and_what_needs_a_restart_are_said_and_not_moved() -> None:
    found, said = made(layout(HTTP), maxConnections=-1)
    assert not {"max_connections", "accept_count"} & {dial.knob.name for dial in found}
    no_limit = (
        "max_connections has no limit (maxConnections=-1): set one in the Connector of port 80 to have it moved"
    )
    assert f"{no_limit}, and to lose no request where that is paused" in said
    assert any("accept_count is 100" in line and "--allow-restart" in line for line in said)
    assert not [dial for dial in found if dial.knob.unit == "bytes"], "a search could fill the heap"
    assert any("read_buffer_bytes is 8192; what it takes is not known" in line for line in said)
    most = next(dial.knob.domain for dial in found if dial.knob.name == "max_threads")
    assert (most.maximum, most.limited_by) == (8192, "connections have no limit here; 8192 is Tomcat's own")
    found, said = made(layout(HTTP), restart=True)
    assert "accept_count" in {dial.knob.name for dial in found}


def test_buffers_that_outlive_their_connection_are_not_changed_since_no_undo_would_reach_them() -> None:
    found, said = made(layout(replace(HTTP, reuses=True)))
    assert not [dial for dial in found if dial.knob.unit == "bytes"]
    assert any("read_buffer_bytes is 8192" in line and 'socket.bufferPool="0"' in line for line in said)


def test_descriptors_bound_connections() -> None:
    found, _ = made(layout(HTTP), maxConnections=100)
    (limit,) = [dial.knob for dial in found if dial.knob.role is Role.CONNECTION_LIMIT]
    assert limit.domain.maximum == 1024


def test_a_least_value_above_its_greatest_is_against_the_rules() -> None:
    found, _ = made(layout(HTTP, pools=(SHOP,)))
    now = {dial.knob.name: dial.knob.default for dial in found}
    assert objection(found, now) == ""
    assert "more than max_threads 5" in objection(found, {**now, "max_threads": 5})
    assert "more than pool_max_idle 9" in objection(found, {**now, "pool_max_idle": 9})
    assert "more than pool_max_active 9" in objection(found, {**now, "pool_max_active": 9})


@given(data=st.data())
def test_no_rule_is_broken_between_two_settings_that_break_none(data: st.DataObject) -> None:
    found, _ = made(layout(HTTP, pools=(SHOP,)))
    by_name = {dial.knob.name: dial for dial in found}
    chain = ("pool_min_idle", "pool_max_idle", "pool_max_active")
    three = st.lists(st.integers(0, 9), min_size=3, max_size=3).map(sorted)
    now, then = (dict(zip(chain, data.draw(three), strict=True)) for _ in range(2))
    moving = [name for name in chain if now[name] != then[name]]
    for name in sorted(moving, key=lambda one: turn(by_name[one], then[one] > now[one])):
        now[name] = then[name]
        assert now["pool_min_idle"] <= now["pool_max_idle"] <= now["pool_max_active"]


def test_the_name_of_a_bean_is_read_with_and_without_quotes() -> None:
    assert name_of(SHOP.bean) == "jdbc/shop"
    assert name_of(SHARED.bean) == "shared"
    assert name_of('c:type=ThreadPool,name="http-nio-a,b"') == "http-nio-a,b"
    assert name_of("c:type=Engine") == ""


def test_every_knob_says_what_it_does_and_costs() -> None:
    found, _ = made(layout(HTTP, pools=(SHOP, OTHER)), restart=True, maxWaitMillis=1000)
    for dial in found:
        assert dial.knob.description.endswith(".") and dial.knob.cost and dial.location
    assert knobs.ACCEPT_COUNT.how.value == "restart"


def test_a_pool_has_no_more_threads_than_the_control_group_lets_it_start() -> None:
    two = layout(HTTP, MORE)
    found = {(bean, kind.attribute): kind.default for kind, _, _, bean, _, _ in wanted(two)}
    most = {left: dials(two, found, 1024, False, left)[0][0].knob.domain for left in (None, 900, 100)}
    assert [domain.maximum for domain in most.values()] == [2 * 8192, 450, 200], "what is in force may stay"
    assert "room for 900 more threads (pids.max)" in most[900].limited_by


def test_a_pool_has_no_more_threads_than_the_users_limit_lets_it_start() -> None:
    """One that could not be started ended the Poller, and nobody was served any more."""
    two = layout(HTTP, MORE)
    found = {(bean, kind.attribute): kind.default for kind, _, _, bean, _, _ in wanted(two)}
    most = {left: dials(two, found, 1024, False, 900, left)[0][0].knob.domain for left in (None, 3996, 700, 0)}
    assert [domain.maximum for domain in most.values()] == [450, 450, 350, 200], "what is in force may stay"
    assert "user may start 700 more threads (ulimit -u)" in most[700].limited_by
    assert "(pids.max)" in most[3996].limited_by
