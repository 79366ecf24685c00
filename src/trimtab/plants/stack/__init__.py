"""A stack of tiers as one plant: the user's own servers, as a file names them, tuned together."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from trimtab.core import Clock, Finding, PlantDefaults
from trimtab.plants.stack import description, findings
from trimtab.plants.stack.description import EXTRA, Description
from trimtab.plants.stack.tiers import Tiers

__all__ = ["DEFAULTS", "PLANT", "Tiers", "add_arguments", "defaults", "examined", "from_arguments", "testbed"]

DEFAULTS = PlantDefaults(controller="trust_region", window="30s", searched=True)
PLANT = Tiers


def add_arguments(parser: argparse._ActionsContainer) -> None:
    """Adds the argument for the stack's file."""
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="what the stack is made of, such as stack.toml: see docs/stack.md"
    )


def defaults(args: argparse.Namespace) -> PlantDefaults:
    """The defaults in the stack's file.

    Raises:
        UsageError: the file cannot be read, or something in it is wrong.
    """
    return _described(args).defaults(DEFAULTS)


def from_arguments(args: argparse.Namespace, clock: Clock) -> Tiers:
    """The stack that a file describes, or that a stored run had.

    Raises:
        UsageError: the file cannot be read, something in it is wrong, or a server cannot be used from here.
    """
    stored, undo = EXTRA in _extras(args), getattr(args, "undo", False)
    return Tiers.attach(_described(args), args.file.absolute().parent, clock, args.seed, stored, undo)


def examined(path: Path) -> tuple[Finding, ...]:
    """Findings on each tier that a file names, knob by knob; nothing is changed.

    Raises:
        UsageError: the file cannot be read, or something in it is wrong.
    """
    return tuple(findings.of(description.read(path), path.absolute().parent))


@contextlib.contextmanager
def testbed() -> Iterator[tuple[str, ...]]:
    """A stack of one simulated tier, and the word with which the command line names it."""
    with tempfile.TemporaryDirectory(prefix="trimtab-stack-") as directory:
        path = Path(directory) / "stack.toml"
        path.write_text('[tiers.web]\nplant = "simulated"\n', encoding="utf-8")
        yield (str(path),)


def _described(args: argparse.Namespace) -> Description:
    """Description in the file, read once in a command; of a stored run, as it was then."""
    if not hasattr(args, "described"):
        kept = _extras(args).get(EXTRA)
        args.described = description.read(args.file) if kept is None else description.parse(kept, "the run's stack")
    found: Description = args.described
    return found


def _extras(args: argparse.Namespace) -> dict[str, str]:
    """Extras in the plan of a stored run; none where the command is not about one."""
    return dict(getattr(args, "extras", {}))
