"""The metrics of all sensors and plants, gathered from their declarations."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Mapping

from trimtab import discovery
from trimtab.core import Metric, Plant, Readings, Sensor
from trimtab.errors import UsageError


@functools.cache
def known() -> Mapping[str, Metric]:
    """Every metric by its name: those that plants derive, then those that sensors measure.

    A member whose file cannot be imported has none.

    Raises:
        ValueError: two declarations of one name differ.
    """
    plants: list[type[Plant]] = discovery.named("trimtab.plants", "PLANT")
    sensors: list[type[Sensor]] = discovery.named("trimtab.sensors", "SENSOR")
    return gathered((*plants, *sensors, *(one for plant in plants for one in plant.own_sensors)))


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
    there = known()
    return {name: value for name, value in readings.items() if name in there and there[name].asked}


def failed(readings: Readings) -> dict[str, float]:
    """Those readings that count what failed."""
    there = known()
    return {name: value for name, value in readings.items() if name in there and there[name].failed}


def metric(name: str) -> Metric:
    """The metric of a reading, `METRIC` or `METRIC@CLASS`.

    Raises:
        UsageError: there is none; the message offers the nearest, or all where none is near.
    """
    base, at, class_name = name.partition("@")
    there = known()
    if base not in there:
        close = difflib.get_close_matches(base, there, 1)
        offer = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(there))}"
        raise UsageError(f"unknown metric {name!r}; {offer}")
    if there[base].per_class != bool(class_name) or (at and not class_name):
        wanted = f"{base}@CLASS" if there[base].per_class else base
        raise UsageError(f"unknown metric {name!r}: it is written {wanted}")
    return there[base]
