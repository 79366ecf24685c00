"""The plant against a real PHP-FPM: found, read, changed, read back, undone, and put back."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.servers._private_fpm import DEBIAN, Asked, Bed, private, until
from trimtab.clock import SystemClock
from trimtab.errors import ApplyFailed, ApplyLater, ApplyRefused, UsageError
from trimtab.plants._standstill import Standstill
from trimtab.plants.php_fpm import process
from trimtab.plants.php_fpm.attached import Attached
from trimtab.plants.php_fpm.findings import findings
from trimtab.plants.php_fpm.plant import PhpFpm
from trimtab.plants.php_fpm.private import FpmSpec, FpmTestbed
from trimtab.plants.php_fpm.program import Program
from trimtab.plants.php_fpm.reload import Patience
from trimtab.processes import children, start_of

pytestmark = pytest.mark.server
STATIC, DYNAMIC, ONDEMAND = range(3)
JOURNALLED = """
import os, socket, sys
ours, theirs = socket.socketpair()
ours.set_inheritable(True)
os.dup2(theirs.fileno(), 2)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Journalled(FpmTestbed):
    """One whose standard error is a socket, as that to the journal of a service of systemd's is."""

    def configured(self, ports: Sequence[int]) -> list[str]:
        return [sys.executable, "-I", "-S", "-c", JOURNALLED, *super().configured(ports)]


@pytest.fixture(scope="module", params=[False, True], ids=["unix", "tcp"])
def shared(request: pytest.FixtureRequest) -> Iterator[Bed]:
    with private(tcp=request.param) as bed:
        yield bed


@pytest.fixture
def bed(shared: Bed) -> Iterator[Bed]:
    """One that is left as it was found."""
    there = {path: path.read_text() for path in shared.testbed.snippet_directory.iterdir()}
    yield shared
    for path in shared.testbed.snippet_directory.iterdir():
        if path not in there:
            path.unlink()
    for path, text in there.items():
        if path.read_text() != text:
            path.write_text(text)
    shared.restart_pool()


def test_it_is_found_and_read(bed: Bed) -> None:
    fpm = bed.attach()
    assert fpm.configuration() == DEBIAN
    assert fpm.knobs()[0].name == "max_children"
    assert {knob.label for knob in fpm.knobs()} == {"www"}
    assert fpm.listen == bed.testbed.listen
    fpm.check_permissions()


def test_a_change_and_a_reload_of_the_operators_are_seen_where_standard_error_is_a_socket() -> None:
    with Journalled(FpmSpec()) as testbed:
        bed = Bed(testbed, testbed.spec.pools[0])
        fpm = bed.attach()
        assert fpm.apply({"max_children": 7}).configuration["max_children"] == 7
        bed.write("zzz.conf", "[www]\npm.start_servers = 3\n")
        bed.restart_pool()
        assert fpm.configuration()["start_servers"] == 3
        fpm.restore()
        assert fpm.configuration()["max_children"] == DEBIAN["max_children"]


def test_a_change_is_in_force_in_the_running_pool_and_restore_undoes_it(bed: Bed) -> None:
    fpm = bed.attach()
    applied = fpm.apply({"pm": STATIC, "max_children": 7})
    assert applied.configuration == {**DEBIAN, "pm": STATIC, "max_children": 7}
    assert fpm.configuration() == applied.configuration
    assert bed.says().pm == "static"
    assert bed.workers() == 7
    fpm.restore()
    assert fpm.configuration() == DEBIAN
    assert bed.says().pm == "dynamic"
    assert bed.workers() <= 5
    assert not bed.snippet.exists()
    fpm.restore()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"max_children": 0}, "max_children 0 is outside"),
        ({"max_children": 9, "pm": 3}, "pm 3 is outside static or dynamic or ondemand"),
        ({"max_clients": 5}, "unknown knob 'max_clients'"),
        ({"start_servers": 4}, r"start_servers 4 is outside 1\.\.3"),
        ({"min_spare_servers": 0}, "pm = dynamic needs at least 1"),
        ({"min_spare_servers": 4, "start_servers": 4}, "max_spare_servers 3 is less than min_spare_servers 4"),
        ({"max_spare_servers": 6}, "max_children 5 is less than max_spare_servers 6"),
    ],
)
def test_what_is_not_valid_or_against_a_rule_is_refused_and_changes_nothing(
    bed: Bed, changes: dict[str, int], why: str
) -> None:
    fpm, before = bed.attach(), bed.says().started_s
    with pytest.raises(ApplyRefused, match=why):
        fpm.apply({**changes, "max_children": changes.get("max_children", 5)})
    assert not bed.snippet.exists()
    assert bed.says().started_s == before


def test_a_master_that_does_not_reload_in_time_is_said_and_its_file_is_put_back() -> None:
    with private(timeout_s=1) as bed:
        attached = Attached(process.FpmMaster.find(bed.testbed.pid), SystemClock())
        fpm = PhpFpm(SystemClock(), attached, None, Patience(reload_s=0.3, serve_s=0.3, page_s=0.3), accept_lost=True)
        os.kill(fpm.pid, signal.SIGSTOP)
        try:
            with pytest.raises(ApplyFailed, match="did not reload within"):
                fpm.apply({"max_children": 6})
        finally:
            os.kill(fpm.pid, signal.SIGCONT)
        assert not bed.snippet.exists()


class WithIni(FpmTestbed):
    """One that reads a php.ini of its own."""

    def configured(self, ports: Sequence[int]) -> list[str]:
        (self.directory / "php.ini").write_text("memory_limit = 64M\n")
        return [*super().configured(ports), "-c", os.fspath(self.directory)]


def test_php_ini_that_is_edited_in_mid_run_waits_too() -> None:
    with WithIni(FpmSpec()) as testbed:
        bed, ini = Bed(testbed), testbed.directory / "php.ini"
        bed.page.write_text("<?php echo ini_get('memory_limit');")
        fpm = PhpFpm.attach(SystemClock(), testbed.pid, options=("-n", "-c", os.fspath(testbed.directory)))
        fpm.apply({"max_children": 6})
        ini.write_text("memory_limit = 65M\n")
        with pytest.raises(ApplyLater, match=f"{ini} was edited after PHP-FPM read it, .* reload PHP-FPM yourself"):
            fpm.apply({"max_children": 7})
        assert bed.ask(1) == "64M"
        bed.restart_pool()
        fpm.apply({"max_children": 7})
        assert bed.ask(1) == "65M"
        fpm.restore()


class Debians(FpmTestbed):
    """One that reads PHP's own files where its build has them."""

    def configured(self, ports: Sequence[int]) -> list[str]:
        return [word for word in super().configured(ports) if word != "-n"]


def test_phps_own_files_are_looked_for_where_the_program_finds_them() -> None:
    with Debians(FpmSpec()) as testbed:
        bed, exe = Bed(testbed), process.FpmMaster.find(testbed.pid).exe
        bed.page.write_text("<?php echo PHP_CONFIG_FILE_PATH, ':', PHP_CONFIG_FILE_SCAN_DIR;")
        home, beside = bed.ask(1).split(":")
        named = (Path(home, "php.ini"), Path(home, "php-fpm-fcgi.ini"), Path(beside, "*.ini"))
        assert Program(exe, Path(home, "php-fpm.conf")).ini == named
        assert Program(exe, testbed.config_file).ini == (), "it may have been started with others"


class Cached(FpmTestbed):
    """One with an opcode cache, and with a module that has APCu's file name."""

    def configured(self, ports: Sequence[int]) -> list[str]:
        words = super().configured(ports)
        (module,) = Path("/usr/lib/php").glob("*/calendar.so")
        apcu = self.directory / "apcu.so"
        shutil.copy(module, apcu)
        cache = ("zend_extension=opcache.so", "opcache.validate_timestamps=0", "opcache.file_update_protection=0")
        return [*words, *(word for one in (*cache, f"extension={apcu}") for word in ("-d", one))]


def test_a_change_empties_what_php_keeps_in_shared_memory_and_that_is_said_before_the_first(bed: Bed) -> None:
    assert not any("APCu" in note for note in bed.attach().notes)
    with Cached(FpmSpec()) as testbed:
        cached = Bed(testbed)
        cached.page.write_text("<?php echo 'old';")
        assert [cached.ask(1) for _ in range(3)] == ["old"] * 3
        cached.page.write_text("<?php echo 'new';")
        assert cached.ask(1) == "old", "it is kept"
        fpm = cached.attach()
        assert any("APCu is loaded: every change, trials and an undo too, loses what" in note for note in fpm.notes)
        assert {"opcache and APCu empty" in knob.cost for knob in fpm.knobs()} == {True}
        fpm.apply({"max_children": 6})
        assert cached.ask(1) == "new"
        fpm.restore()


def test_a_reload_by_the_operator_is_noticed(bed: Bed) -> None:
    fpm = bed.attach()
    bed.write("x-mine.conf", "[www]\npm.max_children = 9\n")
    assert fpm.configuration() == DEBIAN, "what is on disk is not in force"
    bed.restart_pool()
    assert fpm.configuration() == {**DEBIAN, "max_children": 9}


def test_what_was_edited_before_trimtab_came_and_not_loaded_is_not_brought_into_force(bed: Bed) -> None:
    time.sleep(max(0.0, bed.says().started_s + 1.1 - time.time()))  # the status page tells the second, not more
    bed.write("x-mine.conf", "[www]\npm.max_children = 9\n")
    fpm = bed.attach()
    assert any("x-mine.conf was changed after PHP-FPM loaded it" in note for note in fpm.notes)
    with pytest.raises(ApplyRefused, match=r"x-mine\.conf was changed .* reload PHP-FPM yourself"):
        fpm.apply({"max_children": 7})
    bed.restart_pool()
    assert fpm.apply({"start_servers": 1}).configuration == {**DEBIAN, "max_children": 9, "start_servers": 1}


def test_the_doctor_names_every_knob_of_every_pool() -> None:
    with private(pools=("one", "two")) as bed:
        said = {f.subject: f for f in findings(process.FpmMaster.find(bed.testbed.pid))}
        for pool in ("one", "two"):
            for knob in DEBIAN:
                assert said[f"php-fpm pid {bed.testbed.pid} pool {pool} {knob}"].usable


def test_a_status_page_that_is_off_is_said_with_what_turns_it_on() -> None:
    with private(status=False) as bed:
        with pytest.raises(UsageError, match=r"no status page: add 'pm\.status_path = /status' to \[www\]"):
            bed.attach()
        (found,) = [f for f in findings(process.FpmMaster.find(bed.testbed.pid)) if f.subject.endswith(" pool www")]
        assert not found.usable and "pm.status_path" in found.detail


def test_of_several_pools_one_must_be_named_and_the_others_keep_their_settings() -> None:
    with private(pools=("one", "two")) as bed:
        with pytest.raises(UsageError, match="several pools, choose one with --pool: one, two"):
            PhpFpm.attach(SystemClock(), bed.testbed.pid)
        with pytest.raises(UsageError, match="unknown pool 'three'; choose from: one, two"):
            PhpFpm.attach(SystemClock(), bed.testbed.pid, "three")
        one, two = bed.attach(), replace(bed, pool="two").attach()
        assert any("all pools: two too" in note for note in one.notes)
        one.apply({"pm": STATIC})
        two.apply({"pm": ONDEMAND})
        assert (one.configuration()["pm"], two.configuration()["pm"]) == (STATIC, ONDEMAND)
        two.restore()
        assert (one.configuration()["pm"], two.configuration()["pm"]) == (STATIC, DYNAMIC)
        one.restore()


def test_a_pool_in_the_main_file_after_the_include_has_the_last_word_and_that_is_said() -> None:
    with private() as bed:
        main = bed.testbed.config_file
        main.write_text(main.read_text() + "[www]\npm.max_children = 4\n")
        bed.restart_pool()
        with pytest.raises(ApplyRefused, match=r"would have the last word.*is the last line of"):
            bed.attach().apply({"max_children": 6})


def test_without_process_control_timeout_a_reload_loses_requests_so_it_is_refused_with_what_mends_it() -> None:
    with private(timeout_s=0) as bed:
        fpm = bed.attach()
        assert any("process_control_timeout is 0" in note for note in fpm.notes)
        how = r"add 'process_control_timeout = 30s' to \[global\] in .*php-fpm\.conf .*--accept-lost-requests"
        with pytest.raises(UsageError, match=how):
            fpm.check_permissions()
        before, looks = bed.says().numbers["accepted conn"], itertools.count(1)  # every look is one itself
        under_way = Asked(bed, (1500, 1500))
        until(lambda: bed.says().numbers["accepted conn"] >= before + 2 + next(looks), "they were not taken")
        with pytest.raises(ApplyRefused, match="process_control_timeout is 0"):
            fpm.apply({"max_children": 6})
        assert under_way.wait() == ["done", "done"]
        under_way = Asked(bed, (20_000,))
        until(lambda: bed.says().numbers["active processes"] == 2, "it was not taken")  # one is for the page
        assert bed.attach(accept_lost=True).apply({"max_children": 6}).configuration["max_children"] == 6
        assert under_way.wait() != ["done"], "as PHP-FPM does it, and why it is refused"


def test_a_request_under_way_and_those_that_wait_are_served_through_a_change(bed: Bed) -> None:
    fpm = bed.attach()
    under_way = Asked(bed, (1200,) * 8)
    until(lambda: bed.workers() >= 3, "the pool did not grow")
    fpm.apply({"max_children": 6})
    assert under_way.wait() == ["done"] * 8
    fpm.restore()


@pytest.mark.parametrize("tcp", [False, True], ids=["unix", "tcp"])
def test_what_comes_while_a_reload_waits_for_a_request_is_seen_to_wait(
    tcp: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with private(tcp=tcp) as bed:
        fpm, later, begin = bed.attach(), list[Asked](), Standstill.begin
        under_way = Asked(bed, (3000,))
        until(lambda: bed.says().numbers["active processes"] == 2, "it was not taken")  # one is for the page
        coming = threading.Timer(0.3, lambda: later.append(Asked(bed, (1,) * 4)))

        def begun(standstill: Standstill) -> None:
            begin(standstill)
            coming.start()

        monkeypatch.setattr(Standstill, "begin", begun)
        fpm.apply({"max_children": 6})
        coming.join()
        monkeypatch.setattr(Standstill, "begin", begin)
        assert under_way.wait() == ["done"] and later[0].wait() == ["done"] * 4
        seen = fpm.derive({})
        assert 0 < seen["standstill_wait_s"] <= 4.5 * seen["standstill_s"]
        assert fpm._server.held_s == seen["standstill_s"]
        fpm.restore()


@pytest.mark.root
def test_the_workers_of_a_pool_may_be_of_any_user() -> None:
    with private(more=("user = nobody", "group = nogroup")) as bed:
        fpm = bed.attach()
        assert fpm.apply({"pm": STATIC}).configuration["pm"] == STATIC
        assert bed.workers() == 5
        fpm.restore()


def test_no_worker_outlives_a_private_one_whose_master_was_killed() -> None:
    with private() as bed:
        until(lambda: len(children(bed.testbed.pid)) == DEBIAN["start_servers"], "not all have begun")
        workers = children(bed.testbed.pid)
        os.kill(bed.testbed.pid, signal.SIGKILL)
        until(lambda: not bed.testbed.running(), "the master did not end")
    assert not [worker for worker in workers if start_of(worker) is not None]
