"""Reads Apache's configuration as Apache does: includes in order, conditions decided, variables put in.

What cannot be decided without running Apache (`<IfDirective>`, `<IfSection>`, macros, programs of mod_perl) is named
in `uncertain`.
Source: https://httpd.apache.org/docs/2.4/configuring.html and server/config.c, which also gives the limit of 128
nested includes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.files import ABSENT, Stamp, read_text, stamp
from trimtab.plants._php import ini_stamps, php_ini
from trimtab.plants.apache.syntax import Directive, identifier, lines, source_name, version_holds, words
from trimtab.trust import open_trusted, printable, require_trusted

Overlay = Mapping[Path, str | None]
"""Files to imagine: their text, or None for a file to be taken as absent."""

_MAX_DEPTH = 128
_VARIABLE = re.compile(r"\$\{([^}]+)\}")
_WILD = frozenset("*?[")
_MOD_PHP = re.compile(r"/libphp([\d.]*?)\.so$")
_PHP_ELSEWHERE = frozenset({"PHPRC", "PHP_INI_SCAN_DIR"})
"""Variables that name other files of PHP's own."""


@dataclass
class Configuration:
    """Configuration as evaluated, in the order in which Apache sees it."""

    directives: list[Directive] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    patterns: list[tuple[Path, Directive]] = field(default_factory=list)
    """Each Include with an absolute path or pattern, outside of every section."""
    modules: set[str] = field(default_factory=set)
    """Identifiers (`status_module`) and source names (`mod_status.c`)."""
    uncertain: list[str] = field(default_factory=list)
    variables: frozenset[str] = frozenset()
    """Names of the variables that it takes from the environment."""
    stamps: dict[Path, Stamp] = field(default_factory=dict)
    """Of the files and directories, before they were first read."""
    asked: dict[Path, bool] = field(default_factory=dict)
    """Files of which only is asked whether they are there, and whether they were."""

    def named(self, *names: str) -> list[Directive]:
        """The directives of these lower-case names, in order."""
        return [d for d in self.directives if d.name in names]

    def read(self) -> list[Path]:
        """The files and directories that were read."""
        return [path for path, seen in self.stamps.items() if seen != ABSENT]

    def says(self, ours: Path) -> list[tuple[Path, object]]:
        """What each file but ours says, line by line; where in it that stands says nothing."""
        return [(one.file, (one.name, one.context, one.args)) for one in self.directives if one.file != ours]

    def root(self, started: Path) -> Path:
        """ServerRoot, from which relative paths go.

        Args:
            started: what it is before any directive sets it.
        """
        roots = [one.args[0] for one in self.named("serverroot") if one.args]
        return Path("/", roots[-1]) if roots else started

    def unchanged(self) -> bool:
        """Whether every file and directory that was read is as it was."""
        there = all(os.path.exists(path) is seen for path, seen in self.asked.items())
        return there and all(stamp(path) == seen for path, seen in self.stamps.items())


@dataclass(frozen=True)
class Origin:
    """Start of a running Apache: its files, environment and arguments.

    Args:
        config_file: absolute path of its main file.
        server_root: ServerRoot before any directive sets it.
        defines: names given with -D.
        environ: its environment.
        before: directives given with -C.
        after: directives given with -c.
        static_modules: source names of the compiled-in modules, as `-l` lists them.
        version: the server's version, such as (2, 4, 57).
    """

    config_file: Path
    server_root: Path
    defines: frozenset[str] = frozenset()
    environ: Mapping[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    static_modules: frozenset[str] = frozenset()
    version: tuple[int, ...] = (2, 4)


def evaluate(origin: Origin, overlay: Overlay | None = None) -> Configuration:
    """Reads the whole configuration.

    Args:
        origin: files, environment and arguments that Apache was started with.
        overlay: files to imagine, or to leave out.

    Raises:
        UsageError: a file cannot be read, somebody else could change what is read, or includes nest without end.
    """
    return _Reader(origin, overlay or {}).run()


class _Reader:
    """One pass over the configuration."""

    def __init__(self, origin: Origin, overlay: Overlay) -> None:
        self._origin = origin
        self._overlay = overlay
        self._root = origin.server_root
        self._variables = dict.fromkeys(origin.defines, "")
        self._section = ""
        self._out = Configuration(modules=set(origin.static_modules))
        for source in origin.static_modules:
            self._out.modules.add(identifier(source))

    def run(self) -> Configuration:
        self._text("\n".join(self._origin.before), Path("-C"), (), 0)
        self._file(self._origin.config_file, (), 0)
        self._text("\n".join(self._origin.after), Path("-c"), (), 0)
        for path, seen in ini_stamps(self._ini()).items():
            self._out.stamps[path] = seen
            if path.is_file():
                self._out.directives.append(Directive("", (str(seen),), path, 0))
        return self._out

    def _ini(self) -> Iterator[Path]:
        """Patterns of mod_php's own files where they are known: what PHPIniDir names, and where builds have them.

        Debian's has its version in the module's name, PHP's own image names them by a variable; else Red Hat's.
        """
        environ, loads = self._origin.environ, self._out.named("loadmodule")
        loaded = [found[1] for one in loads for path in one.args[1:] if (found := _MOD_PHP.search(path))]
        if not loaded or not _PHP_ELSEWHERE.isdisjoint(environ):
            return
        if "." in loaded[-1]:
            home, beside = Path("/etc/php", loaded[-1], "apache2"), "conf.d"
        elif image := environ.get("PHP_INI_DIR"):
            home, beside = Path("/", image), "conf.d"
        else:
            home, beside = Path("/etc"), "php.d"
        named = [self._root / one.args[0] for one in self._out.named("phpinidir") if one.args]
        yield php_ini(named[-1]) if named else home / "php.ini"
        yield home / beside / "*.ini"

    def _file(self, path: Path, context: tuple[tuple[str, str], ...], depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise UsageError(f"{path} is included more than {_MAX_DEPTH} levels deep")
        self._out.stamps.setdefault(path, stamp(path))
        text = self._overlay.get(path)
        if text is None:
            try:
                text = read_text(open_trusted(path), path)
            except OSError as error:
                why = f"{printable(str(path))}: {error.strerror}"
                raise UsageError(f"cannot read Apache's configuration: {why}") from None
        self._out.files.append(path)
        self._text(text, path, context, depth)

    def _text(self, text: str, file: Path, context: tuple[tuple[str, str], ...], depth: int) -> None:
        stack: list[tuple[str, tuple[tuple[str, str], ...], str]] = []
        skipping: list[str] = []
        for number, line in lines(text):
            if line.startswith("</"):
                closed = line[2:].rstrip(">").strip().lower()
                if skipping:
                    if skipping[-1] == closed:
                        skipping.pop()
                elif stack and stack[-1][0] == closed:
                    _, context, self._section = stack.pop()
                continue
            if line.startswith("<"):
                name, _, argument = line[1:].removesuffix(">").replace("\t", " ").strip().partition(" ")
                name, argument = name.lower(), argument.strip()
                if skipping:
                    skipping.append(name)
                    continue
                holds = self._condition(name, argument, f"{file}:{number}")
                if holds is False:
                    skipping.append(name)
                    continue
                stack.append((name, context, self._section))
                if holds is None:
                    self._section = f"{file}:{number}"
                    context = (*context, (name, " ".join(words(self._filled(argument)))))
                continue
            if not skipping:
                name, _, rest = line.replace("\t", " ").partition(" ")
                args = words(self._filled(rest))
                found = Directive(name.lower(), args, file, number, context, self._section)
                self._directive(found, depth)

    def _directive(self, found: Directive, depth: int) -> None:
        args = found.args
        if found.name in ("include", "includeoptional") and args:
            self._include(found, depth)
            return
        if found.name == "define" and args:
            self._variables[args[0]] = args[1] if len(args) > 1 else ""
        elif found.name == "undefine" and args:
            self._variables.pop(args[0], None)
        elif found.name == "serverroot" and args:
            self._root = Path("/", args[0])
        elif found.name == "loadmodule" and len(args) > 1:
            require_trusted(self._root / args[1])
            self._out.modules |= {args[0], source_name(args[0])}
        elif found.name == "loadfile":
            for file in args:
                require_trusted(self._root / file)
        elif found.name == "use":
            self._out.uncertain.append(f"macro at {found.where}")
        self._out.directives.append(found)

    def _include(self, found: Directive, depth: int) -> None:
        pattern = self._root / found.args[0]
        if not found.context:
            self._out.patterns.append((pattern, found))
        for path in self._matches(pattern):
            self._file(path, found.context, depth + 1)

    def _matches(self, pattern: Path) -> list[Path]:
        """The files that an Include reads, in Apache's order."""
        found = [Path(pattern.anchor)]
        for part in pattern.parts[1:]:
            if _WILD.isdisjoint(part):
                found = [base / part for base in found]
            else:
                found = [
                    base / name
                    for base in found
                    for name in self._names(base)
                    if fnmatchcase(name, part) and (not name.startswith(".") or part.startswith("."))
                ]
        return [file for path in found for file in self._tree(path)]

    def _tree(self, path: Path) -> Iterator[Path]:
        """The file, or all files of a directory and those below it; where there is none, others may add none."""
        require_trusted(path)
        if path.is_dir():
            for name in self._names(path):
                yield from self._tree(path / name)
        elif (path in self._overlay and self._overlay[path] is not None) or (
            path not in self._overlay and path.exists()
        ):
            yield path
        else:
            self._out.stamps.setdefault(path, stamp(path))

    def _names(self, directory: Path) -> list[str]:
        """Names in a directory, as the overlay has it, sorted by bytes as Apache does."""
        require_trusted(directory)
        self._out.stamps.setdefault(directory, stamp(directory))
        try:
            names = set(os.listdir(directory))
        except OSError:
            names = set()
        for path, text in self._overlay.items():
            if path.parent == directory:
                (names.discard if text is None else names.add)(path.name)
        return sorted(names, key=os.fsencode)

    def _filled(self, text: str) -> str:
        """`text` with ${variables} put in; one that is not known stays as it is written."""

        def value(match: re.Match[str]) -> str:
            name = match[1]
            if not self._variables.get(name) and name in self._origin.environ:
                self._out.variables |= {name}
            return self._variables.get(name) or self._origin.environ.get(name) or match[0]

        return _VARIABLE.sub(value, text)

    def _condition(self, name: str, argument: str, where: str) -> bool | None:
        """Whether a conditional section holds; None when the section is not a conditional one."""
        if name == "perl":
            self._out.uncertain.append(f"<Perl> at {where}")
        if name not in ("ifmodule", "ifdefine", "ifversion", "iffile", "ifdirective", "ifsection"):
            return None
        negated, wanted = argument.startswith("!"), argument.removeprefix("!").strip().strip("\"'")
        if name == "ifmodule":
            return (wanted in self._out.modules) != negated
        if name == "ifdefine":
            return (self._filled(wanted) in self._variables) != negated
        if name == "iffile":
            path = self._root / self._filled(wanted)
            return self._out.asked.setdefault(path, os.path.exists(path)) != negated
        if name == "ifversion":
            return version_holds(argument, self._origin.version)
        self._out.uncertain.append(f"<{name} {argument}> at {where}, taken as true")
        return True
