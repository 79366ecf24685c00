"""Asks Squid's own program whether it would go on with its configuration as it is on disk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trimtab.plants._program import Verdict, ask
from trimtab.plants.squid.process import SquidMaster
from trimtab.trust import printable, require_trusted

_STAMP = re.compile(r"^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(?: kid\d+)?\| ")
_FILE = re.compile(r"Processing Configuration File: (.*) \(depth \d+\)$")
_WRONG = re.compile(r"FATAL: |ERROR: |.*: unrecognized: ")
_POLICIES = re.compile(r"--enable-removal-policies=([\w,]+)")
_PLACES = re.compile(r"--(prefix|sysconfdir)=([^'\s]+)")


@dataclass(frozen=True)
class Program:
    """The program of a running Squid.

    Args:
        exe: path of the program.
        config_file: the configuration of its master.
        service: its service's name.
    """

    exe: Path
    config_file: Path
    service: str

    @staticmethod
    def of(master: SquidMaster) -> Program:
        """The program of a running Squid, which the caller has looked at.

        Raises:
            UsageError: its configuration is the output of a command, or the program cannot be run.
            PlantGone: it has ended.
        """
        named = master.config_file or built_in(ask([str(master.exe), "-v"], {}).stdout)
        return Program(master.exe, named, master.service)

    @property
    def argv(self) -> list[str]:
        """The command of the test."""
        return [str(self.exe), "-k", "parse", "-n", self.service, "-f", str(self.config_file)]

    def test(self) -> Verdict:
        """Has Squid check its configuration; the caller has looked at the files (`configuration.read`).

        Raises:
            UsageError: the program cannot be run, or somebody else could change it.
        """
        require_trusted(self.exe)
        answer = ask(self.argv, {})
        lines = [_STAMP.sub("", line.strip()) for line in answer.stderr.splitlines()]
        files = frozenset(Path(found[1]) for line in lines if (found := _FILE.match(line)))
        return Verdict(answer.returncode == 0, _said(lines), files)

    def policies(self) -> frozenset[str]:
        """The policies of replacement that it was built with; its test of a configuration does not ask for them.

        Raises:
            UsageError: the program cannot be run, or somebody else could change it.
        """
        require_trusted(self.exe)
        return built_with(ask([str(self.exe), "-v"], {}).stdout)


def built_with(said: str) -> frozenset[str]:
    """The policies of replacement in what a program says of its build, which names them unless there is only lru."""
    found = _POLICIES.search(said)
    return frozenset(("lru", *(found[1].split(",") if found else ())))


def _said(lines: Sequence[str]) -> str:
    """The program's errors on its configuration, in one line."""
    wrong = [line for line in lines if _WRONG.match(line)] or list(lines[-1:])
    return printable("; ".join(dict.fromkeys(wrong)))


def built_in(said: str) -> Path:
    """The configuration that a program reads where none is named, by what it says of its build.

    The last option of a kind counts; the defaults are autoconf's, and Squid's own prefix.
    """
    given = dict(_PLACES.findall(said))
    prefix = given.get("prefix", "/usr/local/squid")
    return Path(given.get("sysconfdir", f"{prefix}/etc").replace("${prefix}", prefix), "squid.conf")
