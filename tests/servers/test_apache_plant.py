"""The plant against real Apaches of all three kinds: found, read, changed, read back, undone, and put back."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.servers._private_apache import MPMS, UNDER_WAY, Bed, private, reload, renewed
from tests.servers._tuning import command, finished
from tests.servers._under_gate import PATIENCE_S, until
from trimtab import processes
from trimtab.clock import SystemClock
from trimtab.errors import ApplyFailed, ApplyLater, ApplyRefused, OperatorEdit, PlantGone, UsageError
from trimtab.plants import _own_file
from trimtab.plants.apache import Apache, change, drain, process, snippet, status
from trimtab.plants.apache.attached import Attached
from trimtab.plants.apache.findings import findings
from trimtab.plants.apache.reload import Patience

pytestmark = [pytest.mark.server, pytest.mark.apache]


@pytest.fixture(scope="module", params=MPMS)
def shared(request: pytest.FixtureRequest) -> Iterator[Bed]:
    with private(request.param) as bed:
        yield bed


@pytest.fixture
def bed(shared: Bed) -> Iterator[Bed]:
    """One that is left as it was found."""
    yield shared
    left = shared.snippet.exists()
    for path in shared.testbed.snippet_directory.iterdir():
        path.unlink()
    apache = shared.attach()
    if left or apache.configuration()["max_request_workers"] != 8 * shared.threads:
        reload(apache.pid)
        until(lambda: running_limit(shared, 8 * shared.threads), "the limit is not as it was")
    apache.close()


def running_limit(bed: Bed, limit: int) -> bool:
    """Whether the server itself shows this limit, apart from what the plant believes."""
    board = status.scoreboard(bed.testbed.status_url, PATIENCE_S)
    assert board is not None
    return status.agrees(board, limit)


def busy(bed: Bed) -> int:
    """Connections to the pages that a worker holds, by the descriptors of the worker processes."""
    rows = Path(f"/proc/{bed.testbed.pid}/net/tcp").read_text().splitlines()[1:]
    port = f"0100007F:{bed.testbed.port:04X}"
    held = {f"socket:[{row.split()[9]}]" for row in rows if row.split()[1] == port and row.split()[3] == "01"}
    workers = process.generations(process.Parent.find(bed.testbed.pid), frozenset()).workers
    return sum(len(held & processes.descriptors(worker, "socket")) for worker in workers)


def test_it_is_found_and_read(bed: Bed) -> None:
    apache = bed.attach()
    knob = apache.knobs()[0]
    assert apache.configuration() == {"max_request_workers": 8 * bed.threads, "keep_alive_timeout_ms": 300}
    assert (knob.domain.minimum, knob.domain.maximum, knob.domain.step) == (
        bed.threads,
        16 * bed.threads,
        bed.threads,
    )
    assert ("127.0.0.1", bed.testbed.port) in apache.listeners
    apache.check_permissions()


def test_a_change_is_in_force_in_the_running_server_and_restore_undoes_it(bed: Bed) -> None:
    apache, limit = bed.attach(), 5 * bed.threads
    before = apache.configuration()
    applied = apache.apply({"max_request_workers": limit, "keep_alive_timeout_ms": 450})
    assert applied.configuration == {"max_request_workers": limit, "keep_alive_timeout_ms": 450}
    assert apache.configuration() == applied.configuration
    derived = apache.derive({})
    assert derived.keys() >= {"standstill_s", "standstill_wait_s"}
    assert apache._server.held_s == derived["standstill_s"]
    assert running_limit(bed, limit)
    if bed.threads == 1:
        # With threads a process of before the reload may stay beside the new ones, and its threads fill places
        # beyond the limit for as long as it likes (seen for more than a minute on the event MPM, beside other tests).
        until(lambda: not running_limit(bed, limit + bed.threads), "places beyond the limit stay in use")
    apache.restore()
    assert apache.configuration() == before
    assert running_limit(bed, 8 * bed.threads)
    assert not bed.snippet.exists()
    apache.restore()


def test_a_second_change_keeps_the_first_and_a_new_one_follows_a_restore(bed: Bed) -> None:
    apache = bed.attach()
    apache.apply({"max_request_workers": 4 * bed.threads})
    both = apache.apply({"keep_alive_timeout_ms": 700}).configuration
    assert both == {"max_request_workers": 4 * bed.threads, "keep_alive_timeout_ms": 700}
    apache.restore()
    apache.apply({"max_request_workers": 6 * bed.threads})
    assert running_limit(bed, 6 * bed.threads)
    apache.restore()
    assert apache.configuration()["max_request_workers"] == 8 * bed.threads


def test_what_an_earlier_run_has_kept_stays_beside_what_a_later_one_changes(bed: Bed) -> None:
    kept = 4 * bed.threads
    bed.attach().apply({"max_request_workers": kept})
    later = bed.attach()
    assert later.apply({"keep_alive_timeout_ms": 700}).configuration["max_request_workers"] == kept
    assert running_limit(bed, kept)
    later.restore()
    assert later.configuration()["max_request_workers"] == kept


def test_every_place_can_be_used_again_after_the_limit_was_lower(bed: Bed) -> None:
    apache = bed.attach()
    for count in (3, 1, 10):
        apache.apply({"max_request_workers": count * bed.threads})
    wanted = 10 * bed.threads
    with ExitStack() as clients:
        for _ in range(wanted):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", bed.testbed.port)))
            client.sendall(UNDER_WAY)
        # Apache itself adds one process a second in the first ten seconds after a reload.
        until(lambda: busy(bed) >= wanted, f"not all of {wanted} places were used")
        assert busy(bed) == wanted
    apache.restore()


def test_no_place_is_lost_where_more_workers_are_to_be_spare_than_the_smaller_limit_allows() -> None:
    """At a reload's signal prefork starts what is missing of its spare ones, in the slots that are free."""
    with private("prefork") as bed:
        operators = bed.testbed.snippet_directory / "operators.conf"
        operators.write_text("MinSpareServers 8\nMaxSpareServers 12\nMaxRequestWorkers 16\n")
        reload(bed.testbed.pid)
        until(lambda: len(process.generations(process.Parent.find(bed.testbed.pid), frozenset()).workers) >= 8, "few")
        apache = bed.attach()
        for count in (2, 12):
            apache.apply({"max_request_workers": count})
        logs = [path.read_text() for path in bed.testbed.directory.rglob("*error*") if path.is_file()]
        assert logs and not any("AH00167" in text for text in logs)
        apache.close()


def test_a_long_request_beyond_a_smaller_limit_keeps_its_place_and_the_limit_stays() -> None:
    """Prefork would lose that place until it is started anew."""
    with private("prefork") as bed, ExitStack() as clients:
        operators = bed.testbed.snippet_directory / "operators.conf"
        operators.write_text("MinSpareServers 1\nMaxSpareServers 16\n")
        reload(bed.testbed.pid)
        # One of before the reload would count as busy, and the first client as taken.
        until(lambda: "G" not in (status.scoreboard(bed.testbed.status_url, PATIENCE_S) or "G"), "the old ones stay")
        apache, held, board = bed.attach(), list[socket.socket](), ""
        while "R" not in board[4:]:
            held.append(clients.enter_context(socket.create_connection(("127.0.0.1", bed.testbed.port))))
            held[-1].sendall(b"GET /file500.html HTTP/1.1\r\nHost: localhost\r\n")
            until(lambda: busy(bed) == len(held), "it was not taken")
            board = status.scoreboard(bed.testbed.status_url, PATIENCE_S) or ""
        for other in held[:-1]:
            other.close()
        until(lambda: busy(bed) == 1, "they were not let go")
        for why in ("1 worker beyond the limit of 4 still serves a long request", "not yet tried again"):
            with pytest.raises(ApplyLater, match=why):
                apache.apply({"max_request_workers": 4})
        assert running_limit(bed, 8) and not bed.snippet.exists()
        held[-1].sendall(b"\r\n")
        assert held[-1].recv(64).startswith(b"HTTP/1.1 200")
        apache.close()


def test_those_within_a_smaller_limit_serve_on_while_the_others_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a crowded prefork: only when the others have had their time are all asked to finish, and nobody accepts."""
    drained, said = drain.drain, list[object]()
    with private("prefork") as bed, ExitStack() as clients:
        apache = bed.attach()
        for _ in range(3):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", bed.testbed.port)))
            client.sendall(UNDER_WAY)
        until(lambda: busy(bed) >= 3, "they were not taken")

        def page() -> None:
            with urllib.request.urlopen(f"http://127.0.0.1:{bed.testbed.port}/file500.html") as reply:
                said.append(reply.status)
            clients.close()  # those beyond the limit who serve on would have it refused

        def noted(*args: Any) -> drain.Drained:
            if args[6:7] == (True,):
                said.append("everyone")
                return drained(*args)
            said.append(f"to {args[3]}")
            asked = threading.Timer(0.3, page)
            asked.start()
            room = drained(*args)
            asked.join()
            return room

        monkeypatch.setattr(change, "drain", noted)
        apache.apply({"max_request_workers": 4})
        assert said == ["to 4", 200, "everyone"]
        apache.close()


@pytest.mark.parametrize(
    "changes", [{"max_request_workers": 10_000}, {"keep_alive_timeout_ms": 0}, {"max_clients": 5}]
)
def test_what_is_not_valid_is_refused_and_changes_nothing(bed: Bed, changes: dict[str, int]) -> None:
    apache = bed.attach()
    with pytest.raises(ApplyRefused, match=next(iter(changes))):
        apache.apply({"keep_alive_timeout_ms": 400, **changes})
    assert not bed.snippet.exists()


def test_a_configuration_that_apache_refuses_is_shown_in_its_words_and_not_loaded(bed: Bed) -> None:
    bed.write("b.conf", "NoSuchDirective on\n")
    apache = bed.attach()
    with pytest.raises(ApplyRefused, match="Invalid command 'NoSuchDirective'"):
        apache.apply({"max_request_workers": 4 * bed.threads})
    assert not bed.snippet.exists()
    assert running_limit(bed, 8 * bed.threads)


def test_restore_does_not_reload_into_a_configuration_that_apache_refuses(bed: Bed) -> None:
    apache = bed.attach()
    apache.apply({"max_request_workers": 4 * bed.threads})
    bed.write("b.conf", "NoSuchDirective on\n")
    with pytest.raises(ApplyFailed, match="NoSuchDirective"):
        apache.restore()
    assert not bed.snippet.exists()
    process.Parent.find(apache.pid).check()
    bed.write("b.conf", None)
    apache.restore()
    assert running_limit(bed, 8 * bed.threads)


def test_an_edit_that_was_not_reloaded_is_told_in_every_verb_and_a_loaded_one_is_not(bed: Bed) -> None:
    def told() -> list[str]:
        return [note for note in bed.attach().notes if "mine.conf was changed after Apache last read it" in note]

    def edited() -> bool:
        bed.write("mine.conf", "Timeout 50\n")  # in the same second as the start it would not be told apart
        return bool(told())

    until(edited, "the edit was not noticed")
    testbed = bed.testbed
    server: list[object] = ["apache", "--pid", testbed.pid, "--status-url", testbed.status_url]
    server += ["--snippet-directory", testbed.snippet_directory, "--window", "500ms", "--duration", "500ms"]
    for verb in ("observe", "tune"):
        said = finished(command(verb, *server))
        assert "mine.conf was changed after Apache last read it" in said.stdout
    reload(testbed.pid)
    assert told() == []


def test_a_change_that_does_not_take_is_put_back(bed: Bed) -> None:
    # The macro is not expanded by trimtab, so it cannot foresee that this line has the last word.
    modules = process.Parent.find(bed.testbed.pid).exe.parent.parent / "lib/apache2/modules"
    bed.write(
        "a.conf",
        f"LoadModule macro_module {modules}/mod_macro.so\n"
        f"<Macro Mine>\nMaxRequestWorkers {bed.threads * 12}\n</Macro>\n",
    )
    bed.write("zzz.conf", "Use Mine\n")
    reload(bed.testbed.pid)
    apache = bed.attach()
    assert any("macro" in note for note in apache.notes)
    with pytest.raises(ApplyFailed, match=f"after the reload, not {5 * bed.threads}"):
        apache.apply({"max_request_workers": 5 * bed.threads})
    assert not bed.snippet.exists()


def test_a_server_that_does_not_reload_in_time_is_said_and_its_file_is_put_back(bed: Bed) -> None:
    parent = process.Parent.find(bed.testbed.pid)
    attached = Attached(parent, bed.testbed.status_url)
    patience = Patience(reload_s=0.3, serve_s=0.3, drain_s=0.1, shrink_s=0.1)
    apache = Apache(SystemClock(), attached, bed.testbed.snippet_directory, patience)
    os.kill(parent.pid, signal.SIGSTOP)
    try:
        with pytest.raises(ApplyFailed, match="did not reload within"):
            apache.apply({"max_request_workers": 12 * bed.threads})
    finally:
        with renewed(parent.pid):  # or the reload that it was asked for comes within the next test
            os.kill(parent.pid, signal.SIGCONT)
    assert not bed.snippet.exists()


class Interrupting(SystemClock):
    """Time in which something happens once a file is there, at the second look at the clock.

    A reload may be over before anything had to sleep, but not before its deadlines were taken from the clock: the
    first before the signal, the second after it.
    """

    def __init__(self, happens: BaseException, once: Path) -> None:
        self.happens, self.once, self.looks = happens, once, 0

    def now_s(self) -> float:
        self.looks += self.once.exists()
        if self.looks == 2:
            self.looks += 1
            raise self.happens
        return super().now_s()


def test_an_interrupt_in_the_middle_of_a_change_puts_everything_back(bed: Bed) -> None:
    apache = bed.attach(Interrupting(KeyboardInterrupt(), bed.snippet))
    with pytest.raises(KeyboardInterrupt):
        apache.apply({"max_request_workers": 12 * bed.threads})
    assert not bed.snippet.exists()
    assert running_limit(bed, 8 * bed.threads)


def test_an_edit_of_our_file_stands_the_knobs_down_and_is_not_overwritten(bed: Bed) -> None:
    apache = bed.attach()
    apache.apply({"max_request_workers": 4 * bed.threads})
    mine = f"MaxRequestWorkers {6 * bed.threads}\n"
    bed.write(bed.snippet.name, mine)
    with pytest.raises(OperatorEdit) as first:
        apache.configuration()
    assert first.value.knob == "max_request_workers"
    assert "max_request_workers" in apache.configuration(), "it is said once"
    for edit in ({"max_request_workers": 5 * bed.threads}, {"keep_alive_timeout_ms": 900}):
        with pytest.raises(OperatorEdit):
            apache.apply(edit)
    with pytest.raises(OperatorEdit, match="changed by somebody"):
        apache.restore()
    assert bed.snippet.read_text() == mine


def test_a_reload_by_somebody_else_just_before_ours_does_not_confuse_it(bed: Bed) -> None:
    apache = bed.attach()
    for delay_s in (0.0, 0.02, 0.05):
        os.kill(apache.pid, signal.SIGUSR1)
        time.sleep(delay_s)
        limit = bed.threads * (9 + round(delay_s * 100))
        apache.apply({"max_request_workers": limit})
        assert running_limit(bed, limit)
    apache.restore()


def test_what_a_killed_run_left_is_recognised_and_undone(bed: Bed) -> None:
    run = textwrap.dedent(f"""
        import os, signal
        from trimtab.clock import SystemClock
        from trimtab.plants.apache import Apache
        apache = Apache.attach(SystemClock(), {bed.testbed.pid}, {bed.testbed.status_url!r})
        apache.apply({{"max_request_workers": {4 * bed.threads}}})
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert subprocess.run([sys.executable, "-c", run], check=False).returncode == -signal.SIGKILL
    assert running_limit(bed, 4 * bed.threads)
    apache = bed.attach()
    assert "zz-trimtab.conf" in apache.leftover()
    apache.apply({"max_request_workers": 5 * bed.threads})
    apache.restore()
    assert apache.configuration()["max_request_workers"] == 4 * bed.threads, "as it was before this run"
    script = apache.undo_script()
    apache.undo_leftover()
    assert apache.configuration()["max_request_workers"] == 8 * bed.threads
    assert apache.leftover() == ""
    assert f"rm -f {bed.snippet}" in script, "the script goes back to before the run that was killed"
    assert not bed.snippet.exists()


def test_the_undo_script_undoes_without_trimtab(bed: Bed) -> None:
    apache = bed.attach()
    apache.apply({"max_request_workers": 12 * bed.threads})
    with renewed(apache.pid):
        ended = subprocess.run(["sh", "-c", apache.undo_script()], check=False, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
    assert not bed.snippet.exists()
    until(lambda: running_limit(bed, 8 * bed.threads), "the limit is not as it was")


@pytest.mark.root
def test_a_full_disk_at_restore_is_said_and_restore_works_once_there_is_room(bed: Bed) -> None:
    directory = bed.testbed.snippet_directory
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k,mode=755", "tmpfs", directory], check=True)
    try:
        bed.write(bed.snippet.name, snippet.compose({"max_request_workers": 6 * bed.threads}, None))
        apache = bed.attach()
        apache.apply({"max_request_workers": 4 * bed.threads})
        with pytest.raises(OSError, match="No space"), (directory / "filler").open("wb", buffering=0) as filler:
            while filler.write(bytes(512)):
                pass
        with pytest.raises(ApplyFailed, match=r"could not be put back: No space left on device.*runs undo"):
            apache.restore()
        with pytest.raises(ApplyRefused, match="No space"):
            apache.apply({"max_request_workers": 5 * bed.threads})
        assert running_limit(bed, 4 * bed.threads)
        (directory / "filler").unlink()
        apache.restore()
        assert apache.configuration()["max_request_workers"] == 6 * bed.threads
        apache.close()
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)
    reload(bed.testbed.pid)


def test_a_disk_that_is_full_when_a_refused_change_is_put_back_is_said(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed.write("b.conf", "NoSuchDirective on\n")
    apache, real = bed.attach(), _own_file.write

    def full(path: Path, text: str | None, mode: int) -> None:
        if text is None:
            raise OSError(28, "No space left on device")
        real(path, text, mode)

    monkeypatch.setattr(_own_file, "write", full)
    with pytest.raises(ApplyFailed, match=r"NoSuchDirective.*could not be put back: No space"):
        apache.apply({"max_request_workers": 4 * bed.threads})
    assert bed.snippet.exists(), "so that 'trimtab runs undo' finds it"


def test_a_file_of_the_operators_in_our_place_is_not_touched(bed: Bed) -> None:
    bed.write(bed.snippet.name, "# mine\n")
    apache = bed.attach()
    with pytest.raises(UsageError, match="was not written by trimtab"):
        apache.check_permissions()
    with pytest.raises(ApplyRefused, match="was not written by trimtab"):
        apache.apply({"max_request_workers": 4 * bed.threads})
    assert bed.snippet.read_text() == "# mine\n"


def test_the_doctor_names_every_knob_and_the_status_page(bed: Bed) -> None:
    subject = f"apache pid {bed.testbed.pid}"
    found = findings(process.Parent.find(bed.testbed.pid))  # and not of servers that other tests are just ending
    for what in ("", " status page", " max_request_workers", " keep_alive_timeout_ms"):
        about = [f for f in found if f.subject.startswith(subject + what)]
        assert about, f"nothing is said of{what}"
        assert about[0].usable, about[0]


def test_a_status_page_that_is_not_there_is_said_with_what_turns_it_on(bed: Bed) -> None:
    with pytest.raises(UsageError, match=r"nothing-here answered 404 Not Found: turn it on: 'a2enmod status'"):
        Apache.attach(SystemClock(), bed.testbed.pid, bed.testbed.url("/nothing-here"))
    with pytest.raises(UsageError, match="outside this machine"):
        Apache.attach(SystemClock(), bed.testbed.pid, "http://192.0.2.1/server-status")


@pytest.mark.root
def test_without_permission_one_line_says_what_is_needed(bed: Bed) -> None:
    def said() -> str:
        try:
            bed.attach()
        except UsageError as error:
            return str(error)
        return "attached"

    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgid(65534)
        os.setuid(65534)
        os.write(writing, said().encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        message = pipe.read()
    assert "permission" in message or "cannot read" in message, message
    assert "\n" not in message


def test_a_server_that_ends_is_gone_and_its_file_is_put_back() -> None:
    with private("event") as bed:
        apache = bed.attach()
        apache.apply({"max_request_workers": 4 * bed.threads})
        os.kill(apache.pid, signal.SIGTERM)
        until(lambda: processes.start_of(apache.pid) is None, "the server did not end")
        with pytest.raises(PlantGone, match=f"pid {apache.pid}"):
            apache.configuration()
        with pytest.raises(PlantGone):
            apache.apply({"max_request_workers": 5 * bed.threads})
        apache.restore()
        assert not Path(bed.snippet).exists()
