"""The simulated shop as a bed: its knobs are the plants', act as they should or not at all, and it can be fitted."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from trimtab.core import Objective, Reading, Window
from trimtab.lab import _shop_calibration as calibration
from trimtab.lab import _shop_knobs as shop
from trimtab.lab._contest_run import SAID, bed, built
from trimtab.lab._contest_run import run as contest
from trimtab.lab._engine import _plan
from trimtab.lab._shop_best import search
from trimtab.lab._shop_model import MIXES, RATE, TIERS, TIME, constants, cpu_s, run, settings, true_cost
from trimtab.lab._simulated_shop import KINDS, SimulatedShop, best_known, simulated_shop
from trimtab.lab.chung2004 import arms
from trimtab.plants.mariadb import knobs as mariadb
from trimtab.plants.squid import knobs as squid
from trimtab.plants.tomcat import knobs as tomcat
from trimtab.report.track import tracks
from trimtab.search.space import Values, named
from trimtab.store import Store

BY_NAME = {knob.name: knob for knob in shop.KNOBS}
ACTIVE = sorted(set(BY_NAME) - shop.PLACEBOS)
SHORT_S = 5.0


def simulated(changed: Mapping[str, int] | None = None, mix: str = "shopping") -> Mapping[str, float]:
    return run(constants(), changed or {}, mix, 1, SHORT_S)


def at(changed: Mapping[str, int]) -> Values:
    values = {**named(shop.KNOBS, shop.START), **changed}
    return tuple(values[knob.name] for knob in shop.KNOBS)


def plants() -> dict[str, tuple[str, int, int]]:
    """Tier and name to unit, shipped value and step, as the plants have them."""
    found = {f"{shop.PROXY}.{name}": (k.unit, k.default, k.step) for name, k in squid._KINDS.items()}
    kinds = (*tomcat._THREADS, tomcat._CONNECTIONS, *tomcat._SOCKETS, tomcat.ACCEPT_COUNT, *tomcat._JDBC)
    for kind in kinds:
        for prefix in ("", "ajp_"):
            found[f"{shop.APPLICATION}.{prefix}{kind.name}"] = (kind.unit, kind.default, kind.step)
    for name, row in mariadb.ALL.items():
        found[f"{shop.DATABASE}.{name}"] = (row.unit, row.default, row.step)
    return found


def test_its_knobs_are_called_shipped_and_walked_as_the_plants_have_them() -> None:
    known = plants()
    found = {knob.name: (knob.unit, knob.default, knob.domain.step) for knob in shop.KNOBS}
    assert found == {name: known[name] for name in found}


def test_what_is_shipped_is_within_the_bounds_and_breaks_no_rule() -> None:
    assert all(knob.default in knob.domain for knob in shop.KNOBS)
    assert not shop.objection(named(shop.KNOBS, shop.START))


@pytest.mark.parametrize("name", sorted(shop.PLACEBOS))
def test_a_placebo_changes_nothing_that_the_simulator_is_told(name: str) -> None:
    domain = BY_NAME[name].domain
    as_shipped = settings(constants(), {})
    assert settings(constants(), {name: domain.minimum}) == as_shipped
    assert settings(constants(), {name: domain.maximum}) == as_shipped


def test_all_placebos_together_change_no_digit_of_a_run_of_the_same_seed() -> None:
    assert simulated({name: BY_NAME[name].domain.maximum for name in shop.PLACEBOS}) == simulated()


@pytest.mark.parametrize("name", ACTIVE)
def test_every_other_knob_changes_what_the_simulator_is_told(name: str) -> None:
    domain = BY_NAME[name].domain
    told = [settings(constants(), {name: value}) for value in (domain.minimum, domain.maximum)]
    assert told[0] != told[1]


@pytest.mark.parametrize(
    "values",
    [
        {"proxy.cache_swap_low": 96},
        {"proxy.minimum_object_size": 514},
        {"proxy.cache_mem": 1, "proxy.minimum_object_size": 1026, "proxy.maximum_object_size_in_memory": 4096},
        {"application.min_spare_threads": 205},
        {"application.ajp_min_spare_threads": 205},
        {"application.pool_min_idle": 101},
        {"database.innodb_buffer_pool_size": 120 << 20},
    ],
)
def test_what_a_plant_would_refuse_is_refused(values: Mapping[str, int]) -> None:
    assert shop.objection({**named(shop.KNOBS, shop.START), **values})


def test_it_is_near_saturation_as_shipped_and_keeps_the_laws() -> None:
    readings = simulated()
    think_s = 7.0 / constants()["load"]["time_scale"]
    users = readings[RATE] * (readings[TIME] + think_s)
    assert users == pytest.approx(constants()["load"]["browsers"], rel=0.05)
    assert max(readings[f"cpu_ratio@{tier}"] for tier in TIERS) > 0.9
    assert 0.01 < readings[TIME] < 0.2


@pytest.mark.parametrize(
    ("changed", "of"),
    [
        ({"proxy.cache_mem": 1}, 0.9),
        ({"proxy.maximum_object_size_in_memory": 4}, 0.9),
        ({"proxy.minimum_object_size": 256}, 0.8),
        ({"application.max_threads": 8190, "application.min_spare_threads": 8190}, 0.2),
        ({"application.max_connections": 1, "application.accept_count": 5}, 0.9),
        ({"application.pool_max_active": 1}, 0.9),
        ({"database.table_open_cache": 16}, 0.98),
        ({"database.innodb_buffer_pool_size": 16 << 20}, 0.5),
    ],
)
def test_a_setting_that_is_known_to_do_harm_does_it(changed: Mapping[str, int], of: float) -> None:
    assert simulated(changed)[RATE] < of * simulated()[RATE]


def test_fewer_connections_are_worth_something() -> None:
    costs = [true_cost(constants(), changed, "browsing") for changed in ({}, {"application.pool_max_active": 10})]
    assert costs[0] > costs[1]


def test_a_trial_is_the_same_for_all_who_ask_for_it_and_another_one_differs() -> None:
    one, same = simulated_shop("shop-shopping", 3, 10), simulated_shop("shop-shopping", 3, 10)
    window = one.window(4, one.start)
    assert window == same.window(4, same.start)
    assert window.readings != one.window(5, one.start).readings
    assert window.readings != simulated_shop("shop-shopping", 4, 10).window(4, one.start).readings
    assert one.truth(4, one.start) == simulated_shop("shop-shopping", 4, 10).truth(7, one.start)


def test_the_mix_changes_in_the_middle() -> None:
    changing = simulated_shop("shop-change", 1, 10)
    before, after = (true_cost(constants(), {}, mix) for mix in KINDS["shop-change"][0])
    assert before != after
    assert [changing.truth(index, changing.start) for index in (0, 4, 5, 9)] == [before, before, after, after]


@pytest.mark.parametrize("mix", MIXES)
def test_the_best_known_setting_is_allowed_and_no_worse_than_what_is_shipped(mix: str) -> None:
    found = best_known(mix)
    assert found is not None
    values = at(found)
    assert all(value in knob.domain for knob, value in zip(shop.KNOBS, values, strict=True))
    assert not shop.objection(named(shop.KNOBS, values))
    gain = true_cost(constants(), {}, mix) - true_cost(constants(), found, mix)
    assert gain >= {"ordering": 0.0}.get(mix, math.log(1.01))


def test_the_long_search_finds_the_bottom_of_a_bowl_and_leaves_controls_alone() -> None:
    index = [knob.name for knob in shop.KNOBS].index("application.pool_max_active")
    cost, found = search(lambda values: abs(math.log(values[index] / 20)), shop.START)
    assert cost < 0.3
    assert {k.name for k, v in zip(shop.KNOBS, found, strict=True) if v != k.default} == {
        "application.pool_max_active"
    }


def test_calibration_finds_the_scales_and_the_page_of_a_shop_that_is_known() -> None:
    page = {**constants()["pages"][calibration.PAGE], "database_ms": 9.0, "blocks": 15_000}
    scale = {"proxy": 0.8, "application": 1.1, "database": 0.6, "blocks": 1.3}
    known = {**constants(), "scale": scale, "pages": {**constants()["pages"], calibration.PAGE: page}}
    measured = {}
    for mix, pace in zip(MIXES, (1.2, 1.0, 0.9), strict=True):
        slower = {name: value * (1.0 if name == "blocks" else pace) for name, value in scale.items()}
        readings = run({**known, "scale": slower}, {}, mix, 2, 60.0)
        blocks = readings["blocks_per_page@database"]
        measured[mix] = calibration.Measured(mix, cpu_s(known, readings), blocks=blocks, pace=pace)
    found = calibration.calibrated(measured)
    assert found["scale"] == pytest.approx(scale, rel=0.06)
    assert found["pages"][calibration.PAGE]["database_ms"] == pytest.approx(9.0, rel=0.1)
    assert found["pages"][calibration.PAGE]["blocks"] == pytest.approx(15_000, rel=0.1)
    for one in measured.values():
        for name, (real, simulated) in calibration.compared(one, found).items():
            if name.startswith("cpu_s."):
                assert simulated == pytest.approx(real, rel=0.03 if one.mix == calibration.FITTED else 0.08)


def test_calibration_needs_the_cpu_time_of_each_tier() -> None:
    with pytest.raises(ValueError, match="database"):
        few = {"proxy": 0.001, "application": 0.001}
        calibration.calibrated({"shopping": calibration.Measured("shopping", few)})


def test_the_pace_of_each_mix_is_that_by_which_its_cpu_times_follow_the_machine_s() -> None:
    store, ids = Store(None), []
    for number, mix in enumerate(MIXES):
        writer = store.begin(_plan(next(arm for arm in arms("noise", 1) if arm.extras["mix"] == mix)))
        ids.append(writer.run_id)
        for index in range(12):
            compute_s = 75e-6 * (1.0 + 0.1 * number + 0.05 * (index % 3))
            seen = {"client_page_rate_hz": 100.0, "client_page_time_s": 0.02, "client_page_time_p95_s": 0.05}
            measured = [Reading(name, value, "load-generator") for name, value in seen.items()]
            share = (number + 1) * 0.1 * (compute_s / 75e-6) ** 1.8
            measured += [Reading("cpu_ratio", share, f"{tier}/resources") for tier in TIERS]
            measured.append(Reading("disk_read_bytes_hz", 50 * 16384.0, "database/mariadb-status"))
            measured.append(Reading("buffer_pool_hit_ratio", 0.99, "database/mariadb-status"))
            seen["compute_time_s"] = compute_s
            writer.window(Window(index, index * 10.0, 10.0, {}, seen, measured=tuple(measured)))
    found = calibration.at_paces(tracks(store, ids))
    assert found["shopping"].pace == 1.0
    for mix, times in (("browsing", 1.05 / 1.15), ("ordering", 1.25 / 1.15)):
        assert found[mix].pace == pytest.approx(times**1.8, rel=0.04)


def test_what_a_real_run_measured_is_read_by_tier() -> None:
    store = Store(None)
    writer = store.begin(_plan(next(arm for arm in arms("noise", 1) if arm.extras["mix"] == "ordering")))
    for index, rate in enumerate((90.0, 110.0)):
        seen = {"client_page_rate_hz": rate, "client_page_time_s": 0.02, "client_page_time_p95_s": 0.05}
        measured = [Reading(name, value, "load-generator") for name, value in seen.items()]
        shares = zip(TIERS, (0.2, 0.4, 1.0), strict=True)
        measured += [Reading("cpu_ratio", share, f"{tier}/resources") for tier, share in shares]
        measured.append(Reading("disk_read_bytes_hz", 50 * 16384.0, "database/mariadb-status"))
        measured.append(Reading("buffer_pool_hit_ratio", 0.99, "database/mariadb-status"))
        writer.window(Window(index, index * 10.0, 10.0, {}, seen, measured=tuple(measured)))
    found = calibration.measured_in(tracks(store, [writer.run_id])[0])
    assert found.mix == "ordering" and found.readings[RATE] == 100
    assert found.cpu_s == pytest.approx({"proxy": 0.001, "application": 0.002, "database": 0.005})
    assert found.readings["reads_per_page@database"] == pytest.approx(0.5)
    assert found.blocks == pytest.approx(50)
    with pytest.raises(ValueError, match="client_page_rate_hz was not measured"):
        calibration.measured_in(tracks(store, [store.begin(_plan(arms("noise", 2)[0])).run_id])[0])


def test_the_page_has_each_mix_beside_the_real_one_and_agrees_where_it_is_fitted() -> None:
    said = calibration.real_against_simulated()
    assert said.count("only best sellers are fitted to it") == 2
    assert said.count("CPU times and blocks are fitted to it") == 1
    row = constants()["real"][calibration.FITTED]
    readings = run(constants(), {}, calibration.FITTED, 1, 60.0)
    assert cpu_s(constants(), readings) == pytest.approx(row["cpu_s"], rel=0.05)


class Strict(SimulatedShop):
    """A shop that refuses everything."""

    def objection(self, values: Values) -> str:
        del values
        return "no"

    def window(self, index: int, values: Values) -> Window:
        assert values == self.start
        return super().window(index, values)


def test_what_is_refused_is_never_in_force_and_costs_what_was_in_force() -> None:
    strict = Strict(("shopping", "shopping"), 1, 6)
    found = contest(built("simplex", strict.objective), "simplex", "shop-shopping", strict, 1, 6)
    assert len(set(found.regrets)) == 1
    assert not found.moved


def test_the_contest_knows_every_kind_of_shop() -> None:
    assert set(KINDS) < set(SAID)
    for kind in KINDS:
        made = bed(kind, 1, 10)
        assert made.objective == Objective(RATE, minimize=False)
        assert made.active.isdisjoint(shop.PLACEBOS)


def test_a_run_of_the_contest_on_the_shop_counts_regret_from_the_best_known() -> None:
    made = bed("shop-ordering", 1, 2)
    found = contest(built("static", made.objective), "static", "shop-ordering", made, 1, 2)
    worth = true_cost(constants(), {}, "ordering") - true_cost(constants(), best_known("ordering") or {}, "ordering")
    assert found.regrets == pytest.approx((worth, worth))
