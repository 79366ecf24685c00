"""The gate's start line, as types; `native/wire/src/gate.rs` is the other side."""

from __future__ import annotations

import msgspec


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of the start line."""


class User(_Part, frozen=True):
    """A user of this machine, by number.

    Args:
        uid: its id.
        gid: id of its group.
    """

    uid: int
    gid: int


class StartClass(_Part, frozen=True):
    """A class of connections.

    Args:
        name: its name.
        rules: conditions by their keys; a connection belongs to it when all of one rule hold. Without any it takes
            what is left.
        budget: B_k at the start.
        minimum: smallest budget that it may be given.
        queue_limit: connections that may wait.
        full: "refuse_newest" or "refuse_oldest".
    """

    name: str
    rules: tuple[dict[str, str], ...]
    budget: int
    minimum: int
    queue_limit: int
    full: str


class Start(_Part, frozen=True):
    """The order to run.

    Args:
        directory: the run directory.
        limit: M at the start.
        classes: in order of priority, highest first.
        policy: "non_preemptive" or "preemptive".
        borrow: whether a class may use what others leave of their budgets.
        peek_bytes: most bytes of a request that are looked at.
        peek_timeout_s: longest time that is waited for them.
        metrics: where Prometheus may ask; None for nowhere.
        controller_timeout_s: how long a lease lasts that does not say it.
        user: whom the gate becomes; None: it stays who it is.
    """

    directory: str
    limit: int
    classes: tuple[StartClass, ...]
    policy: str
    borrow: bool
    peek_bytes: int
    peek_timeout_s: float
    metrics: str | None
    controller_timeout_s: float
    user: User | None = None
