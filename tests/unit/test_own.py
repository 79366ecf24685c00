"""Root takes neither programs nor a home from where another user could have put them."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from tests._stranger import STRANGER, his_directory, needs_root, plant_modules
from trimtab import __version__, own
from trimtab.errors import UsageError


def a_program(directory: Path, name: str) -> Path:
    path = directory / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@needs_root
def test_root_does_not_look_for_programs_where_a_kept_path_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    with his_directory() as his:
        planted = a_program(his, "trimtab-planted")
        a_program(his, "env")
        monkeypatch.setenv("PATH", f"{his}:.:")
        monkeypatch.chdir(his)
        assert own.program("trimtab-planted") is None
        assert own.program("env") == "/usr/bin/env"
        assert own.program(os.fspath(planted)) == os.fspath(planted), "a path that the user wrote is his word"


def test_an_ordinary_user_looks_in_his_path_first_and_finds_what_is_in_sbin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    his_own = a_program(tmp_path, "env")
    assert own.program("env") == os.fspath(his_own)
    assert own.program("mkswap") in ("/usr/sbin/mkswap", "/sbin/mkswap")


@needs_root
def test_a_home_that_sudo_kept_is_not_roots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", os.fspath(tmp_path))
    assert own.home() == tmp_path
    roots = Path(pwd.getpwuid(0).pw_dir)
    with his_directory() as his:
        monkeypatch.setenv("HOME", os.fspath(his))
        assert own.home() == roots
        (tmp_path / "link").symlink_to(his)
        monkeypatch.setenv("HOME", os.fspath(tmp_path / "link"))
        assert own.home() == roots
        os.chown(tmp_path, STRANGER, STRANGER)
        monkeypatch.setenv("HOME", os.fspath(tmp_path))
        assert own.home() == roots
        os.chown(tmp_path, 0, 0)


def test_trimtab_as_a_child_finds_itself_and_nothing_in_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    planted, environment = tmp_path / "loaded", dict(os.environ)
    if os.geteuid() == 0:
        planted, environment["PYTHONPATH"] = plant_modules(tmp_path), os.fspath(tmp_path)
    command = [*own.TRIMTAB, "--version"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"trimtab {__version__}\n", "")
    assert not planted.exists()


def test_a_user_who_is_unknown_here_and_has_no_home_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 123_456_789)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    with pytest.raises(UsageError, match="uid 123456789 has no home directory here: set HOME, or name the store"):
        own.state()
