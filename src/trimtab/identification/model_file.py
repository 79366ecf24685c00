"""An identified model as a JSON file, which `trimtab design` and `trimtab guarantee` read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from trimtab import codec
from trimtab.errors import UsageError
from trimtab.files import read_named, write_whole
from trimtab.identification.model import Model
from trimtab.identification.signals import DELAY, Kind, Pair

FORMAT = "trimtab-model-1"


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Content of the file; the rest of the fields are those of `Model`, `Pair` and `ModelFile`.

    Args:
        format: tells this file from those of other times.
        classes: the pair's upper and lower class.
    """

    format: str
    a: tuple[float, ...]
    b: tuple[float, ...]
    kind: Kind
    classes: tuple[str, str]
    delay: str = DELAY
    period_s: float
    facts: dict[str, Any] = {}


@dataclass(frozen=True)
class ModelFile:
    """A model with the pair of classes that it is of.

    Args:
        model: the model.
        pair: its input and output.
        period_s: the sampling period that it holds for, in seconds.
        facts: how it was found, for the reader: errors, seeds, orders.
    """

    model: Model
    pair: Pair
    period_s: float
    facts: Mapping[str, Any]

    def body(self) -> dict[str, Any]:
        """Content of the file."""
        found: dict[str, Any] = codec.builtins(
            _Body(
                format=FORMAT,
                a=self.model.a,
                b=self.model.b,
                kind=self.pair.kind,
                classes=(self.pair.upper, self.pair.lower),
                delay=self.pair.delay,
                period_s=self.period_s,
                facts=dict(self.facts),
            )
        )
        return found

    def write(self, path: Path) -> None:
        """Writes the file.

        Raises:
            UsageError: something else than a file is in its place, such as a link.
            OSError: it cannot be written.
        """
        write_whole(path, json.dumps(self.body(), indent=2) + "\n")


def read_model(path: Path) -> ModelFile:
    """The model in a file.

    Raises:
        UsageError: there is no such file, it is not a regular one or too long, or it is no model of ours.
    """
    try:
        text = read_named(path, f"--model-file {path}")
        body = codec.decode(text.encode(), _Body)
    except OSError as error:
        raise UsageError(f"--model-file {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"--model-file {path} is no model file: {error}") from None
    if body.format != FORMAT:
        raise UsageError(f"--model-file {path}: its format is {body.format!r}, known is {FORMAT!r}")
    if not body.period_s > 0:
        raise UsageError(f"--model-file {path}: period_s is {body.period_s:g}, allowed is more than 0")
    pair = Pair(body.kind, *body.classes, body.delay)
    return ModelFile(Model(body.a, body.b), pair, body.period_s, body.facts)
