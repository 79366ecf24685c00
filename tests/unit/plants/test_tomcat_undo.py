"""The script that undoes settings of a Tomcat, and the Java program in it: what they say, and what is no question."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests._own_name import HOSTILE, name
from tests.unit.plants.test_tomcat_change import of_this_process
from trimtab.errors import UsageError
from trimtab.plants.tomcat import java, undo
from trimtab.plants.tomcat.journal import Entry, Paused

__all__ = ["name"]

HARNESS = """
final class Harness {
    public static void main(String[] words) throws Exception {
        Method answer = Jmx.class.getDeclaredMethod("answerAll", MBeanServerConnection.class, PrintStream.class);
        answer.setAccessible(true);
        answer.invoke(null, ManagementFactory.getPlatformMBeanServer(), System.out);
    }
}

final class Jmx {"""
"""A program that answers by the MBeans of its own JVM."""


def undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, attribute: str = "maxThreads"
) -> subprocess.CompletedProcess[str]:
    """The script's end where its Java does this, for an attribute that was set."""
    answers = tmp_path / "java"
    answers.write_text(f"#!/bin/sh\ncat > {tmp_path}/asked\n{program}\n")
    answers.chmod(0o755)
    monkeypatch.setattr(undo, "java", lambda process: str(answers))
    monkeypatch.setattr(undo, "identity", lambda process: [])
    paused = Paused("a:type=Connector", "a:type=ThreadPool", 8192, 100)
    script = undo.script(of_this_process(), [Entry("a:type=bean", attribute, 200, (50,))], [paused])
    return subprocess.run(["sh"], input=script, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("""echo '{"error":"no such process"}'; exit 1""", '{"error":"no such process"}'),
        ("exit 1", "the program gave no answer"),
        ("""echo '{"id":1,"error":"no such attribute"}'""", '{"id":1,"error":"no such attribute"}'),
    ],
    ids=["it fails", "it fails without a word", "the server refuses"],
)
def test_where_it_fails_the_script_says_what_its_program_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, said: str
) -> None:
    ended = undone(tmp_path, monkeypatch, program)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", f"{said}\n")


def test_it_has_a_paused_connector_serve_and_asks_for_the_values_from_before_and_says_when_that_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = undone(tmp_path, monkeypatch, """echo '{"ready":true}'; echo '{"id":1,"is":true}'""")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "undone\n", "")
    assert (tmp_path / "asked").read_text().splitlines() == [
        "undo\t1\ta:type=ThreadPool\tmaxConnections\t-1\t0",
        "undo\t1\ta:type=ThreadPool\tmaxConnections\t8192\t-1",
        "undo\t1\ta:type=ThreadPool\tmaxKeepAliveRequests\t100\t1",
        "call\t1\ta:type=Connector\tresume\ta:type=Connector\tstart",
        "undo\t1\ta:type=bean\tmaxThreads\t200\t50",
    ]


def test_it_says_that_a_socket_keeps_its_accept_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = undone(tmp_path, monkeypatch, """echo '{"ready":true}'; echo '{"id":1,"is":true}'""", "acceptCount")
    assert ended.stdout == "undone; the accept queue is as long as before once Tomcat is restarted\n"


@pytest.mark.parametrize("called", HOSTILE, ids=repr)
def test_a_tomcat_is_known_by_its_start_whatever_it_calls_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: Path, called: bytes
) -> None:
    name.write_bytes(called)
    assert undone(tmp_path, monkeypatch, """echo '{"ready":true}'; echo '{"id":1,"is":true}'""").stdout == "undone\n"


def test_a_jvm_that_was_told_to_let_nobody_attach_is_not_signalled(tmp_path: Path) -> None:
    """It would answer each signal with a dump of its threads; the process here would be ended."""
    program = tmp_path / "Jmx.java"
    program.write_text(java.source())
    deaf = ["sh", "-c", "read end; exit 7", "java", "-XX:+DisableAttachMechanism"]
    with subprocess.Popen(deaf, stdin=subprocess.PIPE) as process:
        ended = subprocess.run(
            ["nice", "-n", "19", java.java(of_this_process()), *java.OPTIONS, program, str(process.pid)],
            capture_output=True,
            check=False,
            timeout=300,
            stdin=subprocess.DEVNULL,
        )
        process.communicate(b"end\n")
        assert b"Java was started with -XX:+DisableAttachMechanism" in ended.stdout, ended.stderr
        assert process.wait() == 7, "it was ended"


def test_a_jvm_that_answers_the_signal_with_a_dump_is_not_attached_to(tmp_path: Path) -> None:
    library = tmp_path / "libj9vm29.so"
    library.write_bytes(b"x" * mmap.PAGESIZE)
    before = signal.signal(signal.SIGQUIT, lambda *_: None)
    try:
        of_this_process().attachable()
        with (
            library.open("r+b") as file,
            mmap.mmap(file.fileno(), 0),
            pytest.raises(UsageError, match="runs on OpenJ9"),
        ):
            of_this_process().attachable()
    finally:
        signal.signal(signal.SIGQUIT, before)


def answered(tmp_path: Path, asked: str) -> list[str]:
    """The program's replies by the MBeans of its own JVM."""
    program = tmp_path / "Harness.java"
    program.write_text(java.source().replace("\nfinal class Jmx {", HARNESS, 1))
    ended = subprocess.run(
        ["nice", "-n", "19", java.java(of_this_process()), *java.OPTIONS, program],
        input=asked.encode(),
        capture_output=True,
        check=False,
        timeout=300,
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.decode().splitlines()


def test_a_question_that_is_cut_at_the_end_of_the_input_is_none(tmp_path: Path) -> None:
    """Whoever asks may be killed in mid-word: of 'maxThreads 200' the server would be told 20."""
    question = "names\t{}\tjava.lang:type=Runtime"
    asked = f"{question.format(1)}\n{question.format(2)}\n{question.format(3)}"
    assert answered(tmp_path, asked) == [f'{{"id":{number},"is":["java.lang:type=Runtime"]}}' for number in (1, 2)]


def test_what_somebody_else_has_set_since_outlives_the_script_too(tmp_path: Path) -> None:
    spot = "java.lang:type=MemoryPool,name=Metaspace\tUsageThreshold"
    asked = (f"set\t1\t{spot}\t300", f"undo\t2\t{spot}\t100\t200", f"read\t3\t{spot}")
    ours = (f"undo\t4\t{spot}\t100\t200\t300", f"read\t5\t{spot}")
    replies = answered(tmp_path, "".join(f"{line}\n" for line in (*asked, *ours)))
    assert [replies[2], replies[4]] == ['{"id":3,"is":[[300]]}', '{"id":5,"is":[[100]]}']
