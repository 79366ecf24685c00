"""What the plant of a pool expects of its first reload."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import cast

import pytest

from tests._memory_plant import FakeClock
from tests.unit.plants.test_change import MASTER
from tests.unit.plants.test_standstill import Waiting
from trimtab.errors import ApplyLater, UsageError
from trimtab.files import ABSENT
from trimtab.plants._included_server import IncludedServer
from trimtab.plants._program import Verdict
from trimtab.plants._standstill import Standstill
from trimtab.plants.php_fpm import attached, knobs, process, program, status
from trimtab.plants.php_fpm.attached import Attached
from trimtab.plants.php_fpm.configuration import Configuration, read
from trimtab.plants.php_fpm.plant import PhpFpm
from trimtab.plants.php_fpm.process import FpmMaster
from trimtab.plants.php_fpm.program import Program
from trimtab.plants.php_fpm.status import Page, StatusPage

POOL = "[{name}]\nlisten = /run/{name}.sock\npm = static\npm.max_children = 8\npm.status_path = /status\n"
SEEN = {"idle_workers": 5.0, "busy_workers": 3.0, "request_rate_hz": 2.0}
"""By Little's law a request takes 1.5 s."""


@dataclass
class Server:
    """A pool of a running FPM, as far as the plant looks at it."""

    loaded: Configuration
    timeout_s: int
    pool: str = "www"
    section: str = "www"
    listen: str = "/run/www.sock"
    drainable: bool = False
    reads_long: bool = False
    pending: Path | None = None
    silent: bool = False
    master: FpmMaster = field(default_factory=lambda: FpmMaster(**vars(MASTER)))
    standstill: Standstill | None = None
    held_s: float = 0.0
    by_hand: str = "serverctl reload"
    status_page: StatusPage = field(default_factory=lambda: StatusPage("/run/www.sock", "/status", False))

    @property
    def in_force(self) -> dict[str, int]:
        return knobs.values(self.loaded, "www")

    def room(self) -> None:
        """Nothing limits it."""


def server(directory: Path, timeout_s: int = 30, pools: tuple[str, ...] = ("www",)) -> Server:
    main = directory / "php-fpm.conf"
    each = "".join(POOL.format(name=pool) for pool in pools)
    main.write_text(f"[global]\nprocess_control_timeout = {timeout_s}\n{each}")
    return Server(read(main), timeout_s)


def expected_s(fpm: Server, readings: dict[str, float]) -> float:
    return PhpFpm(FakeClock(), cast(Attached, fpm)).derive(readings)["standstill_s"]


ENDING_S = 0.05 + 8 * 0.005
"""Until eight workers have ended who serve nothing, and the master has executed itself."""


def test_the_first_reload_is_expected_to_wait_for_the_slowest_request_under_way(tmp_path: Path) -> None:
    assert expected_s(server(tmp_path), SEEN) == pytest.approx(ENDING_S + 1.5 * (1 + math.log(3)))
    alone = {**SEEN, "busy_workers": 0.5, "idle_workers": 7.5}
    assert expected_s(server(tmp_path), alone) == pytest.approx(ENDING_S + 0.25), "less than one is none the less one"


def test_it_waits_no_longer_than_the_time_that_fpm_gives_to_requests(tmp_path: Path) -> None:
    slow = {**SEEN, "request_rate_hz": 0.01}
    assert expected_s(server(tmp_path), slow) == pytest.approx(ENDING_S + 30)
    assert expected_s(server(tmp_path, 0), slow) == pytest.approx(ENDING_S), "requests are ended at once"


def test_where_the_time_of_requests_is_not_known_nothing_is_added(tmp_path: Path) -> None:
    assert expected_s(server(tmp_path), {"idle_workers": 5.0, "busy_workers": 3.0}) == pytest.approx(ENDING_S)
    only_idle = {"idle_workers": 8.0, "service_time_s": 1.5}
    assert expected_s(server(tmp_path), only_idle) == pytest.approx(ENDING_S)


def test_a_reload_that_was_measured_counts_and_no_longer_what_was_expected(tmp_path: Path) -> None:
    fpm, clock = server(tmp_path), FakeClock()
    fpm.standstill = Standstill(clock, Waiting)
    fpm.standstill.begin()
    clock.sleep(0.4)
    fpm.standstill.end()
    assert expected_s(fpm, SEEN) == pytest.approx(0.4)


def test_one_that_takes_long_to_start_is_said_and_reckoned_with_before_its_first_reload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """opcache.preload runs scripts in each start, and nothing is served meanwhile."""
    fpm, clock = object.__new__(Attached), FakeClock()
    parts = {"pool": "www", "section": "www", "in_force": server(tmp_path).in_force, "pending": None, "clock": clock}
    page = StatusPage("/run/www.sock", "/status", False)
    vars(fpm).update(parts, status_page=page, loaded=server(tmp_path).loaded, master=FpmMaster(**vars(MASTER)))
    tests = [(0.1, False), (4.0, True), (3.0, True)]  # one that fails stops early, and one was in a busy moment

    def tested(self: Attached) -> Verdict:
        took_s, valid = tests.pop(0)
        clock.sleep(took_s)
        return Verdict(valid, "")

    monkeypatch.setattr(IncludedServer, "_tested", tested)
    monkeypatch.setattr(Attached, "parsed", lambda self: self.loaded)
    monkeypatch.setattr(Attached, "drainable", False)
    for _ in range(3):
        fpm.learn_start()
    assert not tests and any("takes 3 s to start" in note for note in fpm.notes())
    assert expected_s(cast(Server, fpm), {"idle_workers": 8.0}) == pytest.approx(3 + 8 * 0.005)
    fpm.reading_s = 0.9
    assert not any("to start" in note for note in fpm.notes())
    assert expected_s(cast(Server, fpm), {"idle_workers": 8.0}) == pytest.approx(ENDING_S)


def test_what_would_end_it_in_a_reload_though_its_own_test_passes_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended in the first trial where the directory of its pid file was gone."""
    fpm, main, run = object.__new__(Attached), tmp_path / "php-fpm.conf", tmp_path / "run"
    master = FpmMaster(**{**vars(MASTER), "pid": os.getpid()})
    vars(fpm).update(clock=FakeClock(), program=Program(Path("/usr/sbin/php-fpm"), main), master=master)
    monkeypatch.setattr(IncludedServer, "_tested", lambda self: Verdict(True, ""))

    def refused(pid: str, listen: str) -> str:
        main.write_text(f"[global]\npid = {pid}\n[www]\nlisten = {run}/www.sock\n[shop]\nlisten = {listen}\n")
        return fpm.test().message

    main.write_text(f"[www]\nlisten = {run}/www.sock\n")
    fpm.loaded = read(main)
    why = f"PHP-FPM would end in a reload, though its own test passes: no directory for {run}/"
    assert refused(f"{run}/pid", "127.0.0.1:9000") == f"{why}pid"
    assert refused("relative.pid", f"{run}/$pool.sock") == f"{why}shop.sock", "what it holds it keeps"
    assert refused("", "9000") == refused("/${run}/pid", "9000") == ""
    run.mkdir()
    assert refused(f"{run}/pid", f"{run}/shop.sock") == ""


@pytest.mark.parametrize(
    "key", ["listen.acl_users", "listen.acl_groups", "listen.owner", "listen.group", "user", "group"]
)
def test_who_is_to_have_a_socket_or_the_workers_and_is_gone_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """FPM's own test passes, and it ended in the first trial, with the sockets that it had open."""
    fpm, main = object.__new__(Attached), tmp_path / "php-fpm.conf"
    program = Program(Path("/usr/sbin/php-fpm"), main)
    vars(fpm).update(clock=FakeClock(), program=program, loaded=Configuration())
    monkeypatch.setattr(IncludedServer, "_tested", lambda self: Verdict(True, ""))

    def refused(listen: str, names: str, user: int = 0) -> str:
        fpm.master = FpmMaster(**{**vars(MASTER), "pid": os.getpid(), "user": user})
        main.write_text(f"[www]\nlisten = {listen}\n{key} = {names}\n")
        return fpm.test().message

    why = f"though its own test passes: {key} of pool www names nobody-there, who is not known: correct that"
    listed, workers = "acl" in key, not key.startswith("listen")
    for listen in (f"{tmp_path}/s", "run/s"):
        assert refused(listen, "root,nobody-there" if listed else "nobody-there").endswith(why)
    assert bool(refused("1", "nobody-there")) is bool(refused("[::1]:1", "nobody-there")) is workers
    assert bool(refused(f"{tmp_path}/s", "nobody-there", 7)) is not workers, "who runs it is not root"
    assert (
        refused(f"{tmp_path}/s", "root") == refused(f"{tmp_path}/s", "") == refused(f"{tmp_path}/s", "${WHO}") == ""
    )
    assert (refused(f"{tmp_path}/s", "4711") == "") is not listed
    over = "root\nlisten.acl_users = root" if listed else "nobody-there\nlisten.acl_users = root"
    assert bool(refused(f"{tmp_path}/s", over)) is workers


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_a_new_pool_at_what_another_server_has_is_named_and_what_is_its_own_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The reload at the end of a run brought the operator's pool into force, and FPM ended."""
    main, unix = tmp_path / "php-fpm.conf", kind == "unix"
    family, at = (socket.AF_UNIX, f"{tmp_path}/s") if unix else (socket.AF_INET, ("127.0.0.1", 0))
    fpm, master = object.__new__(Attached), FpmMaster(**{**vars(MASTER), "pid": os.getpid()})
    vars(fpm).update(clock=FakeClock(), program=Program(Path("/usr/sbin/php-fpm"), main), master=master)
    monkeypatch.setattr(IncludedServer, "_tested", lambda self: Verdict(True, ""))
    main.write_text("[www]\nlisten = 127.0.0.1:1\n")
    fpm.loaded = read(main)
    with socket.create_server(at, family=family) as other:
        address = f"{tmp_path}/s" if unix else f"127.0.0.1:{other.getsockname()[1]}"
        main.write_text(f"[www]\nlisten = 127.0.0.1:1\n[shop]\nlisten = {address}\n")
        assert fpm.test().message == "", "an operator's reload has brought it into force"
        monkeypatch.setattr(FpmMaster, "generation", lambda self: frozenset())
        monkeypatch.setattr(attached, "listeners", lambda pid: ())
        assert fpm.test().message.endswith(f"though its own test passes: another server listens at {address}")
        fpm.loaded = read(main)
        assert fpm.test().message == "", "what it has loaded it holds, or would not run"
        fpm.loaded = Configuration()
    if unix:  # the port another test's server may have by now
        assert fpm.test().message == "", "nobody listens there any more"


def test_why_a_start_fails_is_said_where_php_shows_it_as_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (
        "<br />\n<b>Fatal error</b>:  Uncaught Error: Class &quot;Nope&quot; not found in /srv/preload.php:1<br />\n"
    )
    answer = CompletedProcess([], 70, page, "")
    monkeypatch.setattr(program, "ask", lambda argv, environ: answer)
    monkeypatch.setattr(program, "require_trusted", lambda path: None)
    verdict = Program(Path("/usr/sbin/php-fpm"), Path("/etc/php-fpm.conf")).test()
    assert (verdict.valid, verdict.message) == (
        False,
        'Uncaught Error: Class "Nope" not found in /srv/preload.php:1',
    )


def test_one_that_puts_itself_into_the_background_is_not_reloaded_as_another_process_serves_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its run ended as if FPM had, and left what was on trial in force."""
    fpm = cast(Attached, server(tmp_path))
    monkeypatch.setattr(FpmMaster, "signal", lambda master, number: None)
    monkeypatch.setattr(process, "executed", lambda pid: True)
    Attached.permitted(fpm, accept_lost=False)
    monkeypatch.setattr(process, "executed", lambda pid: False)
    with pytest.raises(UsageError, match=r"into the background, .*: start it with --nodaemonize"):
        Attached.permitted(fpm, accept_lost=True)


def test_requests_of_other_pools_are_said_to_hold_up_a_reload_unseen(tmp_path: Path) -> None:
    def notes(*pools: str) -> str:
        return "; ".join(Attached.notes(cast(Attached, server(tmp_path, pools=pools))))

    assert "one of all pools: shop too; how long their requests hold it up is not seen" in notes("www", "shop")
    assert "one that takes very long puts changes off" in notes("www", "shop")
    assert "all pools" not in notes("www")


def test_that_questions_for_the_status_page_are_logged_is_said_with_what_spares_them_that(tmp_path: Path) -> None:
    """PHP's own image has `access.log = /proc/self/fd/2`: ten lines a second there."""

    def notes(fpm: Server) -> str:
        return "; ".join(Attached.notes(cast(Attached, fpm)))

    main, fpm = tmp_path / "php-fpm.conf", server(tmp_path)
    assert "access.log" not in notes(fpm)
    main.write_text(f"{main.read_text()}access.log = /proc/self/fd/2\nclear_env = no\n")
    fpm.loaded = read(main)
    assert f"each question for it, up to ten a second, is a line in access.log ({main} line 8)" in notes(fpm)
    fpm.status_page = StatusPage("127.0.0.1:9001", "/status", True)
    assert "access.log" not in notes(fpm)


def test_where_connections_wait_the_time_of_requests_is_the_overloads_and_adds_nothing(tmp_path: Path) -> None:
    assert expected_s(server(tmp_path), {**SEEN, "accept_queue_length": 4.0}) == pytest.approx(ENDING_S)


@pytest.mark.parametrize(
    ("timeout_s", "said"),
    [
        (0, r"because process_control_timeout is 0: add 'process_control_timeout = 30s' to \[global\] in"),
        (1, r"because process_control_timeout is 1 s: make it 10 s or more in \S+/php-fpm.conf line 2 and reload"),
        (9, r"because process_control_timeout is 9 s: make it 10 s or more in \S+/php-fpm.conf line 2 and reload"),
    ],
)
def test_a_time_that_ordinary_requests_may_exceed_has_to_be_accepted_and_keeps_no_undo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timeout_s: int, said: str
) -> None:
    fpm = object.__new__(Attached)
    fpm.loaded, fpm.pending, fpm.master = server(tmp_path, timeout_s).loaded, None, FpmMaster(**vars(MASTER))
    fpm.program = Program(Path("/usr/sbin/php-fpm"), tmp_path / "php-fpm.conf")
    monkeypatch.setattr(FpmMaster, "signal", lambda master, number: None)
    monkeypatch.setattr(process, "executed", lambda pid: True)
    with pytest.raises(UsageError, match=said + ".*--accept-lost-requests"):
        fpm.permitted(accept_lost=False)
    fpm.permitted(accept_lost=True)
    ours = tmp_path / "zz-trimtab-www.conf"
    with contextlib.nullcontext() if timeout_s else pytest.raises(UsageError):
        fpm.permitted(accept_lost=False, ours=ours)
    fpm.loaded = server(tmp_path, 10).loaded
    fpm.permitted(accept_lost=False)


def test_hundreds_of_pools_that_do_not_answer_hold_a_change_up_for_a_moment_and_are_asked_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fpm, clock, asked, looks = object.__new__(Attached), FakeClock(), list[str](), list[float]()
    pools = tuple(f"shop{number}" for number in range(300))
    fpm.loaded, fpm.clock, fpm.master = server(tmp_path, pools=pools).loaded, clock, FpmMaster(**vars(MASTER))
    exports = Page("static", {}, longest_s=60.0)

    def ask(page: StatusPage, clock: FakeClock, patience_s: float, query: str) -> Page | None:
        asked.append(page.address)
        clock.sleep(patience_s)
        return exports if page.address == "/run/shop299.sock" else None

    monkeypatch.setattr(status, "ask", ask)
    with pytest.raises(ApplyLater, match="a request of pool shop299 is under way for 60 s"):
        for _ in pools:
            looks.append(clock.now_s())
            fpm.require_no_long_request(0.0)
    assert len(looks) >= 20, "all at a time would take a minute"
    assert asked == [f"/run/{pool}.sock" for pool in pools], "each was asked once"


def test_a_php_ini_that_is_not_there_is_waited_for_and_hinders_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fpm = object.__new__(Attached)
    fpm.master = FpmMaster(**{**vars(MASTER), "pid": os.getpid()})
    monkeypatch.setattr(Program, "ini", (tmp_path / "php.ini",))
    fpm.program = Program(Path("/usr/sbin/php-fpm"), tmp_path / "php-fpm.conf")
    server(tmp_path)
    assert fpm.read().stamps[tmp_path / "php.ini"] == ABSENT


@pytest.mark.parametrize("place", ["php.ini", "conf.d/20-gd.ini", "pool.d/shop.conf"])
def test_what_was_edited_before_the_run_waits_for_the_operators_reload_and_php_ini_keeps_no_undo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """An edit of php.ini came into force with the first trial, without a word."""
    fpm, file, scanned = object.__new__(Attached), tmp_path / place, tmp_path / "conf.d" / "*.ini"
    for directory in ("conf.d", "pool.d"):
        (tmp_path / directory).mkdir()
    (tmp_path / "gd").write_text("pm.max_requests = 9\n")
    parts = {"pool": "www", "section": "www", "clock": FakeClock(), "master": FpmMaster(**vars(MASTER))}
    vars(fpm).update(parts, status_page=StatusPage("/run/www.sock", "/status", False))
    monkeypatch.setattr(Program, "ini", (tmp_path / "php.ini", scanned))
    fpm.program = Program(Path("/usr/sbin/php-fpm"), tmp_path / "php-fpm.conf")
    server(tmp_path)
    fpm.program.config_file.write_text(fpm.program.config_file.read_text() + f"include={tmp_path}/pool.d/*.conf\n")

    def pending_s(started_s: float) -> Path | None:
        fpm.loaded = fpm.parsed()
        monkeypatch.setattr(status, "ask", lambda *_: Page("static", {"start time": int(started_s)}))
        return fpm._changed_since_load()

    monkeypatch.setattr(attached, "changed_ns", lambda path: path.lstat().st_ctime_ns if path == file else 0)
    file.symlink_to(tmp_path / "gd")
    assert pending_s(time.time() + 1) is None
    fpm.pending = pending_s(time.time() - 60)
    assert fpm.pending == file and any(f"{file} was changed after PHP-FPM loaded it" in note for note in fpm.notes())
    monkeypatch.setattr(FpmMaster, "signal", lambda master, number: None)
    monkeypatch.setattr(process, "executed", lambda pid: True)
    said = rf"{file} was changed after PHP-FPM loaded it, and a change would .*: reload PHP-FPM yourself \(systemctl"
    with pytest.raises(UsageError, match=said):
        fpm.permitted(accept_lost=True)
    with contextlib.nullcontext() if file.suffix == ".ini" else pytest.raises(UsageError, match=said):
        fpm.permitted(accept_lost=True, ours=tmp_path / "zz-trimtab-www.conf")


def test_the_page_of_another_pool_in_another_network_is_not_asked_for_in_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has the same address here was taken for it, and put changes off or hid a long request."""
    fpm, asked = object.__new__(Attached), list[str]()
    found = server(tmp_path, pools=("www", "shop"))
    main = tmp_path / "php-fpm.conf"
    main.write_text(main.read_text().replace("/run/shop.sock", "127.0.0.1:9000"))
    fpm.loaded, fpm.clock, fpm.master = read(main), FakeClock(), found.master
    monkeypatch.setattr(status, "ask", lambda page, *_: asked.append(page.address))
    apart = [False]

    def same_network(master: FpmMaster) -> None:
        if apart[-1]:
            raise UsageError("another network namespace")

    monkeypatch.setattr(attached, "same_network", same_network)
    fpm.require_no_long_request(0.0)
    apart.append(True)
    fpm.require_no_long_request(0.0)
    assert asked == ["/run/www.sock", "127.0.0.1:9000", "/run/www.sock"]


@dataclass
class Counting(Server):
    """One that counts how often its files are read."""

    reads: int = 0

    def read(self) -> Configuration:
        self.reads += 1
        return read(self.loaded.files[0])


def test_after_a_reload_its_files_are_read_again_only_where_one_has_changed(tmp_path: Path) -> None:
    """It is asked in every window, and with hundreds of pools to read them takes a third of a second."""
    began = server(tmp_path)
    fpm, main = Counting(began.loaded, began.timeout_s), tmp_path / "php-fpm.conf"
    plant = PhpFpm(FakeClock(), cast(Attached, fpm))
    assert plant.edits(["max_children"]) == {}
    fpm.loaded = read(main)  # as after a reload
    assert plant.edits(["max_children"]) == {} and fpm.reads == 0
    main.write_text(main.read_text().replace("max_children = 8", "max_children = 12"))
    assert "was edited" in plant.edits(["max_children"])["max_children"] and fpm.reads == 1
    fpm.loaded = read(main)  # by the operator, who has reloaded
    assert "was edited" in plant.edits(["max_children"])["max_children"] and fpm.reads == 1
