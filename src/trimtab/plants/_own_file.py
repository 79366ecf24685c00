"""trimtab's own file in a server's configuration: written whole or not at all, and it knows how to be undone.

The file carries, as a comment, what was there before it and a checksum of itself. So a later trimtab tells its
own leftover, after a SIGKILL too, from a file that somebody else wrote or edited.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

import msgspec

from trimtab import codec
from trimtab.errors import UsageError
from trimtab.files import read_regular, remove, write_whole
from trimtab.trust import require_trusted

_HEAD = "Written by trimtab, which takes it away when it restores. Edit it, and trimtab leaves it to you."
_STATE = "trimtab-state: "


class _State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Comment in the file.

    Args:
        before: what was there before it; None for nothing.
        sha256: checksum of that and of its settings.
    """

    before: str | None
    sha256: str


@dataclass(frozen=True)
class Leftover:
    """A file of trimtab's own that was there already.

    Args:
        text: the whole file.
        before: the text before; None for no file.
    """

    text: str
    before: str | None


def compose(body: str, before: str | None, comment: str = "#") -> str:
    """The text of the file.

    Args:
        body: its settings, each line with its end.
        before: the text before; None for no file. Of one of trimtab's own that is the text before it: an undo goes
            back to the first, and files within files grow twofold with each run.
        comment: start of a comment of this server.
    """
    first = before_all(before)
    state = codec.encode(_State(first, _checksum(first, body)))
    return f"{comment} {_HEAD}\n{comment} {_STATE}{state}\n{body}"


def leftover(text: str) -> Leftover | None:
    """The file as trimtab's own, unedited; None when it is not that."""
    parts = text.split("\n", 2)
    comment = parts[0].partition(" ")[0]
    if len(parts) < 3 or parts[0] != f"{comment} {_HEAD}" or not parts[1].startswith(f"{comment} {_STATE}"):
        return None
    try:
        state = codec.decode(parts[1].removeprefix(f"{comment} {_STATE}"), _State)
    except ValueError:
        return None
    return Leftover(text, state.before) if state.sha256 == _checksum(state.before, parts[2]) else None


def taken_over(path: Path, text: str | None) -> str:
    """Message for our file when it is not as we wrote it.

    Args:
        path: our file.
        text: its present text; None when it is gone.
    """
    if text is None:
        return f"{path} was removed; trimtab stops setting what was in it"
    whose = "another trimtab" if leftover(text) else "somebody"
    return f"{path} was changed by {whose}; trimtab leaves it alone now"


def before_all(text: str | None) -> str | None:
    """Text from before the first of trimtab's own files, where each keeps the one before it.

    Args:
        text: the present text; None for no file.
    """
    while text is not None and (found := leftover(text)) is not None:
        text = found.before
    return text


def read(path: Path) -> str | None:
    """Text of our file; None when there is none.

    Raises:
        UsageError: something else is in its place, such as a link, or it cannot be read.
    """
    try:
        return read_regular(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def write(path: Path, text: str | None, mode: int = 0o644) -> None:
    """Puts a text in our file's place in one step, and on disk before it returns.

    Args:
        path: our file, in a directory that nobody else can change.
        text: its new text; None to remove it.
        mode: mode of a new file, less the umask.

    Raises:
        UsageError: others could change what is written, or something else is in its place.
        OSError: it could not be done; what was there before still is.
    """
    require_trusted(path.parent)
    if text is None:
        remove(path)
    else:
        write_whole(path, text, mode)


def writable(path: Path, written: str | None) -> None:
    """Makes sure that our file may be written.

    Args:
        path: our file.
        written: our own text there; None for none.

    Raises:
        UsageError: it may not, or is not ours.
    """
    require_trusted(path.parent)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        if os.statvfs(path.parent).f_flag & os.ST_RDONLY:
            raise UsageError(f"cannot write in {path.parent}: it is mounted read-only here")
        raise UsageError(f"no permission to write in {path.parent}: run as its owner or as root")
    text = read(path)
    if text is not None and text != written and leftover(text) is None:
        raise UsageError(f"{path} was not written by trimtab, or was edited since: move it away")


def put_back(path: Path, before: str | None) -> str:
    """The lines of a POSIX shell script that put a text in our file's place.

    Args:
        path: our file.
        before: its new text; None to remove it.
    """
    file, fresh = shlex.quote(str(path)), shlex.quote(f"{path.parent}/.{path.name}.XXXXXXXXXX")
    if before is None:
        return f"rm -f {file}"
    # mktemp makes a file that was not there, whatever name somebody has put a link under.
    lines = (f"fresh=$(mktemp {fresh})", f"printf '%s' {shlex.quote(before)} > \"$fresh\"", 'chmod 644 "$fresh"')
    return "\n".join((*lines, f'mv -f "$fresh" {file}'))


def _checksum(before: str | None, body: str) -> str:
    return hashlib.sha256(f"{json.dumps(before)}\n{body}".encode(errors="surrogateescape")).hexdigest()
