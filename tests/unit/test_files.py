"""Files are written whole, through no link, under no name that can be guessed, and read within bounds."""

from __future__ import annotations

import errno
import os
import re
import struct
from pathlib import Path

import pytest

from tests._stranger import STRANGER, needs_root
from trimtab import files
from trimtab.errors import UsageError
from trimtab.files import read_named, read_regular, remove, write_whole


def test_a_new_file_gets_its_mode_less_the_umask(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_whole(tmp_path / "new", "text")
        write_whole(tmp_path / "closed", "text", 0o600)
    finally:
        os.umask(mask)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "closed").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["closed", "new"]


@needs_root
def test_a_file_that_is_replaced_keeps_its_group_and_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o4604)
    os.chown(path, 0, STRANGER)
    write_whole(path, "new")
    status = path.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (0, STRANGER, 0o604)
    assert path.read_text() == "new"


@needs_root
def test_a_stranger_gets_nothing_by_a_file_that_he_made_first(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("his")
    path.chmod(0o666)
    os.chown(path, STRANGER, STRANGER)
    with pytest.raises(UsageError, match=f"{path} belongs to uid {STRANGER}: remove it, or choose another name"):
        write_whole(path, "ours")
    assert (path.read_text(), [one.name for one in tmp_path.iterdir()]) == ("his", ["file"])


@needs_root
def test_root_reads_nothing_that_others_could_change(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("text")
    assert read_named(path, "the file") == "text"
    os.chown(path, STRANGER, STRANGER)
    with pytest.raises(UsageError, match=f"the file is not read: {path} belongs to uid {STRANGER}"):
        read_named(path, "the file")


def test_a_file_that_is_replaced_keeps_its_access_list_and_gives_the_group_no_more_than_that(tmp_path: Path) -> None:
    entries = (
        (1, 6, -1),
        (2, 4, STRANGER),
        (4, 0, -1),
        (16, 4, -1),
        (32, 0, -1),
    )  # owner, a user, group, mask, others
    rights = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    path = tmp_path / "file"
    path.write_text("before")
    os.setxattr(path, "system.posix_acl_access", rights)
    write_whole(path, "text")
    assert os.getxattr(path, "system.posix_acl_access") == rights
    assert path.stat().st_mode & 0o777 == 0o640, "the mask"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write a security label")
def test_a_file_that_is_replaced_keeps_its_label_and_no_signature_of_the_text_before(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    os.setxattr(path, "security.SMACK64", b"a label")
    os.setxattr(path, "security.signature", b"of before")
    write_whole(path, "text")
    assert os.listxattr(path) == ["security.SMACK64"]
    assert os.getxattr(path, "security.SMACK64") == b"a label"


def test_what_a_link_in_its_place_points_to_is_neither_written_nor_read(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("secret")
    link = tmp_path / "link"
    link.symlink_to(victim)
    with pytest.raises(UsageError, match="not a regular file"):
        write_whole(link, "text")
    with pytest.raises(UsageError, match="not a regular file"):
        read_regular(link)
    assert victim.read_text() == "secret"
    assert link.is_symlink()


@pytest.mark.parametrize("there", [False, True])
def test_a_kill_while_it_is_written_leaves_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """A hidden file stayed in a server's configuration, and Apache reads that too where it includes a directory."""
    path = tmp_path / "file"
    if there:
        path.write_text("before")
    if (child := os.fork()) == 0:
        monkeypatch.setattr(os, "fsync", lambda fd: os._exit(9))
        write_whole(path, "text")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert [one.name for one in tmp_path.iterdir()] == ["file"] * there


def test_a_file_system_without_files_that_have_no_name_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def without(path: str, flags: int, *arguments: int, dir_fd: int | None = None) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported")
        return real(path, flags, *arguments, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", without)
    for text in ("first", "second"):
        write_whole(tmp_path / "file", text)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("file", "second")]


def test_no_temporary_name_can_be_known_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real = os.rename

    def rename(fresh: str, name: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        seen.append(fresh)
        real(fresh, name, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "rename", rename)
    for _ in range(2):
        write_whole(tmp_path / "file", "text")
    assert seen[0] != seen[1]
    assert all(str(os.getpid()) != name.rpartition(".")[2] and len(name.rpartition(".")[2]) >= 16 for name in seen)


def test_where_a_disk_is_full_the_file_that_was_to_be_written_is_named_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=re.escape(f"No space left on device: '{tmp_path / 'file'}'")):
        write_whole(tmp_path / "file", "text")
    assert list(tmp_path.iterdir()) == []


def test_a_device_a_fifo_and_a_text_without_end_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (Path("/dev/zero"), tmp_path / "fifo", tmp_path):
        with pytest.raises(UsageError, match="not a regular file"):
            read_regular(path)
    monkeypatch.setattr(files, "MOST_BYTES", 10)
    (tmp_path / "long").write_text("x" * 11)
    with pytest.raises(UsageError, match="longer than 10 bytes"):
        read_regular(tmp_path / "long")


def test_what_is_not_there_is_none_and_may_be_removed(tmp_path: Path) -> None:
    assert read_regular(tmp_path / "none") is None
    remove(tmp_path / "none")
