"""What each module of trimtab imports, read from its text."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import trimtab

ROOT = Path(trimtab.__file__).parent


@functools.cache
def modules() -> Mapping[str, Path]:
    """Dotted name to the file of every module."""
    return {_dotted(path): path for path in sorted(ROOT.rglob("*.py"))}


def _dotted(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def imported(module: str) -> frozenset[str]:
    """The modules that one imports when it runs, wherever in it, other packages' among them.

    Args:
        module: its dotted name.
    """
    path = modules()[module]
    return frozenset(found_in(path.read_text(encoding="utf-8"), module, path.name == "__init__.py"))


def found_in(source: str, module: str, package: bool = False) -> Iterator[str]:
    """The modules that a text imports when it runs; what only types need is left out.

    Args:
        source: the text.
        module: the dotted name that it has.
        package: whether it is a package's own.
    """
    for node in _run(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: len(module.split(".")) - node.level + package] if node.level else []
            base = ".".join((*above, *filter(None, [node.module])))
            # A name may be a module of the package or a part of it; where it is a module, both run.
            yield base
            yield from (one for name in node.names if (one := f"{base}.{name.name}") in modules())


def _run(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it, without what stands under `if TYPE_CHECKING`."""
    yield node
    below: Iterable[ast.AST] = ast.iter_child_nodes(node)
    if isinstance(node, ast.If) and ast.unparse(node.test).rpartition(".")[2] == "TYPE_CHECKING":
        below = node.orelse
    for child in below:
        yield from _run(child)


@functools.cache
def reached(module: str) -> Mapping[str, tuple[str, ...]]:
    """Each module that one leads to, with the way there; importing a module runs the packages above it.

    Args:
        module: its dotted name.
    """
    ways: dict[str, tuple[str, ...]] = {module: (module,)}
    waiting = [module]
    for one in waiting:
        for name in sorted(imported(one) if one in modules() else ()):
            parts = name.split(".")
            for length in range(1, len(parts) + 1):
                if (above := ".".join(parts[:length])) not in ways:
                    ways[above] = (*ways[one], above)
                    waiting.append(above)
    del ways[module]
    return ways
