"""The keep-alive time of a run: what may be set, what the shim then reads, and who is told no."""

from __future__ import annotations

import fcntl
import struct
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests._idle_file import NONE, a_run, count, settings
from tests._memory_plant import FakeClock
from trimtab import locks
from trimtab.errors import UsageError
from trimtab.gate.keep_alive import OF_SERVER, InCharge, KeepAliveTime, Setting, parse_setting, trial_ms

MS = 1_000_000


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("400ms", Setting(InCharge.FIXED, 400)),
        ("1m30s", Setting(InCharge.FIXED, 90_000)),
        ("1h", Setting(InCharge.FIXED, 3_600_000)),
        ("auto", Setting(InCharge.AUTO, None)),
        ("server", OF_SERVER),
    ],
)
def test_a_setting_is_a_time_or_a_word(text: str, setting: Setting) -> None:
    assert parse_setting(text) == setting


@pytest.mark.parametrize("text", ["", "400", "-1s", "fast", "AUTO", "1e3s", "nan"])
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write auto, server or a time such as 400ms or 15s"):
        parse_setting(text)


@pytest.mark.parametrize("text", ["0ms", "0.4ms", "3601s", "99999h"])
def test_an_absurd_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="outside of 1ms to 1h"):
        parse_setting(text)


def test_what_is_set_is_what_the_shim_reads(tmp_path: Path) -> None:
    path = a_run(tmp_path).shared
    time = KeepAliveTime(path)
    assert time.setting() == OF_SERVER
    assert time.write(Setting(InCharge.FIXED, 400)) == Setting(InCharge.FIXED, 400)
    assert settings(path) == (400 * MS, 900 * MS, 32, 1)
    assert time.write(Setting(InCharge.AUTO, 15_000)) == Setting(InCharge.AUTO, 15_000)
    assert settings(path) == (15_000 * MS, 30_000 * MS, 32, 2)
    assert time.write(Setting(InCharge.AUTO, None)).time_ms is None
    assert settings(path) == (0, 0, 0, 2)
    assert time.write(OF_SERVER) == OF_SERVER
    assert settings(path) == (0, 0, 0, 0)
    time.close()
    time.close()


def test_a_trial_is_twice_as_long_and_half_a_second_longer_at_least() -> None:
    assert [trial_ms(t) for t in (1, 50, 400, 500, 501, 15_000)] == [501, 550, 900, 1000, 1002, 30_000]


def test_the_servers_own_time_is_told_once_it_was_seen(tmp_path: Path) -> None:
    path = a_run(tmp_path).shared
    time = KeepAliveTime(path)
    assert time.server_ms() is None
    count(path, replace(NONE, server_ms=5000))
    assert time.server_ms() == 5000


def test_a_change_waits_for_the_one_before(tmp_path: Path) -> None:
    path = a_run(tmp_path).shared
    one, other = KeepAliveTime(path), KeepAliveTime(path)
    began, seen = threading.Event(), []

    def second() -> None:
        began.set()
        with other.alone():
            seen.append(other.setting().time_ms)

    with one.alone():
        thread = threading.Thread(target=second)
        thread.start()
        began.wait()
        one.write(Setting(InCharge.FIXED, 200))
        assert seen == []
    thread.join()
    assert seen == [200]


def test_who_holds_the_lock_for_seconds_keeps_no_time_from_being_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = a_run(tmp_path).shared
    clock, time = FakeClock(), KeepAliveTime(path)
    monkeypatch.setattr(locks, "time", SimpleNamespace(monotonic=clock.now_s, sleep=clock.sleep))
    with path.open("rb") as his:
        fcntl.flock(his, fcntl.LOCK_EX)
        began_s = clock.now_s()
        with time.alone():
            time.write(OF_SERVER)
        assert 10.0 <= clock.now_s() - began_s < 11.0
        time.close()


def test_a_run_that_has_ended_or_was_started_anew_is_not_present(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    time = KeepAliveTime(run_dir.shared)
    assert time.present()
    run_dir.release()
    assert not time.present()
    a_run(tmp_path)
    assert not time.present()


def test_a_file_of_another_version_and_none_are_used_wrongly(tmp_path: Path) -> None:
    path = a_run(tmp_path).shared
    with path.open("r+b") as file:
        file.seek(8)
        file.write(struct.pack("=I", 1))
    with pytest.raises(UsageError, match="its layout is version 1"):
        KeepAliveTime(path)
    with pytest.raises(UsageError, match="No such file"):
        KeepAliveTime(tmp_path / "none")
