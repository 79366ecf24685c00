"""Paths of a process's control groups, under version 1 (one hierarchy per controller), 2 (one for all) or both."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import NotMeasured

_VERSIONS = {"cgroup": 1, "cgroup2": 2}
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Group:
    """A control group of one controller.

    Args:
        path: its directory.
        top: the directory of its hierarchy's top that can be seen from here.
        version: 1 or 2.
    """

    path: Path
    top: Path
    version: int

    def is_top(self) -> bool:
        """Whether it is the top of its hierarchy, which every process is in unless it was put elsewhere."""
        return self.path == self.top

    def upward(self) -> list[Group]:
        """This group and those above it, nearest first, the top last."""
        chain, path = [], self.path
        while True:
            chain.append(Group(path, self.top, self.version))
            if path == self.top:
                return chain
            path = path.parent


@dataclass(frozen=True)
class _Mount:
    options: frozenset[str]
    root: str
    point: Path
    version: int

    def holds(self, names: frozenset[str]) -> bool:
        """Whether it is the hierarchy of these controllers; version 2 has them all, and names none.

        There are more options than controllers, such as seclabel under SELinux.
        """
        return names <= self.options if names else self.version == 2


def groups(pid: int, root: Path = Path("/")) -> dict[str, Group]:
    """The control group of a process by controller; that of version 2 is under "" too.

    Args:
        pid: the process.
        root: where /proc and the mounts are, "/" but in tests.

    Raises:
        NotMeasured: there is no such process.
    """
    proc = root / "proc"
    try:
        lines = _lines(proc / str(pid) / "cgroup")
        mounts = _mounts(_lines(proc / "self" / "mountinfo"), root)
    except OSError as error:
        raise NotMeasured(f"control groups of pid {pid}: {os.strerror(error.errno or 0)}") from None
    found: dict[str, Group] = {}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        names = frozenset(filter(None, controllers.split(",")))
        for mount in mounts:
            if mount.holds(names) and (group := _placed(mount, path)):
                for name in names or {""}:
                    found[name] = group
                break
    if unified := found.get(""):
        for name in _controllers(unified):
            found.setdefault(name, unified)
    return found


def tasks_left(pid: int, root: Path = Path("/")) -> int | None:
    """How many more threads the control groups of a process let it start; None where nothing limits them.

    Args:
        pid: the process.
        root: as for `groups`.

    Raises:
        NotMeasured: there is no such process.
    """
    own, left = groups(pid, root).get("pids"), list[int]()
    for group in () if own is None else own.upward():
        try:
            most, now = ((group.path / f"pids.{name}").read_text(encoding="ascii") for name in ("max", "current"))
            left.append(max(0, int(most) - int(now)))
        except (OSError, ValueError):  # none at the top, and "max" is no limit
            continue
    return min(left, default=None)


def _lines(path: Path) -> list[str]:
    """The lines of a file of /proc; whoever may name a group or a mount point puts all bytes but a newline there."""
    return [line for line in os.fsdecode(path.read_bytes()).split("\n") if line]


def _mounts(lines: list[str], root: Path) -> list[_Mount]:
    """The mounted hierarchies, from mountinfo (proc(5))."""
    found = []
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, (kind, _, options) = before.split(" "), after.split(" ", 2)
        if kind in _VERSIONS:
            top, point = map(_unescaped, fields[3:5])
            found.append(_Mount(frozenset(options.split(",")), top, root / point.lstrip("/"), _VERSIONS[kind]))
    return found


def _unescaped(text: str) -> str:
    """A path of mountinfo, in which blanks, newlines and backslashes are octal: of `a\\x2db.scope`, say."""
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), text)


def _placed(mount: _Mount, path: str) -> Group | None:
    """Directory of a path of /proc/<pid>/cgroup under a mount; None when it cannot be seen from here."""
    if mount.root != "/":
        if path != mount.root and not path.startswith(mount.root + "/"):
            return None
        path = path[len(mount.root) :]
    if ".." in path.split("/"):
        return None
    directory = mount.point / path.lstrip("/")
    return Group(directory, mount.point, mount.version) if directory.is_dir() else None


def _controllers(group: Group) -> list[str]:
    """The controllers of the hierarchy of version 2, and none when they are all in those of version 1."""
    try:
        return (group.top / "cgroup.controllers").read_text(encoding="ascii").split()
    except OSError:
        return []
