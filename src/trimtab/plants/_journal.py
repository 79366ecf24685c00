"""Journals on disk: what a plant sets, with what was before, is written down first, so that a killed run is undone.

They stand in a directory that nobody but root and this user can change, and are written whole or not at all. What is
set in a running server is gone with its process, so a journal of that is named by the process's id and start time,
after its boot where the directory outlives one, and is taken away once the process has ended.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TypeVar

from trimtab import codec
from trimtab.errors import UsageError
from trimtab.files import read_regular, remove, write_whole
from trimtab.processes import boot_id, start_of
from trimtab.trust import require_trusted, untrusted

T = TypeVar("T")
_OF_PROCESS = re.compile(r"(?:([0-9a-f-]{36})-)?(\d+)-(\d+)\.json")


def make_directory(directory: Path) -> None:
    """Makes sure that journals can be kept in a directory, which is made where there is none.

    Raises:
        UsageError: others can change it, or it cannot be made or written.
    """
    try:
        for missing in reversed([one for one in directory.parents if not one.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{directory}, where what was before is kept: {error.strerror}") from None
    require_trusted(directory)
    if not os.access(directory, os.W_OK):
        raise UsageError(f"{directory} cannot be written, where what was before is kept: chmod u+w it")


def read(path: Path, kind: type[T], mend: str = "") -> T | None:
    """The content of a journal; None where there is none.

    Args:
        path: its file.
        kind: type of its content.
        mend: advice for one that makes no sense.

    Raises:
        UsageError: others could have written it, it makes no sense, or it cannot be read.
    """
    if not os.path.lexists(path):
        return None
    require_trusted(path)
    try:
        text = read_regular(path)
        return None if text is None else codec.decode(text, kind)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path} is not what trimtab wrote ({error}){mend}") from None


def write(path: Path, content: object | None) -> None:
    """Puts a journal on disk before it returns.

    Args:
        path: its file.
        content: its content; None to take it away.

    Raises:
        UsageError: others could change it, or it cannot be written.
    """
    if content is None and not os.path.lexists(path):
        return
    make_directory(path.parent)
    try:
        if content is None:
            remove(path)
        else:
            write_whole(path, codec.encode(content), 0o600)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def tidy(directory: Path) -> None:
    """Takes away the journals of processes that have ended, and their settings with them."""
    if untrusted(directory):
        return
    for path in directory.glob("*.json"):
        if named := _OF_PROCESS.fullmatch(path.name):
            boot, pid, started = named.groups()
            if boot not in (None, boot_id()) or start_of(int(pid)) != int(started):
                with contextlib.suppress(OSError):
                    path.unlink()
