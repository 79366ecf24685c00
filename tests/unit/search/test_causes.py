"""What an operator would try first, from the readings of tiers."""

from __future__ import annotations

import pytest

from trimtab.core import Domain, How, Knob, Reading, Role, Window
from trimtab.search.causes import likely


def knob(name: str, domain: Domain, role: Role) -> Knob:
    tier = name.partition(".")[0] if "." in name else ""
    return Knob(name, name, "1", domain, 0, How.LIVE, "nothing", "An effect.", role, tier=tier)


KNOBS = (
    knob("proxy.cache", Domain(1, 512), Role.CACHE),
    knob("app.threads", Domain(5, 8190, 5), Role.WORKER_LIMIT),
    knob("app.spare", Domain(0, 8190, 5), Role.SPARE_WORKERS),
    knob("app.pool", Domain(1, 8192), Role.POOL_LIMIT),
    knob("base.answers", Domain.choice("OFF", "ON"), Role.ANSWERS),
)
NOW = (256, 200, 10, 100, 0)
BUSY = {
    "app/busy_workers": 60.0,
    "app/pool_busy_connections": 50.0,
    "app/cpu_ratio": 0.5,
    "app/cpu_cores": 2.0,
    "base/cpu_ratio": 0.99,
    "base/cpu_cores": 1.5,
}


def window(**changes: float) -> Window:
    """A window of a stack whose base is full; a reading below 0 is one that there was not."""
    seen = {**BUSY, **{name.replace("__", "/"): value for name, value in changes.items()}}
    measured = tuple(
        Reading(name.partition("/")[2], value, f"{name.partition('/')[0]}/sensor")
        for name, value in seen.items()
        if value >= 0
    )
    return Window(0, 0.0, 10.0, {}, {}, measured=measured)


def proposed(seen: Window, now: tuple[int, ...] = NOW) -> list[dict[str, int]]:
    """What is proposed, by the knobs that it changes."""
    changed = [zip(KNOBS, one.values, now, strict=True) for one in likely(KNOBS, now, seen)]
    return [{one.name: value for one, value, before in each if value != before} for each in changed]


def test_of_two_causes_both_are_tried_together_and_then_each_by_itself() -> None:
    fewer, kept = {"app.threads": 15}, {"base.answers": 1}
    assert proposed(window()) == [fewer | kept, fewer, kept]
    (both, *_) = likely(KNOBS, NOW, window())
    assert both.why == (
        "the CPU of the base is full and 60 are at work at once; the CPU of the base is full and it keeps no answers"
    )


def test_a_tier_with_cpu_to_spare_has_no_cause() -> None:
    assert proposed(window(base__cpu_ratio=0.9)) == []
    assert proposed(window(base__cpu_ratio=-1)) == []


def test_answers_that_are_kept_are_not_proposed() -> None:
    assert proposed(window(), (*NOW[:-1], 1)) == [{"app.threads": 15}]


@pytest.mark.parametrize(
    ("cores", "busy", "threads"),
    [(2.0, 60.0, [20]), (0.1, 60.0, [5]), (0.5, 9.0, []), (0.5, 10.0, [5]), (4.0, 60.0, [])],
)
def test_eight_for_each_core_are_left_where_twice_as_many_are_at_work(
    cores: float, busy: float, threads: list[int]
) -> None:
    seen = window(app__busy_workers=busy, app__pool_busy_connections=busy, base__cpu_cores=cores)
    assert [one["app.threads"] for one in proposed(seen, (*NOW[:-1], 1))] == threads
    assert proposed(window(base__cpu_cores=-1), (*NOW[:-1], 1)) == [], "where the cores are not known neither is that"


def test_spare_workers_do_not_outnumber_the_limit() -> None:
    (found,) = proposed(window(app__busy_workers=16.0, base__cpu_cores=0.5), (256, 15, 10, 100, 1))
    assert found == {"app.threads": 5, "app.spare": 5}


def test_where_most_workers_wait_for_something_else_the_pool_is_the_limit() -> None:
    assert proposed(window(app__pool_busy_connections=25.0), (*NOW[:-1], 1)) == [{"app.pool": 12}]
    assert proposed(window(app__busy_workers=-1), (*NOW[:-1], 1)) == [{"app.pool": 12}]


def test_without_a_pool_the_workers_in_front_are_the_limit() -> None:
    assert proposed(window(app__pool_busy_connections=-1), (*NOW[:-1], 1)) == [{"app.threads": 15}]


def test_workers_of_a_full_tier_itself_are_limited_but_for_those_that_an_idle_connection_holds() -> None:
    full = {"base__cpu_ratio": 0.5, "app__cpu_ratio": 1.0}
    assert proposed(window(**full)) == [{"app.threads": 20}]
    assert proposed(window(**full, app__idle_held_workers=57.0)) == []


def test_what_speaks_for_the_same_is_proposed_once() -> None:
    assert proposed(window(app__cpu_ratio=1.0, app__cpu_cores=1.5), (*NOW[:-1], 1)) == [{"app.threads": 15}]


def test_of_one_server_its_plain_readings_count() -> None:
    alone = (knob("limit", Domain(1, 400), Role.WORKER_LIMIT), knob("answers", Domain.switch(), Role.ANSWERS))
    seen = Window(0, 0.0, 10.0, {}, {"cpu_ratio": 1.0, "cpu_cores": 2.5, "busy_workers": 80.0})
    assert [one.values for one in likely(alone, (150, 0), seen)] == [(20, 1), (20, 0), (150, 1)]


def test_without_one_limit_that_is_known_to_be_at_work_nothing_is_limited() -> None:
    twice = (*KNOBS, knob("app.threads@8081", Domain(5, 8190, 5), Role.WORKER_LIMIT))
    assert [one.values for one in likely(twice, (*NOW, 200), window())] == [(*NOW[:-1], 1, 200)]
