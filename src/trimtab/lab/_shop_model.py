"""The simulated shop from its constants and the values of its knobs, and what it does.

    simulated_shop.toml, knobs  ->  seconds, bytes, places  ->  `trimtab-native sim`  ->  readings

A knob acts by the physical parameter that it sets and by nothing else: one that sets none leaves every digit of a run
as it was.
"""

from __future__ import annotations

import atexit
import json
import math
import tomllib
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from trimtab.core import Readings
from trimtab.lab._shop_knobs import KNOBS, START
from trimtab.plants._simulated_link import Link
from trimtab.search.space import named
from trimtab.workloads import tpcw
from trimtab.workloads.tpcw import Tpcw, TpcwMix

MIXES = ("browsing", "shopping", "ordering")
TIERS = ("proxy", "application", "database")
RATE, TIME = "client_page_rate_hz", "client_page_time_s"
_KIB, _MIB = 1 << 10, 1 << 20
_TRUTH_SEEDS = (1_000_003, 1_000_033, 1_000_037)
_TRUTH_S = 60.0
_LEAST_HZ = 0.1

Constants = Mapping[str, Any]
"""Content of `simulated_shop.toml`."""


@cache
def constants() -> Constants:
    """The constants as they are shipped."""
    return tomllib.loads(files(__package__).joinpath("simulated_shop.toml").read_text(encoding="utf-8"))


def settings(of: Constants, values: Mapping[str, int]) -> dict[str, Any]:
    """The shop as the simulator reads it.

    Args:
        of: its constants.
        values: knob to value; a knob that is not named has its shipped value.
    """
    at = {**named(KNOBS, START), **values}
    return {
        "proxy": _proxy(of, at),
        "application": _application(of, at),
        "database": _database(of, at),
        "catalogue": _catalogue(of),
        "demands": [_demand(of, at, page, asks) for page, asks in of["pages"].items()],
    }


def run(of: Constants, values: Mapping[str, int], mix: str, seed: int, length_s: float) -> Readings:
    """Readings of the shop, warm, over some seconds of virtual time.

    Args:
        of: its constants.
        values: knob to value; a knob that is not named has its shipped value.
        mix: what its browsers do.
        seed: of all randomness.
        length_s: how long it is measured.

    Raises:
        NativeError: the native program is not installed.
        PlantGone: the simulator has ended.
    """
    return _run(settings(of, values), of["load"], mix, seed, length_s)


def true_cost(of: Constants, values: Mapping[str, int], mix: str) -> float:
    """The logarithm of the seconds for a page, over three minutes of seeds that no trial has.

    Args:
        of: the shop's constants.
        values: knob to value; a knob that is not named has its shipped value.
        mix: what its browsers do.

    Raises:
        NativeError: the native program is not installed.
        PlantGone: the simulator has ended.
    """
    # By parameters, not by values: what sets the same ones is the same shop, and a control costs no run.
    return _true_cost(json.dumps(settings(of, values)), json.dumps(of["load"]), mix)


def cpu_s(of: Constants, readings: Mapping[str, float]) -> dict[str, float]:
    """CPU seconds of each tier for a page.

    Args:
        of: the constants, which have the cores.
        readings: of a run.
    """
    return {tier: readings[f"cpu_ratio@{tier}"] * of[tier]["cores"] / readings[RATE] for tier in TIERS}


@lru_cache(maxsize=4096)
def _true_cost(shop: str, load: str, mix: str) -> float:
    found = [_run(json.loads(shop), json.loads(load), mix, seed, _TRUTH_S)[RATE] for seed in _TRUTH_SEEDS]
    return -math.log(max(math.fsum(found) / len(found), _LEAST_HZ))


def _run(shop: Mapping[str, Any], load: Mapping[str, Any], mix: str, seed: int, length_s: float) -> Readings:
    link = _link()
    link.ask({"type": "start_shop", "shop": shop, "browsers": _browsers(json.dumps(load), mix), "seed": seed})
    link.ask({"type": "advance", "duration_s": load["warm_s"]})
    link.ask({"type": "begin"})
    link.ask({"type": "advance", "duration_s": length_s})
    readings = link.ask({"type": "read"})["readings"]
    return {str(name): float(value) for name, value in readings.items()}


@cache
def _link() -> Link:
    """The simulator, one for each process of ours, which ends with it."""
    link = Link()
    atexit.register(link.close)
    return link


@cache
def _browsers(load: str, mix: str) -> dict[str, Any]:
    """The browsers as the load generator has them too."""
    of = json.loads(load)
    browsers = Tpcw(browsers=of["browsers"], mix=TpcwMix(mix), items=of["items"], time_scale=of["time_scale"])
    return browsers.populations()[0].to_wire()


def _host(of: Mapping[str, Any], more_bytes: float = 0.0) -> dict[str, float]:
    return {
        "cores": of["cores"],
        "switching_ratio": of["switching_ratio"],
        "memory_limit_bytes": of["memory_limit_mib"] * _MIB,
        "base_memory_bytes": of["base_memory_mib"] * _MIB + more_bytes,
        "fault_ratio": of["fault_ratio"],
    }


def _proxy(of: Constants, at: Mapping[str, int]) -> dict[str, Any]:
    own, scale = of["proxy"], of["scale"]["proxy"]
    return {
        "host": _host(own),
        "cache_bytes": at["proxy.cache_mem"] * _MIB,
        "smallest_bytes": at["proxy.minimum_object_size"] * _KIB,
        "largest_bytes": at["proxy.maximum_object_size_in_memory"] * _KIB,
        "held_ratio": own["held_ratio"],
        **{name: own[name] * scale for name in ("page_s", "image_s", "miss_s", "byte_s")},
    }


def _application(of: Constants, at: Mapping[str, int]) -> dict[str, Any]:
    own, scale = of["application"], of["scale"]["application"]
    buffers = at["application.read_buffer_bytes"] + at["application.write_buffer_bytes"]
    return {
        "host": _host(own),
        "threads": at["application.max_threads"],
        "spare_threads": at["application.min_spare_threads"],
        "places": at["application.max_connections"] + at["application.accept_count"],
        "thread_bytes": own["thread_kib"] * _KIB,
        "connection_bytes": own["connection_kib"] * _KIB + buffers,
        "pool": at["application.pool_max_active"],
        "idle_pool": at["application.pool_min_idle"],
        "before_ratio": own["before_ratio"],
        "image_s": own["image_s"] * scale,
        "byte_s": (own["byte_s"] + own["call_s"] / at["application.write_buffer_bytes"]) * scale,
    }


def _tables(of: Constants, at: Mapping[str, int]) -> int:
    """Tables that are used at once: each connection has its own."""
    return int(of["database"]["tables"] * min(at["application.pool_max_active"], of["load"]["browsers"]))


def _database(of: Constants, at: Mapping[str, int]) -> dict[str, Any]:
    own = of["database"]
    tables = min(_tables(of, at), at["database.table_open_cache"])
    same = ("held_ratio", "block_bytes", "popularity", "read_cpu_s", "read_s", "commit_s", "disk_width")
    return {
        "host": _host(own, tables * own["table_kib"] * _KIB),
        "connections": at["database.max_connections"],
        "running": at["database.max_connections"],
        "connection_bytes": own["connection_kib"] * _KIB + at["database.net_buffer_length"],
        "query_bytes": own["query_kib"] * _KIB + own["join_ratio"] * at["database.join_buffer_size"],
        "buffer_bytes": at["database.innodb_buffer_pool_size"],
        "data_bytes": own["data_mib"] * _MIB,
        **{name: own[name] for name in same},
    }


def _catalogue(of: Constants) -> dict[str, Any]:
    own, images = of["catalogue"], tpcw.data()["images"]
    sizes = zip(images["size_kib"], images["share"], strict=True)
    return {
        "items": of["load"]["items"],
        "popularity": own["popularity"],
        "thumbnail_bytes": images["thumbnail_bytes"],
        "covers": [{"bytes": kib * _KIB, "share": share} for kib, share in sizes],
        "fixed_images": own["fixed_images"],
        "fixed_bytes": own["fixed_bytes"],
    }


def _demand(of: Constants, at: Mapping[str, int], page: str, asks: Mapping[str, Any]) -> dict[str, Any]:
    application, database, scale = of["application"], of["database"], of["scale"]
    reads = math.ceil(application["request_bytes"] / at["application.read_buffer_bytes"])
    writes = math.ceil(asks["kib"] * _KIB / at["application.write_buffer_bytes"])
    missing = max(0.0, 1.0 - at["database.table_open_cache"] / _tables(of, at))
    opened_s = asks["statements"] * missing * database["open_s"]
    return {
        "page": page,
        "application_s": (asks["application_ms"] / 1e3 + (reads + writes) * application["call_s"])
        * scale["application"],
        "database_s": (asks["database_ms"] / 1e3 + opened_s) * scale["database"],
        "blocks": asks["blocks"] * scale["blocks"],
        "commits": asks["commits"],
        "thumbnails": asks["thumbnails"],
        "covers": asks["covers"],
    }
