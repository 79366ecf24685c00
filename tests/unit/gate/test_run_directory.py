"""Run directories: who may claim a name, what lies there, and which runs are alive."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests._fake_gate import SPEC, FakeGate
from tests._stranger import STRANGER, needs_root
from trimtab.errors import TrimtabError, UsageError
from trimtab.gate import run_directory
from trimtab.gate.run_directory import RunDirectory
from trimtab.gate.spec import parse
from trimtab.gate.start import User
from trimtab.locks import locked


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    directory = tmp_path / "run"
    monkeypatch.setattr(run_directory, "base", lambda: directory)
    yield directory


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_claimed_place_can_be_entered_by_workers_and_says_whose_it_is(base: Path) -> None:
    os.umask(mask := os.umask(0o077))
    mine = run_directory.claim("web")
    assert os.umask(mask) == mask
    assert (mine.directory, mode(mine.directory), mode(base)) == (base / "web", 0o711, 0o711)
    owner = mine.owner()
    assert owner is not None and owner.pid == os.getpid()
    line = parse(SPEC).start(mine.directory, User(3, 4))
    mine.write_start_line(line)
    assert mine.start_line() == line
    assert mode(mine.directory / "gate.json") == 0o600
    mine.release()
    mine.release()
    assert list(base.iterdir()) == []


def test_a_name_in_use_is_refused_and_left_alone(base: Path) -> None:
    mine = run_directory.claim("web")
    mine.shared.write_bytes(b"mine")
    with pytest.raises(UsageError, match=f"--name 'web' is in use by pid {os.getpid()}"):
        run_directory.claim("web")
    assert mine.shared.read_bytes() == b"mine"
    assert run_directory.claim("other").directory != mine.directory


def test_what_a_dead_run_left_is_removed(base: Path) -> None:
    dead = run_directory.claim("web")
    dead.shared.write_bytes(b"old")
    dead.pid_file.write_text(f"{os.getpid()} 1\n")  # the same id, started at another time
    assert dead.owner() is None
    fresh = run_directory.claim("web")
    assert not fresh.shared.exists()
    assert fresh.owner() is not None


def test_a_dead_run_whose_gate_still_serves_keeps_its_name(base: Path) -> None:
    base.mkdir(mode=0o711)
    with FakeGate(base / "web"):
        with pytest.raises(UsageError, match="'web' is in use: its gate still serves"):
            run_directory.claim("web")
        assert [one.name for one in run_directory.running()] == ["web"]
    assert run_directory.running() == []


def test_the_run_that_is_meant() -> None:
    with pytest.raises(UsageError, match="no server runs under trimtab: start it with 'trimtab run"):
        run_directory.chosen(None)
    web = run_directory.claim("web")
    assert run_directory.chosen(None) == web
    run_directory.claim("api")
    with pytest.raises(UsageError, match="choose one with --name: api, web"):
        run_directory.chosen(None)
    assert run_directory.chosen("web") == web
    with pytest.raises(UsageError, match="no run is named 'wob'; there is api, web"):
        run_directory.chosen("wob")


@pytest.mark.parametrize("name", ["", "a/b", "..", "-x", "a" * 33, "a b", "ü"])
def test_a_name_that_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not allowed: write 1 to 32 letters"):
        run_directory.claim(name)


def test_a_directory_too_deep_for_a_socket_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_directory, "base", lambda: Path("/" + "x" * 100))
    with pytest.raises(UsageError, match="is too long for sockets in it"):
        run_directory.claim("web")


@needs_root
def test_runs_in_a_directory_that_somebody_else_has_made_are_not_known(base: Path) -> None:
    run_directory.claim("web")
    assert [one.name for one in run_directory.known()] == ["web"]
    os.chown(base, STRANGER, STRANGER)
    assert run_directory.known() == []
    with pytest.raises(UsageError, match=f"belongs to uid {STRANGER}"):
        run_directory.claim("api")


def test_a_lock_of_all_names_that_somebody_keeps_is_said_and_not_waited_for_without_end(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_directory, "locked", partial(locked, patience_s=0.0))
    base.mkdir(mode=0o711)
    his = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(his, fcntl.LOCK_EX)
    with pytest.raises(UsageError, match=f"{base} is locked by another process, so no run can begin in it"):
        run_directory.claim("web")
    os.close(his)
    assert run_directory.claim("web").owner() is not None


def test_a_start_line_that_is_none_is_said(base: Path) -> None:
    mine = run_directory.claim("web")
    assert mine.start_line() is None
    mine.write_start_line(parse(SPEC).start(mine.directory))
    whole = (mine.directory / "gate.json").read_text()
    for text, said in (("[", "Expecting value"), ("{}", "`directory`"), (whole[:-1] + ', "more": 1}', "`more`")):
        (mine.directory / "gate.json").write_text(text)
        with pytest.raises(TrimtabError, match=rf"gate\.json is not a start line: .*{said}"):
            mine.start_line()


def test_root_runs_under_run_and_others_in_their_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert run_directory.base() == Path("/run/trimtab")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert run_directory.base() == tmp_path / "trimtab"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert run_directory.base().name == "trimtab-1000"
    assert RunDirectory("a", Path("/x")).control == Path("/x/control.sock")
