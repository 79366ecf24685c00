"""The tiers of a user's stack as one plant."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trimtab import discovery
from trimtab.clock import SystemClock
from trimtab.core import Clock, Plant
from trimtab.errors import TrimtabError, UsageError
from trimtab.plants._stack import Stack
from trimtab.plants.stack import clients, keys
from trimtab.plants.stack.clients import Clients
from trimtab.plants.stack.description import EXTRA, Description
from trimtab.sensors.machine import Machine

ROOM = "trimtab.plants"
_WHOLE = "stack"


class Tiers(Stack):
    """Servers that are tuned as one; their knobs are called by their tiers, such as `web.keep_alive`.

    Args:
        description: the stack's description.
        parts: the tiers' plants, in their order.
        traffic: clients of our own; None for none.
    """

    name = _WHOLE

    def __init__(self, description: Description, parts: tuple[Plant, ...], traffic: Clients | None) -> None:
        own = () if traffic is None else (traffic,)
        pace = (Machine(often=bool(own)),) if isinstance(parts[0].clock, SystemClock) else ()
        super().__init__(*parts, extra=(*own, *pace))
        self.name = _WHOLE
        self.extras = {EXTRA: description.text}
        self._traffic = traffic

    @staticmethod
    def attach(description: Description, base: Path, clock: Clock, seed: int, stored: bool = False) -> Tiers:
        """Attaches to every tier's server.

        Args:
            description: the stack's description.
            base: the directory from which its relative paths start.
            clock: for the waits of the plants.
            seed: source of the clients' randomness.
            stored: True for a run that was: its clients need not reach the server now.

        Raises:
            UsageError: something in the file is wrong, or a server cannot be used from here.
        """
        parts: list[Plant] = []
        try:
            with _in(description.name):
                own = None if description.clients is None else clients.traffic(description.clients, base, seed)
            for tier in description.tiers:
                parts.append(attached(description, tier, base, clock, seed, stored))
            strange = [part for part in parts if part.clock is not parts[0].clock]
            if strange:
                raise UsageError(f"{description.name}: tiers of simulated time and of this machine's do not mix")
            traffic = None if own is None else Clients(own, parts[0].clock)
            if traffic is not None and not stored:
                with _in(description.name):
                    traffic.require_reachable()
            return Tiers(description, tuple(parts), traffic)
        except BaseException:
            for part in parts:
                part.close()
            raise

    def warm_up(self) -> float:
        """Starts the clients; returns the seconds until measuring begins."""
        return max(super().warm_up(), 0.0 if self._traffic is None else self._traffic.start())


def attached(description: Description, tier: str, base: Path, clock: Clock, seed: int, stored: bool = False) -> Plant:
    """The plant of one tier, under the tier's name.

    Args:
        description: the stack's description.
        tier: the tier's name.
        base: the directory from which relative paths start.
        clock: for the waits of the plant.
        seed: source of randomness, where the plant has some.
        stored: True for a run that was: a server that was started anew since is found without its process id.

    Raises:
        UsageError: its table is wrong, or its server cannot be used from here.
    """
    where = f"[tiers.{tier}]"
    given = dict(description.tiers[tier])
    name = given.pop("plant", None)
    if stored and isinstance(pid := given.get("pid"), int) and not Path(f"/proc/{pid}").exists():
        del given["pid"]
    with _in(description.name):
        if not isinstance(name, str) or name == _WHOLE:
            there = ", ".join(one for one in discovery.names(ROOM) if one != _WHOLE)
            raise UsageError(f"{where} names no server: write plant = ..., one of {there}")
        with _in(where):
            module: Any = discovery.load(ROOM, name)
        args = keys.parsed(module.add_arguments, given, where, base)
        args.seed = seed
        with _in(where):
            part: Plant = module.from_arguments(args, clock)
    part.tier = tier
    return part


@contextlib.contextmanager
def _in(where: str) -> Iterator[None]:
    """Adds the place in the file to an error; a server that cannot be reached counts as one."""
    try:
        yield
    except TrimtabError as error:
        raise UsageError(f"{where}: {error}") from None
