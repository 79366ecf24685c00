"""Durations, sizes and shares as a user writes them: `400ms`, `1h30m`, `300MiB`, `80%`."""

from __future__ import annotations

import re

from trimtab.errors import UsageError

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([A-Za-z/%]*)")
_LONGEST_S = 100 * 365 * 86400.0
"""More than that is a slip of the keyboard, and more than clocks and waits can count."""
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def parse_duration_s(text: str, option: str = "") -> float:
    """Seconds in a duration such as `400ms`, `1.5s`, `5m` or `1h30m`.

    Args:
        text: the user's text.
        option: the option that has it, for the message.

    Raises:
        UsageError: it is not one, as a number without a unit, or is longer than a hundred years.
    """
    parts = _PART.findall(text)
    where = f"{option}: " if option else ""
    if not parts or "".join(number + unit for number, unit in parts) != text:
        allowed = "numbers with ms, s, m or h, such as 400ms, 90s or 1h30m"
        raise UsageError(f"{where}{text!r} is not a duration: write {allowed}")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if seconds > _LONGEST_S:
        raise UsageError(f"{where}{text[:40]!r} is too long a duration: it must be 100 years or less")
    return seconds


def format_duration(duration_s: float) -> str:
    """A duration as `parse_duration_s` reads it, to the millisecond.

    Args:
        duration_s: seconds, not negative.
    """
    milliseconds = round(duration_s * 1000)
    if 0 < milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    text = (f"{hours}h" if hours else "") + (f"{minutes}m" if minutes else "")
    return text + (f"{rest / 1000:g}s" if rest or not text else "")


def parse_quantity(text: str, unit: str) -> float:
    """A value of a metric: a duration, a size, a share such as `80%` or `0.8`, or a number.

    Args:
        text: the user's text.
        unit: the metric's unit.

    Returns:
        The value in that unit.

    Raises:
        UsageError: it is not one.
    """
    if unit == "s":
        return parse_duration_s(text)
    if unit.startswith("bytes"):
        suffixes: dict[str, float] = {name + unit.removeprefix("bytes"): factor for name, factor in _BYTES.items()}
        allowed = f"a number with {', '.join(suffixes)}, such as 300{list(suffixes)[2]}"
    elif unit == "ratio":
        suffixes, allowed = {"": 1.0, "%": 0.01}, "a number or a percentage, such as 0.8 or 80%"
    else:
        suffixes, allowed = {"": 1.0, unit: 1.0}, f"a number of {unit}"
    found = _NUMBER.fullmatch(text)
    if found is None or found[2] not in suffixes:
        raise UsageError(f"{text!r} is not a value in {unit}: write {allowed}")
    return float(found[1]) * suffixes[found[2]]
