"""Which management agent of a JVM is ours: one of somebody else, or of another of us, is left as it is."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers._under_gate import PATIENCE_S
from trimtab import own
from trimtab.clock import SystemClock
from trimtab.errors import UsageError
from trimtab.plants.tomcat.java import java
from trimtab.plants.tomcat.jmx import Jmx
from trimtab.plants.tomcat.layout import HEAP
from trimtab.plants.tomcat.process import TomcatProcess
from trimtab.processes import start_of
from trimtab.testbed._private import free_ports

pytestmark = pytest.mark.server
WAITS = """class Waits {
    public static void main(String[] words) throws Exception {
        for (String version : words) System.setProperty("java.specification.version", version);
        System.out.println();
        System.in.read();
    }
}"""


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TomcatProcess]:
    """A JVM, which need not be Tomcat's for this."""
    with running(tmp_path_factory.mktemp("jvm")) as started:
        yield started


@contextlib.contextmanager
def running(directory: Path, *versions: str) -> Iterator[TomcatProcess]:
    """A JVM; it says that it is of that version where one is given."""
    source = directory / "Waits.java"
    source.write_text(WAITS)
    program = own.program("java")
    assert program is not None
    command = [program, "-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", str(source), *versions]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None and started.stdout.readline() == b"\n"
        began = start_of(started.pid)
        assert began is not None
        yield TomcatProcess(started.pid, began, Path(program), (), os.geteuid())
        started.communicate()


def asked(jvm: TomcatProcess, *words: str) -> str:
    """What the operator asks it, and its answer."""
    return subprocess.run(["jcmd", str(jvm.pid), *words], check=True, capture_output=True, text=True).stdout


def test_a_java_too_old_to_open_a_connector_is_named(tmp_path: Path) -> None:
    with running(tmp_path, "1.8") as old:
        with pytest.raises(UsageError, match="it runs on Java 8 or older"):
            Jmx(old, SystemClock())
        assert "Agent: disabled" in asked(old, "ManagementAgent.status")


def test_an_agent_that_the_operator_has_opened_stays_open(jvm: TomcatProcess) -> None:
    options = {"port": str(free_ports(1)[0]), "host": "127.0.0.1", "authenticate": "false", "ssl": "false"}
    asked(jvm, "ManagementAgent.start", *(f"jmxremote.{name}={value}" for name, value in options.items()))
    try:
        with pytest.raises(UsageError, match=f"somebody else, which 'jcmd {jvm.pid} ManagementAgent.stop' closes"):
            Jmx(jvm, SystemClock())
        assert f"jmxremote.port = {options['port']}" in asked(jvm, "ManagementAgent.status")
    finally:
        asked(jvm, "ManagementAgent.stop")
    with contextlib.closing(Jmx(jvm, SystemClock())) as ours:
        assert ours.names(HEAP) == [HEAP]


def test_two_that_come_at_once_share_the_agent_of_the_first(jvm: TomcatProcess) -> None:
    java(jvm)
    found: list[list[str]] = []
    together = threading.Barrier(3, timeout=PATIENCE_S)

    def look() -> None:
        together.wait()
        with contextlib.closing(Jmx(jvm, SystemClock())) as ours:
            together.wait()
            found.append(ours.names(HEAP))

    looking = [threading.Thread(target=look) for _ in range(together.parties)]
    for one in looking:
        one.start()
    for one in looking:
        one.join()
    assert found == [[HEAP]] * together.parties
    assert "Agent: disabled" in asked(jvm, "ManagementAgent.status")
