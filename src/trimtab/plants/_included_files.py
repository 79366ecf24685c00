"""Configurations made of files that include others by patterns: which files there are, and whether they have changed.

Nothing that somebody else could change is read (`trimtab.trust`). A file of ours that is still to be written, or to
be taken away, can be imagined: what would then be in force is known before it is.
"""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.files import Stamp, read_text, stamp
from trimtab.trust import open_trusted, printable, require_trusted


@dataclass
class Files:
    """The files of a configuration.

    Attributes:
        files: the files, in the order in which they are read.
        patterns: their includes, in that order.
        stamps: of the files and of the directories in which included ones are looked for.
    """

    files: list[Path] = field(default_factory=list)
    patterns: list[Path] = field(default_factory=list)
    stamps: dict[Path, Stamp] = field(default_factory=dict)

    def changed(self) -> list[Path]:
        """The files and directories that are not as they were when they were read."""
        return [path for path, was in self.stamps.items() if stamp(path) != was]

    def read(self, path: Path, overlay: Mapping[Path, str | None]) -> str:
        """Reads a file, which is one of them from now on.

        Args:
            path: the file.
            overlay: files to imagine, or (None) to leave out.

        Raises:
            UsageError: it cannot be read, or somebody else could change it.
        """
        text = overlay.get(path)
        if text is None:
            try:
                self.stamps[path] = stamp(path)
                text = read_text(open_trusted(path), path)
            except OSError as error:
                raise UsageError(f"cannot read {printable(str(path))}: {error.strerror}") from None
        self.files.append(path)
        return text

    def included(self, pattern: Path, overlay: Mapping[Path, str | None]) -> list[Path]:
        """The files of a pattern, sorted by bytes as glob(3) does in the servers' locale.

        Args:
            pattern: an absolute path, perhaps with wildcards.
            overlay: files to imagine, or (None) to leave out.

        Raises:
            UsageError: somebody else could put files into its directory.
        """
        self.patterns.append(pattern)
        if not glob.has_magic(str(pattern)):
            return [pattern]
        directory = pattern.parent
        if not glob.has_magic(str(directory)):
            require_trusted(directory)
            self.stamps[directory] = stamp(directory)
        names = {Path(name) for name in glob.glob(str(pattern))}
        names |= {p for p, t in overlay.items() if t is not None and p.parent == directory and _of(p, pattern)}
        return sorted(names - {p for p, t in overlay.items() if t is None})


def directories(patterns: Sequence[Path], name: str) -> list[Path]:
    """The included directories in which a file of this name would be read, the last one first.

    Args:
        patterns: a configuration's includes, in its order.
        name: name of the file.
    """
    wild = [p for p in patterns if _of(p.parent / name, p) and p.name != name]
    return list(dict.fromkeys(p.parent for p in reversed(wild) if not glob.has_magic(str(p.parent))))


def _of(path: Path, pattern: Path) -> bool:
    return fnmatchcase(path.name, pattern.name) and not path.name.startswith(".")
