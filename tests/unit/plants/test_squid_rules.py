"""What a Squid is not let have: memory that there is not, and less of its disk than it has."""

from __future__ import annotations

import contextlib
import math
import os
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests._memory_plant import FakeClock
from trimtab.core.memory import MIB, Room
from trimtab.errors import ApplyLater, UsageError
from trimtab.plants._included_files import Files, Setting
from trimtab.plants._included_server import IncludedServer
from trimtab.plants._program import Verdict
from trimtab.plants.squid import attached
from trimtab.plants.squid import held as held_open
from trimtab.plants.squid import reload as reloading
from trimtab.plants.squid.attached import Attached
from trimtab.plants.squid.plant import Squid
from trimtab.plants.squid.process import SquidMaster
from trimtab.plants.squid.reload import Patience

from .test_squid_configuration import DEBIAN

GROUP = Room("control group /squid", 2048 * MIB)


def squid(room: Room = GROUP, disk: bool = False) -> Squid:
    """One with Debian's settings under such a limit, with a cache_dir or none."""
    attached: Any = SimpleNamespace(
        listeners=(),
        manager_url="",
        loaded=SimpleNamespace(all=lambda name: [name] if disk else []),
        in_force=dict(DEBIAN),
        rooms=(room,),
        master=SimpleNamespace(pid=1),
    )
    return Squid(FakeClock(), attached)


def objection(cache_mib: int, room: Room = GROUP) -> str:
    """Why so large a cache is refused."""
    return squid(room).objection({**DEBIAN, "cache_mem": cache_mib})


def running(monkeypatch: pytest.MonkeyPatch, reading_s: float, *settings: Setting) -> Any:
    """A Squid of such settings that was attached to, which takes so long to read them and can be reloaded."""
    server: Any = Attached.__new__(Attached)
    server.clock, server.reading_s, server.pending, server.loaded = FakeClock(), reading_s, None, Files([*settings])
    server.master = SimpleNamespace(signal=lambda number: None, pid=os.getpid())
    monkeypatch.setattr(Attached, "parsed", lambda self: self.loaded)
    monkeypatch.setattr(attached, "hindrances", lambda master: [])
    return server


def test_a_cache_whose_process_does_not_fit_is_refused() -> None:
    assert objection(1100) == ""
    assert objection(1200) == (
        "a memory cache of 1200 MiB and what is around it (1920 MiB): more than 90% of the 2048 MiB of "
        "control group /squid"
    )
    assert objection(2048) != ""


def test_what_others_hold_under_the_same_limit_is_theirs() -> None:
    assert "less the 1024 MiB that all else" in objection(1100, GROUP._replace(demand_bytes=1024 * MIB))
    assert objection(1100, GROUP._replace(demand_bytes=1024 * MIB, held_bytes=1024 * MIB)) == ""


def test_a_cache_that_was_too_large_at_the_start_is_the_operators_choice() -> None:
    plant = squid(Room("control group /squid", 128 * MIB))
    assert plant.objection(DEBIAN) == ""
    assert plant.objection({**DEBIAN, "cache_mem": 257}) != ""
    plant.began_with({"cache_mem": 300})
    assert plant.objection({**DEBIAN, "cache_mem": 257}) == ""


def test_a_cache_on_disk_is_never_let_have_less_than_it_has() -> None:
    least = {knob.name: knob.domain.minimum for knob in squid(disk=True).knobs()}
    assert (least["cache_swap_low"], least["cache_swap_high"]) == (90, 95)
    assert {knob.name: knob.domain.minimum for knob in squid().knobs()}["cache_swap_low"] == 0, (
        "where it does nothing"
    )


def test_a_squid_that_reads_long_lists_is_not_stopped_for_them_unless_that_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = running(monkeypatch, math.inf)
    took_s = [2.0, 0.2]  # the first one in a busy moment

    def tested(self: Any) -> Verdict:
        server.clock.sleep(took_s.pop(0) if took_s[1:] else took_s[0])
        return Verdict(True, "")

    monkeypatch.setattr(IncludedServer, "_tested", tested)
    server.permitted(accept_lost=False)
    assert server.reading_s == pytest.approx(0.2) and len(server.notes()) == 1
    server.reading_s, took_s[:] = math.inf, [7.0]
    with pytest.raises(UsageError, match=r"takes 7\.0 s to read its configuration .*serves nobody.*--accept-lost"):
        server.permitted(accept_lost=False)
    server.permitted(accept_lost=True)
    assert "takes 7.0 s" in server.notes()[1]
    assert Patience().also(server.reading_s).reload_s == 28 and Patience().also(math.inf) == Patience()
    took_s[:] = [0.3]  # what was slow for a moment is no long list
    server.test()
    server.permitted(accept_lost=False)


def test_a_test_that_fails_says_nothing_of_how_long_squid_reads_its_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    server = running(monkeypatch, math.inf)
    verdicts = [(0.1, False), (7.0, True), (7.0, True)]  # one stops at the first line

    def tested(self: Any) -> Verdict:
        took_s, valid = verdicts.pop(0)
        server.clock.sleep(took_s)
        return Verdict(valid, "")

    monkeypatch.setattr(IncludedServer, "_tested", tested)
    server.permitted(accept_lost=False)
    assert len(server.notes()) == 1 and not verdicts[2:]
    with pytest.raises(UsageError, match=r"takes 7\.0 s"):
        server.permitted(accept_lost=False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("external_acl_type", "user ttl=60 %LOGIN /usr/bin/helper"),
        ("auth_param", "basic program /usr/bin/helper"),
        ("auth_param", "basic realm ours"),
    ],
)
def test_a_reload_that_denies_requests_that_wait_for_a_helper_has_to_be_accepted(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four clients under whose requests a Squid of each was reloaded had one in twenty answered 403."""
    server = running(monkeypatch, 0.1, Setting(name, value, Path("/etc/squid/squid.conf"), 7))
    waits = "realm" not in value
    said = rf"a helper \({name}, .*squid.conf.*7\) may be answered 403 .*: accept it with --accept-lost-connections"
    with pytest.raises(UsageError, match=said) if waits else contextlib.nullcontext():
        server.permitted(accept_lost=False)
    server.permitted(accept_lost=True)
    assert any("403" in note for note in server.notes()) == waits


@pytest.mark.parametrize(
    ("acl", "rule", "waits"),
    [
        ("inside dst 10.0.0.0/8", "http_access deny inside", True),
        ("inside srcdomain .ours.example", "http_access allow CONNECT !inside", True),
        ("inside srcdom_regex -i ours", "url_rewrite_access deny inside", True),
        ("inside dst 10.0.0.0/8", "http_access allow localhost", False),
        ("inside src 10.0.0.0/8", "http_access deny inside", False),
        ("", "http_access deny to_localhost", True),
        ("inside dst -n 10.0.0.0/8", "http_access deny inside", False),
        ("inside srcdom_regex -i -n ours", "http_access deny inside", False),
        ("inside dst 10.0.0.0/8", "delay_access 1 allow inside", False),
        ("inside dst 10.0.0.0/8", "cache_peer_access peer.example deny inside", False),
    ],
)
def test_a_reload_that_denies_requests_that_wait_for_a_name_server_has_to_be_accepted(
    acl: str, rule: str, waits: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One that waited for an answer of two seconds was answered 403 after seven, for 200 after two."""
    file = tmp_path / "squid.conf"
    name, _, value = rule.partition(" ")
    server = running(monkeypatch, 0.1, Setting("acl", acl, file, 7), Setting(name, value, file, 8))
    said = rf"the address of its host \({name}, .*squid.conf line 8\) may be answered 403 .*: accept it with"
    with pytest.raises(UsageError, match=said) if waits else contextlib.nullcontext():
        server.permitted(accept_lost=False)
    server.permitted(accept_lost=True)
    assert any("403" in note for note in server.notes()) == waits


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("access_log", "daemon:{}/log squid"),
        ("access_log", "stdio:{}/log"),
        ("access_log", "{}/log combined"),
        ("cache_store_log", "stdio:{}/log"),
    ],
)
def test_a_log_whose_directory_is_gone_ends_it_in_a_reload_and_is_named(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its own test passes; the worker ended, and so did those after it, and the master with the fifth."""
    server, gone = running(monkeypatch, 0.1), tmp_path / "gone"
    there = Setting("access_log", f"daemon:{tmp_path}/log squid", Path("/etc/squid.conf"), 6)
    elsewhere = [Setting("access_log", word, Path("/etc/squid.conf"), 8) for word in ("none", "udp://10.0.0.1:514")]
    log = Setting(name, value.format(gone), Path("/etc/squid.conf"), 7)
    monkeypatch.setattr(Attached, "parsed", lambda self: Files([there, *elsewhere, log]))
    monkeypatch.setattr(IncludedServer, "_tested", lambda self: Verdict(True, ""))
    why = f"though its own test passes: no directory for {gone}/log (/etc/squid.conf line 7): make it"
    assert not server.test().valid and server.test().message.endswith(why)
    with pytest.raises(UsageError, match="would end in a reload"):
        server.permitted(accept_lost=True)
    gone.mkdir()
    assert server.test().valid
    server.permitted(accept_lost=True)


@pytest.mark.parametrize("kind", ["ufs", "aufs", "diskd"])
def test_a_cache_that_is_gone_or_whose_disk_is_read_only_ends_it_in_a_reload_and_is_named(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It "failed to open swap log" (FATAL); until then it serves from memory and its origins."""
    server: Any = Attached.__new__(Attached)
    server.master, cache = SimpleNamespace(pid=os.getpid()), tmp_path / "spool"
    lines = [Setting("cache_dir", f"{kind} {cache} 100 16 256", Path("/etc/squid.conf"), 7)]
    monkeypatch.setattr(Attached, "parsed", lambda self: Files(lines))
    passes = f"Squid would end in a reload, though its own test passes: {cache} (/etc/squid.conf line 7) is "
    assert server._fatal() == f"{passes}not there: make it"
    cache.mkdir()
    assert server._fatal() == ""
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY))
    assert server._fatal() == f"{passes}on a file system that is read-only: mend that"
    lines.append(Setting("cache_swap_state", "/var/log/squid/%s.state", Path("/etc/squid.conf"), 8))
    assert server._fatal() == "", "its log is elsewhere"


HIS, OURS = ({f"socket:[{number}]": ("0.0.0.0", 3128)} for number in (1, 2))


class Reloading(SquidMaster):
    """A Squid of which somebody else's reload is under way: it listens nowhere at the first looks."""

    ends = True

    def check(self) -> None:
        pass

    def worker(self) -> int:
        return 7

    def ports(self) -> dict[str, tuple[str, int]]:
        return next(self.__dict__.setdefault("seen", chain([{}, {}], repeat(HIS if self.ends else {}))))

    def signal(self, number: int) -> None:
        self.__dict__["seen"] = chain([HIS, {}], repeat(OURS))


@pytest.fixture
def master(monkeypatch: pytest.MonkeyPatch) -> Reloading:
    monkeypatch.setattr(reloading, "hindrances", lambda master: [])
    monkeypatch.setattr(reloading, "held", lambda master: contextlib.nullcontext())
    return Reloading(812, 1, Path("/usr/sbin/squid"), ("squid",), 0)


def test_the_end_of_somebody_elses_reload_is_not_taken_for_that_of_ours(master: Reloading) -> None:
    """Our own was still to come then, and nobody held the ports open for it."""
    assert reloading.reload(master, FakeClock(), Patience()) == ()
    assert master.ports() == OURS


def test_while_somebody_elses_reload_does_not_end_ours_is_put_off(
    master: Reloading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reloading, "ends", False)
    with pytest.raises(ApplyLater, match="listened nowhere for 20 s, as in a reload: not reloaded"):
        reloading.reload(master, FakeClock(), Patience())


def test_of_a_squid_that_listens_nowhere_just_now_it_is_not_said_that_its_ports_can_be_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_open, "held", lambda master: contextlib.nullcontext(()))
    monkeypatch.setattr(Reloading, "worker", lambda self: os.getpid())
    with pytest.raises(UsageError, match="listens nowhere just now"):
        held_open.hindrances(Reloading(812, 1, Path("/usr/sbin/squid"), ("squid",), 0))
