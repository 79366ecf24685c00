"""Asks nginx's own program: its compiled-in paths, and whether a configuration is valid."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.plants._program import Verdict, ask
from trimtab.plants.nginx.process import Master
from trimtab.trust import printable

_FINE = re.compile(r"syntax is ok$|test is successful$")


@dataclass(frozen=True)
class Program:
    """The program of a running nginx, with its paths and options.

    Args:
        exe: path of the program.
        prefix: start of relative paths.
        config_file: its configuration.
        pid_file: where it writes its process id unless the configuration says otherwise.
        options: the options that it was started with, as they are passed to it again.
        directives: those given on its command line, with -g.
    """

    exe: Path
    prefix: Path
    config_file: Path
    pid_file: Path
    options: tuple[str, ...]
    directives: str

    @staticmethod
    def of(master: Master) -> Program:
        """The program of a running nginx.

        Raises:
            UsageError: it does not answer as nginx does, or its command line cannot be read.
            PlantGone: it has ended.
        """
        given = options(master.command)
        said = ask([str(master.exe), "-V"], {}).stderr
        built: dict[str, str] = dict(re.findall(r"--(prefix|conf-path|pid-path)=(\S+)", said))
        if not said.startswith("nginx version: "):
            raise UsageError(f"{printable(str(master.exe))} -V does not answer as nginx does")
        prefix = Path(given.get("p", built.get("prefix", "/usr/local/nginx")))
        if not prefix.is_absolute():  # it begins where nginx was started, and our questions are asked elsewhere
            prefix = master.cwd() / prefix
            given["p"] = str(prefix)
        return Program(
            master.exe,
            prefix,
            prefix / given.get("c", built.get("conf-path", "conf/nginx.conf")),
            prefix / built.get("pid-path", "logs/nginx.pid"),
            tuple(word for letter, value in given.items() for word in (f"-{letter}", value)),
            given.get("g", ""),
        )

    @property
    def argv(self) -> list[str]:
        """The program and its options, to which a question is added."""
        return [str(self.exe), *self.options]

    def test(self) -> Verdict:
        """Has nginx check its configuration as it is on disk now.

        Raises:
            UsageError: the program cannot be run.
        """
        # nginx writes its title over the environment that it was started with, so that is not known.
        answer = ask([*self.argv, "-T"], {})
        files = re.findall(r"^# configuration file (/.*):$", answer.stdout, re.MULTILINE)
        told = [line.strip() for line in answer.stderr.splitlines() if line.strip() and not _FINE.search(line)]
        return Verdict(answer.returncode == 0, " ".join(map(_plain, told)), frozenset(Path(file) for file in files))


def options(command: str) -> dict[str, str]:
    """The options of nginx's command line, which it keeps as one text with a space for every border between words.

    Args:
        command: such as "/usr/sbin/nginx -p /srv -c nginx.conf -g daemon off;".

    Returns:
        Option letter, of those that shape the configuration, to value.

    Raises:
        UsageError: it cannot be told where a word ends.
    """
    words, found = command.split(" ")[1:], dict[str, str]()
    while words:
        word = words.pop(0)
        if len(word) < 2 or word[0] != "-" or word[1] not in "pceg":
            raise UsageError(f"nginx's command line cannot be read at {printable(word)!r}: {printable(command)}")
        value = [word[2:] or (words.pop(0) if words else "")]
        while word[1] == "g" and words and not (value[-1].endswith((";", "}")) and words[0][:1] == "-"):
            value.append(words.pop(0))
        found[word[1]] = " ".join(value)
    return found


def _plain(line: str) -> str:
    """A line of its log without time and process."""
    return re.sub(r"^\S+ \S+ (?=\[)|(?<=\]) \d+#\d+:", "", line)
