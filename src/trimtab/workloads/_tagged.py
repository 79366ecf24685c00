"""Base of the records of which the wire wants to know the kind."""

from __future__ import annotations

import re

import msgspec


def _kind(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Tagged(msgspec.Struct, frozen=True, tag_field="kind", tag=_kind):
    """A record that stands on the wire with its class's name as its kind: `OneOf` is `one_of`."""
