"""The conversation with a running gate over its control socket: one line of JSON for each order and each answer.

A gate that dies is started anew within a moment, by its guardian or by `trimtab run`, and then has another socket. So
an order whose conversation breaks is given again on a new one until the patience ends; every order says what is to
be, not by how much to change it, so that giving it twice does no harm.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any, TypeVar

from trimtab import codec
from trimtab.core.sensor import Clock
from trimtab.errors import ApplyRefused, PlantGone, UsageError
from trimtab.gate.answers import Counters, Refused, State
from trimtab.gate.run_directory import RunDirectory

PATIENCE_S = 5.0
_AGAIN_S = 0.05
_LONGEST_ANSWER_BYTES = 1 << 24
_Answer = State | Counters | Refused
T = TypeVar("T", State, Counters)


class Link:
    """A conversation with the gate of one run.

    Args:
        run_dir: its run directory.
        clock: for the waits.
        patience_s: how long to wait for an answer, in seconds, new attempts included.
    """

    def __init__(self, run_dir: RunDirectory, clock: Clock, patience_s: float = PATIENCE_S) -> None:
        self._run_dir = run_dir
        self._clock = clock
        self._patience_s = patience_s
        self._socket: socket.socket | None = None
        self._rest = b""
        self._lease: dict[str, Any] | None = None

    def apply(self, changes: Mapping[str, int]) -> State:
        """Brings changes into force at one instant; no changes only ask for the present state.

        Raises:
            ApplyRefused: the gate refused them; nothing changed.
            PlantGone: it does not answer.
        """
        return self._expected(self._ask({"type": "apply", "changes": dict(changes)}), State)

    def lease(self, timeout_s: float | None = None) -> State:
        """Says that a controller is in charge as long as orders come over this link.

        Args:
            timeout_s: how long without one, in seconds; None for what the gate was started with.

        Raises:
            ApplyRefused: the gate refused.
            PlantGone: it does not answer.
        """
        order: dict[str, Any] = {"type": "lease"} if timeout_s is None else {"type": "lease", "timeout_s": timeout_s}
        state = self._expected(self._ask(order), State)
        self._lease = order
        return state

    def end_lease(self) -> State:
        """Says that the controller ends: the budgets stay as they are.

        Raises:
            PlantGone: it does not answer.
        """
        self._lease = None
        return self._expected(self._ask({"type": "end_lease"}), State)

    def readings(self) -> Counters:
        """The gate's counters so far, as it sends them.

        Raises:
            PlantGone: it does not answer.
        """
        return self._expected(self._ask({"type": "read"}), Counters)

    def stop(self) -> None:
        """Ends the gate; the server's workers then accept for themselves.

        Raises:
            PlantGone: it does not answer.
        """
        self._ask({"type": "stop"})

    def close(self) -> None:
        """Closes the connection, so that a lease runs out; may be called twice."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._rest = b""

    def _ask(self, order: Mapping[str, Any]) -> _Answer:
        """The answer to an order."""
        deadline = self._clock.now_s() + self._patience_s
        while True:
            try:
                if self._socket is None:
                    self._connect(deadline)
                    if self._lease is not None:
                        self._exchange(self._lease, deadline)
                return self._exchange(order, deadline)
            except PermissionError:
                self.close()
                raise UsageError(f"no permission to give orders at {self._run_dir.control}: run as root") from None
            except (OSError, EOFError) as error:
                self.close()
                if self._clock.now_s() + _AGAIN_S >= deadline:
                    why = "it does not answer" if isinstance(error, TimeoutError) else str(error)
                    name = self._run_dir.name
                    raise PlantGone(f"no gate for the run {name!r} within {self._patience_s:g} s: {why}") from None
            self._clock.sleep(_AGAIN_S)

    def _connect(self, deadline: float) -> None:
        control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            control.settimeout(max(_AGAIN_S, deadline - self._clock.now_s()))
            control.connect(os.fspath(self._run_dir.control))
        except BaseException:
            control.close()
            raise
        self._socket = control

    def _exchange(self, order: Mapping[str, Any], deadline: float) -> _Answer:
        """Sends one line and reads one.

        Raises:
            OSError: the conversation broke, or no answer came in time.
            EOFError: the gate ended it.
            ApplyRefused: it refused.
            PlantGone: what came is not its protocol.
        """
        assert self._socket is not None
        self._socket.settimeout(max(_AGAIN_S, deadline - self._clock.now_s()))
        self._socket.sendall(codec.encode(order).encode() + b"\n")
        while b"\n" not in self._rest:
            self._socket.settimeout(max(_AGAIN_S, deadline - self._clock.now_s()))
            part = self._socket.recv(1 << 16)
            if not part:
                raise EOFError("it ended the conversation")
            self._rest += part
            if len(self._rest) > _LONGEST_ANSWER_BYTES:
                raise self._nonsense("an answer without an end")
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            answer: _Answer = codec.decode(line, _Answer)  # type: ignore[arg-type]
        except ValueError as error:
            raise self._nonsense(f"{line[:80]!r} ({str(error)[:200]!r})") from None
        if isinstance(answer, Refused):
            raise ApplyRefused(f"the gate refused: {answer.message}")
        return answer

    def _expected(self, answer: _Answer, kind: type[T]) -> T:
        """The answer, if it is one to the order that was given."""
        if not isinstance(answer, kind):
            raise self._nonsense(f"an answer of type {type(answer).__name__}, expected was {kind.__name__}")
        return answer

    def _nonsense(self, what: str) -> PlantGone:
        self.close()
        return PlantGone(f"{self._run_dir.control} is not the control socket of a gate: it sent {what}")
