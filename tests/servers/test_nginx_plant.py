"""The plant against a real nginx with Debian's own configuration: read, changed, read back, undone, put back."""

from __future__ import annotations

import dataclasses
import http.client
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.servers import _private_nginx
from tests.servers._private_nginx import CPUS, MORE, SHIPPED, Bed, DebianNginx, private, renewed
from tests.servers._under_gate import PATIENCE_S, until
from trimtab import files, processes
from trimtab.clock import SystemClock
from trimtab.core.memory import Room
from trimtab.errors import ApplyFailed, ApplyRefused, PlantGone, UsageError
from trimtab.plants import _own_file
from trimtab.plants._change import Texts
from trimtab.plants.nginx import edits, locations
from trimtab.plants.nginx.attached import Attached
from trimtab.plants.nginx.findings import findings
from trimtab.plants.nginx.knobs import CONNECTION_BYTES
from trimtab.plants.nginx.plant import Nginx
from trimtab.plants.nginx.process import serving, workers
from trimtab.plants.nginx.reload import Patience
from trimtab.sensors._worker_memory import private_bytes
from trimtab.testbed.nginx import NginxSpec

pytestmark = [pytest.mark.server]


shared, bed = _private_nginx.shared, _private_nginx.bed


def idle_close_s(bed: Bed) -> float:
    """After how long nginx closes an idle connection, if it does within a minute."""
    client = http.client.HTTPConnection("127.0.0.1", bed.testbed.port, timeout=PATIENCE_S)
    client.request("GET", "/nginx_status")
    client.getresponse().read()
    began_s, connection = time.monotonic(), client.sock
    assert isinstance(connection, socket.socket)
    assert connection.recv(1) == b""
    client.close()
    return time.monotonic() - began_s


def test_it_is_found_and_read_with_what_debian_ships(bed: Bed) -> None:
    nginx = bed.attach()
    assert nginx.configuration() == SHIPPED
    assert ("127.0.0.1", bed.testbed.port) in nginx.listeners
    nginx.check_permissions()


def test_what_the_operator_sets_is_no_knob_until_he_allows_it(bed: Bed) -> None:
    nginx = bed.attach(edit=False)
    assert [knob.name for knob in nginx.knobs()] == ["keepalive_timeout_ms"], "Debian does not set this one"
    with pytest.raises(ApplyRefused, match="unknown knob 'worker_processes'"):
        nginx.apply({"worker_processes": MORE})
    assert [n for n in nginx.notes if "worker_processes is set in" in n and "--edit-in-place" in n], (
        "tune says it too"
    )
    said = {f.subject.rpartition(" ")[2]: f for f in findings(bed.master)}
    assert not said["worker_processes"].usable
    assert f"{bed.config}:2" in said["worker_processes"].detail
    assert "--edit-in-place" in said["worker_processes"].enable
    assert said["keepalive_timeout_ms"].usable


def test_a_change_is_in_force_in_the_running_server_and_restore_undoes_it_to_the_byte(bed: Bed) -> None:
    before, nginx = bed.files(), bed.attach()
    wanted = {"worker_processes": MORE, "worker_connections": 600, "keepalive_timeout_ms": 300}
    assert nginx.apply(wanted).configuration == wanted
    assert nginx.configuration() == wanted
    assert bed.processes() == MORE
    assert idle_close_s(bed) < SHIPPED["keepalive_timeout_ms"] / 1000
    nginx.restore()
    assert nginx.configuration() == SHIPPED
    assert bed.processes() == CPUS
    assert bed.files() == before
    nginx.restore()


def test_only_the_value_itself_changes_in_the_operators_file(bed: Bed) -> None:
    before, nginx = bed.config.read_text(), bed.attach()
    bed.config.chmod(0o640)
    nginx.apply({"worker_connections": 600})
    assert bed.config.read_text() == before.replace("worker_connections 768;", "worker_connections 600;")
    assert bed.config.stat().st_mode & 0o777 == 0o640
    assert edits.beside(bed.config).stat().st_mode & 0o777 == 0o600, "the original is for as few eyes"
    nginx.restore()
    bed.config.chmod(0o644)


def test_a_second_change_keeps_the_first_and_a_new_one_follows_a_restore(bed: Bed) -> None:
    before, nginx = bed.files(), bed.attach()
    nginx.apply({"worker_processes": MORE})
    both = nginx.apply({"keepalive_timeout_ms": 700}).configuration
    assert both == {**SHIPPED, "worker_processes": MORE, "keepalive_timeout_ms": 700}
    nginx.restore()
    nginx.apply({"worker_processes": 1})
    assert bed.processes() == 1
    nginx.restore()
    assert bed.files() == before


def test_rollback_takes_back_a_committed_change_and_leaves_the_one_before(bed: Bed) -> None:
    before, nginx = bed.files(), bed.attach()
    nginx.apply({"worker_processes": MORE})
    first = bed.files()
    prepared = nginx.prepare({"worker_processes": 1, "keepalive_timeout_ms": 400})
    assert bed.files() == first, "to prepare changes nothing"
    nginx.commit(prepared)
    nginx.rollback(prepared)
    assert bed.files() == first
    assert (bed.processes(), nginx.configuration()) == (MORE, {**SHIPPED, "worker_processes": MORE})
    nginx.restore()
    assert bed.files() == before


def test_a_configuration_that_nginx_refuses_is_shown_in_its_words_and_not_loaded(bed: Bed) -> None:
    bed.write("b.conf", "no_such_directive on;\n")
    nginx, before = bed.attach(), bed.files()
    with pytest.raises(ApplyRefused, match='unknown directive "no_such_directive"'):
        nginx.apply({"worker_processes": MORE})
    assert bed.files() == before
    assert bed.processes() == CPUS


def test_a_change_that_nginx_refuses_is_put_back(bed: Bed) -> None:
    """The directive comes by a way that trimtab does not follow: nginx itself calls ours a duplicate."""
    nginx = bed.attach()
    before = bed.files()
    prepared = nginx.prepare({"keepalive_timeout_ms": 400})
    bed.write("a.conf", "keepalive_timeout 9s;\n")
    with pytest.raises(ApplyRefused, match='"keepalive_timeout" directive is duplicate'):
        nginx.commit(prepared)
    bed.write("a.conf", None)
    assert bed.files() == before


def test_an_edit_at_the_very_moment_of_ours_is_not_overwritten(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    nginx, written = bed.attach(), edits.written

    def edited_meanwhile(*given: Any) -> Texts:
        texts = written(*given)
        bed.replace("gzip on;", "gzip off;")
        return texts

    monkeypatch.setattr(edits, "written", edited_meanwhile)
    with pytest.raises(ApplyRefused, match=r"nginx\.conf is being edited"):
        nginx.apply({"worker_processes": MORE})
    assert "gzip off;" in bed.config.read_text() and "worker_processes auto;" in bed.config.read_text()


def test_restore_does_not_reload_into_a_configuration_that_nginx_refuses(bed: Bed) -> None:
    before, nginx = bed.files(), bed.attach()
    nginx.apply({"worker_processes": MORE})
    bed.write("b.conf", "no_such_directive on;\n")
    with pytest.raises(ApplyFailed, match="no_such_directive"):
        nginx.restore()
    bed.write("b.conf", None)
    assert bed.files() == before
    nginx.restore()
    assert bed.processes() == CPUS


def test_a_reload_that_does_not_come_is_said_and_everything_is_put_back(bed: Bed) -> None:
    before, nginx = bed.files(), Nginx(SystemClock(), Attached(bed.master, None, True), Patience(serve_s=0.3))
    os.kill(bed.pid, signal.SIGSTOP)
    try:
        with pytest.raises(ApplyFailed, match="0 new processes and not"):
            nginx.apply({"worker_processes": MORE})
    finally:
        with renewed(bed):  # or the reload that it was asked for comes within the next test
            os.kill(bed.pid, signal.SIGCONT)
    assert bed.files() == before


def test_processes_that_look_after_a_cache_are_not_taken_for_workers(bed: Bed) -> None:
    bed.write("cache.conf", f"proxy_cache_path {bed.testbed.directory}/run/cache keys_zone=c:1m;\n")
    with renewed(bed):
        os.kill(bed.pid, signal.SIGHUP)
    assert len(workers(bed.master)) > CPUS
    nginx = bed.attach()
    assert bed.processes() == CPUS
    assert nginx.apply({"worker_processes": MORE}).configuration["worker_processes"] == MORE
    assert bed.processes() == MORE
    nginx.restore()


def test_a_request_under_way_ends_well_and_its_process_is_not_taken_for_a_worker(bed: Bed) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", bed.testbed.port, timeout=PATIENCE_S)) as client:
        client.putrequest("POST", "/long")
        client.putheader("Content-Length", "1")
        client.endheaders()
        until(lambda: b"Writing: 2" in status_page(bed), "it was not taken")  # the other one is for this page
        nginx = bed.attach()
        applied = nginx.apply({"worker_processes": MORE})
        assert "1 process of the previous configuration still finishes its requests" in applied.notes
        assert (bed.processes(), nginx.configuration()["worker_processes"]) == (MORE, MORE)
        client.send(b"x")
        assert client.getresponse().status == 200
    nginx.restore()


def status_page(bed: Bed) -> bytes:
    """What nginx says of its connections."""
    with urllib.request.urlopen(bed.testbed.url("/nginx_status"), timeout=PATIENCE_S) as reply:
        return bytes(reply.read())


class Interrupting(SystemClock):
    """A clock that interrupts as soon as the main file holds an edit, once."""

    def __init__(self, bed: Bed) -> None:
        super().__init__()
        self.bed, self.text, self.done = bed, bed.config.read_text(), False

    def now_s(self) -> float:
        if not self.done and self.bed.config.read_text() != self.text:
            self.done = True
            raise KeyboardInterrupt
        return super().now_s()


def shut_down_after(bed: Bed, seconds: int) -> Nginx:
    """trimtab attached to it, where its old processes end after so long with what they have."""
    bed.replace(r"(?m)\A(worker_shutdown_timeout .*;\n)?", f"worker_shutdown_timeout {seconds}s;\n")
    with renewed(bed):
        os.kill(bed.pid, signal.SIGHUP)
    return bed.attach()


def test_where_old_processes_cut_what_lasts_that_is_said_and_where_it_meets_requests_nothing_is_changed(
    bed: Bed,
) -> None:
    assert not any("worker_shutdown_timeout" in note for note in bed.attach().notes)
    assert "the old ones finish their requests" in bed.attach().knobs()[0].cost
    nginx = shut_down_after(bed, 9)
    assert {knob.cost.partition("cut ")[2] for knob in nginx.knobs()} == {"what lasts beyond 9 s"}
    assert any("worker_shutdown_timeout is 9 s: so long after each change downloads" in note for note in nginx.notes)
    with pytest.raises(ApplyRefused, match="worker_shutdown_timeout is 9 s: make it 10 s or more and reload nginx"):
        nginx.apply({"worker_processes": MORE})
    with pytest.raises(UsageError, match="or accept it with --accept-lost-requests"):
        nginx.check_permissions()
    told = [f for f in findings(bed.master) if f.subject.endswith("keepalive_timeout_ms")]
    assert [(one.usable, "worker_shutdown_timeout is 9 s" in one.enable) for one in told] == [(False, True)]
    bold = Nginx.attach(SystemClock(), bed.pid, edit=True, accept_lost=True)
    assert bold.apply({"worker_processes": MORE}).configuration["worker_processes"] == MORE
    bold.restore()
    nginx = shut_down_after(bed, 10)
    assert nginx.apply({"worker_processes": MORE}).configuration["worker_processes"] == MORE
    nginx.restore()


def test_what_an_operator_brings_into_force_in_mid_run_refuses_a_trial_and_no_way_back(bed: Bed) -> None:
    nginx, start = bed.attach(), SHIPPED["worker_connections"]
    nginx.apply({"worker_connections": 1024})
    shut_down_after(bed, 1)
    with pytest.raises(ApplyRefused, match="worker_shutdown_timeout is 1 s: make it 10 s or more"):
        nginx.apply({"worker_connections": 2048})
    assert nginx.apply({"worker_connections": start}).configuration["worker_connections"] == start
    nginx.restore()


def test_an_interrupt_in_the_middle_of_a_change_puts_everything_back(bed: Bed) -> None:
    before, nginx = bed.files(), bed.attach(Interrupting(bed))
    with pytest.raises(KeyboardInterrupt):
        nginx.apply({"worker_processes": MORE})
    assert bed.files() == before
    assert bed.processes() == CPUS


def test_a_file_of_the_operators_in_our_place_is_not_touched(bed: Bed) -> None:
    bed.write("zz-trimtab.conf", "# mine\n")
    nginx = bed.attach()
    with pytest.raises(ApplyRefused, match="was not written by trimtab"):
        nginx.apply({"keepalive_timeout_ms": 400})
    assert (bed.snippets / "zz-trimtab.conf").read_text() == "# mine\n"


def test_a_rollback_removes_what_is_kept_of_the_operators_file_only_after_that_is_back(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, nginx, states = bed.files(), bed.attach(), list[bool]()
    prepared = nginx.prepare({"worker_processes": MORE})
    nginx.commit(prepared)
    remove = files.remove

    def removed(path: Path) -> None:
        states.append(bed.config.read_bytes() == before[bed.config])
        remove(path)

    monkeypatch.setattr(_own_file, "remove", removed)
    nginx.rollback(prepared)
    assert states and all(states), "a kill before that would leave an edit of which nothing is known"
    assert bed.files() == before


@pytest.mark.root
def test_on_a_full_disk_the_operators_file_comes_back_all_the_same() -> None:
    with private() as bed:
        etc, before = bed.config.parent, bed.files()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k,mode=755", "tmpfs", etc], check=True)
        try:
            for path, text in before.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text)
            bed.config.chmod(0o640)
            nginx = bed.attach()
            nginx.apply({"worker_processes": MORE})
            nginx.apply({"worker_processes": MORE, "worker_connections": 600})
            with pytest.raises(OSError, match="No space"), (etc / "filler").open("wb", buffering=0) as filler:
                while filler.write(bytes(512)):
                    pass
            with pytest.raises(ApplyRefused, match="No space"):
                nginx.apply({"worker_processes": 1})
            nginx.restore()
            (etc / "filler").unlink()
            assert (bed.files(), bed.config.stat().st_mode & 0o777) == (before, 0o640)
            assert nginx.configuration() == SHIPPED
        finally:
            subprocess.run(["umount", "--lazy", etc], check=True)


def test_a_file_that_could_not_be_written_keeps_its_one_name(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    before, write, nginx = bed.files(), _own_file.write, bed.attach()

    def full(path: Path, text: str | None, *mode: int) -> None:
        if path == bed.config:
            raise OSError(28, "No space left on device")
        write(path, text, *mode)

    nginx.apply({"worker_processes": MORE})
    edits.original(bed.config).unlink()  # as where the file system could not make it
    with monkeypatch.context() as patch, pytest.raises(ApplyRefused, match="No space left on device"):
        patch.setattr(_own_file, "write", full)
        nginx.apply({"worker_processes": 1})
    assert bed.config.stat().st_nlink == 1, "else it is not edited any more"
    nginx.restore()
    assert bed.files() == before


def test_rights_that_the_operator_gives_his_file_meanwhile_outlive_the_undo(bed: Bed) -> None:
    nginx, mode = bed.attach(), bed.config.stat().st_mode
    nginx.apply({"worker_processes": MORE})
    bed.config.chmod(0o600)
    nginx.restore()
    assert bed.config.stat().st_mode & 0o777 == 0o600
    bed.config.chmod(mode)


def test_a_file_with_several_names_is_not_edited(bed: Bed) -> None:
    other = bed.config.with_name("other-name")
    other.hardlink_to(bed.config)
    assert [knob.name for knob in bed.attach().knobs()] == ["keepalive_timeout_ms"]


def test_what_was_edited_and_not_reloaded_is_said(bed: Bed) -> None:
    bed.replace("worker_processes auto;", "worker_processes 1;")

    def said() -> bool:
        bed.config.write_text(bed.config.read_text())  # in the same second as the start it would not be told apart
        nginx = bed.attach()
        noted = any("edited after nginx last read it" in note for note in nginx.notes)
        return noted and nginx.configuration()["worker_processes"] == CPUS

    until(said, "the edit was not noticed")


def test_a_reload_by_the_operator_is_followed(bed: Bed) -> None:
    nginx = bed.attach()
    bed.replace("worker_processes auto;", f"worker_processes {MORE};")
    os.kill(bed.pid, signal.SIGHUP)
    until(lambda: nginx.configuration()["worker_processes"] == MORE, "the reload was not noticed")


def test_fewer_processes_are_not_offered_where_they_would_drop_waiting_connections(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locations, "_migrates", lambda: False)  # as tests of Squid have it now and then
    site = bed.config.parent / "sites-enabled" / "default"
    site.write_text(site.read_text().replace("default_server", "default_server reuseport"))
    assert "worker_processes" not in [knob.name for knob in bed.attach().knobs()]
    said = [f for f in findings(bed.master) if f.subject == f"nginx pid {bed.pid} worker_processes"]
    assert "reuseport" in said[0].detail and "tcp_migrate_req" in said[0].enable


def test_what_processes_keep_for_connections_has_to_fit_into_memory_unless_the_operator_chose_it(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms = [Room("the machine", 2 << 20)]
    monkeypatch.setattr("trimtab.plants.nginx.attached.rooms", lambda pid: rooms)
    nginx = bed.attach()
    what = f"what {4 * CPUS} old and as many new processes keep for 768 connections each"
    with pytest.raises(ApplyRefused, match=f"{what} .* of the 2 MiB of the machine$"):
        nginx.apply({"worker_processes": 4 * CPUS})
    rooms[:] = [Room("control group /nginx", 1 << 30), Room("the machine", 8 << 30, (8 << 30) - (4 << 20))]
    with pytest.raises(ApplyRefused, match=f"{what} .* of the machine less the .* that all else there needs$"):
        nginx.apply({"worker_processes": 4 * CPUS})
    rooms[:] = [Room("the machine", 1 << 20)]
    assert nginx.apply({"keepalive_timeout_ms": 2000}).configuration["keepalive_timeout_ms"] == 2000
    nginx.restore()


def test_what_its_own_processes_keep_for_connections_is_no_others(bed: Bed) -> None:
    for room in Attached(bed.master, None, True).rooms:
        assert room.held_bytes == CPUS * 768 * CONNECTION_BYTES <= room.demand_bytes


def test_a_process_keeps_as_much_for_each_connection_as_is_said(bed: Bed) -> None:
    def held_bytes() -> int:
        return min(private_bytes(pid) for pid, _ in serving(bed.master))

    before, least = held_bytes(), 0.95 * CONNECTION_BYTES
    bed.replace("worker_connections 768", "worker_connections 100768")
    with renewed(bed):
        os.kill(bed.pid, signal.SIGHUP)
    # A new process has the listening sockets before it has written its tables.
    until(lambda: (held_bytes() - before) / 100_000 > least, "they keep less")
    assert (held_bytes() - before) / 100_000 == pytest.approx(CONNECTION_BYTES, rel=0.05)


def test_a_status_page_that_is_off_is_said_with_what_turns_it_on(bed: Bed) -> None:
    site = bed.config.parent / "sites-enabled" / "default"
    site.write_text(site.read_text().replace("stub_status;", ""))
    with pytest.raises(UsageError, match=r"no page of stub_status: add 'server .*stub_status;.*reload nginx"):
        bed.attach()
    with pytest.raises(UsageError, match=r"\(404\): add 'server"):
        Nginx.attach(SystemClock(), bed.pid, bed.testbed.url("/nothing-here"))
    with pytest.raises(UsageError, match="outside this machine"):
        Nginx.attach(SystemClock(), bed.pid, "http://192.0.2.1/nginx_status")


def test_a_command_line_that_nginx_has_cut_short_is_not_taken_for_another_configuration() -> None:
    """nginx writes its title over its environment, and cuts the command line where that is empty."""
    with private() as bed:
        config = bed.config.with_name("another.conf")
        config.write_text(bed.config.read_text().replace("run/nginx.pid", "run/another.pid"))
        master = dataclasses.replace(bed.master, argv=(f"nginx: master process nginx -c {config}",))
        with pytest.raises(UsageError, match="does not seem to run with"):
            Attached(master)


def test_a_server_that_ends_is_gone_and_its_files_are_put_back() -> None:
    with private() as bed:
        before, nginx = bed.files(), bed.attach()
        nginx.apply({"worker_processes": MORE, "keepalive_timeout_ms": 500})
        os.kill(bed.pid, signal.SIGTERM)
        until(lambda: processes.start_of(bed.pid) is None, "the server did not end")
        with pytest.raises(PlantGone, match=f"pid {bed.pid}"):
            nginx.configuration()
        with pytest.raises(PlantGone):
            nginx.apply({"worker_processes": 1})
        nginx.restore()
        assert bed.files() == before


class Sharing(DebianNginx):
    """One that reads a directory of another's too, and has the setting itself."""

    shared = Path()

    def configured(self, ports: Sequence[int]) -> list[str]:
        words = super().configured(ports)
        lines = f"http {{\nkeepalive_timeout 65;\ninclude {self.shared}/*.conf;\n"
        self.config_file.write_text(self.config_file.read_text().replace("http {", lines, 1))
        return words


def test_a_directory_that_another_nginx_reads_too_is_no_place_for_our_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would not start any more: nginx takes a setting once."""
    with private() as bed:
        nginx = bed.attach(edit=False)
        monkeypatch.setattr(Sharing, "shared", bed.snippets)
        with Sharing(NginxSpec()) as other:
            said = rf"nginx \(pid {other.pid}\) reads {bed.snippets} too, .* or refuse them"
            with pytest.raises(ApplyRefused, match=said):
                nginx.apply({"keepalive_timeout_ms": 300})
            assert not list(bed.snippets.glob("zz-*"))
        nginx.apply({"keepalive_timeout_ms": 300})
        nginx.restore()
