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
from typing import Annotated

import msgspec

from trimtab import codec
from trimtab.errors import UsageError
from trimtab.files import read_named
from trimtab.gate import _classes, _rules
from trimtab.gate._classes import ClientClass, Duration, Full, GivenClass, Guarantee
from trimtab.gate._rules import Rule
from trimtab.gate.start import Start, User

__all__ = ["ClientClass", "Full", "Guarantee", "Policy", "Rule", "Spec", "load", "parse"]

MOST_WORKERS = 65_536
"""Slots of the mapped file: connections that workers can hold at once."""
_Port = Annotated[int, msgspec.Meta(ge=1, le=65_535, description="a port of 1 to 65535")]
PEEK_BYTES = 8_192
PEEK_TIMEOUT_S = 5.0
"""How much of a request is looked at to classify it, and how long the gate waits for it."""


class Policy(StrEnum):
    """Whether idle kept connections of a class above its budget are taken back."""

    NON_PREEMPTIVE = "non-preemptive"
    PREEMPTIVE = "preemptive"


class _Given(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"classes": "class"}):
    """The file as it stands; the fields are those of `Spec`, which says what they mean."""

    listen: Annotated[tuple[_Port, ...], msgspec.Meta(min_length=1, description="a list of ports, such as [8080]")]
    workers: Annotated[int, msgspec.Meta(ge=1, le=MOST_WORKERS)]
    guarantee: Annotated[Guarantee, msgspec.Meta(description="one of relative, absolute, hybrid")] | None = None
    classes: Annotated[
        tuple[GivenClass, ...], msgspec.Meta(description="a list of tables: write [[class]] before each")
    ] = ()
    period: Duration | None = None
    policy: Policy = Policy.NON_PREEMPTIVE
    borrow: bool = False
    metrics: str | None = None
    controller_timeout: Duration = "90s"
    hysteresis: Duration | None = None


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

    def start(self, directory: Path, user: User | None = None) -> Start:
        """The gate's start line.

        Args:
            directory: the run directory.
            user: whom the gate becomes; None: it stays who it is.
        """
        return Start(
            directory=str(directory),
            limit=self.workers,
            classes=tuple(one.to_wire() for one in self.classes),
            policy=self.policy.replace("-", "_"),
            borrow=self.borrow,
            peek_bytes=PEEK_BYTES,
            peek_timeout_s=PEEK_TIMEOUT_S,
            metrics=self.metrics,
            controller_timeout_s=self.controller_timeout_s,
            user=user,
        )


def load(path: Path) -> Spec:
    """The SPEC in a file.

    Raises:
        UsageError: it cannot be read, or something in it is wrong.
    """
    try:
        text = read_named(path, f"SPEC {path}")
        text.encode()  # fails where the file is not UTF-8
    except (OSError, UnicodeEncodeError) as error:
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
        given = codec.table(tomllib.loads(text), _Given)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"it is not TOML: {error}") from None
    except RecursionError:
        raise UsageError("it is nested too deeply") from None
    except ValueError as error:
        raise UsageError(str(error)) from None
    if given.guarantee is Guarantee.NONE:
        raise UsageError("guarantee 'none' is not allowed: write relative, absolute or hybrid, or leave it out")
    guarantee = given.guarantee or Guarantee.NONE
    classes = _classes.read(given.classes, guarantee, given.listen, given.workers)
    if guarantee is Guarantee.NONE and given.period is not None:
        raise UsageError("period has a meaning only with a guarantee")
    if guarantee is not Guarantee.HYBRID and given.hysteresis is not None:
        raise UsageError("hysteresis has a meaning only with the hybrid guarantee")
    first = classes[0].desired
    spec = Spec(
        _ports(given.listen),
        given.workers,
        guarantee,
        classes,
        period_s=_classes.seconds("period", "30s" if given.period is None else given.period),
        policy=given.policy,
        borrow=given.borrow,
        metrics=None if given.metrics is None else _loopback(given.metrics),
        controller_timeout_s=_classes.seconds("controller_timeout", given.controller_timeout),
        hysteresis_s=first / 10 if given.hysteresis is None else _classes.seconds("hysteresis", given.hysteresis),
    )
    if guarantee is Guarantee.HYBRID and spec.hysteresis_s >= first:
        raise UsageError(f"hysteresis {spec.hysteresis_s:g} s is not below the first class's desired {first:g} s")
    if guarantee is not Guarantee.NONE and spec.controller_timeout_s <= spec.period_s:
        text = f"{spec.controller_timeout_s:g} s is not longer than the period of {spec.period_s:g} s"
        raise UsageError(f"controller_timeout {text}, so it would run out between two samples")
    return spec


def _ports(given: tuple[int, ...]) -> tuple[int, ...]:
    """The ports, each of which is there once."""
    for port in given:
        if given.count(port) > 1:
            raise UsageError(f"listen has the port {port} twice")
    return given


def _loopback(text: str) -> str:
    """The endpoint for metrics, which others must not reach."""
    checked = _rules.endpoint(text, "metrics")
    if not ipaddress.ip_address(checked.rpartition(":")[0].strip("[]")).is_loopback:
        raise UsageError(f"metrics {text!r} is not on loopback: write 127.0.0.1:PORT")
    return checked
