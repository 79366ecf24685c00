"""What stands in trimtab's own file in Apache's configuration (`_own_file`)."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.plants import _own_file
from trimtab.plants.apache.knobs import written

NAME = "zz-trimtab.conf"
"""Sorts after what an operator is likely to have there: the last directive wins."""


def compose(values: Mapping[str, int], before: str | None, start_servers: int | None = None) -> str:
    """The text of the file.

    Args:
        values: knob name to value.
        before: what was there before, None for nothing.
        start_servers: processes that a reload shall start at once; None leaves that to the operator's StartServers.
    """
    body = "".join(f"{written(knob, value)}\n" for knob, value in sorted(values.items()))
    if start_servers is not None:
        body += f"StartServers {start_servers}\n"
    return _own_file.compose(body, before)
