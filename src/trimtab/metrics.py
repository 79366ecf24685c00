"""The metrics of all sensors and plants, gathered from their declarations."""

from __future__ import annotations

import difflib
import functools
import sys
from collections.abc import Iterable, Iterator, Mapping

from trimtab import discovery
from trimtab.core import Metric, Plant, Readings, Sensor
from trimtab.errors import UsageError

_PLANTS, _SENSORS = "trimtab.plants", "trimtab.sensors"


@functools.cache
def known() -> Mapping[str, Metric]:
    """Every metric by its name: those that plants derive, then those that sensors measure.

    A member whose file cannot be imported has none.

    Raises:
        ValueError: two declarations of one name differ.
    """
    plants: list[type[Plant]] = discovery.named(_PLANTS, "PLANT")
    sensors: list[type[Sensor]] = discovery.named(_SENSORS, "SENSOR")
    return gathered((*plants, *sensors, *(one for plant in plants for one in plant.own_sensors)))


def _declared(name: str) -> Metric | None:
    """The metric of this name: as those have it that are loaded, since no two differ and to load all takes long."""
    return _of_loaded(len(sys.modules)).get(name) or known().get(name)


@functools.lru_cache(maxsize=1)
def _of_loaded(modules: int) -> Mapping[str, Metric]:
    """The metrics of the plants and sensors that are loaded, by name.

    Args:
        modules: how many modules there are by now: with the next one there may be more metrics.
    """
    del modules
    return {one.name: one for owner in _loaded() for one in owner.metrics}


def _loaded() -> Iterator[type[Plant] | type[Sensor]]:
    """The plants and sensors that are loaded, and the sensors that only such a plant has."""
    for name, module in list(sys.modules.items()):
        room = name.rpartition(".")[0]
        if room == _PLANTS and (plant := getattr(module, "PLANT", None)) is not None:
            yield from (plant, *plant.own_sensors)
        elif room == _SENSORS and (sensor := getattr(module, "SENSOR", None)) is not None:
            yield sensor


def gathered(declaring: Iterable[type[Plant] | type[Sensor]]) -> dict[str, Metric]:
    """The metrics that these classes declare, by name.

    Raises:
        ValueError: two declarations of one name differ.
    """
    found: dict[str, Metric] = {}
    for owner in declaring:
        for one in owner.metrics:
            if found.setdefault(one.name, one) != one:
                raise ValueError(f"{owner.name} declares {one}, which is declared elsewhere as {found[one.name]}")
    return found


def asked(readings: Readings) -> dict[str, float]:
    """Those readings that count what clients ask for."""
    return {name: readings[name] for name, one in _of(readings) if one.asked}


def failed(readings: Readings) -> dict[str, float]:
    """Those readings that count what failed."""
    return {name: readings[name] for name, one in _of(readings) if one.failed}


def _of(readings: Readings) -> Iterator[tuple[str, Metric]]:
    """The readings that are of no class or bin, with what they are of; without those that nobody declares."""
    for name in readings:
        if "@" not in name and (one := _declared(name)) is not None:
            yield name, one


def metric(name: str) -> Metric:
    """The metric of a reading, `METRIC` or `METRIC@CLASS`.

    Raises:
        UsageError: there is none; the message offers the nearest, or all where none is near.
    """
    base, at, class_name = name.partition("@")
    one = _declared(base)
    if one is None:
        close = difflib.get_close_matches(base, there := known(), 1)
        offer = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(there))}"
        raise UsageError(f"unknown metric {name!r}; {offer}")
    if one.per_class != bool(class_name) or (at and not class_name):
        wanted = f"{base}@CLASS" if one.per_class else base
        raise UsageError(f"unknown metric {name!r}: it is written {wanted}")
    return one
