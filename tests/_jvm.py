"""A Tomcat's JVM in memory, and trimtab attached to it: no Java, no server, no waiting."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests._memory_plant import FakeClock
from trimtab import own
from trimtab.errors import NotMeasured
from trimtab.plants.tomcat import attached
from trimtab.plants.tomcat.attached import Attached
from trimtab.plants.tomcat.jmx import Refused
from trimtab.plants.tomcat.plant import Tomcat
from trimtab.plants.tomcat.process import TomcatProcess
from trimtab.processes import start_of

CONNECTOR = "Catalina:type=Connector,port=8080"
ENDPOINT = 'Catalina:type=ThreadPool,name="http-nio-8080"'
SOCKETS = 'Catalina:type=SocketProperties,name="http-nio-8080"'
POOL = 'tomcat.jdbc:type=ConnectionPool,name="jdbc/shop"'
HEAP = "java.lang:type=Memory"


class Killed(BaseException):
    """What becomes of trimtab at the point at which it is killed: nothing of it is done any more."""


class Jvm:
    """What the server is: its MBeans, and whether a request would be answered.

    Attributes:
        beans: MBean to its attributes.
        paused: whether its connector is.
        running: whether its connector is.
        parked: whether the thread that takes connections waits at a limit; it goes on only where that is taken away.
        silent: whether it answers nothing; what it is asked meanwhile it does when it answers again.
        late: what it has still to do.
        asked: how many questions there were.
    """

    def __init__(self) -> None:
        self.paused = self.parked = self.silent = False
        self.running = True
        self.late: list[Callable[[], None]] = []
        self.asked = 0
        self.beans: dict[str, dict[str, int | str]] = {
            CONNECTOR: {"localPort": 8080, "protocol": "HTTP/1.1", "executorName": "Internal"},
            ENDPOINT: {
                "localPort": 8080,
                "maxThreads": 200,
                "minSpareThreads": 10,
                "maxConnections": 8192,
                "keepAliveTimeout": 20_000,
                "acceptCount": 100,
                "maxKeepAliveRequests": 100,
                "bindOnInit": 1,
                "connectionCount": 3,
                "currentThreadsBusy": 0,
                "currentThreadCount": 10,
            },
            SOCKETS: {"appReadBufSize": 8192, "appWriteBufSize": 8192, "bufferPool": 0, "bufferPoolSize": -2},
            POOL: {"MaxActive": 100, "MinIdle": 10, "MaxIdle": 100, "MaxWait": 30_000, "Size": 0},
            HEAP: {"HeapMemoryUsage.max": 1 << 30},
        }

    @property
    def limits(self) -> tuple[int | str, int | str]:
        """What a pause changes for a moment."""
        return self.beans[ENDPOINT]["maxConnections"], self.beans[ENDPOINT]["maxKeepAliveRequests"]

    def serves(self) -> bool:
        """Whether a request would be answered."""
        return self.running and not self.paused and not self.parked

    def set(self, bean: str, attribute: str, value: int) -> None:
        """Sets an attribute."""
        if bean not in self.beans:
            raise Refused(f"javax.management.InstanceNotFoundException: {bean}")
        self.beans[bean][attribute] = value
        if attribute == "maxConnections":
            self.parked = value == 0 or (self.parked and value != -1)

    def call(self, bean: str, operation: str) -> None:
        """Calls an operation."""
        if bean not in self.beans:
            raise Refused(f"javax.management.InstanceNotFoundException: {bean}")
        match operation:
            case "pause" | "resume":
                self.paused = operation == "pause"
            case "stop" | "start":
                endpoint = self.beans[ENDPOINT]
                if not endpoint["bindOnInit"]:
                    if operation == "start" and endpoint["localPort"] != -1:
                        raise Refused("org.apache.catalina.LifecycleException: Address already in use")
                    endpoint["localPort"] = 8080 if operation == "start" else -1
                self.running, self.paused = operation == "start", False
            case "bind" | "unbind":
                self.beans[ENDPOINT]["localPort"] = 8080 if operation == "bind" else -1


class Program:
    """The Java program and the conversation with it.

    Attributes:
        jvm: the server.
        died: whether the program was killed.
        killed: whether trimtab was, too.
        on: called with the words of each question.
    """

    def __init__(self, jvm: Jvm) -> None:
        self.jvm = jvm
        self.died = self.killed = False
        self.on: Callable[..., None] = lambda *words: None

    def _ask(self, *words: str, done: Callable[[], None] = lambda: None) -> None:
        if self.killed:
            raise Killed
        self.jvm.asked += 1
        self.on(*words)
        if self.died:
            raise NotMeasured("the conversation has ended")
        self.jvm.late.append(done)
        if self.jvm.silent:
            raise NotMeasured("Tomcat did not answer within 10 s")
        while self.jvm.late:
            self.jvm.late.pop(0)()

    def names(self, *patterns: str) -> list[str]:
        self._ask("names", *patterns)
        return [bean for bean in self.jvm.beans for pattern in patterns if _fits(bean, pattern)]

    def read(self, beans: Mapping[str, Iterable[str]], patience_s: float = 0.0) -> list[Any]:
        self._ask("read", *(word for bean, attributes in beans.items() for word in (bean, *attributes)))
        there = self.jvm.beans
        return [
            {a: there[one].get(a) for a in attributes} if one in there else None for one, attributes in beans.items()
        ]

    def set(self, bean: str, attribute: str, value: int) -> None:
        self._ask("set", bean, attribute, str(value), done=lambda: self.jvm.set(bean, attribute, value))

    def call(self, *calls: tuple[str, str]) -> None:
        for call in calls:
            self._ask("call", *call, done=functools.partial(self.jvm.call, *call))

    def pause(self, connector: str, endpoint: str, *limits: int) -> None:
        limit, requests = map(int, self.jvm.limits)
        for attribute, value in (("maxConnections", 0), ("maxKeepAliveRequests", 1)):
            self.jvm.set(endpoint, attribute, value)
        self._ask("pause", connector)
        self.jvm.call(connector, "pause")
        ends = ("maxConnections", -1), ("maxConnections", limit), ("maxKeepAliveRequests", requests)
        for attribute, value in ends:
            self.jvm.set(endpoint, attribute, value)

    def within(self, duration_s: float) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def empty(self, pool: str) -> None:
        self._ask("empty", pool)

    def revived(self) -> bool:
        died, self.died = self.died, False
        return died

    def close(self) -> None:
        pass


def _fits(bean: str, pattern: str) -> bool:
    """Whether an MBean's name fits a pattern."""
    domain, _, wanted = pattern.partition(":")
    there = bean.partition(":")[2].split(",")
    words = [word for word in wanted.split(",") if "*" not in word]
    return domain in ("*", bean.partition(":")[0]) and all(word in there for word in words)


class Bench:
    """A server, and any number of trimtabs that attach to it one after the other."""

    def __init__(self, patch: pytest.MonkeyPatch, directory: Path) -> None:
        self.jvm = Jvm()
        self.clock = FakeClock()
        self.programs: list[Program] = []
        patch.setattr(attached, "Jmx", self._program)
        patch.setattr(own, "transient", lambda name: directory / name)

    def attach(self, restart: bool = False) -> Tomcat:
        """trimtab, attached."""
        started = start_of(os.getpid())
        assert started is not None
        process = TomcatProcess(os.getpid(), started, Path("/usr/bin/java"), (), os.geteuid())
        return Tomcat(self.clock, Attached(process, self.clock, restart))

    def kill_at(self, *point: str) -> None:
        """Kills the latest trimtab and its program once this is asked of the server."""
        program = self.programs[-1]

        def on(*words: str) -> None:
            if words[: len(point)] == point:
                program.killed = True
                raise Killed

        program.on = on

    def _program(self, *words: object) -> Program:
        self.programs.append(Program(self.jvm))
        return self.programs[-1]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    """A server in memory."""
    return Bench(monkeypatch, tmp_path)
