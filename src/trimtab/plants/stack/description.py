"""Description of a stack, from a TOML file, with all checks that need no server.

    knobs = ["web.*", "app.max*"]           # patterns; left out: every knob
    [tiers.web]                             # in the order in which a change goes through them
    plant = "nginx"
    pid = 123                               # then the options of `trimtab tune nginx`, without their dashes
    [objective]
    maximize = "client_page_rate_hz"
    subject-to = ["client_page_time_p95_s<=2s"]
    [clients]                               # traffic that trimtab itself drives while it tunes
    url = "http://127.0.0.1:8080/"
    workload = "closed-loop"                # then the options of `trimtab load`, without their dashes

Who can write the file says which servers are changed and how, so nobody but root and this user may.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from trimtab import codec, files, trust
from trimtab.core import PlantDefaults
from trimtab.errors import UsageError
from trimtab.trust import printable

EXTRA = "stack"
"""Under which a run's plan keeps the text of the file."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_TABLE = "a table: write [{}] with plant = ..."
_CLIENTS = "a table: write [clients] with url = ..."


class Goal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """Objective and its limits; the texts as the command line has them.

    Args:
        maximize: the metric to make greatest; empty for none.
        minimize: the metric to make least; empty for none.
        subject_to: the limits.
    """

    maximize: str = ""
    minimize: str = ""
    subject_to: tuple[str, ...] = ()


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file's tables."""

    tiers: Annotated[dict[str, Any], msgspec.Meta(description=_TABLE.format("tiers.NAME"))] = {}
    objective: Goal = Goal()
    knobs: tuple[str, ...] = ()
    clients: Annotated[dict[str, Any], msgspec.Meta(description=_CLIENTS)] | None = None


@dataclass(frozen=True)
class Description:
    """Content of a file.

    Args:
        name: the file's name in messages.
        text: the file, as it was read.
        tiers: name to the keys of each tier, in their order.
        objective: the objective with its limits.
        knobs: patterns of the knobs that may be moved; none for all.
        clients: the keys of the traffic; None where trimtab drives none.
    """

    name: str
    text: str
    tiers: dict[str, dict[str, Any]]
    objective: Goal
    knobs: tuple[str, ...]
    clients: dict[str, Any] | None

    def defaults(self, usual: PlantDefaults) -> PlantDefaults:
        """The stack's defaults, under those of the command line.

        Args:
            usual: where the file says nothing either.
        """
        goal = self.objective
        return replace(
            usual,
            minimize=goal.minimize or ("" if goal.maximize else usual.minimize),
            maximize=goal.maximize,
            subject_to=goal.subject_to,
            knobs=self.knobs or ("*",),
        )


def read(path: Path) -> Description:
    """The description in a file.

    Raises:
        UsageError: somebody else could change it, it cannot be read, or something in it is wrong.
    """
    name = printable(str(path))
    try:
        text = files.read_text(trust.open_trusted(path), path)
    except OSError as error:
        raise UsageError(f"stack file {name}: {error.strerror}") from None
    return parse(text, f"stack file {name}")


def parse(text: str, name: str) -> Description:
    """The description in a text.

    Args:
        text: the file's.
        name: its name in messages.

    Raises:
        UsageError: something in it is wrong.
    """
    try:
        found = codec.table(tomllib.loads(text), _File)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{name}: it is not TOML: {error}") from None
    except RecursionError:
        raise UsageError(f"{name}: it is nested too deeply") from None
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
    if not found.tiers:
        raise UsageError(f"{name}: it names no tier: write [tiers.NAME] with plant = ...")
    for tier, table in found.tiers.items():
        if not _NAME.fullmatch(tier):
            raise UsageError(f"{name}: tier {printable(tier)!r}: a name is of small letters, digits, - and _")
        if not isinstance(table, dict):
            raise UsageError(f"{name}: tiers.{tier} {table!r} is not {_TABLE.format(f'tiers.{tier}')}")
    if found.objective.maximize and found.objective.minimize:
        raise UsageError(f"{name}: [objective] has minimize and maximize: write one of them")
    return Description(name, text, found.tiers, found.objective, found.knobs, found.clients)
