"""Stored runs with a guarantee to classes, from a queueing system in memory."""

from __future__ import annotations

from typing import Any

from tests._class_plant import ClassPlant
from trimtab import codec
from trimtab.controllers.absolute_delay import AbsoluteDelay
from trimtab.controllers.relative_delay import RelativeDelay
from trimtab.controllers.static import Static
from trimtab.core import Objective, Subject, of_class
from trimtab.decision import Oversight
from trimtab.guarantee import DelayGuarantee
from trimtab.guard import of_knobs
from trimtab.loop import Loop
from trimtab.observer import Stop
from trimtab.options import options_in_force
from trimtab.records import GUARANTEE, Plan
from trimtab.settings import Settings
from trimtab.store import Store

OBJECTIVE = Objective("connection_delay_s@a")
CLASSES = ("a", "b")


def guaranteed(kind: str, desired: tuple[float, ...]) -> DelayGuarantee:
    """A guarantee of mean delays."""
    return DelayGuarantee(kind, CLASSES, desired, tuple(of_class("connection_delay_s", name) for name in CLASSES))


def write_guarantee(
    store: Store,
    kind: str,
    *,
    closed: bool = True,
    windows: int = 12,
    users: tuple[int, int] = (60, 60),
    label: str = "",
    guarantee: DelayGuarantee | None = None,
) -> int:
    """Runs a guarantee and returns the run's number.

    Args:
        store: where to.
        kind: relative (1 to 3) or absolute (4 s and 8 s).
        closed: False for the open loop.
        windows: how many, of 60 s each.
        users: clients of each class.
        label: its label.
        guarantee: what is stored as guaranteed; that of the kind when None.
    """
    desired = (1.0, 3.0) if kind == "relative" else (4.0, 8.0)
    made: Any = RelativeDelay(OBJECTIVE, CLASSES, desired)
    if kind == "absolute":
        made = AbsoluteDelay(OBJECTIVE, CLASSES, desired, gain=-0.5)
    controller = made if closed else Static(OBJECTIVE)
    plant = ClassPlant(dict(zip(CLASSES, users, strict=True)))
    settings = Settings(60.0, windows * 60.0, OBJECTIVE, settle_s=0.0, early=0.0)
    plan = Plan(
        command=(),
        directory="",
        subjects=(Subject("gate"),),
        knobs=plant.knobs(),
        controller=f"{kind}-delay" if closed else "static",
        controller_options=options_in_force(controller),
        settings=settings,
        initial=dict(plant.configuration()),
        label=label,
        extras={GUARANTEE: codec.builtins(guarantee or guaranteed(kind, desired))},
    )
    writer = store.begin(plan)
    Loop(plant, plan.knobs, controller, Oversight(of_knobs(OBJECTIVE, plan.knobs)), writer, settings, Stop()).run()
    return writer.run_id
