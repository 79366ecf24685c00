"""Squid's configuration as it is on disk: its files in the order in which Squid reads them, and their settings.

A later line of a setting with one value replaces an earlier one, in whatever file it stands. Nothing that somebody
else could change is read (`trimtab.trust`). Source: `parseOneConfigFile` in src/cache_cf.cc of Squid 5.7.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.files import stamp
from trimtab.plants._included_files import Files, Setting
from trimtab.trust import printable

_DEEPEST = 16
_LIST = re.compile(r'"(/[^"]+)"')
_EQUATION = re.compile(r"\s*([+-]?\d+)\s*=\s*([+-]?\d+)\s*")


class Configuration(Files):
    """Squid's configuration."""

    def text(self, name: str, default: str = "") -> str:
        """Value of a name that has one."""
        found = self.all(name)
        return found[-1].value if found else default

    def tunnels(self) -> bool:
        """Whether Squid may make tunnels: at a port that is no accelerator's, or for clients who change protocol."""
        ports = [one.value.split() for kind in ("http_port", "https_port") for one in self.all(kind)]
        return not all("accel" in words for words in ports) or bool(self.all("http_upgrade_request_protocols"))


def read(main: Path, service: str, overlay: Mapping[Path, str | None] | None = None) -> Configuration:
    """Reads a configuration as the worker of a Squid does.

    Args:
        main: its first file.
        service: the service's name, which a condition may ask for.
        overlay: files to imagine, or (None) to leave out.

    Raises:
        UsageError: a file cannot be read, or somebody else could change what is read.
    """
    reader = _Reader(service, overlay or {})
    reader.file(main, 0)
    return reader.out


class _Reader:
    def __init__(self, service: str, overlay: Mapping[Path, str | None]) -> None:
        self.out = Configuration()
        self._macros = {"${service_name}": service, "${process_name}": "squid-1", "${process_number}": "1"}
        self._overlay = overlay

    def file(self, path: Path, depth: int) -> None:
        """Takes in one file and those that it includes."""
        if depth > _DEEPEST:
            raise UsageError(f"{_shown(path)}: Squid's configuration includes itself, or too deeply")
        text = self.out.read(path, self._overlay)
        holds: list[bool] = []
        for number, line in _joined(text):
            for macro, value in self._macros.items():
                line = line.replace(macro, value)
            word, rest = (*line.split(None, 1), "")[:2]
            if word == "if":
                holds.append(_true(rest.strip(), f"{_shown(path)} line {number}"))
            elif word == "else" and holds:
                holds[-1] = not holds[-1]
            elif word == "endif" and holds:
                holds.pop()
            elif holds and not holds[-1]:
                continue
            elif word == "include":
                self._include(rest, path, depth)
            else:
                value = re.sub(r"(^|\s)#.*", "", rest).strip()
                self.out.settings.append(Setting(word, value, path, number))
                if word == "acl":
                    self._lists(value)

    def _lists(self, value: str) -> None:
        """The lists that an acl has in files of their own, by their stamps: Squid reads them in a reload too."""
        for path in map(Path, _LIST.findall(value)):
            if os.path.isfile(path):  # also where it may not be looked at
                self.out.stamps[path] = seen = stamp(path)
                self.out.settings.append(Setting("", str(seen), path, 0))

    def _include(self, patterns: str, file: Path, depth: int) -> None:
        """The files of some patterns, those of each sorted by bytes as glob(3) does in Squid's locale."""
        found: list[Path] = []
        for pattern in map(Path, _words(patterns, file)):
            if not pattern.is_absolute():
                raise UsageError(f"{_shown(file)} includes {_shown(pattern)}, which is not an absolute path")
            found += self.out.included(pattern, self._overlay)
        for name in found:
            self.file(name, depth + 1)


def _words(text: str, file: Path) -> list[str]:
    """Words as `strwordtok` of Squid tells them apart: an apostrophe is a letter.

    Raises:
        UsageError: a quote has no end.
    """
    lexer = shlex.shlex(text, posix=True)
    lexer.whitespace_split, lexer.quotes, lexer.commenters = True, '"', ""
    try:
        return list(lexer)
    except ValueError as error:
        raise UsageError(f"{_shown(file)}: include {printable(text)}: {str(error).lower()}") from None


def _joined(text: str) -> list[tuple[int, str]]:
    """The lines that are not empty, each with its number; those that a backslash joins are one."""
    found, begun = [], ""
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.partition("\r")[0].lstrip(" \t")
        if not line or line.startswith("#"):
            continue
        begun += line
        if begun.endswith("\\"):
            begun = begun[:-1]
            continue
        found.append((number, begun.rstrip()))
        begun = ""
    return found


def _true(expression: str, where: str) -> bool:
    """Whether a condition holds.

    Raises:
        UsageError: it is none that Squid knows.
    """
    if expression in ("true", "false"):
        return expression == "true"
    equation = _EQUATION.fullmatch(expression)
    if equation is None:
        raise UsageError(f"{where}: 'if {printable(expression)}' cannot be understood")
    return int(equation[1]) == int(equation[2])


def _shown(path: Path) -> str:
    return printable(str(path))
