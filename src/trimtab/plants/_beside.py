"""Whether another server of a kind reads a file too that is to be written: what is for one would be in its way.

Instances often begin as copies of one main file, and include the same directories. What one of them is to have the
other gets with its next reload, and nginx, which takes each setting once, does not start any more where it has that
one itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from trimtab.errors import TrimtabError, UsageError
from trimtab.plants._master import Master
from trimtab.plants._vetted import vet
from trimtab.trust import printable

M = TypeVar("M", bound=Master)


def require_alone(master: M, ours: Path, included: Callable[[M], Iterable[Path]]) -> None:
    """Makes sure that no other server of this user's would read our file; one that is there already it has read.

    Args:
        master: the first process of the server that is to read it.
        ours: our file.
        included: the directories of which a server reads all files with such names; what it raises is passed over.

    Raises:
        UsageError: one would, as far as that can be told of those that run.
    """
    if ours.exists():
        return
    directory = ours.parent.resolve()
    other = _first(master, lambda other: any(one.resolve() == directory for one in included(other)))
    if other is not None:
        raise UsageError(
            f"{other} reads {ours.parent} too, and would get these settings with its next reload, or refuse them: "
            f"have {master} alone include a directory for {ours.name}"
        )


def require_unshared(master: M, file: Path, read: Callable[[M], Iterable[Path]]) -> None:
    """Makes sure that no other server of this user's reads a file of the operator's that is to be edited.

    Args:
        master: the first process of the server for which it is to be edited.
        file: the operator's file.
        read: the files that a server reads; what it raises is passed over.

    Raises:
        UsageError: one does, as far as that can be told of those that run.
    """
    there = file.resolve()
    other = _first(master, lambda other: any(one.resolve() == there for one in read(other)))
    if other is not None:
        raise UsageError(
            f"{other} reads {printable(str(file))} too, and would get what trimtab sets there with its next reload: "
            f"set it in a file that {master} alone reads"
        )


def _first(master: M, reads: Callable[[M], bool]) -> M | None:
    """The first other server of this user's that reads something; None for none, as far as that can be told."""
    for other in type(master).running():
        if not other.own or other.pid == master.pid:
            continue
        with contextlib.suppress(TrimtabError, OSError):  # it has ended, or is none that may be asked
            vet(other)
            if reads(other):
                return other
    return None
