"""One running Tomcat: its parts, the values in force, and how one of them is set."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from trimtab.core import Clock
from trimtab.core.memory import Need
from trimtab.errors import ApplyFailed, NotMeasured, PlantGone, UsageError
from trimtab.plants.tomcat import knobs, memory
from trimtab.plants.tomcat.jmx import Jmx, Refused
from trimtab.plants.tomcat.journal import Journal, Paused
from trimtab.plants.tomcat.knobs import Dial
from trimtab.plants.tomcat.layout import HEAP, Layout, Pool, look
from trimtab.plants.tomcat.process import TomcatProcess
from trimtab.processes import threads_left
from trimtab.sensors._cgroup import tasks_left
from trimtab.sensors._memory import rooms
from trimtab.sensors._tcp_listeners import Listener, listeners

LOOK_S = 30.0
"""The most that a first look at all of its parts may take."""
Spot = tuple[str, str]
"""An MBean and one of its attributes."""
_MOST_HEAP = "HeapMemoryUsage.max"
ACTIVE, IDLE = "MaxActive", "MaxIdle"
"""Attributes of Tomcat's own pool."""


class Attached:
    """A running Tomcat.

    Args:
        process: its process.
        clock: for the waits.
        restart: whether connectors may be restarted.

    Attributes:
        process: as given.
        journal: what was set and paused in it.
        jmx: the conversation with it.
        layout: its parts.
        dials: its knobs.
        missing: notes on knobs that cannot be moved.
        listeners: addresses and ports on which it serves.
        peaks: endpoint of each connector to the most connections that it had when it was looked at.
        heap_bytes: the most that its heap may take; None where Java says no limit.
        held_s: for how long requests were held back so far for changes.

    Raises:
        UsageError: it cannot be attached to; the message says what is needed.
        PlantGone: it has ended.
    """

    def __init__(self, process: TomcatProcess, clock: Clock, restart: bool = False) -> None:
        self.process = process
        self.journal = Journal(process)
        self.held_s = 0.0
        self._meant: dict[str, int] = {}
        self.jmx = Jmx(process, clock)
        try:
            with self.jmx.within(LOOK_S):
                self.layout: Layout = look(self.jmx)
                self.heap_bytes = self._heap_bytes()
                spots = [(bean, kind.attribute) for kind, _, _, bean, _, _ in knobs.wanted(self.layout)]
                values = {spot: value for spot, value in self.values(spots).items() if value is not None}
            self.peaks = {one.endpoint: 0 for one in self.layout.connectors}
            self._rooms = rooms(process.pid)
            files, left = _descriptors(process), (tasks_left(process.pid), threads_left(process.pid))
            self.dials, self.missing = knobs.dials(self.layout, values, files, restart, *left)
            self.listeners = self._listeners()
        except (NotMeasured, Refused) as error:
            self.jmx.close()
            raise UsageError(f"{process}: {error}") from None
        except BaseException:
            self.jmx.close()
            raise

    def in_force(self) -> dict[str, int]:
        """Knob to value; one whose part has gone, as the pool of an application that is redeployed, is left out.

        Raises:
            PlantGone: the server has ended, or does not answer.
        """
        counted = [(endpoint, memory.CONNECTIONS) for endpoint in self.peaks]
        found = self.values([*((dial.bean, dial.attribute) for dial in self.dials), *counted])
        for endpoint, attribute in counted:
            self.peaks[endpoint] = max(self.peaks[endpoint], found[endpoint, attribute] or 0)
        values = {}
        for dial in self.dials:
            value = found[dial.bean, dial.attribute]
            if value is None:
                continue
            most = self._most_active(dial, found)
            # The value set counts while the pool's limit of all connections caps its idle ones.
            values[dial.knob.name] = max(value, self._meant.get(dial.knob.name, 0)) if value == most else value
        return values

    def needs(self, values: Mapping[str, int]) -> tuple[Need, ...]:
        """Memory that these values of all knobs need, in the heap and beside it."""
        stacks = memory.beside(self.dials, values, self._rooms)
        return (*stacks, *memory.in_heap(self.dials, values, self.peaks, self.heap_bytes, self.process.pid))

    def meant(self, values: Mapping[str, int], moved: Collection[str]) -> dict[Spot, int]:
        """Values of the attributes that some knobs set.

        A pool of Tomcat's own never says that more of its connections may be idle than there may be in all: it lowers
        the first by itself.

        Args:
            values: values of all knobs.
            moved: the knobs that are to be set.
        """
        spots = {(dial.bean, dial.attribute): values[dial.knob.name] for dial in self.dials}
        wanted = {(dial.bean, dial.attribute) for dial in self.dials if dial.knob.name in moved}
        for bean, attribute in tuple(spots):
            if attribute == IDLE and (bean, ACTIVE) in spots:
                spots[bean, attribute] = min(spots[bean, attribute], spots[bean, ACTIVE])
                wanted |= {(bean, IDLE)} if (bean, ACTIVE) in wanted else set()
        return {spot: value for spot, value in spots.items() if spot in wanted}

    def keep(self, values: Mapping[str, int]) -> None:
        """Remembers the values that knobs were set to."""
        self._meant.update(values)

    def _most_active(self, dial: Dial, found: Mapping[Spot, int | None]) -> int | None:
        """For a knob that is a pool's number of idle connections, its limit of all connections."""
        return found.get((dial.bean, ACTIVE)) if dial.attribute == IDLE else None

    def values(self, spots: Sequence[Spot]) -> dict[Spot, int | None]:
        """The values of attributes; None where there is no such number.

        Raises:
            PlantGone: the server has ended, or does not answer.
        """
        beans: dict[str, list[str]] = {}
        for bean, attribute in spots:
            beans.setdefault(bean, []).append(attribute)
        try:
            found = dict(zip(beans, self.jmx.read(beans), strict=True))
        except (NotMeasured, Refused) as error:
            raise PlantGone(str(error)) from None
        values: dict[Spot, int | None] = {}
        for bean, attribute in spots:
            value = (found[bean] or {}).get(attribute)
            values[bean, attribute] = value if isinstance(value, int) else None
        return values

    def set(self, spot: Spot, value: int) -> None:
        """Sets an attribute, and reads it back.

        Raises:
            ApplyFailed: the server did not take it.
            PlantGone: it has ended, or does not answer.
        """
        bean, attribute = spot
        try:
            self.jmx.set(bean, attribute, value)
        except Refused as error:
            self.process.check()
            raise ApplyFailed(f"{attribute} {value} was not taken: {error}") from None
        except NotMeasured as error:
            raise PlantGone(str(error)) from None
        if (now := self.values([spot])[spot]) != value:
            raise ApplyFailed(f"{attribute} is {now} after it was set to {value}")

    def call(self, *calls: tuple[str, str]) -> None:
        """Invokes operations of MBeans, as `Jmx.call` does.

        Raises:
            ApplyFailed: it did not.
            PlantGone: the server has ended.
        """
        with self._told(", ".join(operation for _, operation in calls)):
            self.jmx.call(*calls)

    def names(self, pattern: str) -> list[str]:
        """The names of the MBeans that fit a pattern.

        Raises:
            ApplyFailed: no answer came.
            PlantGone: the server has ended.
        """
        with self._told("a look at its parts"):
            return self.jmx.names(pattern)

    def empty(self, pool: Pool) -> None:
        """Has a pool close its JDBC connections, one of DBCP only those that nobody has borrowed.

        Raises:
            ApplyFailed: it did not.
            PlantGone: the server has ended.
        """
        with self._told("empty" if pool.dbcp else "purge"):
            if pool.dbcp:
                self.jmx.empty(pool.bean)
            else:
                self.jmx.call((pool.bean, "purge"))

    def pause(self, one: Paused) -> None:
        """Has a connector take no more connections, as `Jmx.pause` does.

        Raises:
            ApplyFailed: it did not.
            PlantGone: the server has ended.
        """
        with self._told("pause"):
            self.jmx.pause(one.connector, one.endpoint, one.limit, one.requests)

    def revived(self) -> bool:
        """Begins the conversation anew where its program has ended; whether that was so.

        Raises:
            ApplyFailed: that cannot be done.
            PlantGone: the server has ended.
        """
        try:
            return self.jmx.revived()
        except UsageError as error:
            raise ApplyFailed(str(error)) from None

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except (Refused, NotMeasured) as error:
            self.process.check()
            raise ApplyFailed(f"{what} failed: {error}") from None

    def _heap_bytes(self) -> int | None:
        (found,) = self.jmx.read({HEAP: (_MOST_HEAP,)})
        most = None if found is None else found[_MOST_HEAP]
        return most if isinstance(most, int) and most > 0 else None

    def _listeners(self) -> tuple[Listener, ...]:
        ports = {one.port for one in self.layout.connectors}
        return tuple(one for one in listeners(self.process.pid) if one[1] in ports)

    def dial(self, spot: Spot) -> Dial | None:
        """The knob of an attribute."""
        return next((dial for dial in self.dials if (dial.bean, dial.attribute) == spot), None)


def _descriptors(process: TomcatProcess) -> int:
    """Files and sockets that it may have open."""
    try:
        text = Path(f"/proc/{process.pid}/limits").read_text(encoding="ascii")
    except OSError:
        process.check()
        raise process.not_permitted() from None
    line = next(line for line in text.splitlines() if line.startswith("Max open files"))
    soft = line.split()[3]
    return int(soft) if soft.isdecimal() else 1 << 30
