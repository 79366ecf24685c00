"""Writes files whole or not at all and reads them within bounds, also where others may write in the directory.

No link that somebody has put in a file's place is followed, and no name can be guessed beforehand.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.trust import printable, untrusted

MOST_BYTES = 16 << 20
"""More than any text that trimtab reads; longer files are refused."""
_ACCESS = "system.posix_acl_access"
_LABELS = ("security.selinux", "security.SMACK64")
"""Not every security attribute: a signature is one of the text before."""
Stamp = tuple[int, int, int]
"""Inode, size in bytes and time of the last change in nanoseconds (of owner and mode too)."""
ABSENT: Stamp = (0, 0, 0)
"""The stamp of a path that does not exist."""
_DATABASE = b"SQLite format 3\0"
"""How a run store begins, as every file of SQLite's."""


def stamp(path: Path) -> Stamp:
    """Identity, size and change time of a file or directory, which differ after a change."""
    try:
        status = path.stat()
    except OSError:
        return ABSENT
    return (status.st_ino, status.st_size, status.st_ctime_ns)


def read_text(fd: int, name: str | os.PathLike[str]) -> str:
    """The text of an open file, which is closed.

    Args:
        fd: its descriptor.
        name: its name in messages.

    Raises:
        UsageError: it is not a regular file, or too long.
        OSError: it cannot be read.
    """
    with os.fdopen(fd, encoding="utf-8", errors="surrogateescape") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise UsageError(f"{printable(os.fspath(name))} is not a regular file")
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise UsageError(f"{printable(os.fspath(name))} is longer than {MOST_BYTES} bytes")
    return text


def read_named(path: Path, name: str) -> str:
    """The text of a file that a user names, also through links; a FIFO is not waited for.

    Args:
        path: the file.
        name: its name in messages.

    Raises:
        UsageError: it is not a regular file, or too long; or root is to read what others could change.
        OSError: it cannot be read.
    """
    reason = untrusted(path) if os.geteuid() == 0 else None
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if reason and stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise UsageError(f"{name} is not read: {reason}")
    return read_text(fd, name)


def read_regular(path: Path) -> str | None:
    """The text of a file; None when there is none.

    Raises:
        UsageError: there is something else, such as a link, or it is too long.
        OSError: it cannot be read.
    """
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{printable(os.fspath(path))} is not a regular file")
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    return read_text(fd, path)


def write_whole(path: Path, text: str, mode: int = 0o666) -> None:
    """Puts a text in a file's place in one step, and on disk before it returns.

    A file that is there keeps its owner, as far as we may give it away, its group, mode, access list and label.

    Args:
        path: the file.
        text: its new text; bytes that are not UTF-8 as Python writes them (surrogateescape).
        mode: mode of a new file, less the umask.

    Raises:
        UsageError: what is there is not a regular file, or somebody else's, who would get the text; it is left alone.
        OSError: it could not be done; what was there before still is.
    """
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        before = present(path, directory)
        fresh, place = f".{path.name}.{secrets.token_hex(8)}", f"/proc/self/fd/{directory}/{path.name}"
        rights = mode if before is None else 0o600
        try:
            try:  # it gets its name once it is whole: a kill before that leaves nothing
                fd = os.open(".", os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, rights, dir_fd=directory)
                with _filled(fd, text, before, place):
                    os.link(f"/proc/self/fd/{fd}", fresh, dst_dir_fd=directory)
            except OSError:  # a file system without files that have no name
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                with _filled(os.open(fresh, flags, rights, dir_fd=directory), text, before, place):
                    pass
            os.rename(fresh, path.name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.unlink(fresh, dir_fd=directory)
            if isinstance(error, OSError):
                error.filename, error.filename2 = os.fspath(path), None  # known here by descriptors alone
            raise
        os.fsync(directory)
    finally:
        os.close(directory)


def remove(path: Path) -> None:
    """Removes a file, if it is there, and syncs before it returns.

    Raises:
        OSError: it could not be done.
    """
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path.name, dir_fd=directory)
        os.fsync(directory)
    finally:
        os.close(directory)


def present(path: Path, directory: int | None = None) -> os.stat_result | None:
    """Status of the regular file whose place a new one may take; None where there is none.

    Args:
        path: the file.
        directory: a descriptor of its directory; None to find that by its name.

    Raises:
        UsageError: there is something else, a database such as a run store, or the file of somebody who is neither
            root nor this user.
    """
    name = printable(os.fspath(path))
    try:
        found = os.stat(path if directory is None else path.name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{name} is not a regular file: choose another name")
    if found.st_uid not in (0, os.geteuid()):
        raise UsageError(f"{name} belongs to uid {found.st_uid}: remove it, or choose another name")
    if _begins(path if directory is None else Path(path.name), directory, _DATABASE):
        raise UsageError(f"{name} is a database, as run stores are: choose another name")
    return found


@contextlib.contextmanager
def _filled(fd: int, text: str, before: os.stat_result | None, place: str) -> Iterator[None]:
    """A new file with a text, on disk, which is closed at the end.

    Args:
        fd: its descriptor.
        text: the text.
        before: status of the file whose place it takes; None for none.
        place: a path of that one.

    Raises:
        OSError: it could not be written.
    """
    with os.fdopen(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
        file.flush()
        if before is not None:
            _keep(fd, before, place)
        os.fsync(fd)
        yield


def _begins(path: Path, directory: int | None, with_these: bytes) -> bool:
    """Whether a file begins with these bytes; one that cannot be read does not."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return False
    with os.fdopen(fd, "rb") as file:
        return file.read(len(with_these)) == with_these


def _keep(fd: int, before: os.stat_result, place: str) -> None:
    """Gives a new file the owner and the rights of the one whose place it takes.

    Under an access list the group bits of the mode are its mask, and no right of the group's; the list sets the mode.
    """
    with contextlib.suppress(PermissionError):
        os.fchown(fd, before.st_uid, before.st_gid)
    names = list[str]()
    with contextlib.suppress(OSError):  # a file system without
        names = os.listxattr(place, follow_symlinks=False)
    if _ACCESS in names:
        os.setxattr(fd, _ACCESS, os.getxattr(place, _ACCESS, follow_symlinks=False))
    else:
        os.fchmod(fd, before.st_mode & 0o777)
    for name in (one for one in names if one in _LABELS):
        with contextlib.suppress(PermissionError):
            os.setxattr(fd, name, os.getxattr(place, name, follow_symlinks=False))
