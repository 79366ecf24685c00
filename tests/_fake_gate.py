"""A gate of the tests' own: the control socket with a script of answers, and no connections."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

from trimtab import codec
from trimtab.gate.answers import Counters
from trimtab.gate.run_directory import RunDirectory
from trimtab.gate.spec import parse
from trimtab.sensors import _shared_file

SPEC = """
listen = [8080]
workers = 100
guarantee = "relative"
[[class]]
name = "premium"
match = [{ source = "127.0.1.0/24" }]
desired = 1
budget = 60
[[class]]
name = "basic"
desired = 3
minimum = 2
"""
START = {"max_request_workers": 100, "process_budget@premium": 60, "process_budget@basic": 40}


def counters(name: str, **values: object) -> dict[str, Any]:
    """What the gate says of one class."""
    none = dict.fromkeys(("arrivals", "dispatched", "refused", "aborted", "queue", "in_service"), 0)
    integrals = dict.fromkeys(("delay_sum_s", "queue_connection_s", "in_service_connection_s", "oldest_wait_s"), 0.0)
    return {"class": name, **none, **integrals, "delay_buckets": [], **values}


def readings(now_s: float, *classes: dict[str, Any]) -> dict[str, Any]:
    """An answer to a reading."""
    return {"type": "readings", "now_s": now_s, "mode": "budgets", "classes": list(classes)}


def read(now_s: float, *classes: dict[str, Any]) -> Counters:
    """The same as a sensor sees it."""
    return codec.convert(readings(now_s, *classes), Counters)


class FakeGate:
    """Answers orders at the control socket of a run directory; a context manager.

    Args:
        directory: where the run directory is to be.
    """

    def __init__(self, directory: Path) -> None:
        self.run_dir = RunDirectory("fake", directory)
        directory.mkdir(exist_ok=True)
        _shared_file.create(self.run_dir.shared)
        self.run_dir.write_start_line(parse(SPEC).start(directory))
        self.values = dict(START)
        self.generation = 1
        self.mode = "budgets"
        self.orders: list[dict[str, Any]] = []
        self.answers: list[Any] = []
        """Answers that go before the usual one; None breaks the conversation, bytes are sent as they are."""
        self.clipped: dict[str, int] = {}
        """Values that come out in place of those ordered."""
        self.readings = readings(1.0, counters("premium"), counters("basic"))
        self.conversations = 0
        self._open: set[socket.socket] = set()
        self._listen()

    def _listen(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.suppress(FileNotFoundError):
            self.run_dir.control.unlink()
        self._socket.bind(os.fspath(self.run_dir.control))
        self._socket.listen()
        threading.Thread(target=self._accept, args=(self._socket,), daemon=True).start()

    def die(self) -> None:
        """Ends all conversations and takes no more."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def return_anew(self) -> None:
        """Starts again from the start line, as a new gate."""
        self.values, self.generation = dict(START), self.generation + 1
        self._listen()

    def __enter__(self) -> FakeGate:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError):
            self.die()

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                talk, _ = listening.accept()
                self.conversations += 1
                self._open.add(talk)
                threading.Thread(target=self._talk, args=(talk,), daemon=True).start()

    def _talk(self, talk: socket.socket) -> None:
        with contextlib.suppress(OSError), talk, talk.makefile("rb") as lines:
            for line in lines:
                order = json.loads(line)
                self.orders.append(order)
                answer = self.answers.pop(0) if self.answers else self._answer(order)
                if answer is None:
                    talk.shutdown(socket.SHUT_RDWR)
                    return
                talk.sendall(answer if isinstance(answer, bytes) else json.dumps(answer).encode() + b"\n")
        self._open.discard(talk)

    def _answer(self, order: dict[str, Any]) -> dict[str, Any]:
        if order["type"] == "read":
            return self.readings
        if order["type"] == "lease":
            self.mode = "budgets"
        if order["type"] == "apply":
            unknown = [name for name in order["changes"] if name not in self.values]
            if unknown:
                return {"type": "refused", "message": f"there is no knob {unknown[0]}"}
            self.values |= {**order["changes"], **{k: v for k, v in self.clipped.items() if k in order["changes"]}}
        return {"type": "done", "configuration": self.values, "mode": self.mode, "generation": self.generation}
