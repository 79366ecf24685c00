"""The conversation with `trimtab-native sim`, and the clock and the sensor that rest on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimtab import native
from trimtab.core import Precedence, Readings, Sensor
from trimtab.errors import NativeError, NotMeasured, PlantError, PlantGone
from trimtab.sensors import _eq1
from trimtab.sensors._metrics import OF_CLASSES
from trimtab.sensors.accept_queue import AcceptQueue
from trimtab.sensors.load_generator import LoadGenerator
from trimtab.sensors.resources import Resources
from trimtab.sensors.server_status import ServerStatus


class Refused(PlantError):
    """The simulator answered that it could not carry out an order."""


class Link:
    """The conversation with the simulator: one answer for each order."""

    def __init__(self) -> None:
        self._native = native.Native("sim")
        self.now_s = 0.0

    def ask(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to an order.

        Raises:
            PlantGone: the simulator has ended.
            Refused: it answered that it could not.
        """
        try:
            self._native.send(order)
            answer = self._native.receive()
        except NativeError as error:
            raise PlantGone(f"the simulator has ended: {error}") from None
        if answer["type"] == "refused":
            raise Refused(answer["message"])
        self.now_s = float(answer["now_s"])
        return answer

    def close(self) -> None:
        """Ends the simulator; may be called twice."""
        self._native.close()


class VirtualClock:
    """The simulator's clock: sleeping lets virtual time pass."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def now_s(self) -> float:
        """Virtual seconds since the start."""
        return self._link.now_s

    def sleep(self, duration_s: float) -> None:
        """Lets that much virtual time pass; a duration that is not positive returns at once.

        Raises:
            PlantGone: the simulator has ended, or more sessions pile up than it can keep.
        """
        if duration_s <= 0:
            return
        try:
            self._link.ask({"type": "advance", "duration_s": duration_s})
        except Refused as refused:
            raise PlantGone(f"the simulation cannot go on: {refused}") from None


class SimulatedSensor(Sensor):
    """Reads the simulator's measurements since `begin`."""

    name = "simulated"
    precedence = Precedence.COUNTED
    metrics = tuple(
        dict.fromkeys(
            (
                *_eq1.METRICS,
                *AcceptQueue.metrics,
                *ServerStatus.metrics,
                *Resources.metrics,
                *OF_CLASSES,
                *LoadGenerator.metrics,
            )
        )
    )

    def __init__(self, link: Link) -> None:
        self._link = link

    def begin(self) -> None:
        """Starts a new measuring interval."""
        self._link.ask({"type": "begin"})

    def read(self) -> Readings:
        """The readings since `begin`.

        Raises:
            NotMeasured: no virtual time has passed since.
            PlantGone: the simulator has ended.
        """
        answer = self._link.ask({"type": "read"})
        readings = {str(name): float(value) for name, value in answer["readings"].items()}
        if not readings:
            raise NotMeasured("no virtual time has passed since the window began")
        return readings
