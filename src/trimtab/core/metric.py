"""A metric: a quantity that a sensor measures, or that a plant derives from measurements.

Sensors and plants declare what they give in `metrics`; `trimtab.metrics` gathers the declarations. What is measured
for each class of clients carries the class after an `@`: `connection_delay_s@premium`. What is counted by the bins of
a histogram carries the index of the bin there: `intervals_50ms@6`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """A measured quantity.

    Args:
        name: the name, ending in its unit where it has one.
        unit: s, Hz, bytes, ratio, or what is counted.
        description: its meaning in one sentence.
        symbol: the symbol of the paper where it has one.
        per_class: True when it is measured for every class of clients, or counted for every bin, by itself.
        asked: True when it counts what clients ask for, and settings change that little: its shares tell the mix.
        failed: True when it counts requests or connections that failed: what fails is no gain.
    """

    name: str
    unit: str
    description: str
    symbol: str = ""
    per_class: bool = False
    asked: bool = False
    failed: bool = False


def of_class(name: str, class_name: str) -> str:
    """The name that a metric or a knob has for one class of clients, such as `connection_delay_s@premium`."""
    return f"{name}@{class_name}"
