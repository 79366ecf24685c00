"""The syntax of Apache's configuration files: logical lines, words, directives and conditions.

Source: https://httpd.apache.org/docs/2.4/configuring.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NO_FILE = re.compile(r"[^/]*:|.*\$\{")
"""An address such as "pkcs11:", a variable that is not known."""
_PERL = re.compile(r"<perl[\s>]", re.I)
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'|(\S+)')


@dataclass(frozen=True)
class Directive:
    """One directive that takes part in the configuration.

    Args:
        name: its name in lower case.
        args: its arguments, unquoted, with variables put in.
        file: the file it stands in; `-c` and `-C` arguments have that as their file.
        line: its first line there, from 1.
        context: the sections around it, lower-case name and argument, without the conditional ones.
        section: where the innermost of these begins, which tells two with the same words apart; empty outside of all.
    """

    name: str
    args: tuple[str, ...]
    file: Path
    line: int
    context: tuple[tuple[str, str], ...] = ()
    section: str = ""

    @property
    def where(self) -> str:
        """File and line, as a person writes them."""
        return f"{self.file}:{self.line}"


def file_of(one: Directive, root: Path) -> Path | None:
    """The file that a directive names; None where that is none, or only Apache knows which."""
    name = one.args[0] if one.args else ""
    known = name and not _NO_FILE.match(name) and "macro" not in (section for section, _ in one.context)
    return root / name if known else None


def words(text: str) -> tuple[str, ...]:
    """Splits arguments at white space, with quotes and backslashes as Apache reads them."""
    found = []
    for double, single, bare in _WORD.findall(text):
        found.append(bare or re.sub(r'\\(["\'\\])', r"\1", double or single))
    return tuple(found)


def lines(text: str) -> Iterator[tuple[int, str]]:
    """The logical lines with the number of their first line: continued ones joined, comments and blanks left out.

    So are programs in `<Perl>` sections, whose lines may look like directives, and like sections that never end.
    """
    pending, first, perl = "", 0, False
    for number, raw in enumerate(text.split("\n"), 1):  # to Apache nothing else ends one
        first = first or number
        if raw.endswith("\\"):
            pending += raw[:-1]
            continue
        whole, start = (pending + raw).strip(), first
        pending, first = "", 0
        perl = perl and whole.lower() != "</perl>"
        if whole and not whole.startswith("#") and not perl:
            yield start, whole
            perl = _PERL.match(whole) is not None
    if pending.strip() and not pending.strip().startswith("#"):
        yield first, pending.strip()


def version_holds(argument: str, version: tuple[int, ...]) -> bool:
    """Whether the argument of `<IfVersion>`, such as `>= 2.4.10`, holds for this version of Apache.

    One that Apache would not take never does.
    """
    try:
        return _version_holds(argument.split(), version)
    except (ValueError, re.error):
        return False


def _version_holds(parts: list[str], version: tuple[int, ...]) -> bool:
    """Whether `version_holds`, by its words.

    Raises:
        ValueError: they are no version.
        re.error: they are no regular expression.
    """
    if not parts:
        raise ValueError("no version")
    operator, wanted = (parts[0], parts[1]) if len(parts) > 1 else ("=", parts[0])
    negated, operator = operator.startswith("!"), operator.removeprefix("!")
    actual = ".".join(map(str, version))
    if operator == "~" or wanted.startswith("/"):
        return (re.search(wanted.strip("/"), actual) is not None) != negated
    bound = tuple(int(part) for part in wanted.split("."))
    mine = (*version, 0, 0)[:3]
    full = (*bound, 0, 0)[:3]
    holds = {"": mine == full, "=": mine == full, "==": mine == full, ">": mine > full, ">=": mine >= full}
    holds |= {"<": mine < full, "<=": mine <= full}
    return holds.get(operator, False) != negated


def source_name(module: str) -> str:
    """The source file name by which `<IfModule>` also knows a module identifier."""
    short = module.removesuffix("_module")
    return f"{short.removeprefix('mpm_')}.c" if short.startswith("mpm_") else f"mod_{short}.c"


def identifier(source: str) -> str:
    """The module identifier of a compiled-in source file."""
    short = source.removesuffix(".c")
    mpms = ("prefork", "worker", "event")
    return f"mpm_{short}_module" if short in mpms else f"{short.removeprefix('mod_').removeprefix('http_')}_module"
