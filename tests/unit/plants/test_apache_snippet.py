"""trimtab's own file: whole or not at all, recognised, and able to be undone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from trimtab.errors import UsageError
from trimtab.plants._own_file import before_all, leftover, put_back, read, write
from trimtab.plants.apache.process import Parent
from trimtab.plants.apache.program import Program
from trimtab.plants.apache.snippet import compose

VALUES = {"max_request_workers": 40, "keep_alive_timeout_ms": 700}


def test_it_holds_what_was_set_and_what_was_there_before() -> None:
    text = compose(VALUES, "before\n")
    assert text.splitlines()[-2:] == ["KeepAliveTimeout 700ms", "MaxRequestWorkers 40"]
    found = leftover(text)
    assert found is not None
    assert found.before == "before\n"


def test_all_but_its_settings_is_comment() -> None:
    text = compose(VALUES, "MaxRequestWorkers 1\nKeepAlive Off\n")
    assert [line for line in text.splitlines() if not line.startswith("#")] == text.splitlines()[-2:]


@pytest.mark.parametrize(
    "edit", [("40", "41"), ("Written by trimtab", "Mine"), ("null", '"x"'), ('"before"', '"befor"')]
)
def test_an_edited_file_is_not_taken_for_ours(edit: tuple[str, str]) -> None:
    text = compose(VALUES, None)
    assert leftover(text) is not None
    assert leftover(text.replace(*edit)) is None


def test_a_file_of_somebody_else_is_not_taken_for_ours() -> None:
    assert leftover("MaxRequestWorkers 3\n") is None
    assert leftover("") is None


def test_writing_replaces_and_removing_removes(tmp_path: Path) -> None:
    path = tmp_path / "zz.conf"
    write(path, "one")
    write(path, "two")
    assert read(path) == "two"
    assert path.stat().st_mode & 0o777 == 0o644 & ~_umask()
    write(path, None)
    write(path, None)
    assert read(path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_old_text_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "zz.conf"
    write(path, "old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write(path, "new")
    assert read(path) == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["zz.conf"]


def test_the_text_is_on_disk_before_it_takes_the_files_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []
    real = os.fsync
    path = tmp_path / "zz.conf"

    def fsync(descriptor: int) -> None:
        seen.append(read(path))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write(path, "new")
    assert seen == [None, "new"], "the file is synced before the rename, the directory after it"


@pytest.mark.parametrize("before", [None, '# it\'s "old" $HOME %s \\n\nMaxRequestWorkers 3\n'])
def test_the_undo_script_is_a_shell_script_that_puts_the_file_back(tmp_path: Path, before: str | None) -> None:
    path = tmp_path / "it's a dir" / "zz-trimtab.conf"
    path.parent.mkdir()
    path.write_text("ours")
    parent = Parent(1 << 30, 0, Path("/bin/true"), ("true",), 0)
    program = Program(Path("/bin/true"), (("f", "a b"),), {"APACHE_RUN_DIR": "/x y", "SECRET": "1"})
    text = parent.undo_script([put_back(path, before)], program.shell_test, "USR1")
    assert "SECRET" not in text
    ended = subprocess.run(["sh", "-c", text], check=False, capture_output=True)
    assert ended.returncode != 0, "no process has that id, so nothing is signalled"
    assert read(path) == before


@pytest.mark.parametrize("name", [".zz.conf.{pid}", ".zz.conf.undo"])
def test_a_link_under_a_name_that_can_be_guessed_is_not_written_through(tmp_path: Path, name: str) -> None:
    victim, path = tmp_path / "victim", tmp_path / "zz.conf"
    victim.write_text("precious")
    (tmp_path / name.format(pid=os.getpid())).symlink_to(victim)
    write(path, "text")
    parent = Parent(1 << 30, 0, Path("/bin/true"), ("true",), 0)
    undo = parent.undo_script([put_back(path, "before")], ["true"], "USR1")
    subprocess.run(["sh", "-c", undo], check=False, capture_output=True)
    assert read(path) == "before"
    assert victim.read_text() == "precious"


def test_what_a_link_in_our_place_points_to_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "zz.conf").symlink_to("/etc/shadow")
    with pytest.raises(UsageError, match="not a regular file"):
        read(tmp_path / "zz.conf")


def test_nothing_is_written_where_others_can_change_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(UsageError, match=f"{tmp_path} can be written by everybody"):
        write(tmp_path / "zz.conf", "text")
    assert list(tmp_path.iterdir()) == []


def test_what_was_there_before_several_runs_is_found() -> None:
    assert before_all(compose(VALUES, compose(VALUES, compose(VALUES, None)))) is None
    assert before_all(compose(VALUES, compose(VALUES, "an operator's"))) == "an operator's"
    assert before_all("an operator's") == "an operator's"


def test_it_does_not_grow_with_the_runs_that_keep_something_in_it() -> None:
    """Each kept the file before it whole, and so twice as many backslashes: 280 KB after 15, and soon no server's."""
    assert compose(VALUES, compose(VALUES, "an operator's")) == compose(VALUES, "an operator's")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
