"""Asks FPM's own program whether it would start with its configuration, and where PHP's own files are."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import unescape
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.files import Stamp, stamp
from trimtab.plants._php import php_ini
from trimtab.plants._program import Verdict, ask
from trimtab.trust import printable, require_trusted

_PASSED = re.compile(r"LANG|TZ|LC_\w+")
_STAMP = re.compile(r"^\[[^\]]*\] ")
_TAG = re.compile(r"<[^<>]*>")
_HOME = re.compile(r"^Configuration File \(php\.ini\) Path => (/.*)$", re.MULTILINE)
_BESIDE = re.compile(r"^Scan this dir for additional \.ini files => (/.*)$", re.MULTILINE)
_NAMES = ("php.ini", "php-fpm-fcgi.ini")
"""The second is taken before the first (`php_init_config` in main/php_ini.c)."""


@dataclass(frozen=True)
class Program:
    """The program of a running FPM.

    Args:
        exe: path of the program.
        config_file: the configuration of its master.
        options: what it was started with beside that, which the user says because the master hides it.
    """

    exe: Path
    config_file: Path
    options: tuple[str, ...] = ()

    @property
    def prefix(self) -> Path:
        """Start of its relative paths: `-p`, else what it was built with, as far as the program's place tells."""
        if given := self._option("-p", "--prefix"):
            return Path(given)
        return self.exe.parent.parent if self.exe.parent.name == "sbin" else Path("/usr")

    @property
    def ini(self) -> tuple[Path, ...]:
        """Patterns of PHP's own files, which it reads in every reload too; none where they are not known.

        They are known where `-c` names one, and by the program's own account where its configuration is beside them,
        as packages have it, or in the directory above, as PHP's own image: else its master may have been started with
        another one, which its title hides.
        """
        if given := self._option("-c", "--php-ini"):
            return (php_ini(Path("/", given)),)
        home, beside = ("", ()) if self.options else _own_files(self.exe, stamp(self.exe))
        if not home or self.config_file.parent not in (Path(home), Path(home).parent):
            return ()
        return *(Path(home, name) for name in _NAMES), *(Path(one, "*.ini") for one in beside)

    @property
    def argv(self) -> list[str]:
        """The command of the test: to its standard error (-F -O), so that nothing is written to FPM's log."""
        return [str(self.exe), *self.options, "-F", "-O", "-t", "-y", str(self.config_file)]

    def test(self) -> Verdict:
        """Has FPM check its configuration; the caller has looked at the files (`configuration.read`).

        Raises:
            UsageError: the program cannot be run, or somebody else could change it or what its options name.
        """
        for path in (self.exe, *(Path(word) for word in self.options if "/" in word)):
            require_trusted(path)
        environ = {name: value for name, value in os.environ.items() if _PASSED.fullmatch(name)}
        answer = ask(self.argv, environ)
        # Where the start itself fails, as with opcache.preload, PHP shows its error as a page.
        said = answer.stderr.strip() or unescape(_TAG.sub("", answer.stdout)).strip()
        return Verdict(answer.returncode == 0, _said(said.splitlines()))

    def _option(self, *flags: str) -> str:
        """What its options say of one that goes by these names; empty for nothing."""
        return next((v for f, v in zip(self.options, self.options[1:], strict=False) if f in flags), "")


@lru_cache(64)
def _own_files(exe: Path, seen: Stamp) -> tuple[str, tuple[str, ...]]:
    """Where a program looks for its php.ini, and the directories of others beside that; empty where it does not say.

    Args:
        exe: the program.
        seen: its stamp, so that one that was replaced is asked anew.
    """
    try:
        require_trusted(exe)
        said = ask([str(exe), "-d", "opcache.preload=", "-i"], {}).stdout  # nobody's script runs for a question
    except UsageError:
        return "", ()
    home, beside = (found[1].strip() if (found := one.search(said)) else "" for one in (_HOME, _BESIDE))
    return home, tuple(part for part in beside.split(os.pathsep) if part.startswith("/"))


def _said(lines: Sequence[str]) -> str:
    """The program's errors on its configuration, in one line."""
    told = [_STAMP.sub("", line.strip()) for line in lines]
    wrong = [line for line in told if line.startswith(("ALERT: ", "ERROR: "))] or told
    return printable("; ".join(dict.fromkeys(line.partition(": ")[2].lstrip() or line for line in wrong if line)))
