"""The conversation with a program that another user may have taken over: it floods, never reads, or answers late."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trimtab.clock import SystemClock
from trimtab.core import Clock
from trimtab.errors import NotMeasured, UsageError
from trimtab.plants.tomcat import jmx as module
from trimtab.plants.tomcat.java import ENVIRONMENT
from trimtab.plants.tomcat.jmx import Jmx
from trimtab.plants.tomcat.process import TomcatProcess
from trimtab.processes import start_of

PATIENCE_S = 60.0
READY = """echo '{"ready":true}'; """
FLOOD = """exec yes '{"id":700,"is":[]}'"""
BEAN = {"a:type=bean": ("one",)}
LARGE = {"x" * 200_000: ("one",)}
"""More than a pipe holds."""
Talk = Callable[..., Jmx]


class Looks:
    """Time that passes by a second with each look at it; it is not looked at for ever."""

    def __init__(self) -> None:
        self.time_s = 0.0

    def now_s(self) -> float:
        self.time_s += 1.0
        assert self.time_s < 200, "the deadline is not kept"
        return self.time_s

    def sleep(self, duration_s: float) -> None:
        raise AssertionError("nothing sleeps here")


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Talk]:
    """A conversation with a shell's script in place of the program."""
    started_ticks = start_of(os.getpid())
    assert started_ticks is not None
    process = TomcatProcess(os.getpid(), started_ticks, Path("/usr/bin/java"), (), os.geteuid())
    clients: list[subprocess.Popen[bytes]] = []

    def talked(script: str, *words: object, clock: Clock | None = None) -> Jmx:
        def start(self: Jmx) -> subprocess.Popen[bytes]:
            command, pipe = ["sh", "-c", script, *map(str, words)], subprocess.PIPE
            clients.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0, start_new_session=True))
            return clients[-1]

        monkeypatch.setattr(Jmx, "_start", start)
        return Jmx(process, clock or Looks())

    monkeypatch.setattr(TomcatProcess, "attachable", lambda self: None)
    yield talked
    for client in clients:
        with client, contextlib.suppress(ProcessLookupError):
            os.killpg(client.pid, signal.SIGKILL)


def test_a_flood_of_replies_that_nobody_asked_for_is_no_answer_and_is_not_kept(talk: Talk) -> None:
    jmx = talk(READY + FLOOD)
    with pytest.raises(NotMeasured, match="did not answer within 10 s"):
        jmx.read(BEAN)
    assert jmx._replies == {}
    assert jmx.arrived(jmx.ask_for(BEAN)) is None


def test_a_flood_before_it_has_connected_is_no_connection(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Jmx, "close", lambda self: self._client.kill())
    with pytest.raises(UsageError, match="cannot be attached to: it does not answer"):
        talk(FLOOD)


def test_a_java_that_cannot_run_the_program_is_said_and_what_it_must_be(talk: Talk) -> None:
    with pytest.raises(UsageError, match=r"our program did not run: Java must be of version 11 .*jdk\.compiler"):
        talk("exit 1")


def test_an_answer_that_is_there_has_arrived_though_the_time_has_passed(talk: Talk) -> None:
    jmx = talk(READY + """read question; echo '{"id":1,"is":[[5]]}'; read end""")
    number = jmx.ask_for(BEAN)
    assert jmx._client.stdout is not None
    select.select([jmx._client.stdout], [], [], PATIENCE_S)
    assert jmx.arrived(number) == [[5]]


def test_an_answer_that_comes_when_nobody_waits_for_it_any_more_is_not_kept(talk: Talk) -> None:
    answers = """read first; read second; echo '{"id":1,"is":[[5]]}'; echo '{"id":2,"is":[[6]]}'; read end"""
    jmx = talk(READY + answers)
    with pytest.raises(NotMeasured, match="did not answer within 0 s"):
        jmx.read(BEAN, 0.0)
    assert jmx.read(BEAN, PATIENCE_S) == [{"one": 6}]
    assert jmx._replies == {}


def test_nonsense_leaves_no_question_open(talk: Talk) -> None:
    jmx = talk(READY + "read question; echo nonsense; read end")
    with pytest.raises(NotMeasured, match="is not one"):
        jmx.read(BEAN, PATIENCE_S)
    assert jmx._replies == {}


def test_a_program_that_never_reads_is_no_answer_and_what_is_kept_for_it_has_an_end(talk: Talk) -> None:
    jmx = talk(READY + "exec sleep 600")
    for beans in (LARGE, BEAN):
        with pytest.raises(NotMeasured, match="did not answer within 0 s"):
            jmx.read(beans, 0.0)

    def ask_often() -> None:
        for _ in range(20):
            jmx.ask_for(LARGE)

    with pytest.raises(NotMeasured, match="takes no more questions"):
        ask_often()
    assert len(jmx._unsent) < 2 << 20


def test_all_questions_of_a_first_look_have_one_deadline(talk: Talk) -> None:
    jmx = talk(READY + FLOOD)
    began_s = jmx._clock.now_s()
    with jmx.within(20.0):
        for _ in range(8):
            with pytest.raises(NotMeasured, match="did not answer"):
                jmx.read(BEAN)
    assert jmx._clock.now_s() - began_s < 60
    with pytest.raises(NotMeasured, match="within 10 s"):
        jmx.read(BEAN)


@pytest.mark.parametrize("resumed", [True, False])
def test_a_program_that_has_paused_a_connector_is_left_to_resume_it(
    talk: Talk, monkeypatch: pytest.MonkeyPatch, resumed: bool
) -> None:
    """The server may be so slow that our patience ends; the program resumes what it has paused, and ends then."""
    monkeypatch.setattr(module, "PATIENCE_S", 0.1)
    answers = """read pause; echo '{"id":1,"is":true}'; read resume; echo '{"id":2,"is":true}'; exec sleep 600"""
    jmx = talk(READY + answers)
    jmx.pause("a:type=Connector", "a:type=ThreadPool", 8192, 100)
    if resumed:
        jmx.call(("a:type=Connector", "resume"))
    jmx.close()
    assert (jmx._client.poll() is None) == (not resumed)


def test_a_program_that_was_killed_is_started_anew(talk: Talk) -> None:
    jmx = talk(READY + "read question")
    assert not jmx.revived()
    jmx._client.kill()
    jmx._client.wait()
    assert jmx.revived()
    jmx.close()


def test_a_program_that_reads_again_is_told_every_question_whole_and_in_order(talk: Talk, tmp_path: Path) -> None:
    hold, said = tmp_path / "hold", tmp_path / "said"
    os.mkfifo(hold)
    script = READY + """cat "$0"; head -n 3 > "$1"; echo '{"id":3,"is":[]}'; read end"""
    jmx = talk(script, hold, said, clock=SystemClock())
    for beans in (LARGE, BEAN):
        with pytest.raises(NotMeasured):
            jmx.read(beans, 0.0)
    last = jmx.ask_for(BEAN)
    hold.write_bytes(b"")
    assert jmx.wait(last, PATIENCE_S) == []
    asked = [(number, *beans) for number, beans in enumerate((LARGE, BEAN, BEAN), 1)]
    assert said.read_text() == "".join(f"read\t{number}\t{bean}\tone\n" for number, bean in asked)


def test_the_program_ends_with_its_input_and_with_no_signal_to_all_of_us_whatever_env_there_is() -> None:
    """Coreutils before 8.31 cannot have signals ignored: no Tomcat could be attached to beside them."""
    assert not any(word.startswith("--") for word in module._DEAF)
    kills = 'for name in TERM HUP INT; do kill -$name $$; done; echo "$1"'
    command = [*module._DEAF, "/bin/sh", "-c", kills, "sh", "alive"]
    said = subprocess.run(command, env=ENVIRONMENT, capture_output=True, check=True, text=True)
    assert said.stdout == "alive\n"
