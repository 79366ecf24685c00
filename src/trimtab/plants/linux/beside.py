"""Sensors of the plant that knows a server, for use while its threads are moved."""

from __future__ import annotations

import argparse

from trimtab import discovery
from trimtab.core import Clock, Plant
from trimtab.errors import TrimtabError

ROOM = "trimtab.plants"


def plant_of(pid: int, clock: Clock, own: str) -> Plant | None:
    """The plant that attaches to a server's first process; None where none does.

    Args:
        pid: the process.
        clock: for its waits.
        own: registered name of the plant that asks, which is not asked itself.
    """
    for name in discovery.names(ROOM):
        if name == own:
            continue
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        try:
            module = discovery.load(ROOM, name)
            module.add_arguments(parser)
            known, unknown = parser.parse_known_args(["--pid", str(pid)])
            if unknown:
                continue  # it is not attached to by a process id
            plant: Plant = module.from_arguments(known, clock)
            return plant
        except (TrimtabError, OSError):
            continue  # another kind of server, or one that cannot be read from here
    return None
