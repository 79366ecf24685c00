"""FPM's configuration as it is on disk: its files in the order in which FPM reads them, and their settings.

A later setting of the same key in the same section replaces an earlier one, in whatever file it stands, and a section
goes on across the end of an included file (sapi/fpm/fpm/fpm_conf.c, tried with PHP 8.2); there, its name is the same
in any case of its letters. Nothing that somebody else could change is read (`trimtab.trust`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.plants._included_files import Files, Setting
from trimtab.plants._php import ini_stamps
from trimtab.trust import printable

GLOBAL = "global"
_SECTION = re.compile(r"\s*\[([^\]]*)\]\s*(;.*)?$")
_SETTING = re.compile(r"\s*([^=;\s\[]+(?:\[[^\]]*\])?)\s*=\s*(.*?)\s*$")
_QUOTED = re.compile(r"(\"[^\"]*\"|'[^']*')\s*(;.*)?$")
_TIME = re.compile(r"(\d+)([smhd]?)$")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_MOST_FILES = 1000


class Configuration(Files):
    """FPM's configuration."""

    def text(self, section: str, key: str) -> str:
        """Value of a key; empty where it is not set."""
        found = self.all(key, section)
        return found[-1].value.replace("$pool", section) if found else ""

    def number(self, section: str, key: str) -> int:
        """Value of a key as a number; 0 where it is not set, as FPM has it.

        Raises:
            UsageError: it is not a number.
        """
        text = self.text(section, key) or "0"
        if not text.isdecimal() or len(text) > 9:
            raise UsageError(
                f"{key} = {printable(text)} in {self.all(key, section)[-1].where} is {_not(text)} number"
            )
        return int(text)

    def seconds(self, section: str, key: str) -> int:
        """A time in seconds; 0 where it is not set.

        Raises:
            UsageError: it is not a time.
        """
        text = self.text(section, key) or "0"
        found = _TIME.match(text)
        if found is None:
            raise UsageError(f"{key} = {printable(text)} in {self.all(key, section)[-1].where} is {_not(text)} time")
        return int(found[1]) * _SECONDS[found[2]]

    def pools(self) -> list[str]:
        """The pools, in order."""
        return list(dict.fromkeys(one.section for one in self.settings if one.section not in (GLOBAL, "")))


def read(
    main: Path,
    prefix: Path = Path("/usr"),
    overlay: Mapping[Path, str | None] | None = None,
    ini: Iterable[Path] = (),
) -> Configuration:
    """Reads a configuration.

    Args:
        main: its first file.
        prefix: where a relative `include` starts.
        overlay: files to imagine, or (None) to leave out.
        ini: patterns of PHP's own files, which are known by their stamps.

    Raises:
        UsageError: a file cannot be read, or somebody else could change what is read.
    """
    reader = _Reader(prefix, overlay or {})
    reader.file(main, 0)
    for path, seen in ini_stamps(ini).items():
        reader.out.stamps[path] = seen
        if path.is_file():
            reader.out.settings.append(Setting("", str(seen), path, 0))
    return reader.out


def _not(text: str) -> str:
    """What a value is in place of the one that was expected, up to that one's name."""
    hidden = "from PHP-FPM's environment, which it hides: write it there as a"
    return hidden if "${" in text else "not a"


class _Reader:
    def __init__(self, prefix: Path, overlay: Mapping[Path, str | None]) -> None:
        self.out = Configuration()
        self._prefix = prefix
        self._overlay = overlay
        self._section = GLOBAL
        self._sections = {GLOBAL: GLOBAL}
        """Small letters to the name that a section has."""

    def file(self, path: Path, depth: int) -> None:
        """Takes in one file and those that it includes."""
        if depth > 20 or len(self.out.files) >= _MOST_FILES:
            raise UsageError(f"{printable(str(path))}: FPM's configuration includes itself, or too many files")
        text = self.out.read(path, self._overlay)
        for number, line in enumerate(text.split("\n"), 1):  # to PHP nothing else ends one
            self._line(path, number, line, depth)

    def _line(self, path: Path, number: int, line: str, depth: int) -> None:
        if found := _SECTION.match(line):
            name = found[1].strip()
            self._section = self._sections.get(name.lower(), name)
            return
        found = _SETTING.match(line)
        if found is None:
            return
        value = found[2]
        quoted = _QUOTED.match(value)
        value = quoted[1][1:-1] if quoted else value.partition(";")[0].rstrip()
        if found[1] == "include":
            for name in self.out.included(self._prefix / value, self._overlay):
                self.file(name, depth + 1)
            return
        self._sections.setdefault(self._section.lower(), self._section)
        self.out.settings.append(Setting(found[1], value, path, number, self._section))
