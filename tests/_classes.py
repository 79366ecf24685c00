"""Windows and knobs of classes of clients, for tests of the controllers of delay guarantees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trimtab.core import Domain, How, Knob, Readings, Role, Window, of_class

TWO = ("premium", "basic")


def budget_knob(name: str, workers: int = 128, minimum: int = 1) -> Knob:
    """The process budget of a class."""
    domain = Domain(minimum, workers, 1, "the workers there are")
    what = "connections of the class in service at once"
    knob = of_class("process_budget", name)
    return Knob(
        knob,
        knob,
        "processes",
        domain,
        workers // 2,
        How.LIVE,
        "nothing",
        what,
        Role.PROCESS_BUDGET,
        name,
        "max_request_workers",
    )


def budget_knobs(names: Sequence[str] = TWO, workers: int = 128) -> tuple[Knob, ...]:
    """The process budgets of some classes."""
    return tuple(budget_knob(name, workers) for name in names)


def class_window(
    budgets: Mapping[str, int],
    readings: Readings,
    index: int = 0,
    workers: int | None = None,
    duration_s: float = 30.0,
) -> Window:
    """A window with these budgets in force.

    Args:
        budgets: class to budget.
        readings: as they are, by full name.
        index: its index.
        workers: max_request_workers in force; not known when None.
        duration_s: its length.
    """
    configuration = {of_class("process_budget", name): budget for name, budget in budgets.items()}
    if workers is not None:
        configuration["max_request_workers"] = workers
    return Window(index, index * duration_s, duration_s, configuration, readings)


def delays(values: Mapping[str, float | None]) -> dict[str, float]:
    """Readings of the mean delay of each class; none for None."""
    return {of_class("connection_delay_s", name): v for name, v in values.items() if v is not None}
