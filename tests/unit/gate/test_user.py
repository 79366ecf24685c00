"""Whom root's gate becomes: somebody whose rights nobody else has."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from trimtab.errors import UsageError
from trimtab.gate import user
from trimtab.gate.start import User


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /proc in which all ids are mapped and one process runs, as root."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(user, "USUAL", "nobody-has-this-name")
    (tmp_path / "self").mkdir()
    for kind in ("uid", "gid"):
        (tmp_path / "self" / f"{kind}_map").write_text("         0          0 4294967295\n")
    runs(tmp_path, 1, 0)
    return tmp_path


def runs(proc: Path, pid: int, uid: int) -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")


def test_without_a_name_it_is_an_id_that_no_user_and_no_process_has(proc: Path) -> None:
    first = user.chosen(None, "web", proc)
    assert first is not None and first.uid == first.gid in user.UNUSED
    assert user.chosen(None, "web", proc) == first
    assert user.chosen(None, "shop", proc) != first
    runs(proc, 2, first.uid)
    assert user.chosen(None, "web", proc) not in (first, None)


@pytest.mark.parametrize("name", [b"\xff", b"\x0cUid:\tmany", b"\x0cUid: %d", b"\rUid: %d", b"\x1cUid: %d"], ids=repr)
def test_what_a_process_calls_itself_breaks_nothing_and_takes_no_id(proc: Path, name: bytes) -> None:
    first = user.chosen(None, "web", proc)
    assert first is not None
    (proc / "2").mkdir()
    named = name % first.uid if b"%" in name else name
    assert len(named) <= 15, "the kernel keeps no more"
    (proc / "2" / "status").write_bytes(b"Name:\t" + named + b"\nUid:\t33\t33\t33\t33\n")
    assert user.chosen(None, "web", proc) == first


def test_the_system_user_of_trimtab_is_taken_where_there_is_one(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user, "USUAL", "daemon")
    daemon = pwd.getpwnam("daemon")
    assert user.chosen(None, "web", proc) == User(daemon.pw_uid, daemon.pw_gid)


def test_where_no_other_user_is_mapped_it_stays_who_it_is(proc: Path) -> None:
    (proc / "self" / "uid_map").write_text("0 1000 1\n")
    assert user.chosen(None, "web", proc) is None


def test_root_nobody_at_all_and_somebody_without_root_are_refused(
    proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="'root' is root: the gate does not stay root"):
        user.chosen("root", "web", proc)
    with pytest.raises(UsageError, match="'no-such': there is no such user"):
        user.chosen("no-such", "web", proc)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert user.chosen(None, "web", proc) is None
    with pytest.raises(UsageError, match="--gate-user needs root"):
        user.chosen("daemon", "web", proc)
