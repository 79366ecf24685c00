"""Say which servers, knobs and sensors can be used here, and what would enable the others.

It begins with the installation: whether others could change what runs as this user. Of a stack's FILE it says, tier
by tier, which knobs can be moved, and what would enable the rest.
Looks and changes nothing. Exit code 0, whatever it finds.

example: trimtab doctor
"""

from __future__ import annotations

import argparse
import inspect
from pathlib import Path

from trimtab import codec, discovery, installation
from trimtab.core.finding import Finding
from trimtab.errors import TrimtabError
from trimtab.trust import printable

ROOMS = ("trimtab.plants", "trimtab.sensors", "trimtab.testbed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of this verb."""
    parser.add_argument("file", type=Path, metavar="FILE", nargs="?", help="a stack's file, such as stack.toml")
    parser.add_argument("--json", action="store_true", help="one line of JSON per finding")


def run(args: argparse.Namespace) -> int:
    """Prints whether the installation can be trusted, and the findings of every member that can probe by itself.

    Raises:
        UsageError: the stack's file cannot be read, or something in it is wrong.
    """
    found = [("trimtab", "installation", finding) for finding in installation.probe()]
    if args.file is None:
        found += [(room, name, f) for room in ROOMS for name in discovery.names(room) for f in _findings(room, name)]
    else:
        found += [(ROOMS[0], name, f) for name in discovery.names(ROOMS[0]) for f in _examined(name, args.file)]
    for room, name, finding in found:
        if args.json:
            print(codec.encode_strict({"room": room.rpartition(".")[2], "member": name, **codec.builtins(finding)}))
        else:
            _show(finding)
    return 0


def _findings(room: str, name: str) -> tuple[Finding, ...]:
    """Findings of a member's `probe`; one that needs a subject is called by the plant that has it."""
    probe = getattr(discovery.load(room, name), "probe", None)
    if probe is None or any(p.default is p.empty for p in inspect.signature(probe).parameters.values()):
        return ()
    try:
        found: tuple[Finding, ...] = probe()
        return found
    except (TrimtabError, OSError) as error:
        return (Finding(name, False, f"the probe failed: {error}"),)


def _examined(name: str, file: Path) -> tuple[Finding, ...]:
    """Findings on what a file describes, of a plant that is described by one.

    Raises:
        UsageError: the file cannot be read, or something in it is wrong.
    """
    examined = getattr(discovery.load(ROOMS[0], name), "examined", None)
    return () if examined is None else tuple(examined(file))


def _show(finding: Finding) -> None:
    print(printable(f"{'yes' if finding.usable else 'no ':<3}  {finding.subject}: {finding.detail}"))
    if finding.enable:
        print(printable(f"     to enable: {finding.enable}"))
