"""What the user should know of a MariaDB before anything is changed."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.core import How, Knob
from trimtab.plants.mariadb.attached import Attached
from trimtab.plants.mariadb.status import OURS

_RESTARTED = "what is set is in force until MariaDB is restarted: to keep it, write it in a file of its configuration"


def of(mariadb: Attached, knobs: Mapping[str, Knob], pooled: bool) -> tuple[str, ...]:
    """The notes, one line each.

    Args:
        mariadb: the running MariaDB.
        knobs: its knobs, by name.
        pooled: whether pools in front make their connections anew.

    Raises:
        PlantError: it did not answer.
        PlantGone: it has ended.
    """
    copied = [knob.name for knob in knobs.values() if knob.how is How.CONNECTIONS]
    found = [_RESTARTED, *mariadb.notes]
    if copied:
        but = "but for pools in front, which make theirs anew" if pooled else "as in a pool"
        found.append(f"connections that are open, {but}, keep what they began with of {', '.join(copied)}")
    most, allowed = mariadb.peak, mariadb.there["max_connections"].value
    if most + OURS > allowed:
        found.append(f"{most} of {allowed} connections were open at a time, and trimtab holds {OURS} while it runs")
    if lacking := mariadb.unprivileged(knobs):
        found.append(mariadb.grant(lacking))
    return tuple(found)
