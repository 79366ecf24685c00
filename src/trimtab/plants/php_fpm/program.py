"""Asks FPM's own program whether it would start with its configuration as it is on disk."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path

from trimtab.plants._php import php_ini
from trimtab.plants._program import Verdict, ask
from trimtab.trust import printable, require_trusted

_PASSED = re.compile(r"LANG|TZ|LC_\w+")
_STAMP = re.compile(r"^\[[^\]]*\] ")
_TAG = re.compile(r"<[^<>]*>")


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

        They are known of Debian's build that runs as Debian starts it, and where `-c` names one (`php_init_config` in
        main/php_ini.c).
        """
        if given := self._option("-c", "--php-ini"):
            return (php_ini(Path("/", given)),)
        debians = Path("/etc/php", self.exe.name.removeprefix("php-fpm"), "fpm")
        if self.options or self.config_file.parent != debians:
            return ()
        return debians / "php.ini", debians / "conf.d" / "*.ini"

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


def _said(lines: Sequence[str]) -> str:
    """The program's errors on its configuration, in one line."""
    told = [_STAMP.sub("", line.strip()) for line in lines]
    wrong = [line for line in told if line.startswith(("ALERT: ", "ERROR: "))] or told
    return printable("; ".join(dict.fromkeys(line.partition(": ")[2].lstrip() or line for line in wrong if line)))
