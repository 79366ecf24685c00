"""Asks Apache's own program: version and compiled-in paths, compiled-in modules, whether a configuration is valid."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.own import SYSTEM_PATH
from trimtab.plants._program import Verdict, ask
from trimtab.plants.apache.configuration import Origin
from trimtab.plants.apache.process import Parent
from trimtab.trust import printable

_WITH_VALUE = "DCcdfkEe"
_KEPT = "DCcdf"
_PASSED = re.compile(r"LANG|TZ|LC_\w+|APACHE_\w+")
"""Environment variables that the program gets, beside those that the configuration names."""
_NEVER = re.compile(r"LD_.*|GLIBC_TUNABLES|PATH")
"""Variables that the loader would act upon; never passed, even where the configuration names them."""


@dataclass(frozen=True)
class Program:
    """The program of a running Apache, with the options and the environment that it was started with.

    Args:
        exe: path of the program.
        options: option letter to values, in order, of those that shape the configuration.
        environ: the environment, all of it.
    """

    exe: Path
    options: tuple[tuple[str, str], ...]
    environ: Mapping[str, str]

    @staticmethod
    def of(parent: Parent) -> Program:
        """The program of a running Apache.

        Raises:
            UsageError: its environment may not be read.
            PlantGone: it has ended.
        """
        given = _options(parent.argv[1:])
        options = [(letter, str(parent.cwd() / value) if letter == "d" else value) for letter, value in given]
        return Program(parent.exe, tuple(options), parent.environ())

    @property
    def argv(self) -> list[str]:
        """The program and its options, to which a question is added."""
        return [str(self.exe), *(part for letter, value in self.options for part in (f"-{letter}", value))]

    @property
    def shell_test(self) -> list[str]:
        """The command by which a shell without trimtab has it check its configuration."""
        environ = (f"{name}={value}" for name, value in sorted(self.passed().items()))
        return ["env", "-i", *environ, *self.argv, "-t"]

    def origin(self) -> Origin:
        """Start of the evaluation of the configuration.

        Raises:
            UsageError: the program does not answer as Apache does.
        """
        said, static = (ask([*self.argv, question], self.passed()).stdout for question in ("-V", "-l"))
        version = re.search(r"^Server version: Apache/([\d.]+)", said, re.MULTILINE)
        root = re.search(r'-D HTTPD_ROOT="([^"]*)"', said)
        main = re.search(r'-D SERVER_CONFIG_FILE="([^"]*)"', said)
        if version is None or root is None or main is None:
            raise UsageError(f"{printable(str(self.exe))} -V does not answer as Apache does")
        chosen = dict(self.options)
        server_root = Path("/", chosen.get("d", root[1]))
        return Origin(
            server_root / chosen.get("f", main[1]),
            server_root,
            frozenset(value for letter, value in self.options if letter == "D"),
            self.environ,
            tuple(value for letter, value in self.options if letter == "C"),
            tuple(value for letter, value in self.options if letter == "c"),
            frozenset(line.strip() for line in static.splitlines() if line.endswith(".c")),
            tuple(int(part) for part in version[1].split(".")),
        )

    def test(self, named: frozenset[str]) -> Verdict:
        """Has Apache check its configuration as it is on disk now.

        Args:
            named: the variables of the environment that the configuration names.

        Raises:
            UsageError: the program cannot be run.
        """
        answer = ask([*self.argv, "-t", "-D", "DUMP_INCLUDES"], self.passed(named))
        files = re.findall(r"^\s+\(\S+\) (/.*)$", answer.stdout, re.MULTILINE)
        told = [line.strip() for line in answer.stderr.splitlines() if line.strip() and line.strip() != "Syntax OK"]
        return Verdict(answer.returncode == 0, " ".join(told), frozenset(Path(file) for file in files))

    def passed(self, named: frozenset[str] = frozenset()) -> dict[str, str]:
        """The environment in which it is run, without variables that the loader would act upon.

        Args:
            named: the variables that the configuration names.
        """
        kept = (name for name in self.environ if _PASSED.fullmatch(name) or name in named)
        return {"PATH": SYSTEM_PATH} | {name: self.environ[name] for name in kept if not _NEVER.fullmatch(name)}


def _options(argv: tuple[str, ...]) -> list[tuple[str, str]]:
    """The options that shape the configuration, written either as "-f file" or as "-ffile"; -X defines DEBUG."""
    found, rest = [], list(argv)
    while rest:
        word = rest.pop(0)
        if word == "-X":
            found.append(("D", "DEBUG"))
        if len(word) < 2 or word[0] != "-" or word[1] not in _WITH_VALUE:
            continue
        value = word[2:] or (rest.pop(0) if rest else "")
        if word[1] in _KEPT:
            found.append((word[1], value))
    return found
