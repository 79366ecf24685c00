"""How a reading, a time or a setting is written, on the terminal and on the page alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trimtab.core import Configuration, Knob
from trimtab.guarantee import ABSOLUTE, HYBRID, DelayGuarantee
from trimtab.metrics import metric as metric_of

_SHORT = {
    "request_time_s": "request",
    "page_time_s": "page",
    "cpu_ratio": "CPU",
    "memory_ratio": "memory",
    "busy_workers": "busy",
}


def seconds(value: float, _: object = None) -> str:
    """A time as a person reads it."""
    if value == 0:
        return "0"
    return f"{plain(value * 1000)} ms" if value < 1 else f"{plain(value)} s"


def plain(value: float, _: object = None) -> str:
    """Three significant digits, without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def shown(name: str, value: float | None) -> str:
    """A reading with its unit, short enough for a column; a dash where it was not measured."""
    if value is None:
        return "-"
    unit = metric_of(name).unit
    if unit == "s":
        return seconds(value)
    if unit == "ratio":
        return f"{value:.0%}"
    if unit.startswith("bytes"):
        return f"{plain(value / 2**20)} MiB{unit.removeprefix('bytes')}"
    return f"{plain(value)} Hz" if unit == "Hz" else plain(value)


def title(name: str) -> str:
    """A metric's name for a column: its symbol in the paper where it has one."""
    return _SHORT.get(name) or metric_of(name).symbol or name


def words(name: str) -> str:
    """A metric's name in words, without its unit."""
    base, _, label = name.partition("@")
    text = base.removesuffix("_s").removesuffix("_hz").replace("_", " ")
    return f"{text} of {label}" if label else text


def setting(name: str, value: int | None, knobs: Sequence[Knob] = ()) -> str:
    """A knob's value as the operator reads it: its name where the knob is a choice."""
    if value is None:
        return "-"
    known = next((knob for knob in knobs if knob.name == name), None)
    return str(value) if known is None else known.domain.shown(value)


def settings(configuration: Configuration, knobs: Sequence[Knob] = ()) -> str:
    """A configuration in words."""
    return ", ".join(f"{name} {setting(name, value, knobs)}" for name, value in configuration.items())


def changes(
    made: Mapping[str, int], before: Configuration, knobs: Sequence[Knob] = (), most: int | None = None
) -> str:
    """Changes of a move as text: each knob with its old and new value.

    Args:
        made: knob to new value.
        before: the configuration before the move.
        knobs: the plant's knobs, for their units.
        most: how many are named before "and n more"; None for all.
    """
    said = [
        f"{name} {setting(name, before.get(name), knobs)} -> {setting(name, value, knobs)}"
        for name, value in made.items()
        if before.get(name) != value
    ]
    more = [] if most is None or len(said) <= most else [f"and {len(said) - most} more"]
    return ", ".join([*said[:most], *more])


def came(asked: Mapping[str, int], after: Configuration | None) -> dict[str, int]:
    """What a move's knobs came to: as rules among knobs and the server have let them.

    Args:
        asked: knob to the value asked for.
        after: the configuration in force after it; None where it was not applied, and what was asked for is told.
    """
    return {name: value if after is None else after.get(name, value) for name, value in asked.items()}


def desired(guarantee: DelayGuarantee, k: int) -> str:
    """Desired delay of class k as text."""
    if guarantee.kind == ABSOLUTE:
        return seconds(guarantee.desired[k])
    if k == 0:
        return f"at most {seconds(guarantee.desired[0])}" if guarantee.kind == HYBRID else "the reference"
    return f"{guarantee.desired_ratio(k):.3g} x {guarantee.classes[k - 1]}"
