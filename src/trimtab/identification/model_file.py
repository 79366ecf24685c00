"""An identified model as a JSON file, which `trimtab design` and `trimtab guarantee` read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.errors import UsageError
from trimtab.files import write_whole
from trimtab.identification.model import Model
from trimtab.identification.signals import DELAY, Kind, Pair

FORMAT = "trimtab-model-1"


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
        return {
            "format": FORMAT,
            "a": list(self.model.a),
            "b": list(self.model.b),
            "kind": self.pair.kind.value,
            "classes": [self.pair.upper, self.pair.lower],
            "delay": self.pair.delay,
            "period_s": self.period_s,
            "facts": dict(self.facts),
        }

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
        UsageError: there is no such file, or it is no model of ours.
    """
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        if body["format"] != FORMAT:
            raise UsageError(f"--model-file {path}: its format is {body['format']!r}, known is {FORMAT!r}")
        upper, lower = body["classes"]
        pair = Pair(Kind(body["kind"]), str(upper), str(lower), str(body.get("delay", DELAY)))
        model = Model(tuple(map(float, body["a"])), tuple(map(float, body["b"])))
        period_s = float(body["period_s"])
    except OSError as error:
        raise UsageError(f"--model-file {path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"--model-file {path} is no model file: {type(error).__name__} {error}") from None
    if not period_s > 0:
        raise UsageError(f"--model-file {path}: period_s is {period_s:g}, allowed is more than 0")
    return ModelFile(model, pair, period_s, body.get("facts", {}))
