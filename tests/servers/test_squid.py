"""The plant against a real Squid: found, read, changed, seen to act, undone, and put back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.servers._private_squid import ANSWER, DEBIAN, Bed, Clients, migrating, private
from tests.servers._under_gate import until
from trimtab.clock import SystemClock
from trimtab.errors import ApplyFailed, ApplyLater, ApplyRefused, UsageError
from trimtab.plants.squid import held, process
from trimtab.plants.squid.attached import Attached
from trimtab.plants.squid.findings import findings
from trimtab.plants.squid.plant import Squid
from trimtab.plants.squid.private import SquidSpec, SquidTestbed
from trimtab.plants.squid.reload import Patience
from trimtab.testbed.registry import Registry

pytestmark = pytest.mark.server
KB = 1 << 10


@pytest.fixture(scope="module")
def shared() -> Iterator[Bed]:
    with private() as bed:
        yield bed


@pytest.fixture
def bed(shared: Bed) -> Iterator[Bed]:
    """One that is left as it was found."""
    there = {path: path.read_text() for path in shared.testbed.snippet_directory.iterdir()}
    yield shared
    for path in shared.testbed.snippet_directory.iterdir():
        if path not in there:
            path.unlink()
    shared.reload()


def test_it_is_found_and_read(bed: Bed) -> None:
    squid = bed.attach()
    assert squid.configuration() == DEBIAN
    assert {knob.name: knob.default for knob in squid.knobs()} == DEBIAN
    assert squid.listeners == (("127.0.0.1", bed.testbed.port),)
    squid.check_permissions()


def test_a_change_is_in_force_and_restore_undoes_it(bed: Bed) -> None:
    squid, worker = bed.attach(), bed.worker()
    changes = {"cache_mem": 17, "maximum_object_size_in_memory": 256}
    applied = squid.apply(changes)
    assert applied.configuration == {**DEBIAN, **changes}
    assert squid.configuration() == applied.configuration
    squid.restore()
    assert squid.configuration() == DEBIAN
    assert not bed.snippet.exists()
    squid.restore()
    assert bed.worker() == worker


def test_larger_objects_than_the_limit_leave_memory_and_smaller_ones_do_not(bed: Bed) -> None:
    squid = bed.attach()
    squid.apply({"maximum_object_size_in_memory": 8})
    bed.get(f"/{6 * KB}/small")
    bed.get(f"/{12 * KB}/large")
    assert bed.kept(f"/{6 * KB}/small") and not bed.kept(f"/{12 * KB}/large")
    squid.apply({"maximum_object_size_in_memory": 64})
    bed.get(f"/{12 * KB}/large")
    assert bed.kept(f"/{12 * KB}/large")
    squid.restore()


def test_smaller_objects_than_the_least_are_not_kept_in_memory_either(bed: Bed) -> None:
    squid = bed.attach()
    squid.apply({"minimum_object_size": 50})
    bed.get(f"/{40 * KB}/thumbnail")
    bed.get(f"/{60 * KB}/picture")
    assert not bed.kept(f"/{40 * KB}/thumbnail") and bed.kept(f"/{60 * KB}/picture")
    squid.restore()


def test_the_largest_size_of_a_disk_cache_does_nothing_without_one(bed: Bed) -> None:
    squid = bed.attach()
    squid.apply({"maximum_object_size": 256, "maximum_object_size_in_memory": 1024})
    bed.get(f"/{700 * KB}/video")
    assert bed.kept(f"/{700 * KB}/video")
    squid.restore()


def test_what_is_in_memory_stays_through_a_change_and_less_memory_holds_less(bed: Bed) -> None:
    squid = bed.attach()
    pages = [f"/{100 * KB}/page{i}" for i in range(40)]
    for page in pages:
        bed.get(page)
    squid.apply({"cache_mem": 100})
    assert all(bed.kept(page) for page in pages)
    squid.apply({"cache_mem": 2})

    def evicted() -> bool:
        """Squid looks for room once a second at most, when something comes."""
        bed.get(f"/{100 * KB}/another")
        bed.get(f"/{100 * KB}/{os.urandom(4).hex()}")
        return sum(bed.kept(page) for page in pages) < 20

    until(evicted, "nothing left memory")
    squid.restore()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"cache_mem": 0}, "cache_mem 0 is outside"),
        ({"cache_size": 5}, "unknown knob 'cache_size'"),
        ({"cache_swap_low": 96}, "cache_swap_low 96 is more than cache_swap_high 95"),
        ({"minimum_object_size": 600}, "minimum_object_size 600 KiB is more than the 512 KiB"),
        ({"cache_mem": 1 << 40}, "MiB of"),
    ],
)
def test_what_is_not_valid_or_against_a_rule_is_refused_and_changes_nothing(
    bed: Bed, changes: dict[str, int], why: str
) -> None:
    squid, ports = bed.attach(), process.SquidMaster.find(bed.testbed.pid).ports()
    with pytest.raises(ApplyRefused, match=why):
        squid.apply(changes)
    assert not bed.snippet.exists()
    assert process.SquidMaster.find(bed.testbed.pid).ports() == ports


def test_a_master_that_does_not_reload_in_time_is_said_and_its_file_is_put_back() -> None:
    with private() as bed:
        attached = Attached(process.SquidMaster.find(bed.testbed.pid), SystemClock())
        squid = Squid(SystemClock(), attached, None, Patience(reload_s=0.3, page_s=0.3), True)
        os.kill(squid.pid, signal.SIGSTOP)
        try:
            with pytest.raises(ApplyFailed, match="did not open its ports again within"):
                squid.apply({"cache_mem": 16})
        finally:
            os.kill(squid.pid, signal.SIGCONT)
        assert not bed.snippet.exists()


def test_a_list_of_addresses_or_names_that_is_edited_in_mid_run_waits_too(bed: Bed) -> None:
    """A reload reads it as it is then, such as half of a blocklist that is just being written."""
    names = bed.testbed.directory / "names.txt"
    names.write_text(".one.example\n.two.example\n")
    bed.write("x-mine.conf", f'acl late dstdomain "{names}"\n')
    bed.reload()
    squid = bed.attach()
    squid.apply({"cache_mem": 16})
    names.write_text(".one.example\n")
    with pytest.raises(ApplyLater, match=r"names\.txt was edited after .* reload Squid yourself"):
        squid.apply({"cache_mem": 17})
    bed.reload()
    squid.apply({"cache_mem": 17})
    squid.restore()


def test_where_the_directory_of_a_log_is_gone_nothing_is_reloaded_and_squid_serves_on() -> None:
    """Squid's own test passes; its worker ended in the reload, and within three seconds all of it."""
    with private() as bed:
        squid, logs = bed.attach(), bed.testbed.directory / "squid"
        away = logs.rename(logs.with_name("away"))
        with pytest.raises(
            ApplyRefused, match=r"would end in a reload, though its own test passes: no directory for"
        ):
            squid.apply({"cache_mem": 16})
        assert squid.configuration() == DEBIAN and not bed.snippet.exists()
        away.rename(logs)
        assert squid.apply({"cache_mem": 16}).configuration["cache_mem"] == 16
        squid.restore()


def test_a_reload_by_the_operator_is_noticed_and_an_edit_without_one_is_not_in_force(bed: Bed) -> None:
    squid = bed.attach()
    bed.write("x-mine.conf", "cache_mem 9 MB\n")
    assert squid.configuration() == DEBIAN

    def told() -> bool:
        bed.write("x-mine.conf", "cache_mem 9 MB\n")  # in the same second as the start it would not be told apart
        return any("x-mine.conf was changed after Squid was started" in note for note in bed.attach().notes)

    until(told, "the edit was not noticed")
    bed.reload()
    assert squid.configuration() == {**DEBIAN, "cache_mem": 9}


def test_a_line_after_the_included_directory_has_the_last_word_and_that_is_said() -> None:
    with private() as bed:
        main = bed.testbed.config_file
        main.write_text(main.read_text() + "cache_mem 4 MB\n")
        bed.reload()
        with pytest.raises(ApplyRefused, match=r"cache_mem in .* would have the last word.*include .*/\*\.conf"):
            bed.attach().apply({"cache_mem": 6})


def test_the_doctor_names_every_knob_and_what_only_a_restart_would_change(bed: Bed) -> None:
    said = {f.subject: f for f in findings(process.SquidMaster.find(bed.testbed.pid))}
    notes = " ".join(bed.attach().notes)
    for knob in DEBIAN:
        found = said[f"squid pid {bed.testbed.pid} {knob}"]
        assert not found.usable and "--accept-lost-connections" in found.enable
    assert "memory_replacement_policy and store_objects_per_bucket are read at the start alone" in notes


def test_a_manager_that_may_not_be_read_is_said_with_what_allows_it() -> None:
    with private() as bed:
        main = bed.testbed.config_file
        main.write_text(main.read_text().replace("http_access allow localhost manager\n", ""))
        bed.reload()
        with pytest.raises(UsageError, match="allow localhost manager"):
            bed.attach()


def test_several_workers_are_refused_with_what_would_help() -> None:
    with private(more=("workers 2",)) as bed, pytest.raises(UsageError, match="workers 1"):
        bed.attach()


def serves_again(pid: int, but: int) -> bool:
    """Whether another worker than this one listens."""
    master = process.SquidMaster.find(pid)
    try:
        return master.worker() != but and bool(master.ports())
    except UsageError:
        return False


def test_a_worker_that_crashed_and_was_replaced_is_another_generation_with_the_files_of_now(bed: Bed) -> None:
    squid, worker = bed.attach(), bed.worker()
    bed.write("x-mine.conf", "cache_mem 9 MB\n")
    os.kill(worker, signal.SIGSEGV)
    until(lambda: serves_again(squid.pid, worker) and bed.serves(), "it is not back")
    assert squid.configuration() == {**DEBIAN, "cache_mem": 9}


def test_a_request_under_way_is_served_through_a_change(bed: Bed) -> None:
    squid = bed.attach()
    ANSWER.clear()
    said: list[int] = []
    request = threading.Thread(target=lambda: said.append(bed.get("/held/a")[0]), daemon=True)
    request.start()
    until(lambda: process.SquidMaster.find(squid.pid).open_connections() == 1, "it did not come")
    squid.apply({"cache_mem": 16})
    assert not said
    ANSWER.set()
    request.join()
    assert said == [200]
    squid.restore()


def test_what_only_a_start_reads_is_a_knob_where_a_restart_is_allowed_and_takes_a_new_worker(bed: Bed) -> None:
    gdsf = {"memory_replacement_policy": 1, "store_objects_per_bucket": 105}
    with pytest.raises(ApplyRefused, match="unknown knob"):
        bed.attach().apply(gdsf)
    squid, workers = bed.attach(may_restart=True), {bed.worker()}
    for changes in ({"cache_mem": 16}, gdsf):
        with http_connection(bed):
            notes = squid.apply(changes).notes
        workers.add(bed.worker())
    assert len(workers) == 2, "a reload keeps the worker"
    assert squid._server.held_s > 0
    assert any("1 connections that it had open were ended" in note for note in notes)
    assert squid.configuration() == {**DEBIAN, "cache_mem": 16, **gdsf}
    squid.restore()
    assert bed.worker() not in workers
    assert "heap" not in bed.testbed.config_file.read_text() and not bed.snippet.exists()


def test_what_only_a_start_reads_is_not_in_force_after_an_operators_reload(bed: Bed) -> None:
    squid = bed.attach(may_restart=True)
    bed.write("x-mine.conf", "memory_replacement_policy heap LFUDA\n")
    bed.reload()
    assert squid.configuration()["memory_replacement_policy"] == 0
    os.kill(bed.worker(), signal.SIGKILL)
    until(bed.serves, "it is not back")
    assert squid.configuration()["memory_replacement_policy"] == 2


def test_a_run_that_may_not_restart_says_so_when_it_undoes_what_only_a_start_reads(bed: Bed) -> None:
    other = bed.attach(may_restart=True)
    other.apply({"memory_replacement_policy": 2})
    worker = bed.worker()
    squid = bed.attach()
    assert not squid.out_of_reach()
    squid.undo_leftover()
    assert squid.out_of_reach() == {"memory_replacement_policy": f"restart Squid (pid {bed.testbed.pid})"}
    assert not bed.snippet.exists() and bed.worker() == worker
    later = bed.attach()
    assert later.out_of_reach() == squid.out_of_reach(), "the next one knows it too"
    assert "memory_replacement_policy as an earlier run has set it until it is restarted" in later.leftover()
    later.apply({"cache_mem": 16})
    later.restore()
    assert bed.attach().leftover() == later.leftover() != ""
    os.kill(worker, signal.SIGKILL)
    until(bed.serves, "it is not back")
    replaced = bed.attach()
    assert (replaced.leftover(), replaced.out_of_reach()) == ("", {})


def test_an_undo_with_leave_ends_what_one_without_has_left(bed: Bed) -> None:
    bed.attach(may_restart=True).apply({"memory_replacement_policy": 2})
    worker = bed.worker()
    bed.attach().undo_leftover()
    squid = bed.attach(may_restart=True)
    assert squid.configuration()["memory_replacement_policy"] == 2 and bed.worker() == worker
    squid.undo_leftover()
    assert (squid.configuration()["memory_replacement_policy"], squid.leftover()) == (0, "")
    assert bed.worker() != worker


def undo_killed(bed: Bed) -> None:
    """An undo with leave to restart that is killed before its reload."""
    code = textwrap.dedent(f"""
        import os, signal
        from trimtab.clock import SystemClock
        from trimtab.plants.squid import change
        from trimtab.plants.squid.plant import Squid
        change.reload = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        Squid.attach(SystemClock(), {bed.testbed.pid}, accept_lost=True, may_restart=True).undo_leftover()
    """)
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL


def test_a_worker_that_was_started_since_a_killed_undo_has_read_the_files(bed: Bed) -> None:
    bed.attach(may_restart=True).apply({"memory_replacement_policy": 2})
    undo_killed(bed)
    assert bed.attach().leftover()
    os.kill(bed.worker(), signal.SIGKILL)
    until(bed.serves, "it is not back")
    squid = bed.attach(may_restart=True)
    assert (squid.leftover(), squid.configuration()["memory_replacement_policy"]) == ("", 0)


def test_what_only_a_start_reads_goes_back_too_where_an_undo_was_killed_before_its_reload(bed: Bed) -> None:
    """By its files it had gone back, so that the worker was kept, and with it the trial."""
    bed.attach(may_restart=True).apply({"memory_replacement_policy": 2})
    worker = bed.worker()
    undo_killed(bed)
    assert not bed.snippet.exists() and bed.worker() == worker
    squid = bed.attach(may_restart=True)
    assert squid.configuration()["memory_replacement_policy"] == 2
    squid.undo_leftover()
    assert (squid.configuration()["memory_replacement_policy"], bed.worker() == worker) == (0, False)


def test_more_restarts_in_a_row_than_squids_master_bears_are_made_all_the_same(bed: Bed) -> None:
    squid = bed.attach(may_restart=True)
    for policy in (1, 2, 3, 1, 2, 3, 1):
        squid.apply({"memory_replacement_policy": policy})
    squid.restore()
    assert bed.serves()


def test_a_squid_with_a_disk_cache_is_not_restarted() -> None:
    with private() as bed:
        main = bed.testbed.config_file
        main.write_text(main.read_text() + f"cache_dir ufs {bed.testbed.directory}/none 100 16 256\n")
        with pytest.raises(UsageError, match="not restarted by trimtab where it has a cache_dir"):
            bed.attach(may_restart=True)


@contextmanager
def http_connection(bed: Bed) -> Iterator[None]:
    """A connection that has been served and is open."""
    with closing(HTTPConnection("127.0.0.1", bed.testbed.port, timeout=30)) as connection:
        connection.request("GET", "/100/a")
        connection.getresponse().read()
        yield


@pytest.mark.root
def test_with_two_settings_of_the_operators_no_connection_is_lost_by_a_change() -> None:
    with private(kept_queue=True) as bed, migrating():
        squid = bed.attach()
        assert any("keeps the listening ports open" in note for note in squid.notes)
        clients = Clients(bed.testbed.port, 8)
        for cache_mem in (16, 17, 18):
            assert not any("refused" in note for note in squid.apply({"cache_mem": cache_mem}).notes)
        assert set(clients.stop()) == {"HTTP/1.1 200 OK"}


@pytest.mark.root
@pytest.mark.parametrize("peer", [True, False])
def test_a_reload_that_cuts_requests_on_their_way_to_a_peer_has_to_be_accepted(peer: bool) -> None:
    with SquidTestbed(SquidSpec(origin_port=9 if peer else None, kept_queue=True)) as server, migrating():
        squid, said = Squid.attach(SystemClock(), server.pid), r"cache_peer \(.* 502 .*--accept-lost-connections"
        assert any("may be answered 502" in note for note in squid.notes) == peer
        with pytest.raises(UsageError, match=said) if peer else nullcontext():
            squid.check_permissions()


@pytest.mark.root
@pytest.mark.parametrize(
    ("kept_queue", "migrate", "how"),
    [(False, True, "'worker-queues'"), (True, False, "net.ipv4.tcp_migrate_req = 1")],
)
def test_without_either_a_change_is_refused_with_what_mends_it(
    kept_queue: bool, migrate: bool, how: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    setting = tmp_path / "tcp_migrate_req"
    setting.write_text(f"{migrate:d}\n")
    monkeypatch.setattr(held, "_MIGRATE", setting)
    with private(kept_queue=kept_queue) as bed:
        squid = bed.attach(accept_lost=False)
        with pytest.raises(UsageError, match=f"{how}.*or accept it with --accept-lost-connections"):
            squid.check_permissions()
        with pytest.raises(ApplyRefused, match=how):
            squid.apply({"cache_mem": 16})
        assert not bed.snippet.exists()


def test_accepted_losses_are_counted_and_not_too_low(bed: Bed) -> None:
    squid, lost, said = bed.attach(), 0, 0
    while not lost:  # it is a matter of a millisecond
        clients = Clients(bed.testbed.port, 8)
        notes = [note for value in (16, 17, 18) for note in squid.apply({"cache_mem": value}).notes]
        became = clients.stop()
        lost += sum(became.values()) - became["HTTP/1.1 200 OK"]
        said += sum(int(note.split()[2]) for note in notes if note.startswith("at most"))
    assert said >= lost
    squid.restore()


def test_a_private_one_leaves_no_shared_memory_behind(tmp_path: Path) -> None:
    with private() as bed:
        record = next(r for r in Registry().records() if r.directory == str(bed.testbed.directory))
        assert list(Path("/dev/shm").glob(f"{record.shared_memory}-*"))
        os.kill(bed.testbed.pid, signal.SIGKILL)
    assert not list(Path("/dev/shm").glob(f"{record.shared_memory}-*"))
