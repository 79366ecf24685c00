"""Which Apache is meant, and what its command line and its status page say."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests._family import until
from trimtab import processes
from trimtab.errors import PlantGone, UsageError
from trimtab.own import SYSTEM_PATH
from trimtab.plants.apache import process, status
from trimtab.plants.apache.configuration import Origin, evaluate
from trimtab.plants.apache.process import Parent, generations
from trimtab.plants.apache.program import Program, _options
from trimtab.sensors import _tcp_listeners

ONE = Parent(812, 1, Path("/usr/sbin/apache2"), ("apache2", "-k", "start"), os.geteuid())
TWO = Parent(900, 1, Path("/usr/sbin/apache2"), ("apache2", "-f", "/x/own.conf"), os.geteuid())
HIS = Parent(700, 1, Path("/home/eve/apache2"), (), 4242)


def running(monkeypatch: pytest.MonkeyPatch, *parents: Parent) -> None:
    monkeypatch.setattr(Parent, "running", lambda: list(parents))


def test_the_only_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    running(monkeypatch, ONE)
    assert Parent.find(None) is ONE


@pytest.mark.parametrize("name", ["apache2", "httpd", "httpd-prefork", "httpd2-event", "httpd.worker"])
def test_it_goes_by_the_names_that_distributions_give_it(name: str) -> None:
    assert Parent.program.fullmatch(name) and not Parent.program.fullmatch(f"{name}ctl")


def test_none_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    running(monkeypatch)
    with pytest.raises(UsageError, match="no running Apache"):
        Parent.find(None)


def test_of_several_one_must_be_chosen_from_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    running(monkeypatch, ONE, TWO)
    with pytest.raises(UsageError, match=r"--pid: pid 812: apache2 -k start; pid 900: apache2 -f /x/own\.conf"):
        Parent.find(None)
    assert Parent.find(900) is TWO
    with pytest.raises(UsageError, match="pid 1 is not"):
        Parent.find(1)


def test_one_of_our_own_is_taken_where_strangers_run_others(monkeypatch: pytest.MonkeyPatch) -> None:
    running(monkeypatch, HIS, ONE)
    assert Parent.find(None) is ONE
    with pytest.raises(UsageError, match=r"pid 812: apache2 -k start; pid 700: run by uid 4242"):
        running(monkeypatch, ONE, HIS)
        Parent.find(1)
    running(monkeypatch, HIS)
    assert Parent.find(None) is HIS, "which is then refused with who runs it"


def test_a_server_that_an_order_to_restart_has_started_counts_and_the_order_to_another_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `apachectl graceful` has it where none runs."""
    started, order = (replace(ONE, pid=pid, argv=("httpd", "-k", "graceful")) for pid in (820, 830))
    monkeypatch.setattr(Parent, "named", lambda names: [one for one in (ONE, started, order) if one.serves(one.argv)])
    monkeypatch.setattr(process, "children", lambda pid: [pid + 1] if pid == started.pid else [])
    assert Parent.running() == [ONE, started]
    assert not Parent.serves(("httpd", "-k", "graceful-stop"))


def test_what_a_process_calls_itself_cannot_steer_a_terminal() -> None:
    assert "\x1b" not in Parent(1, 1, Path("/x"), ("apache2", "\x1b[2J"), os.geteuid()).line


def test_a_signal_goes_to_the_process_that_was_looked_at_and_to_no_later_one_with_its_id() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        started = processes.start_of(child.pid)
        assert started is not None
        later = Parent(child.pid, started - 1, Path("/x"), (), os.geteuid())
        with pytest.raises(PlantGone):
            later.signal(signal.SIGTERM)
        later.signal_child(child.pid, signal.SIGTERM)  # no child of itself
        Parent(os.getpid(), 0, Path("/x"), (), os.geteuid()).signal_child(child.pid, 0)
        assert child.poll() is None
        Parent(child.pid, started, Path("/x"), (), os.geteuid()).signal(signal.SIGTERM)
        assert child.wait() == -signal.SIGTERM
    finally:
        child.kill()
        child.wait()


def test_the_program_gets_what_its_configuration_needs_and_nothing_that_the_loader_acts_upon() -> None:
    environ = {
        "PATH": "/home/eve",
        "LD_PRELOAD": "x",
        "LD_AUDIT": "x",
        "LD_LIBRARY_PATH": "x",
        "GLIBC_TUNABLES": "x",
        "PYTHONPATH": "x",
        "SECRET": "x",
        "APACHE_RUN_DIR": "/run",
        "LC_ALL": "C",
        "TZ": "UTC",
        "SITE": "shop",
    }
    program = Program(Path("/x"), (), environ)
    kept = {"APACHE_RUN_DIR": "/run", "LC_ALL": "C", "TZ": "UTC", "PATH": SYSTEM_PATH}
    assert program.passed(frozenset()) == kept
    assert program.passed(frozenset({"SITE", "LD_PRELOAD", "PATH"})) == {**kept, "SITE": "shop"}


def test_a_child_that_shares_the_journal_or_a_modules_socket_but_no_listener_is_no_worker(tmp_path: Path) -> None:
    """As the helper of mod_cgid does under systemd, and a daemon of mod_wsgi, at whose socket requests come to it."""
    exe = processes.program_of(os.getpid())
    assert exe is not None
    sleeps = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"]
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        journal, _ = (stack.enter_context(one) for one in socket.socketpair())
        module = stack.enter_context(socket.socket(socket.AF_UNIX))
        module.bind(str(tmp_path / "wsgi.sock"))
        module.listen()

        def child(*held: socket.socket) -> int:
            started = subprocess.Popen(sleeps, pass_fds=[one.fileno() for one in held])
            stack.callback(started.wait)
            stack.callback(started.kill)
            return started.pid

        worker, helper, daemon = child(listener, journal), child(journal), child(journal, module)
        workers = generations(Parent(os.getpid(), 1, exe, (), os.geteuid()), frozenset()).workers
    assert worker in workers
    assert not {helper, daemon} & set(workers)


def test_a_child_that_holds_one_end_of_a_pipe_of_which_others_hold_both_is_no_worker() -> None:
    """As the process manager of mod_fcgid, which holds the listeners too."""
    exe = processes.program_of(os.getpid())
    assert exe is not None
    sleeps = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"]
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        one, other = os.pipe()
        stack.callback(os.close, one)
        stack.callback(os.close, other)

        def child(*held: int) -> int:
            started = subprocess.Popen(sleeps, pass_fds=[listener.fileno(), *held])
            stack.callback(started.wait)
            stack.callback(started.kill)
            return started.pid

        manager, worker = child(one), child(one, other)
        present = frozenset({os.readlink(f"/proc/self/fd/{one}")})
        workers = generations(Parent(os.getpid(), 1, exe, (), os.geteuid()), present).workers
    assert worker in workers and manager not in workers


def test_programs_are_those_that_children_of_the_servers_own_program_run() -> None:
    """As mod_fcgid's process manager does; the shell of a piped log is another program, and has children too."""
    exe = processes.program_of(os.getpid())
    assert exe is not None
    parent = Parent(os.getpid(), 1, exe, (), os.geteuid())
    starts = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        "import os; os.spawnlp(os.P_WAIT, 'sleep', 'sleep', '60')",
    ]
    shell = ["sh", "-c", "sleep 60; true"]

    def end(pid: int) -> None:
        for one in processes.children(pid):
            os.kill(one, signal.SIGKILL)

    with ExitStack() as stack:

        def child(*words: str) -> subprocess.Popen[bytes]:
            started = stack.enter_context(subprocess.Popen(words))
            stack.callback(end, started.pid)
            until(lambda: bool(processes.children(started.pid)))
            return started

        piped = child(*shell)
        before = process.programs(parent)
        manager = child(*starts)
        now = process.programs(parent)
        assert processes.children(piped.pid) and not before
        assert list(now) == processes.children(manager.pid)


def test_a_parent_that_has_ended_is_gone() -> None:
    with pytest.raises(PlantGone, match=f"pid {1 << 30}"):
        Parent(1 << 30, 1, Path("/x"), (), 0).check()


def test_options_are_read_joined_and_apart_and_orders_are_left_out() -> None:
    argv = ("-k", "start", "-DFOREGROUND", "-f", "a.conf", "-d/etc", "-X", "-c", "Listen 1", "-e", "debug")
    assert _options(argv) == [
        ("D", "FOREGROUND"),
        ("f", "a.conf"),
        ("d", "/etc"),
        ("D", "DEBUG"),
        ("c", "Listen 1"),
    ], "-X defines DEBUG"


def test_addresses_of_the_kernel_are_read_in_the_machines_byte_order() -> None:
    assert _tcp_listeners._address("0100007F:0050") == ("127.0.0.1", 80)
    assert _tcp_listeners._address("00000000000000000000000001000000:0051") == ("::1", 81)


def test_a_scoreboard_agrees_with_the_limit_and_with_busy_places_beyond_it() -> None:
    assert status.agrees("W__..", 5)
    assert status.agrees("W__..GG", 5)
    assert not status.agrees("W__..", 6)
    assert not status.agrees("W__....", 5)


def test_threads_that_finish_beyond_the_limit_do_not_make_it_larger() -> None:
    """An Apache was taken to run with 30 workers in processes of 4, a few moments after a reload to 28."""
    assert status.limit(7 * "W___" + "GG", 4) == status.limit(7 * "W___", 4) == 28
    assert status.limit("W__....", 1) == 7


def test_the_status_page_is_looked_for_where_the_configuration_puts_it(tmp_path: Path) -> None:
    main = tmp_path / "main.conf"
    main.write_text("<Location /who>\nSetHandler server-status\n</Location>\n")
    found = status.candidates(evaluate(Origin(main, tmp_path)), (("0.0.0.0", 80), ("::1", 81)))
    assert found == [
        f"http://{host}{path}" for path in ("/who", "/server-status") for host in ("127.0.0.1:80", "[::1]:81")
    ]


def test_beside_mod_security_the_status_page_is_asked_for_by_a_name_first(tmp_path: Path) -> None:
    """Its Core Rule Set logs each request to a Host of digits."""
    main = tmp_path / "main.conf"
    main.write_text("LoadModule security2_module modules/mod_security2.so\n")
    found = status.candidates(evaluate(Origin(main, tmp_path)), (("0.0.0.0", 80), ("::1", 81), ("192.0.2.1", 82)))
    hosts = [url.split("/")[2] for url in found]
    assert hosts == ["localhost:80", "127.0.0.1:80", "[::1]:81", "192.0.2.1:82"]
