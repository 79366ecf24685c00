"""A path is trusted only where nobody but root and this user can change what it leads to."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests._stranger import STRANGER, his_directory, needs_root
from trimtab import trust
from trimtab.errors import UsageError
from trimtab.trust import open_trusted, untrusted, untrusted_in


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a" / "b" / "file"
    path.parent.mkdir(parents=True)
    path.write_text("text")
    return path


def why(path: Path) -> str:
    reason = untrusted(path)
    assert reason is not None, f"{path} is trusted"
    return reason


def test_a_file_of_our_own_in_a_private_directory_is_trusted(file: Path) -> None:
    assert untrusted(file) is None
    assert untrusted(file.parent) is None
    fd = open_trusted(file)
    assert os.read(fd, 10) == b"text"
    os.close(fd)


def test_the_systems_own_files_are_trusted() -> None:
    assert untrusted("/etc/passwd") is None


@needs_root
@pytest.mark.parametrize("part", [0, 1, 2])
def test_another_owner_anywhere_on_the_way_is_named_with_what_mends_it(file: Path, part: int) -> None:
    his = [file, *file.parents][part]
    os.chown(his, STRANGER, -1)
    assert why(file) == f"{his} belongs to uid 65534: chown -h root {his}"
    with pytest.raises(UsageError, match="belongs to uid 65534"):
        open_trusted(file)


@pytest.mark.parametrize("part", [0, 1, 2])
@pytest.mark.parametrize(("mode", "whom"), [(0o020, "group"), (0o002, "everybody")])
def test_what_others_may_write_is_not_trusted(file: Path, part: int, mode: int, whom: str) -> None:
    open_one = [file, *file.parents][part]
    if os.geteuid() == 0:
        os.chown(open_one, -1, STRANGER)
    open_one.chmod(0o700 | mode)
    reason = untrusted(file)
    if whom == "everybody" or os.geteuid() == 0:
        assert reason is not None and f"{open_one} can be written by {whom}" in reason and "chmod" in reason


@needs_root
def test_an_acl_that_lets_one_user_write_is_seen(file: Path) -> None:
    anybody = 0xFFFFFFFF
    entries = [(0x01, 6, anybody), (0x02, 6, STRANGER), (0x04, 4, anybody), (0x10, 6, anybody), (0x20, 4, anybody)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(file, "system.posix_acl_access", acl)
    assert f"{file} can be written by group" in why(file)


def test_a_sticky_directory_may_be_on_the_way_but_not_the_end(file: Path) -> None:
    file.parent.chmod(0o1777)
    assert untrusted(file) is None
    assert "everybody" in why(file.parent)


def test_in_a_sticky_directory_what_does_not_exist_is_not_trusted_because_others_can_make_it(file: Path) -> None:
    assert untrusted(file.parent / "new" / "deep") is None
    file.parent.chmod(0o1777)
    assert "others can make it" in why(file.parent / "new" / "deep")


@needs_root
def test_a_link_is_followed_and_its_owner_and_its_target_are_looked_at(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("a/b/../b/file")
    assert untrusted(link) is None
    os.chown(link, STRANGER, -1, follow_symlinks=False)
    assert f"{link} belongs to uid 65534" in why(link)
    os.chown(link, 0, -1, follow_symlinks=False)
    os.chown(file.parent, STRANGER, -1)
    assert f"{file.parent} belongs to" in why(link)


@pytest.fixture
def tree(file: Path) -> Path:
    """A directory with two more beside that file, and a link to it."""
    for name in ("x", "y"):
        (file.parent / name).mkdir()
        (file.parent / name / "more").write_text("text")
    (file.parent / "y" / "link").symlink_to(file)
    return file.parent.parent


def test_all_that_is_in_a_directory_is_looked_at_and_the_way_there_walked_once(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked, walk = list[object](), trust._walked

    def counted(path: str | os.PathLike[str]) -> str | None:
        walked.append(path)
        return walk(path)

    monkeypatch.setattr(trust, "_walked", counted)
    assert list(untrusted_in(tree, files=True)) == []
    assert walked == [tree, str(tree / "b" / "y" / "link")]


@pytest.mark.parametrize("part", ["", "b", "b/file", "b/x", "b/x/more", "b/y/link"])
@pytest.mark.parametrize("change", ["written", pytest.param("given", marks=needs_root)])
def test_each_part_of_a_directory_is_trusted_as_it_is_by_itself(tree: Path, part: str, change: str) -> None:
    one = tree / part
    if change == "given":
        os.chown(one, STRANGER, -1, follow_symlinks=False)
    else:
        one.chmod(0o777)
    found = {untrusted(path) for path in (tree, *tree.rglob("*"))} - {None}
    assert len(found) == 1
    assert list(dict.fromkeys(untrusted_in(tree, files=True))) == list(found)
    directories = {untrusted(path) for path in (tree, *tree.rglob("*")) if path.is_dir()} - {None}
    assert set(untrusted_in(tree, files=False)) == directories


@needs_root
def test_what_is_in_a_directory_and_cannot_be_looked_at_is_said_as_it_is_by_itself() -> None:
    with his_directory() as his:
        closed = his / "closed"
        closed.mkdir()
        parts = {closed / "one", closed / "two"}
        for path in parts:
            path.touch()
        os.chown(closed, STRANGER, -1)
        closed.chmod(0o400)
        os.seteuid(STRANGER)
        try:
            reasons = {untrusted(path) for path in parts}
            assert set(untrusted_in(his, files=True)) == reasons
        finally:
            os.seteuid(0)
    assert reasons == {f"{path} cannot be looked at: Permission denied" for path in parts}


def test_links_without_end_are_not_followed_for_ever(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to("one")
    assert "too many links" in why(tmp_path / "one")


def test_a_link_of_proc_that_leads_elsewhere_than_its_text_is_not_trusted(file: Path) -> None:
    with file.open() as held:
        link = Path(f"/proc/self/fd/{held.fileno()}")
        file.unlink()
        assert "elsewhere" in why(link)
        file.with_name("file (deleted)").write_text("what the text names")
        assert "elsewhere" in why(link)


@pytest.mark.parametrize("there", [False, True])
def test_a_file_that_is_made_or_removed_while_it_is_looked_at_leads_nowhere_else(
    file: Path, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    exists, look = os.path.exists, os.stat
    meanwhile = [file.touch if not there else file.unlink]

    def changed(then: Callable[[Path], Any], path: Path) -> Any:
        if meanwhile:
            meanwhile.pop()()
        return then(path)

    if not there:
        file.unlink()
        monkeypatch.setattr(os.path, "exists", partial(changed, exists))
    else:
        monkeypatch.setattr(os, "stat", partial(changed, look))
    reason = untrusted(file)
    monkeypatch.undo()
    assert reason is None and not meanwhile and file.exists() is not there


def test_dots_after_a_name_that_does_not_exist_are_refused(tmp_path: Path) -> None:
    assert "cannot be looked at" in why(tmp_path / "no" / ".." / "x")


def test_a_device_that_others_can_write_is_not_to_be_mended() -> None:
    """To take its rights away would break the machine."""
    assert untrusted("/dev/null") == "/dev/null is a device that others can write: name a file"
    with pytest.raises(UsageError, match="is a device"):
        open_trusted("/dev/zero")


def test_only_regular_files_are_opened_and_a_fifo_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for other in (tmp_path / "fifo", tmp_path):
        with pytest.raises(UsageError, match="not a regular file"):
            open_trusted(other)


def test_a_users_own_file_system_is_not_believed(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "mountinfo"
    line = "36 35 0:50 / {} rw,nosuid - fuse.x x rw,user_id={},group_id=0\n"
    monkeypatch.setattr(trust, "_MOUNTS", table)
    table.write_text(line.format(file.parent, 0) + line.format(f"{file.parent}x", 77))
    assert trust._mounted_by_another(str(file.parent)) is None
    table.write_text(line.format(file.parent, 0) + line.format(file.parent, 77))
    assert "uid 77" in (trust._mounted_by_another(str(file.parent)) or "")


def test_a_name_that_could_steer_a_terminal_is_shown_escaped(tmp_path: Path) -> None:
    evil = tmp_path / "a\x1b[2J"
    evil.mkdir()
    evil.chmod(0o777)
    assert "\x1b" not in why(evil)
    assert "a\\x1b[2J" in why(evil)
