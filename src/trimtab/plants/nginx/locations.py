"""Locations where each knob can be set in an installation, or reasons why it cannot.

nginx takes each of these directives once in its context and calls a second one a duplicate. So there are two ways:

- Nobody sets it: a file of trimtab's own in a directory that is included in that very context. Debian includes
  modules-enabled/*.conf outside of all blocks and conf.d/*.conf in http {}; in events {} it includes nothing.
- The operator sets it: that one value is changed in his own file, if he allows it (`--edit-in-place`), and only in a
  regular file with one name that nobody else can write. What was there is kept beside it (`edits`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from trimtab.plants import _own_file
from trimtab.plants.nginx.configuration import COMMAND_LINE, Configuration
from trimtab.plants.nginx.knobs import SETTINGS
from trimtab.plants.nginx.syntax import Directive
from trimtab.trust import mounted, untrusted

NAME = "zz-trimtab.conf"
QUIC = frozenset({"quic", "http3"})
"""Words of a listener for HTTP/3; the second is that of releases before 1.25."""
_DATAGRAMS = QUIC | {"udp"}
_MIGRATE = Path("/proc/sys/net/ipv4/tcp_migrate_req")


@dataclass(frozen=True)
class Location:
    """Location where a knob can be set.

    Args:
        path: our own file, or the operator's.
        directive: the operator's line; None for our own file.
    """

    path: Path
    directive: Directive | None


@dataclass(frozen=True)
class Nowhere:
    """Why a knob cannot be set.

    Args:
        why: the reason.
        enable: advice that would make it possible.
    """

    why: str
    enable: str


def is_ours(configuration: Configuration, path: Path) -> bool:
    """Whether a file of the configuration is trimtab's own, unedited."""
    return path.name == NAME and _own_file.leftover(configuration.texts.get(path, "")) is not None


def locations(configuration: Configuration, edit: bool) -> dict[str, Location | Nowhere]:
    """The location of each knob.

    Args:
        configuration: as it is on disk.
        edit: whether the operator's own lines may be changed.
    """
    return {knob: _location(configuration, knob, edit) for knob in SETTINGS}


def chosen(found: Mapping[str, Location | Nowhere]) -> dict[str, Location]:
    """The knobs that can be set, and where."""
    return {knob: location for knob, location in found.items() if isinstance(location, Location)}


def _location(configuration: Configuration, knob: str, edit: bool) -> Location | Nowhere:
    setting = SETTINGS[knob]
    if knob == "worker_processes" and (reuse := _reuseport(configuration)):
        return reuse
    theirs = [
        one
        for one in configuration.named(setting.directive, *setting.context)
        if not is_ours(configuration, one.file)
    ]
    if theirs:
        return _line(theirs[-1], edit)
    directory = _directory(configuration, setting.context)
    if directory is not None:
        return Location(directory / NAME, None)
    block = f"in its {setting.context[0]} {{}}" if setting.context else "outside of all blocks"
    main = next(iter(configuration.texts))
    return Nowhere(
        f"{setting.directive} is not set, and no directory is included {block}",
        f"make {main.parent}/trimtab.d, add 'include {main.parent}/trimtab.d/*.conf;' {block} of {main}, and reload "
        "nginx",
    )


def _line(one: Directive, edit: bool) -> Location | Nowhere:
    """The operator's own line, if it may be changed."""
    if one.file == COMMAND_LINE:
        return Nowhere(
            f"{one.name} is set on nginx's command line (-g)",
            f"take it out there, write '{one.name} {' '.join(one.args)};' into the configuration and restart nginx",
        )
    found = os.lstat(one.file)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 + _is_aside(one.file, found):
        return Nowhere(f"{one.name} is set in {one.where}, which is a link", "move the line to a file of one name")
    if mounted(one.file):
        return Nowhere(
            f"{one.name} is set in {one.where}, a file that is mounted there by itself, as into a container",
            "mount the directory that it is in, or put the file into the image",
        )
    if why := untrusted(one.file.parent):
        return Nowhere(f"{one.name} is set in {one.where}, and {why}", "see the reason")
    if not edit:
        return Nowhere(
            f"{one.name} is set in {one.where}, and nginx takes it only once",
            "--edit-in-place lets trimtab change this one value there, and put it back",
        )
    return Location(one.file, one)


def _directory(configuration: Configuration, context: tuple[str, ...]) -> Path | None:
    """A directory in which a file of our name is read in that context, and in no other."""
    reads: dict[Path, set[tuple[str, ...]]] = {}
    for pattern, where in configuration.patterns:
        if pattern.parent.is_dir() and fnmatchcase(NAME, pattern.name):
            reads.setdefault(pattern.parent, set()).add(where)
    return next((directory for directory, contexts in reads.items() if contexts == {context}), None)


def _reuseport(configuration: Configuration) -> Nowhere | None:
    """Fewer processes close listening sockets of their own, and with them the connections that wait there."""
    shared = [one for one in configuration.anywhere("listen") if "reuseport" in one.args]
    if datagrams := [one for one in shared if not _DATAGRAMS.isdisjoint(one.args)]:
        return Nowhere(
            f"{datagrams[0].where} takes datagrams with reuseport: with fewer processes those at the sockets of the "
            "others are lost",
            "take reuseport out there",
        )
    if not shared or _migrates():
        return None
    return Nowhere(
        f"{shared[0].where} listens with reuseport: with fewer processes the kernel ends the connections that wait "
        "at the sockets of the others",
        "sysctl net.ipv4.tcp_migrate_req=1 (Linux 5.14) moves them, or take reuseport out",
    )


def _migrates() -> bool:
    try:
        return _MIGRATE.read_text().strip() == "1"
    except OSError:
        return False


def as_it_was(path: Path) -> Path:
    """Where an operator's file stays, as it was, while it is edited."""
    return path.with_name(f".{path.name}.original.trimtab")


def _is_aside(path: Path, found: os.stat_result) -> bool:
    """Whether a file stands there under a second name, as after a kill just before it was edited."""
    try:
        return os.path.samestat(os.lstat(as_it_was(path)), found)
    except OSError:
        return False
