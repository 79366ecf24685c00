"""A table of a TOML file whose keys are taken and checked one by one, so that any left over are unknown."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

from trimtab.errors import UsageError
from trimtab.sensors._metrics import OF_CLASSES
from trimtab.units import parse_duration_s

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_PERCENTILE = re.compile(r"connection_delay_p(\d+)_s")
Word = TypeVar("Word", bound=StrEnum)
_REQUIRED = object()
_LONGEST_S = 86_400.0


class Table:
    """One table.

    Args:
        values: its entries.

    Every method but `finish` raises UsageError when the value is missing or is not one of its kind.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._known: list[str] = []

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def finish(self) -> None:
        """Refuses keys that nobody has asked for."""
        for key in self._values:
            if key not in self._known:
                close = difflib.get_close_matches(key, self._known, 1)
                hint = f"; did you mean {close[0]}?" if close else f": there are {', '.join(sorted(self._known))}"
                raise UsageError(f"unknown key {key!r}{hint}")

    def whole(self, key: str, least: int, most: int, default: int | None = None) -> int:
        """A whole number of a range."""
        value = self._take(key, _REQUIRED if default is None else default)
        if key not in self._values:
            return int(value)
        if not _whole(value) or not least <= value <= most:
            raise UsageError(f"{key} {value!r} is not a whole number of {least} to {most}")
        return int(value)

    def weight(self, key: str) -> float:
        """A finite number above 0."""
        value = self._take(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(f"{key} {value!r} is not a number: the relative guarantee takes a weight such as 3")
        if not (math.isfinite(value) and value > 0):
            raise UsageError(f"{key} {value!r} is not positive")
        return float(value)

    def refuse(self, key: str, only: str) -> None:
        """Refuses a key that has a meaning only in other company."""
        if key in self._values:
            raise UsageError(f"{key} has a meaning only {only}")

    def duration_s(self, key: str, default_s: float | None = None) -> float:
        """A duration above 0, in seconds; it must be given unless there is a default."""
        value = self._take(key, _REQUIRED if default_s is None else default_s)
        if key not in self._values:
            return float(value)
        if not isinstance(value, str):
            raise UsageError(f'{key} {value!r} is not a duration in quotes, such as "10s" or "400ms"')
        try:
            duration_s = parse_duration_s(value)
        except UsageError as error:
            raise UsageError(f"{key} {error}") from None
        if not 0 < duration_s <= _LONGEST_S:
            raise UsageError(
                f"{key} {value!r} is not positive" if duration_s <= 0 else f"{key} {value!r} is over a day"
            )
        return duration_s

    def percentile(self, key: str) -> int | None:
        """A percentile of the delay that is measured; None when not given."""
        value: int | None = self._take(key, None)
        measured = [int(found[1]) for one in OF_CLASSES if (found := _PERCENTILE.fullmatch(one.name))]
        if value is not None and (not _whole(value) or value not in measured):
            raise UsageError(
                f"{key} {value!r} is not measured: write {', '.join(map(str, measured))}, or leave it out"
            )
        return value

    def member(self, key: str, kind: type[Word], default: Word) -> Word:
        """One of a few words."""
        value = self._take(key, default)
        if not isinstance(value, str) or value not in list(kind):
            raise UsageError(f"{key} {value!r} is not one of {', '.join(kind)}")
        return kind(value)

    def switch(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self._take(key, default)
        if not isinstance(value, bool):
            raise UsageError(f"{key} {value!r} is not true or false")
        return value

    def text(self, key: str, default: str | None) -> str | None:
        """A text."""
        value = self._take(key, default)
        if value is not None and not isinstance(value, str):
            raise UsageError(f"{key} {value!r} is not a text in quotes")
        return value

    def name(self, key: str, what: str) -> str:
        """A name that can stand after the @ of a metric."""
        if key not in self._values:
            raise UsageError(f"{what} has no {key}")
        value = self._take(key)
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            allowed = "1 to 64 letters, digits, - and _, of which the first is a letter or digit"
            raise UsageError(f"{what}: {key} {value!r} is not allowed: write {allowed}")
        return value

    def ports(self, key: str) -> tuple[int, ...]:
        """One or more TCP ports."""
        value = self._take(key)
        if not isinstance(value, list) or not value:
            raise UsageError(f"{key} {value!r} is not a list of ports, such as [8080]")
        for port in value:
            if not _whole(port) or not 0 < port < 65_536:
                raise UsageError(f"{key} has {port!r}, which is not a port of 1 to 65535")
            if value.count(port) > 1:
                raise UsageError(f"{key} has the port {port} twice")
        return tuple(value)

    def array(self, key: str) -> list[Any] | None:
        """A list; None when not given."""
        value = self._take(key, None)
        if value is not None and not isinstance(value, list):
            raise UsageError(f"{key} {value!r} is not a list")
        return value

    def tables(self, key: str) -> list[Table]:
        """The tables of a list, such as [[class]]; none when not given."""
        found = self._take(key, [])
        if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
            raise UsageError(f"{key} is not a list of tables: write [[{key}]] before each")
        return [Table(one) for one in found]

    def _take(self, key: str, default: Any = _REQUIRED) -> Any:
        """The value of a key, or its default."""
        self._known.append(key)
        if key in self._values:
            return self._values[key]
        if default is _REQUIRED:
            raise UsageError(f"{key} is missing")
        return default


def _whole(value: Any) -> bool:
    """Whether a value is a whole number; TOML's true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)
