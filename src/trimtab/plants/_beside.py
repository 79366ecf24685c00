"""Whether another server of a kind reads what is in a directory too: a file of ours there would be in its way.

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
    for other in type(master).running():
        if not other.own or other.pid == master.pid:
            continue
        with contextlib.suppress(TrimtabError, OSError):  # it has ended, or is none that may be asked
            vet(other)
            if any(one.resolve() == directory for one in included(other)):
                break
    else:
        return
    raise UsageError(
        f"{other} reads {ours.parent} too, and would get these settings with its next reload, or refuse them: have "
        f"{master} alone include a directory for {ours.name}"
    )
