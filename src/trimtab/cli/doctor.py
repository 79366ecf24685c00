"""Say which servers, knobs and sensors can be used here, and what would enable the others.

It begins with the installation: whether others could change what runs as this user. Of a stack's FILE it says, tier
by tier, which knobs can be moved, and what would enable the rest; then whether its servers have the knobs and the
objective that the file asks for.
Looks and changes nothing. Exit code 0, whatever it finds; 2 where FILE cannot be read, a tier's table is wrong, or it
asks for a metric or a knob that there is not.

example: trimtab doctor
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator
from pathlib import Path

from trimtab import codec, discovery, installation
from trimtab.cli._plant import attached, chosen_knobs, chosen_objective, defaults_of, require_measured
from trimtab.core import Objective, Plant
from trimtab.core.finding import Finding
from trimtab.errors import TrimtabError, UsageError
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
    wrong: list[UsageError] = []
    found = [("trimtab", "installation", finding) for finding in installation.probe()]
    if args.file is None:
        found += [(room, name, f) for room in ROOMS for name in discovery.names(room) for f in _findings(room, name)]
    else:
        for name in discovery.names(ROOMS[0]):
            found += [(ROOMS[0], name, finding) for finding in _examined(name, args.file, wrong)]
    for room, name, finding in found:
        if args.json:
            print(codec.encode_strict({"room": room.rpartition(".")[2], "member": name, **codec.builtins(finding)}))
        else:
            _show(finding)
    if wrong:  # said after what the servers have
        raise wrong[0]
    return 0


def _findings(room: str, name: str) -> tuple[Finding, ...]:
    """Findings of a member's `probe`; one that needs a subject is called by the plant that has it."""
    try:
        probe = getattr(discovery.load(room, name), "probe", None)
    except UsageError as error:
        return (Finding(name, False, str(error), "mend that file, or take it away"),)
    if probe is None or any(p.default is p.empty for p in inspect.signature(probe).parameters.values()):
        return ()
    try:
        found: tuple[Finding, ...] = probe()
        return found
    except (TrimtabError, OSError) as error:
        return (Finding(name, False, f"the probe failed: {error}"),)


def _examined(name: str, file: Path, wrong: list[UsageError]) -> tuple[Finding, ...]:
    """Findings on what a file describes, of a plant that is described by one.

    Args:
        name: the plant's.
        file: the file.
        wrong: to which it adds what its servers are asked for and do not have.

    Raises:
        UsageError: the file cannot be read, or something in it is wrong.
    """
    try:
        examined = getattr(discovery.load(ROOMS[0], name), "examined", None)
    except UsageError:
        return ()  # no file can describe it
    if examined is None:
        return ()
    args = argparse.Namespace(plant=name, file=file, seed=0, minimize=None, maximize=None, subject_to=[])
    return (*examined(file), *_asked_of(args, chosen_objective(args), wrong))


def _asked_of(args: argparse.Namespace, objective: Objective, wrong: list[UsageError]) -> Iterator[Finding]:
    """Whether a file asks for knobs and an objective that its servers have, as `tune` would say.

    Args:
        args: which file.
        objective: its objective.
        wrong: to which it adds that they have no such knob.
    """
    usual = defaults_of(args)
    try:
        with attached(args) as plant:
            try:
                yield Finding("knobs", True, f"{len(chosen_knobs(plant, usual.knobs, usual.roles))} are to be moved")
            except UsageError as error:
                if plant.knobs():
                    wrong.append(error)
                else:
                    yield Finding("knobs", False, str(error), "see the tiers")
            yield _measured(plant, objective)
    except (TrimtabError, OSError) as error:
        yield Finding(args.plant, False, str(error), "see the reason")


def _measured(plant: Plant, objective: Objective) -> Finding:
    """Whether a sensor measures an objective."""
    try:
        require_measured(plant, objective.metrics)
    except UsageError as error:
        return Finding("objective", False, str(error), "change the file")
    return Finding("objective", True, str(objective))


def _show(finding: Finding) -> None:
    print(printable(f"{'yes' if finding.usable else 'no ':<3}  {finding.subject}: {finding.detail}"))
    if finding.enable:
        print(printable(f"     to enable: {finding.enable}"))
