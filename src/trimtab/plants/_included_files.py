"""Configurations made of files that include others by patterns: which files there are, and whether they have changed.

Nothing that somebody else could change is read (`trimtab.trust`). A file of ours that is still to be written, or to
be taken away, can be imagined: what would then be in force is known before it is.
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from trimtab import processes
from trimtab.errors import UsageError
from trimtab.files import Stamp, read_text, stamp
from trimtab.trust import open_trusted, printable, require_trusted

_CLOCKS_DIFFER_S = 1.0
"""Files have their times from a clock that steps, processes in ticks since boot."""


@dataclass(frozen=True)
class Setting:
    """One line that sets something.

    Args:
        name: such as "cache_mem".
        value: its value, without quotes or a comment.
        file: where it stands.
        line: its number there, from 1.
        section: the section in which it stands; empty where there are none.
    """

    name: str
    value: str
    file: Path
    line: int
    section: str = ""

    @property
    def where(self) -> str:
        """Its place, for a message."""
        return f"{self.file} line {self.line}"


@dataclass
class Files:
    """The files of a configuration, with their settings.

    Attributes:
        settings: every setting, in the order in which the server reads them.
        files: the files, in the order in which they are read.
        patterns: their includes, in that order.
        stamps: of the files and of the directories in which included ones are looked for, before the first look.
    """

    settings: list[Setting] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    patterns: list[Path] = field(default_factory=list)
    stamps: dict[Path, Stamp] = field(default_factory=dict)
    _index: dict[tuple[str, str], list[Setting]] = field(default_factory=dict, init=False, repr=False)
    _indexed: int = field(default=0, init=False, repr=False)

    def all(self, name: str, section: str = "") -> list[Setting]:
        """Every setting of a name, in order; the last one counts where there is one value."""
        for one in self.settings[self._indexed :]:  # each once: a server may have a thousand sections
            self._index.setdefault((one.name, one.section), []).append(one)
        self._indexed = len(self.settings)
        return list(self._index.get((name, section), ()))

    def others(self, name: str, section: str, ours: Path | None) -> list[tuple[Path, str]]:
        """File and value of every such setting outside of our file; line numbers may shift and say nothing."""
        return [(one.file, one.value) for one in self.all(name, section) if one.file != ours]

    def overridden(self, ours: Path, names: Iterable[str], section: str = "") -> str:
        """Reason for which settings of our file do not take effect; empty for none."""
        if ours not in self.files:
            return "it would not be read"
        for name in names:
            last = self.all(name, section)[-1]
            if last.file != ours:
                return f"{name} in {last.where} would have the last word"
        return ""

    def says(self, ours: Path | None) -> list[tuple[Path, object]]:
        """What each file but ours says, line by line; where in it that stands says nothing."""
        return [(one.file, (one.section, one.name, one.value)) for one in self.settings if one.file != ours]

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
                self.stamps.setdefault(path, stamp(path))
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
        for path, seen in searched(pattern).items():
            self.stamps.setdefault(path, seen)
        names = {Path(name) for name in glob.glob(str(pattern))}
        names |= {p for p, t in overlay.items() if t is not None and p.parent == directory and _of(p, pattern)}
        return sorted(names - {p for p, t in overlay.items() if t is None})


def searched(pattern: Path) -> dict[Path, Stamp]:
    """The directories in which an include with wildcards is looked for, those that wildcards name among them.

    Args:
        pattern: an absolute path with wildcards.

    Returns:
        Each with its stamp of before it was looked into, and links, which may lead to a directory some day.

    Raises:
        UsageError: somebody else could put files, or directories, into one of them.
    """
    found = dict[Path, Stamp]()
    for part in (*reversed(pattern.parents), pattern):
        if glob.has_magic(str(part)):
            there = (one for one in sorted(glob.glob(str(part.parent))) if os.path.isdir(one) or os.path.islink(one))
            found |= {Path(one): stamp(Path(one)) for one in there}
    if not found:  # not there yet
        first = next(one for one in pattern.parents if not glob.has_magic(str(one)))
        found[first] = stamp(first)
    for one in found:
        require_trusted(one)
    return found


def directories(patterns: Sequence[Path], name: str) -> list[Path]:
    """The included directories in which a file of this name would be read, the last one first.

    Args:
        patterns: a configuration's includes, in its order.
        name: name of the file.
    """
    wild = [p for p in patterns if _of(p.parent / name, p) and p.name != name]
    return list(dict.fromkeys(p.parent for p in reversed(wild) if not glob.has_magic(str(p.parent))))


def changed_after(files: Iterable[Path], ticks: int) -> Path | None:
    """A file that was changed after a process was started; None where none was.

    Args:
        files: those of a server's configuration.
        ticks: start of the process, in clock ticks since boot.
    """
    booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    loaded_ns = (booted_s + ticks / processes.TICKS_HZ + _CLOCKS_DIFFER_S) * 1e9
    return next((path for path in files if changed_ns(path) > loaded_ns), None)


def changed_ns(path: Path) -> int:
    """When a file was changed, or a link was put in its place, in nanoseconds since 1970; 0 where there is none."""
    try:
        return max(stamp(path)[2], path.lstat().st_ctime_ns)
    except OSError:
        return 0


def _of(path: Path, pattern: Path) -> bool:
    return fnmatchcase(path.name, pattern.name) and not path.name.startswith(".")
