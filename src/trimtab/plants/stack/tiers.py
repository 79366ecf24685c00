"""The tiers of a user's stack as one plant."""

from __future__ import annotations

import argparse
import contextlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trimtab import discovery
from trimtab.clock import SystemClock
from trimtab.core import Clock, Plant
from trimtab.errors import ApplyFailed, TrimtabError, UsageError
from trimtab.plants._stack import Stack
from trimtab.plants.stack import clients, keys
from trimtab.plants.stack.clients import Clients
from trimtab.plants.stack.description import EXTRA, Description
from trimtab.sensors.machine import Machine
from trimtab.trust import printable

ROOM = "trimtab.plants"
_WHOLE = "stack"


class Tiers(Stack):
    """Servers that are tuned as one; their knobs are called by their tiers, such as `web.keep_alive`.

    Args:
        description: the stack's description.
        parts: the tiers' plants, in their order.
        traffic: clients of our own; None for none.
        absent: why tiers are not among the parts of a stack that is only to be undone, one line each.
    """

    name = _WHOLE

    def __init__(
        self, description: Description, parts: tuple[Plant, ...], traffic: Clients | None, absent: Sequence[str] = ()
    ) -> None:
        own = () if traffic is None else (traffic,)
        pace = (Machine(often=bool(own)),) if isinstance(parts[0].clock, SystemClock) else ()
        super().__init__(*parts, extra=(*own, *pace))
        self.name = _WHOLE
        self.extras = {EXTRA: description.text}
        self._traffic, self._absent = traffic, tuple(absent)

    @staticmethod
    def attach(
        description: Description, base: Path, clock: Clock, seed: int, stored: bool = False, undo: bool = False
    ) -> Tiers:
        """Attaches to every tier's server.

        Args:
            description: the stack's description.
            base: the directory from which its relative paths start.
            clock: for the waits of the plants.
            seed: source of the clients' randomness.
            stored: True for a run that was: its clients need not reach the server now.
            undo: True where it is only to be undone: a tier that cannot be used does not keep the others from it.

        Raises:
            UsageError: something in the file is wrong, or a server cannot be used from here.
        """
        parts: list[Plant] = []
        absent: list[str] = []
        try:
            with _in(description.name):
                drives = description.clients is not None and not undo
                own = clients.traffic(description.clients or {}, base, seed) if drives else None
            for tier in description.tiers:
                try:
                    parts.append(attached(description, tier, base, clock, seed, stored, undo))
                except UsageError as error:
                    absent.append(str(error))
                    if not undo or len(absent) == len(description.tiers):
                        raise
            strange = [part for part in parts if part.clock is not parts[0].clock]
            if strange:
                raise UsageError(f"{description.name}: tiers of simulated time and of this machine's do not mix")
            for part in _again(description, parts):
                which = f"the {part.name} (pid {part.pid}) of another tier"
                absent.append(f"{description.name}: [tiers.{part.tier}] is {which}: keep one of them")
                if not undo:
                    raise UsageError(absent[-1])
                parts.remove(part)
                part.close()
            traffic = None if own is None else Clients(own, parts[0].clock)
            if traffic is not None and not stored:
                with _in(description.name):
                    traffic.require_reachable()
            return Tiers(description, tuple(parts), traffic, absent)
        except BaseException:
            for part in parts:
                part.close()
            raise

    def leftover(self) -> str:
        """Settings left by earlier runs in the parts, and why others cannot be asked."""
        return "; ".join(one for one in (super().leftover(), *self._absent) if one)

    def undo_leftover(self) -> None:
        """Undoes earlier runs, as a stack does.

        Raises:
            ApplyFailed: in one it could not be undone; in the others it is.
        """
        failed = list(self._absent)
        try:
            super().undo_leftover()
        except ApplyFailed as error:
            failed.insert(0, str(error))
        if failed:
            raise ApplyFailed("; ".join(failed))

    def undo_script(self) -> str:
        """The scripts of the parts, the last first; it fails, and says why, where a tier has none."""
        script = super().undo_script()
        if not self._absent:
            return script
        told = "".join(f"printf '%s\\n' {shlex.quote(printable(one))} >&2\n" for one in self._absent)
        return script.replace("failed=0\n", f"failed=1\n{told}", 1)

    def warm_up(self) -> float:
        """Starts the clients; returns the seconds until measuring begins."""
        return max(super().warm_up(), 0.0 if self._traffic is None else self._traffic.start())


def attached(
    description: Description, tier: str, base: Path, clock: Clock, seed: int, stored: bool = False, undo: bool = False
) -> Plant:
    """The plant of one tier, under the tier's name.

    Args:
        description: the stack's description.
        tier: the tier's name.
        base: the directory from which relative paths start.
        clock: for the waits of the plant.
        seed: source of randomness, where the plant has some.
        stored: True for a run that was: a server that was started anew since is found without its process id.
        undo: True where it is only to be undone.

    Raises:
        UsageError: its table is wrong, or its server cannot be used from here.
    """
    given = description.tiers[tier]
    anew = {key: value for key, value in given.items() if key != "pid"}
    pid = given.get("pid") if stored else None
    if isinstance(pid, int) and not Path(f"/proc/{pid}").exists():
        return _made(description.name, tier, anew, base, clock, seed, undo)
    try:
        return _made(description.name, tier, given, base, clock, seed, undo)
    except UsageError:
        if pid is not None:  # by now it may be any other process's
            with contextlib.suppress(UsageError):
                return _made(description.name, tier, anew, base, clock, seed, undo)
        raise


def check(description: Description, base: Path) -> None:
    """Makes sure that each tier's table names a server that trimtab knows, and options that it has.

    Args:
        description: the stack's description.
        base: the directory from which relative paths start.

    Raises:
        UsageError: one does not.
    """
    for tier, table in description.tiers.items():
        _read(description.name, tier, table, base)


def _made(file: str, tier: str, table: Mapping[str, Any], base: Path, clock: Clock, seed: int, undo: bool) -> Plant:
    """The plant of a tier by its table, as `attached` says."""
    module, args = _read(file, tier, table, base)
    args.seed, args.undo = seed, undo
    with _in(file), _in(f"[tiers.{tier}]"):
        part: Plant = module.from_arguments(args, clock)
    part.tier = tier
    return part


def _read(file: str, tier: str, table: Mapping[str, Any], base: Path) -> tuple[Any, argparse.Namespace]:
    """The module of the plant that a tier's table names, and the options that it sets.

    Raises:
        UsageError: there is no such plant or option, or a value is not one of it.
    """
    where, given = f"[tiers.{tier}]", dict(table)
    name = given.pop("plant", None)
    with _in(file):
        if not isinstance(name, str) or name == _WHOLE:
            there = ", ".join(one for one in discovery.names(ROOM) if one != _WHOLE)
            raise UsageError(f"{where} names no server: write plant = ..., one of {there}")
        with _in(where):
            module: Any = discovery.load(ROOM, name)
        return module, keys.parsed(module.add_arguments, given, where, base)


def _again(description: Description, parts: Sequence[Plant]) -> list[Plant]:
    """The tiers whose server is another one's; of two that have one by now, that of which the file says so has it.

    Several pools of one server are several tiers.
    """
    found, known = list[Plant](), set[tuple[str, int, str]]()
    for part in sorted(parts, key=lambda one: description.tiers[one.tier].get("pid") != one.pid):
        if part.pid is None:
            continue
        if (one := (part.name, part.pid, getattr(part, "pool", ""))) in known:
            found.append(part)
        known.add(one)
    return found


@contextlib.contextmanager
def _in(where: str) -> Iterator[None]:
    """Adds the place in the file to an error; a server that cannot be reached counts as one."""
    try:
        yield
    except TrimtabError as error:
        raise UsageError(f"{where}: {error}") from None
