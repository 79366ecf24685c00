"""Durations as a user writes them: `400ms`, `90s`, `5m`, `1h30m`."""

from __future__ import annotations

import re

from trimtab.errors import UsageError

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def parse_duration_s(text: str) -> float:
    """Seconds in a duration such as `400ms`, `1.5s`, `5m` or `1h30m`.

    Raises:
        UsageError: it is not one; a number without a unit is not.
    """
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        allowed = "numbers with ms, s, m or h, such as 400ms, 90s or 1h30m"
        raise UsageError(f"{text!r} is not a duration: write {allowed}")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


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
