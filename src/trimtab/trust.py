"""Whether a path can be trusted: nobody but root and the user who runs trimtab can change its target.

Every component from / on is looked at, and every link's target in the same way. Each must belong to root or to this
user, and nobody else may write to it. A directory in which everybody can make files but not touch those of others
(sticky, as /tmp) may be on the way, because what follows is looked at too; it may not be the end. A POSIX ACL that
lets somebody write shows in the group's bits, which are then its mask (acl(5)). What a path leads to once it was
found trusted, only root and this user can change, so it may be opened by its name afterwards.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from trimtab.errors import UsageError

_MOST_LINKS = 40
"""Most links that the kernel follows (path_resolution(7))."""
_LOOKS = 3
"""Walks before a path is said to lead elsewhere: files that are made or removed meanwhile look like that once."""
_ACL = "system.posix_acl_access"
_MOUNTS = Path("/proc/self/mountinfo")


def untrusted(path: str | os.PathLike[str]) -> str | None:
    """Reason why a path is not trusted, with a remedy; None when it is.

    What does not exist is trusted where nobody else could make it.

    Args:
        path: absolute, or from the working directory, which is looked at too.
    """
    for _ in range(_LOOKS):
        if (reason := _walked(path)) != _elsewhere(path):
            break
    return reason


def untrusted_in(directory: str | os.PathLike[str], files: bool) -> Iterator[str]:
    """Reasons why a directory and what is in it, at any depth, are not trusted, as `untrusted` gives them.

    The way to the directory is walked once. What is in a directory that is not trusted has its reason, and is not
    looked at.

    Args:
        directory: where it begins.
        files: whether files and links are looked at; else directories alone.
    """
    if reason := untrusted(directory):
        yield reason
        return
    waiting = [os.fspath(directory)]
    while waiting:
        at, entries = waiting.pop(), list[os.DirEntry[str]]()
        with contextlib.suppress(OSError):  # removed meanwhile, or not to be read
            entries, device = list(os.scandir(at)), os.stat(at).st_dev
        for entry in entries:
            if not (files or entry.is_dir(follow_symlinks=False)):
                continue
            if reason := _entry(entry, device):
                yield reason
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)


def require_trusted(path: str | os.PathLike[str]) -> None:
    """Makes sure that a path is trusted.

    Raises:
        UsageError: it is not; the message says why and what would mend it.
    """
    if reason := untrusted(path):
        raise UsageError(reason)


def mounted(path: str | os.PathLike[str]) -> bool:
    """Whether something is mounted just there, as a file into a container: no other can take its place then."""
    return bool(_mount(os.path.realpath(path)))


def open_trusted(path: str | os.PathLike[str]) -> int:
    """A descriptor to read a file, which the caller closes.

    Args:
        path: a regular file, or a link to one.

    Raises:
        UsageError: the path is not trusted, or it is not a regular file.
        OSError: it cannot be opened.
    """
    require_trusted(path)
    # Without O_NONBLOCK the open of a FIFO would wait for a writer.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise UsageError(f"{printable(os.fspath(path))} is not a regular file")
    return fd


def printable(text: str) -> str:
    """The text for a message; characters that steer a terminal are escaped, because strangers choose names too."""
    return text if text.isprintable() else ascii(text)[1:-1]


def _walked(path: str | os.PathLike[str]) -> str | None:
    """Reason of one walk along the path; that it leads elsewhere, too, where it was made or removed meanwhile."""
    ahead = _parts(os.fspath(path) if os.path.isabs(path) else os.path.join(os.getcwd(), path))
    here, seen, links = "/", os.lstat("/"), 0
    while True:
        if reason := _changeable(here, seen, last=not ahead):
            return reason
        if not ahead:
            return _astray(path, seen)
        part = ahead.pop()
        at = os.path.dirname(here) if part == ".." else os.path.join(here, part)
        try:
            found = os.lstat(at)
        except FileNotFoundError:
            return _elsewhere(path) if os.path.exists(path) else _missing(at, here, seen, ahead)
        except OSError as error:
            return f"{printable(at)} cannot be looked at: {error.strerror}"
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > _MOST_LINKS:
                return f"{printable(os.fspath(path))} goes through too many links"
            if reason := _owned_by_another(at, found):
                return reason
            target = os.readlink(at)
            ahead += _parts(target)
            if target.startswith("/"):
                here, seen = "/", os.lstat("/")
            continue
        if part != ".." and found.st_dev != seen.st_dev and (reason := _mounted_by_another(at)):
            return reason
        here, seen = at, found


def _entry(entry: os.DirEntry[str], device: int) -> str | None:
    """Reason why an entry of a trusted directory, which is on this device, is not trusted."""
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return untrusted(entry.path)  # removed meanwhile, or not to be looked at, which it says
    if stat.S_ISLNK(found.st_mode):
        return untrusted(entry.path)
    if found.st_dev != device and (reason := _mounted_by_another(entry.path)):
        return reason
    return _changeable(entry.path, found, last=True)


def _parts(path: str) -> list[str]:
    """The components of a path, the last one first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def _missing(at: str, here: str, seen: os.stat_result, ahead: list[str]) -> str | None:
    """Why a path that does not exist from here on is not to be trusted."""
    if seen.st_mode & stat.S_ISVTX and seen.st_mode & 0o022:
        return f"{printable(at)} does not exist, and others can make it in {printable(here)}"
    if ".." in ahead:
        return f"{printable(at)} does not exist, so what comes after it cannot be looked at"
    return None


def _changeable(at: str, found: os.stat_result, last: bool) -> str | None:
    """Reason why somebody else could change a file or a directory's entries."""
    device = stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode)
    if device and (found.st_mode & 0o022 or found.st_uid not in (0, os.geteuid())):
        return f"{printable(at)} is a device that others can write: name a file"  # whose mode is no mistake
    if reason := _owned_by_another(at, found):
        return reason
    if not last and stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX:
        return None
    if found.st_mode & 0o002:
        sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
        mend = "use a directory of your own" if sticky else f"chmod o-w {printable(at)}"
        return f"{printable(at)} can be written by everybody: {mend}"
    if found.st_mode & 0o020 and not _mine_alone(at, found.st_gid):
        return f"{printable(at)} can be written by group {found.st_gid}: chmod g-w {printable(at)}"
    return None


def _owned_by_another(at: str, found: os.stat_result) -> str | None:
    me = os.geteuid()
    if found.st_uid in (0, me):
        return None
    owner = "root" if me == 0 else str(me)
    return f"{printable(at)} belongs to uid {found.st_uid}: chown -h {owner} {printable(at)}"


def _mine_alone(at: str, gid: int) -> bool:
    """Whether a group is the private one that many systems give each user, and no ACL lets others in."""
    if os.geteuid() == 0:
        return False
    try:
        me, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    try:
        listed = _ACL in os.listxattr(at, follow_symlinks=False)
    except OSError:
        listed = False
    return group.gr_name == me.pw_name and set(group.gr_mem) <= {me.pw_name} and not listed


def _mounted_by_another(at: str) -> str | None:
    """Why owners and modes on the file system mounted here cannot be trusted: a user's program makes them up."""
    options = _mount(at)[-1:]
    users = [word.removeprefix("user_id=") for one in options for word in one.split(",") if word[:8] == "user_id="]
    others = [user for user in users if user not in ("0", str(os.geteuid()))]
    return f"{printable(at)} is a file system that uid {others[0]} runs" if others else None


def _mount(at: str) -> list[str]:
    """The fields of what is mounted just here, the last one, as mountinfo has them (proc(5)); none for nothing."""
    escaped = at.replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011").replace("\n", "\\012")
    lines = (line.split(" ") for line in reversed(_MOUNTS.read_text(errors="surrogateescape").split("\n")))
    return next((fields for fields in lines if fields[4:5] == [escaped]), [])


def _astray(path: str | os.PathLike[str], walked: os.stat_result) -> str | None:
    """Why a walk cannot tell: links of /proc lead elsewhere than their text."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return _elsewhere(path)
    except OSError as error:
        return f"{printable(os.fspath(path))} cannot be looked at: {error.strerror}"
    if (found.st_dev, found.st_ino) != (walked.st_dev, walked.st_ino):
        return _elsewhere(path)
    return None


def _elsewhere(path: str | os.PathLike[str]) -> str:
    return f"{printable(os.fspath(path))} leads elsewhere than its links say"
