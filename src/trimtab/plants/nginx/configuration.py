"""nginx's configuration as it is on disk: its files, read as nginx reads them, and every directive in its context.

Only files that nobody else can change are read (`trimtab.trust`), and directories from which files are included by a
pattern must be such too; so must be the modules that it loads, because the configuration test loads them.
"""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass, field
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.files import MOST_BYTES, Stamp, stamp
from trimtab.plants._included_files import searched
from trimtab.plants.nginx.program import Program
from trimtab.plants.nginx.syntax import Directive, directives
from trimtab.trust import open_trusted, printable, require_trusted

COMMAND_LINE = Path("-g")
"""The file of a directive that was given on the command line."""
_DEEPEST = 16


@dataclass
class Configuration:
    """Configuration as read.

    Args:
        directives: all directives, in nginx's order.
        texts: the text of every file.
        patterns: each include with a wildcard, and the context in which it stands.
        stamps: of the files and of the directories in which included ones are looked for, before the first look.
        cpus: those that this nginx counted at its start, for which `auto` stands; 0 where it was not seen.
    """

    directives: list[Directive] = field(default_factory=list)
    texts: dict[Path, str] = field(default_factory=dict)
    patterns: list[tuple[Path, tuple[str, ...]]] = field(default_factory=list)
    stamps: dict[Path, Stamp] = field(default_factory=dict)
    cpus: int = 0

    def named(self, name: str, *context: str) -> list[Directive]:
        """The directives of that name in exactly that context."""
        return [one for one in self.directives if one.name == name and one.context == context]

    def says(self, ours: str) -> list[tuple[Path, object]]:
        """What each file but those of that name says, line by line; where in it that stands says nothing."""
        return [(one.file, (one.context, one.name, one.args)) for one in self.directives if one.file.name != ours]

    def read(self) -> list[Path]:
        """The files that were read, and the directories from which files are included by a pattern."""
        return [*self.texts, *(pattern.parent for pattern, _ in self.patterns if pattern.parent.is_dir())]

    def unchanged(self) -> bool:
        """Whether every file and directory is as it was when it was read."""
        return all(stamp(path) == was for path, was in self.stamps.items())

    def anywhere(self, name: str) -> list[Directive]:
        """The directives of that name in any context."""
        return [one for one in self.directives if one.name == name]


def evaluate(program: Program) -> Configuration:
    """The configuration of a running nginx.

    Raises:
        UsageError: a file cannot be read, is not in nginx's language, or somebody else can change it.
    """
    out = Configuration()
    out.directives += directives(program.directives, COMMAND_LINE)
    _file(program.config_file, program, out, (), "", 0)
    for one in out.named("load_module"):
        require_trusted(program.prefix / (one.args or ("",))[0])
    return out


def text_of(path: Path) -> str:
    """Text of a file of the configuration, to the byte: line ends, and bytes that are not UTF-8 (surrogateescape).

    Raises:
        UsageError: it cannot be read, is too long, or somebody else can change it.
    """
    try:
        with os.fdopen(open_trusted(path), "rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read nginx's configuration {printable(str(path))}: {error.strerror}") from None
    if len(raw) > MOST_BYTES:
        raise UsageError(f"{printable(str(path))} is longer than {MOST_BYTES} bytes")
    return raw.decode("utf-8", "surrogateescape")


def _file(path: Path, program: Program, out: Configuration, context: tuple[str, ...], block: str, depth: int) -> None:
    """Adds a file and those that it includes."""
    if depth > _DEEPEST:
        raise UsageError(f"{printable(str(path))} is included within itself")
    out.stamps.setdefault(path, stamp(path))
    text = out.texts[path] = text_of(path)
    for one in directives(text, path, context, block):
        out.directives.append(one)
        if one.name == "include" and len(one.args) == 1:
            for included in _included(one, program, out):
                _file(included, program, out, one.context, one.block, depth + 1)


def _included(one: Directive, program: Program, out: Configuration) -> list[Path]:
    """The files that an include names; relative paths start from the directory of the main file."""
    pattern = program.config_file.parent / one.args[0]
    if not glob.has_magic(str(pattern)):
        return [pattern]
    for directory, seen in searched(pattern).items():
        out.stamps.setdefault(directory, seen)
    out.patterns.append((pattern, one.context))
    return [Path(found) for found in sorted(glob.glob(str(pattern)))]
