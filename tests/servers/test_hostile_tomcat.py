"""What is asked of another user's JVM is asked with his rights, and whatever he answers, root does nothing for it.

trimtab runs as root here, and the stranger as uid 65534.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests._stranger import AS_STRANGER, STRANGER
from tests.servers._private_tomcat import SHIPPED, Bed, private
from tests.servers._under_gate import catches, until
from trimtab.clock import SystemClock
from trimtab.errors import NotMeasured, UsageError
from trimtab.plants.tomcat import java, probe, process
from trimtab.plants.tomcat import jmx as module
from trimtab.plants.tomcat.jmx import Jmx
from trimtab.plants.tomcat.journal import Journal
from trimtab.plants.tomcat.plant import Tomcat
from trimtab.processes import children, program_of, start_of

pytestmark = [pytest.mark.server, pytest.mark.root]

PATIENCE_S = 60.0


@contextmanager
def pretending(place: Path) -> Iterator[int]:
    """A stranger's process that is called java and has a file open that is called as Tomcat's library is."""
    program, library = place / "java", place / "catalina.jar"
    shutil.copy("/bin/bash", program)
    library.touch()
    started = subprocess.Popen(
        [*AS_STRANGER, program, "-c", f'exec 3< "{library}"; read wait'],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while started.pid not in {one.pid for one in process.TomcatProcess.running()}:
            assert started.poll() is None and time.monotonic() < deadline, "it did not start"
            time.sleep(0.02)
        yield started.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.communicate()


@pytest.mark.alone  # the doctor looks at all servers of the machine
def test_a_process_that_only_looks_like_tomcat_is_neither_signalled_nor_waited_for(open_path: Path) -> None:
    with pretending(open_path) as pid:
        with pytest.raises(UsageError, match="does not catch SIGQUIT"):
            Tomcat.attach(SystemClock(), pid)
        (found,) = [one for one in probe() if one.subject == f"tomcat pid {pid}"]
        assert not found.usable
        assert pid in {one.pid for one in process.TomcatProcess.running()}, "it was ended"


CONTAINER = """
mount -t tmpfs tmpfs "$1" && cd "$1" && mkdir -p usr proc etc/alternatives old
ln -s usr/bin usr/lib usr/lib64 . && mount --bind /usr usr && mount --rbind /proc proc
touch catalina.jar && cp /bin/bash java
printf '#!/bin/sh\\n/usr/bin/id -u > /ran\\n' > etc/alternatives/java && chmod 755 etc/alternatives/java
pivot_root . old && cd / && umount -l /old
exec env --default-signal=QUIT setpriv $2 /java -c 'trap : QUIT; exec 3< /catalina.jar; read wait'
"""
"""A root directory that somebody has filled as he likes, in which what looks like a Tomcat runs."""


@pytest.mark.parametrize("user", ["--bounding-set=-all", " ".join(AS_STRANGER[1:-1])])
def test_nothing_of_a_containers_is_run_where_it_shares_our_processes(tmp_path: Path, user: str) -> None:
    """It would run without what confines the container, and be another program than the one here of that name."""
    inside = ["unshare", "--mount", "sh", "-ec", CONTAINER, "sh", str(tmp_path), user]
    started = subprocess.Popen(inside, stdin=subprocess.PIPE, start_new_session=True)
    try:
        until(lambda: started.pid in {one.pid for one in process.TomcatProcess.running()}, "it did not start")
        until(lambda: catches(started.pid, signal.SIGQUIT), "it does not catch SIGQUIT")
        with pytest.raises(UsageError, match="has another root directory, as in a container: run trimtab in there"):
            Tomcat.attach(SystemClock(), started.pid)
        assert not Path(f"/proc/{started.pid}/root", "ran").exists()
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.communicate()


def test_a_jvm_in_another_network_is_not_asked_at_our_own_address() -> None:
    with subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE) as started:
        until(lambda: (program_of(started.pid) or Path()).name == "cat", "it did not start")
        ticks = start_of(started.pid)
        assert ticks is not None
        apart = process.TomcatProcess(started.pid, ticks, Path("/usr/bin/java"), (), 0)
        with pytest.raises(UsageError, match=rf"another network .*nsenter --net=/proc/{started.pid}/ns/net"):
            module.identity(apart)
        started.communicate()


@pytest.fixture(scope="module")
def service() -> Iterator[Bed]:
    """A server with a capability and a /tmp of its own, as Debian's service has."""
    with contextlib.ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tempfile, "tempdir", "/var/tmp")
            bed = stack.enter_context(private(jdbc=None, service=True))
        yield bed


def test_the_program_that_asks_has_the_rights_of_the_server_and_no_more(service: Bed) -> None:
    with contextlib.closing(service.attach()) as tomcat:
        (client,) = [pid for pid in children(os.getpid()) if b"Jmx" in argv(pid) or b"/dev/fd/" in argv(pid)]
        for field in ("Uid", "Gid", "Groups"):
            assert status(client, field) == status(service.testbed.pid, field), field
        for field in ("CapPrm", "CapEff", "CapInh", "CapAmb"):
            assert int(status(client, field), 16) == 0, field
        assert int(status(service.testbed.pid, "CapPrm"), 16) == 1 << 10
        assert status(client, "Groups") == ""
        assert tomcat.apply({"max_threads": 100}).configuration == {**SHIPPED, "max_threads": 100}
        tomcat.restore()


def test_the_undo_script_reaches_a_server_that_does_not_see_our_files(service: Bed) -> None:
    with contextlib.closing(service.attach()) as tomcat:
        tomcat.apply({"max_threads": 100})
    with contextlib.closing(service.attach()) as tomcat:
        script, environment = tomcat.undo_script(), {**os.environ, "TMPDIR": "/tmp"}
        ended = subprocess.run(["sh", "-c", script], check=False, capture_output=True, text=True, env=environment)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "undone\n", "")
        assert tomcat.configuration() == SHIPPED
        tomcat.undo_leftover()
        assert tomcat.leftover() == ""


def test_the_program_is_compiled_once_and_nothing_beside_it_is_a_part_of_it(
    service: Bed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A compiler takes classes from where it was started, before Java's own, and has processors there run."""
    (tmp_path / "String.java").write_text("final class String {}")
    processors = tmp_path / "META-INF" / "services" / "javax.annotation.processing.Processor"
    processors.parent.mkdir(parents=True)
    processors.write_text("Stranger")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLASSPATH", str(tmp_path))
    java.compiled.cache_clear()
    service.attach().close()
    monkeypatch.setattr(java, "source", lambda: "not Java")
    with contextlib.closing(service.attach()) as tomcat:
        assert tomcat.configuration() == SHIPPED


def argv(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def status(pid: int, field: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith(f"{field}:"))


def test_an_ordinary_user_is_told_in_one_line_what_is_needed() -> None:
    code = f"from trimtab.plants.tomcat.plant import Tomcat; Tomcat.attach(None, {os.getpid()})"
    told = subprocess.run([*AS_STRANGER, sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "run as root or as its user" in told.stderr.splitlines()[-1], told.stderr


def test_a_journal_that_somebody_else_could_have_written_is_not_believed(tmp_path: Path) -> None:
    server = process.TomcatProcess(os.getpid(), 1, Path("/usr/bin/java"), (), 0)
    journal = Journal(server, tmp_path)
    journal.about_to({("a:type=bean", "maxThreads"): (200, 100)})
    (path,) = tmp_path.iterdir()
    os.chown(path, STRANGER, -1)
    with pytest.raises(UsageError, match=f"{path} belongs to uid {STRANGER}"):
        journal.entries()


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense\n",
        b'{"id": 1, "is": 7}\n',
        b'{"id": "x"}\n',
        b'{"id":1,"is":[[1e999]]}\n',
        b"[" * 100_000 + b"\n",
        b"",
    ],
)
def test_an_answer_that_is_none_is_not_believed(
    answer: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    said.write_bytes(answer)

    def started(self: Jmx) -> subprocess.Popen[bytes]:
        answers = ["sh", "-c", 'echo \'{"ready":true}\'; read question; cat "$0"', str(said)]
        return subprocess.Popen(answers, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    monkeypatch.setattr(Jmx, "_start", started)
    monkeypatch.setattr(process.TomcatProcess, "attachable", lambda self: None)
    me = os.getpid()
    started_ticks = start_of(me)
    assert started_ticks is not None
    jmx = Jmx(process.TomcatProcess(me, started_ticks, Path("/usr/bin/java"), (), 0), SystemClock())
    with pytest.raises(NotMeasured):
        jmx.read({"a:type=bean": ("one", "two")})
    jmx.close()
