"""SPEC: the description of a gate's work, from a TOML file, with all its checks.

    listen = [8080]            # ports of the server that are gated
    workers = 128              # M, connections that the server can hold at once
    period = "30s"             # sampling period
    guarantee = "relative"     # relative, absolute or hybrid; left out: classes and budgets, and no guarantee
    [[class]]                  # in order of priority, highest first
    name = "premium"
    match = [{ source = "127.0.1.0/24" }, { path = "/buy" }]
    desired = 1                # relative: a weight; absolute and hybrid: a duration such as "10s"
    [[class]]
    name = "basic"             # exactly one class has no match: it takes the rest
    desired = 3

Whatever is wrong is a UsageError of one line that names the file, the key, the value and what is allowed.
"""

from __future__ import annotations

import ipaddress
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from trimtab.errors import UsageError
from trimtab.gate import _classes, _rules
from trimtab.gate._classes import ClientClass, Full, Guarantee
from trimtab.gate._rules import Rule
from trimtab.gate._table import Table

__all__ = ["ClientClass", "Full", "Guarantee", "Policy", "Rule", "Spec", "load", "parse"]

MOST_WORKERS = 65_536
"""Slots of the mapped file: connections that workers can hold at once."""
PEEK_BYTES = 8_192
PEEK_TIMEOUT_S = 5.0
"""How much of a request is looked at to classify it, and how long the gate waits for it."""


class Policy(StrEnum):
    """Whether idle kept connections of a class above its budget are taken back."""

    NON_PREEMPTIVE = "non-preemptive"
    PREEMPTIVE = "preemptive"


@dataclass(frozen=True)
class Spec:
    """Content of a SPEC.

    Args:
        listen: ports of the server that are gated.
        workers: M, connections that the server can hold at once.
        guarantee: the guarantee.
        classes: the classes in order of priority, highest first.
        period_s: sampling period.
        policy: whether idle kept connections are taken back.
        borrow: whether a class may use what others leave of their budgets.
        metrics: loopback address and port of the Prometheus endpoint; None for none.
        controller_timeout_s: how long budgets hold without a controller.
        hysteresis_s: H, the half width of the switching band of the hybrid guarantee.
    """

    listen: tuple[int, ...]
    workers: int
    guarantee: Guarantee
    classes: tuple[ClientClass, ...]
    period_s: float
    policy: Policy
    borrow: bool
    metrics: str | None
    controller_timeout_s: float
    hysteresis_s: float

    def start(self, directory: Path) -> dict[str, Any]:
        """The gate's start line.

        Args:
            directory: the run directory.
        """
        return {
            "directory": str(directory),
            "limit": self.workers,
            "classes": [one.to_wire() for one in self.classes],
            "policy": self.policy.replace("-", "_"),
            "borrow": self.borrow,
            "peek_bytes": PEEK_BYTES,
            "peek_timeout_s": PEEK_TIMEOUT_S,
            "metrics": self.metrics,
            "controller_timeout_s": self.controller_timeout_s,
        }


def load(path: Path) -> Spec:
    """The SPEC in a file.

    Raises:
        UsageError: it cannot be read, or something in it is wrong.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"SPEC {path}: {reason}") from None
    try:
        return parse(text)
    except UsageError as error:
        raise UsageError(f"SPEC {path}: {error}") from None


def parse(text: str) -> Spec:
    """The SPEC in a text.

    Raises:
        UsageError: something in it is wrong.
    """
    try:
        table = Table(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"it is not TOML: {error}") from None
    guarantee = table.member("guarantee", Guarantee, Guarantee.NONE)
    if guarantee is Guarantee.NONE and "guarantee" in table:
        raise UsageError("guarantee 'none' is not allowed: write relative, absolute or hybrid, or leave it out")
    listen = table.ports("listen")
    workers = table.whole("workers", 1, MOST_WORKERS)
    classes = _classes.read(table.tables("class"), guarantee, listen, workers)
    metrics = table.text("metrics", None)
    promised = guarantee is not Guarantee.NONE
    if not promised:
        table.refuse("period", "with a guarantee")
    if guarantee is not Guarantee.HYBRID:
        table.refuse("hysteresis", "with the hybrid guarantee")
    spec = Spec(
        listen,
        workers,
        guarantee,
        classes,
        period_s=table.duration_s("period", 30.0),
        policy=table.member("policy", Policy, Policy.NON_PREEMPTIVE),
        borrow=table.switch("borrow", False),
        metrics=None if metrics is None else _loopback(metrics),
        controller_timeout_s=table.duration_s("controller_timeout", 90.0),
        hysteresis_s=table.duration_s("hysteresis", classes[0].desired / 10),
    )
    table.finish()
    if guarantee is Guarantee.HYBRID and spec.hysteresis_s >= classes[0].desired:
        desired_s = classes[0].desired
        raise UsageError(f"hysteresis {spec.hysteresis_s:g} s is not below the first class's desired {desired_s:g} s")
    if promised and spec.controller_timeout_s <= spec.period_s:
        text = f"{spec.controller_timeout_s:g} s is not longer than the period of {spec.period_s:g} s"
        raise UsageError(f"controller_timeout {text}, so it would run out between two samples")
    return spec


def _loopback(text: str) -> str:
    """The endpoint for metrics, which others must not reach."""
    checked = _rules.endpoint(text, "metrics")
    if not ipaddress.ip_address(checked.rpartition(":")[0].strip("[]")).is_loopback:
        raise UsageError(f"metrics {text!r} is not on loopback: write 127.0.0.1:PORT")
    return checked
