"""The knobs of the simulated shop: those of chung2004's Table 3, as far as they exist, and some of today.

Names, units, steps and shipped values are those of the plants (`trimtab.plants`); the bounds are those that the
plants find on the private shop. A name carries its tier, as in `trimtab tune stack`. What is known to do nothing
there does nothing here, and stays as a control.
"""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.core import Domain, How, Knob, Role

PROXY, APPLICATION, DATABASE = "proxy", "application", "database"
_KIB, _MIB = 1 << 10, 1 << 20
_MOST_THREADS = 8192
_CONTROL = "Nothing: a control."


def _knob(
    tier: str, name: str, unit: str, domain: Domain, default: int, acts: str = "", role: Role = Role.OTHER
) -> Knob:
    return Knob(f"{tier}.{name}", name, unit, domain, default, How.LIVE, "nothing", acts or _CONTROL, role, tier=tier)


KNOBS: tuple[Knob, ...] = (
    _knob(PROXY, "cache_mem", "MiB", Domain(1, 512), 256, "Images that are held together.", Role.CACHE),
    _knob(PROXY, "cache_swap_low", "%", Domain(0, 100), 90),
    _knob(PROXY, "cache_swap_high", "%", Domain(0, 100), 95),
    _knob(PROXY, "maximum_object_size", "KiB", Domain(256, _MIB, 256, logarithmic=True), 4096, role=Role.MOST_KEPT),
    _knob(
        *(PROXY, "minimum_object_size", "KiB", Domain(0, _MIB, 2), 0),
        *("Smaller images are not held.", Role.LEAST_KEPT),
    ),
    _knob(
        *(PROXY, "maximum_object_size_in_memory", "KiB", Domain(2, _MIB, 2, logarithmic=True), 512),
        *("Larger images are not held.", Role.MOST_KEPT),
    ),
    _knob(PROXY, "store_objects_per_bucket", "objects", Domain(5, 1000, 5), 20),
    _knob(
        *(APPLICATION, "max_threads", "threads", Domain(5, _MOST_THREADS, 5), 200),
        *("Requests in service at once.", Role.WORKER_LIMIT),
    ),
    _knob(
        *(APPLICATION, "min_spare_threads", "threads", Domain(0, _MOST_THREADS, 5), 10),
        *("Threads that are there when there is nothing to do: memory.", Role.SPARE_WORKERS),
    ),
    _knob(
        *(APPLICATION, "accept_count", "connections", Domain(5, 4096, 5), 100),
        "Requests that wait beyond max_connections; more are refused.",
    ),
    _knob(
        *(APPLICATION, "max_connections", "connections", Domain(1, 65536), 8192),
        *("Requests in service and waiting.", Role.CONNECTION_LIMIT),
    ),
    _knob(
        *(APPLICATION, "read_buffer_bytes", "bytes", Domain(512, _MIB, 512), 8192),
        "What a read of a socket brings at most; memory of each request.",
    ),
    _knob(
        *(APPLICATION, "write_buffer_bytes", "bytes", Domain(512, _MIB, 512), 8192),
        "What a write to a socket takes at most; memory of each request.",
    ),
    _knob(APPLICATION, "ajp_max_threads", "threads", Domain(5, _MOST_THREADS, 5), 200),
    _knob(APPLICATION, "ajp_min_spare_threads", "threads", Domain(0, _MOST_THREADS, 5), 10),
    _knob(APPLICATION, "ajp_accept_count", "connections", Domain(5, 4096, 5), 100),
    _knob(
        *(APPLICATION, "pool_max_active", "connections", Domain(1, _MOST_THREADS), 100),
        *("Connections to the database at once.", Role.POOL_LIMIT),
    ),
    _knob(
        *(APPLICATION, "pool_min_idle", "connections", Domain(0, _MOST_THREADS), 10),
        "Connections that are there when none is needed: memory of the database.",
    ),
    _knob(
        *(DATABASE, "max_connections", "connections", Domain(51, 2801, 50), 151),
        *("Connections beyond it are refused.", Role.CONNECTION_LIMIT),
    ),
    _knob(
        *(DATABASE, "innodb_buffer_pool_size", "bytes", Domain(8 * _MIB, 1024 * _MIB, 8 * _MIB, logarithmic=True)),
        *(128 * _MIB, "Blocks that are held; others are read from disk.", Role.CACHE),
    ),
    _knob(
        *(DATABASE, "table_open_cache", "tables", Domain(16, 3616, 8), 2000),
        "Tables that stay open; others are opened anew.",
    ),
    _knob(DATABASE, "thread_cache_size", "threads", Domain(0, 1024), 151),
    _knob(
        *(DATABASE, "join_buffer_size", "bytes", Domain(_KIB, 32 * _MIB, _KIB, logarithmic=True), 256 * _KIB),
        "Memory of some of the statements that run.",
    ),
    _knob(DATABASE, "binlog_cache_size", "bytes", Domain(4096, 1138688, 2048), 32768),
    _knob(
        *(DATABASE, "net_buffer_length", "bytes", Domain(_KIB, _MIB, _KIB, logarithmic=True), 16 * _KIB),
        "Memory of each connection.",
    ),
    _knob(DATABASE, "delayed_insert_limit", "rows", Domain(100, 2800, 100), 100),
    _knob(DATABASE, "delayed_queue_size", "rows", Domain(500, 36_000, 500), 1000),
    _knob(DATABASE, "thread_stack", "bytes", Domain(135168, 4072448, 5120), 299008),
)
"""In the order of the tiers; `thread_concurrency` is gone, thread_cache_size stands in its place."""
START = tuple(knob.default for knob in KNOBS)
PLACEBOS = frozenset(knob.name for knob in KNOBS if knob.description == _CONTROL)
"""Knobs that do nothing here: no `cache_dir`, no AJP, no binary log, no INSERT DELAYED, pooled connections."""
RULES = (
    (f"{PROXY}.cache_swap_low", f"{PROXY}.cache_swap_high"),
    (f"{APPLICATION}.min_spare_threads", f"{APPLICATION}.max_threads"),
    (f"{APPLICATION}.ajp_min_spare_threads", f"{APPLICATION}.ajp_max_threads"),
    (f"{APPLICATION}.pool_min_idle", f"{APPLICATION}.pool_max_active"),
)
"""Of each pair the first may not be more than the second."""
_POOL = f"{DATABASE}.innodb_buffer_pool_size"


def objection(values: Mapping[str, int]) -> str:
    """Which rule of the plants these values break; empty when they break none."""
    for low, high in RULES:
        if values[low] > values[high]:
            return f"{low} {values[low]} is more than {high} {values[high]}"
    least = values[f"{PROXY}.minimum_object_size"]
    largest = min(values[f"{PROXY}.maximum_object_size_in_memory"], values[f"{PROXY}.cache_mem"] << 10)
    if least > largest:
        return f"{PROXY}.minimum_object_size {least} KiB is more than the {largest} KiB of the largest object held"
    if values[_POOL] < 128 * _MIB:
        return f"{_POOL} {values[_POOL]} is less than there was, while memory is not short"
    return ""
