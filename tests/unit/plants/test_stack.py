"""Several plants change as one, or not at all: also when the second refuses, fails or dies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest

from tests._memory_plant import FakeSensor, MemoryPlant
from trimtab.core import Applied, Knob, Plant, Precedence, Prepared, Readings, Window
from trimtab.core.memory import Need
from trimtab.errors import (
    ApplyFailed,
    ApplyLater,
    ApplyRefused,
    NotMeasured,
    OperatorEdit,
    PlantError,
    PlantGone,
    TrimtabError,
    UsageError,
)
from trimtab.observer import Observer, Stop
from trimtab.plants._stack import Stack
from trimtab.sensors._metrics import RESPONSE_TIME


class Part(MemoryPlant):
    """A plant in memory whose knobs carry its name, and that can fail once in each phase of a change."""

    def __init__(self, name: str, *sensors: FakeSensor) -> None:
        super().__init__(*sensors)
        self.name = name
        self.fails: dict[str, BaseException] = {}
        self.stuck = False

    def fail(self, phase: str) -> None:
        if error := self.fails.pop(phase, None):
            raise error

    def knobs(self) -> tuple[Knob, ...]:
        return tuple(replace(knob, name=f"{self.name}_{knob.name}") for knob in super().knobs())

    def configuration(self) -> dict[str, int]:
        if self.applied:
            self.fail("read")
        return {f"{self.name}_{name}": value for name, value in super().configuration().items()}

    def prepare(self, changes: Mapping[str, int]) -> Prepared:
        self.fail("prepare")
        return super().prepare(changes)

    def commit(self, prepared: Prepared) -> Applied:
        if self.stuck:
            raise ApplyFailed("does not answer")
        self.fail("commit")
        applied = super().commit(Prepared({n.partition("_")[2]: v for n, v in prepared.changes.items()}, {}))
        self.fail("verify")
        return applied


PHASES = ("prepare", "commit", "verify", "read")
Raised = tuple[Callable[[str], BaseException], type[BaseException]]
ERRORS: list[Raised] = [
    (lambda knob: ApplyFailed("clipped"), ApplyFailed),
    (lambda knob: OperatorEdit(knob, "set by hand"), OperatorEdit),
    (lambda knob: PlantGone("has ended"), PlantGone),
    (lambda knob: PlantError("did not answer"), ApplyFailed),
    (lambda knob: NotMeasured("timed out"), ApplyFailed),
    (lambda knob: UsageError("no permission"), ApplyFailed),
    (lambda knob: OSError(28, "No space left on device"), ApplyFailed),
    (lambda knob: RuntimeError("a defect"), RuntimeError),
    (lambda knob: KeyboardInterrupt("stop"), KeyboardInterrupt),
]
"""What a part can raise, given a knob of it, and what becomes of that."""


def whatever_fails(errors: Sequence[Raised]) -> pytest.MarkDecorator:
    """Runs a test for each of these errors."""
    return pytest.mark.parametrize("raised", errors, ids=[type(make("")).__name__ for make, _ in errors])


BOTH = {"one_workers": 20, "two_workers": 30}


def stacked() -> tuple[Part, Part, Stack]:
    one, two = Part("one"), Part("two")
    return one, two, Stack(one, two)


def test_both_change_and_what_is_in_force_is_read_back() -> None:
    one, two, stack = stacked()
    applied = stack.apply(BOTH)
    assert (one.values["workers"], two.values["workers"]) == (20, 30)
    assert applied.configuration == {"one_workers": 20, "one_timeout": 100, "two_workers": 30, "two_timeout": 100}


def test_a_part_that_is_not_to_change_is_left_alone() -> None:
    one, two, stack = stacked()
    stack.apply({"two_timeout": 5})
    assert (one.applied, two.applied) == ([], [{"timeout": 5}])


def test_what_the_second_refuses_touches_neither() -> None:
    one, two, stack = stacked()
    with pytest.raises(ApplyRefused, match=r"two_workers 500 is outside 1\.\.100"):
        stack.apply({"one_workers": 20, "two_workers": 500})
    two.objection = lambda configuration: "too many"  # type: ignore[method-assign]
    with pytest.raises(ApplyRefused, match="too many"):
        stack.apply(BOTH)
    assert (one.applied, two.applied) == ([], [])


@pytest.mark.parametrize("phase", ["prepare", "commit"])
def test_what_a_part_may_make_later_the_stack_may_make_later(phase: str) -> None:
    one, two, stack = stacked()
    one.fails[phase] = ApplyLater("not now")
    with pytest.raises(ApplyLater, match="not now"):
        stack.apply(BOTH)
    assert (one.applied, two.applied) == ([], [])


def test_the_first_is_put_back_when_the_second_does_not_take() -> None:
    one, two, stack = stacked()
    two.fails["commit"] = ApplyFailed("did not take")
    with pytest.raises(ApplyFailed, match="two: did not take; nothing is changed"):
        stack.apply(BOTH)
    assert (one.values["workers"], two.values["workers"]) == (10, 10)


def fails_with(plant: Plant, changes: Mapping[str, int], part: Part, phase: str, raised: Raised) -> None:
    """Has a part fail in a phase of a change, which then must end with the right error, its reason and its knob."""
    make, becomes = raised
    part.fails[phase] = make(f"{part.name}_timeout")
    with pytest.raises(BaseException, match=str(part.fails[phase]).replace("[", r"\[")) as caught:
        plant.apply(changes)
    assert type(caught.value) is becomes
    assert not isinstance(caught.value, OperatorEdit) or caught.value.knob == f"{part.name}_timeout"


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("which", [0, 1], ids=["first", "second"])
@whatever_fails(ERRORS)
def test_neither_is_changed_whatever_fails_in_whichever_part_and_phase(
    raised: Raised, which: int, phase: str
) -> None:
    one, two, stack = stacked()
    fails_with(stack, BOTH, (one, two)[which], phase, raised)
    assert one.values == two.values == {"workers": 10, "timeout": 100}
    assert stack.apply(BOTH).configuration["two_workers"] == 30, "and it can be changed afterwards"


@pytest.mark.parametrize("phase", ["prepare", "commit", "read"])
@whatever_fails(ERRORS[1:])
def test_a_single_plant_is_not_changed_either(raised: Raised, phase: str) -> None:
    class Reads(Part):
        def commit(self, prepared: Prepared) -> Applied:
            super().commit(prepared)
            return Applied(self.configuration())

    one = Reads("one")
    fails_with(one, {"one_workers": 20}, one, phase, raised)
    assert one.values == {"workers": 10, "timeout": 100}


def test_of_a_part_that_has_ended_it_is_said_which() -> None:
    _, two, stack = stacked()
    two.configuration_error = PlantGone("MariaDB (pid 7) has ended")
    for asked in (stack.configuration, partial(stack.apply, {"one_workers": 20})):
        with pytest.raises(PlantGone, match=r"^two: MariaDB "):
            asked()


def test_what_the_operator_sets_in_the_middle_of_a_change_is_left_to_him_and_the_rest_goes_back() -> None:
    one, two, stack = stacked()

    def edited() -> dict[str, int]:
        del two.configuration
        two.values["workers"] = 7
        raise OperatorEdit("two_workers", "is 7 now")

    two.fails["verify"] = OSError(5, "Input/output error")
    two.configuration = edited  # type: ignore[method-assign]
    with pytest.raises(ApplyFailed, match="Input/output error"):
        stack.commit(Prepared(BOTH, {}, ((one, prepared(one)), (two, prepared(two)))))
    assert (one.values["workers"], two.values["workers"]) == (10, 7)


def prepared(part: Part) -> Prepared:
    """A change of its workers that has passed every check."""
    name = f"{part.name}_workers"
    return Prepared({name: BOTH[name]}, {name: 10})


def test_a_defect_in_taking_one_back_keeps_no_other_from_it() -> None:
    class Breaks(Part):
        def rollback(self, prepared: Prepared) -> None:
            raise ZeroDivisionError("division by zero")

    one, two, three = Part("one"), Breaks("two"), Part("three")
    three.fails["commit"] = OSError(5, "Input/output error")
    with pytest.raises(ApplyFailed, match=r"Input/output error; two could not be put back: division by zero$"):
        Stack(one, two, three).apply({**BOTH, "three_workers": 40})
    assert one.values["workers"] == 10


def test_the_first_is_put_back_when_the_second_dies() -> None:
    one, two, stack = stacked()
    two.fails["commit"] = PlantGone("has ended")
    with pytest.raises(PlantGone, match="two: has ended"):
        stack.apply(BOTH)
    assert one.values["workers"] == 10


def test_the_first_is_put_back_when_the_second_dies_after_it_was_changed() -> None:
    one, two, stack = stacked()
    two.fails["read"] = PlantGone("has ended")
    two.rollback = dead  # type: ignore[method-assign]
    with pytest.raises(PlantGone, match="two: has ended"):
        stack.apply(BOTH)
    assert one.values["workers"] == 10


def dead(prepared: Prepared) -> None:
    raise PlantGone("has ended")


def test_an_operators_edit_that_comes_between_the_phases_puts_the_first_back_and_keeps_its_knob() -> None:
    one, two, stack = stacked()
    two.fails["commit"] = OperatorEdit("two_workers", "is 7 now")
    with pytest.raises(OperatorEdit) as caught:
        stack.apply(BOTH)
    assert (caught.value.knob, one.values["workers"]) == ("two_workers", 10)


def test_a_part_that_cannot_be_put_back_is_named() -> None:
    one, two, stack = stacked()

    def jams(prepared: Prepared) -> Applied:
        one.stuck = True
        raise ApplyFailed("did not take")

    two.commit = jams  # type: ignore[method-assign]
    with pytest.raises(ApplyFailed, match="two: did not take; one could not be put back: does not answer"):
        stack.apply(BOTH)


@pytest.mark.parametrize("error", [ApplyFailed("is stuck"), RuntimeError("is stuck")])
def test_all_parts_are_restored_also_when_one_cannot_be(error: Exception) -> None:
    one, two, stack = stacked()
    two.restore_error = error
    with pytest.raises(ApplyFailed, match="two: is stuck"):
        stack.restore()
    assert one.restored == 1


@pytest.mark.parametrize("error", [None, RuntimeError("a defect")])
def test_parts_that_do_not_answer_are_put_back_after_all_others(error: Exception | None) -> None:
    parts, order = [Part(name) for name in ("one", "two", "three", "four")], list[str]()

    def silent() -> bool:
        if error is not None:
            raise error
        return True

    for part in parts:
        part.restore = part.undo_leftover = partial(order.append, part.name)  # type: ignore[method-assign]
    parts[1].silent = parts[3].silent = silent  # type: ignore[method-assign]
    Stack(*parts).restore()
    Stack(*parts).undo_leftover()
    assert order == 2 * ["three", "one", "four", "two"]


def test_an_earlier_run_is_undone_in_all_parts_also_when_one_cannot() -> None:
    one, two, stack = stacked()
    undone = []

    def stuck() -> None:
        raise UsageError("the account may not set it")

    one.undo_leftover, two.undo_leftover = lambda: undone.append("one"), stuck  # type: ignore[method-assign]
    with pytest.raises(ApplyFailed, match=r"^two: the account may not set it$"):
        stack.undo_leftover()
    assert undone == ["one"]


def test_each_part_knows_those_that_pass_requests_on_to_it_the_nearest_first() -> None:
    one, two, three = Part("one"), Part("two"), Part("three")
    Stack(one, two, three)
    assert [part.in_front for part in (one, two, three)] == [(), (one,), (two, one)]


def named(name: str, node: str = "") -> MemoryPlant:
    """A plant in memory of that name, with the knobs `workers` and `timeout`."""
    plant = MemoryPlant()
    plant.name, plant.node = name, node
    return plant


def test_knobs_of_one_name_are_called_by_plant_and_name_and_each_change_reaches_its_own() -> None:
    web, pool = named("web"), named("pool")
    stack = Stack(web, pool)
    assert [knob.name for knob in stack.knobs()] == ["web.workers", "web.timeout", "pool.workers", "pool.timeout"]
    assert stack.apply({"pool.workers": 7}).configuration == {
        "web.workers": 10,
        "web.timeout": 100,
        "pool.workers": 7,
        "pool.timeout": 100,
    }
    assert (web.applied, pool.applied) == ([], [{"workers": 7}])
    with pytest.raises(ApplyRefused, match=r"unknown knob 'workers'; choose from: web\.workers"):
        stack.apply({"workers": 5})


def test_like_plants_on_two_nodes_have_knobs_of_their_own() -> None:
    stack = Stack(named("web"), named("web", "web2"))
    assert [knob.name for knob in stack.knobs()][::2] == ["web.workers", "web2:web.workers"]
    stack.apply({"web2:web.workers": 9, "web.workers": 8})
    assert [part.configuration()["workers"] for part in stack.parts] == [8, 9]
    stack.rollback(stack.prepare({"web2:web.workers": 9}))


def test_two_parts_of_one_name_on_one_node_are_refused() -> None:
    with pytest.raises(UsageError, match="two parts of one name have a knob of the same name"):
        Stack(named("web"), named("web"))


def test_an_operators_edit_names_the_knob_as_the_stack_calls_it_and_rules_hear_their_own_names() -> None:
    web, pool = named("web"), named("pool")
    stack = Stack(web, pool)
    pool.objection = lambda configuration: f"sees {sorted(configuration)}"  # type: ignore[method-assign]
    assert stack.objection(stack.configuration()) == "sees ['timeout', 'workers']"
    pool.configuration_error = OperatorEdit("workers", "is 7 now")
    with pytest.raises(OperatorEdit) as caught:
        stack.configuration()
    assert caught.value.knob == "pool.workers"


def readings_of(plant: Plant) -> Window:
    """One window of a plant."""
    window = Observer(plant, Stop(), seed=0).window(0, 1.0, {}, 0.0, lambda partial: "")
    assert window is not None
    return window


def test_two_parts_that_measure_the_same_both_stand_in_measured_and_the_first_decides() -> None:
    def part(name: str, value: float) -> Part:
        return Part(name, FakeSensor(lambda: {"cpu_ratio": value}, "resources", gives="cpu_ratio"))

    window = readings_of(Stack(part("web", 0.3), part("pool", 0.7)))
    assert window.readings == {"cpu_ratio": 0.3}
    assert [(one.source, one.value) for one in window.measured] == [("web/resources", 0.3), ("pool/resources", 0.7)]


def test_the_readings_of_a_single_tier_are_called_by_it_so_that_its_guards_see_them() -> None:
    part = Part("php", FakeSensor(lambda: {"cpu_ratio": 0.3}, "resources", gives="cpu_ratio"))
    part.tier = "app"
    (reading,) = readings_of(Stack(part)).measured
    assert reading.source == "app/resources"


def test_what_was_in_force_before_a_killed_run_is_what_the_operator_has_chosen() -> None:
    class Filled(Part):
        def needs(self, configuration: Mapping[str, int]) -> tuple[Need, ...]:
            return (Need("its workers", configuration[f"{self.name}_workers"], "here", 100),)

    one = Filled("one")
    one.values["workers"] = 40  # a trial of the killed run is in force
    stack = Stack(one)
    assert stack.configuration()["one_workers"] == 40
    chosen = {"one_workers": 95, "one_timeout": 100}
    assert stack.objection(chosen)
    stack.began_with(chosen)
    assert not stack.objection(chosen)
    assert stack.objection({**chosen, "one_workers": 96})


def test_each_part_derives_from_its_own_sensors_and_both_figures_are_kept() -> None:
    class Web(Part):
        metrics = (RESPONSE_TIME,)

        def derive(self, readings: Readings) -> Readings:
            return {"response_time_s": readings["busy_workers"] / readings["request_rate_hz"]}

    def web(name: str, busy: float, rate_hz: float) -> Web:
        values = {"busy_workers": busy, "request_rate_hz": rate_hz}
        return Web(name, FakeSensor(lambda: values, "page", gives="busy_workers request_rate_hz"))

    tiers = Stack(web("web", 2.0, 20.0), web("pool", 8.0, 4.0))
    window = readings_of(Stack(tiers, Part("idle", FakeSensor(dict, "page", gives=""))))
    assert window.readings == {"busy_workers": 2.0, "request_rate_hz": 20.0, "response_time_s": 0.1}
    derived = {one.source: one.value for one in window.measured if one.metric == "response_time_s"}
    assert derived == {"web": 0.1, "pool": 2.0}


def test_a_part_derives_also_from_sensors_that_stand_beside_the_parts() -> None:
    class Web(Part):
        def derive(self, readings: Readings) -> Readings:
            return {"burst_length": readings["request_rate_hz"]}

    extra = FakeSensor(lambda: {"request_rate_hz": 5.0}, "gate", gives="request_rate_hz")
    quiet = FakeSensor(dict, "page", gives="")
    assert readings_of(Stack(Web("web", quiet), extra=(extra,))).readings["burst_length"] == 5.0


def test_a_stack_does_not_hide_that_one_of_its_parts_cannot_say_which_of_two_sensors_decides() -> None:
    two = (FakeSensor(dict, name, gives="cpu_ratio") for name in ("one", "other"))
    with pytest.raises(TrimtabError, match="has to say which of them decides"):
        readings_of(Stack(Part("web", *two)))


def test_more_sensors_stand_beside_those_of_the_parts() -> None:
    own = FakeSensor(lambda: {"busy_workers": 2.0}, "page", gives="busy_workers", precedence=Precedence.STATUS_PAGE)
    extra = FakeSensor(lambda: {"busy_workers": 1.0, "idle_workers": 7.0}, "gate", gives="busy_workers idle_workers")
    whole = Stack(Part("bare", own), extra=(extra,))
    assert readings_of(whole).readings == {"busy_workers": 1.0, "idle_workers": 7.0}
    assert whole.name == "bare"


def test_sensors_beside_the_parts_are_closed_though_nobody_asked_for_any() -> None:
    closed = list[str]()

    class Closing(FakeSensor):
        def close(self) -> None:
            closed.append(self.name)

    whole = Stack(Part("bare"), extra=(Closing(dict, "clients", gives=""),))
    whole.close()
    assert closed == ["clients"]


class Hungry(MemoryPlant):
    """A plant each of whose workers needs a byte, of 100 in all."""

    def __init__(self, name: str, where: str = "the machine", node: str = "") -> None:
        super().__init__()
        self.name = self.tier = name
        self.where, self.node, self.left = where, node, 100

    def needs(self, configuration: Mapping[str, int]) -> tuple[Need, ...]:
        return (Need("workers", configuration["workers"], self.where, self.left),)


def test_parts_that_share_a_memory_have_to_fit_into_it_together() -> None:
    stack = Stack(Hungry("web"), Hungry("db"))
    with pytest.raises(ApplyRefused, match=r"^web: workers .* and db: workers .* of the machine"):
        stack.apply({"web.workers": 50, "db.workers": 41})
    assert stack.apply({"web.workers": 50, "db.workers": 40}).configuration["db.workers"] == 40


@pytest.mark.parametrize("other", [Hungry("db", "control group /db"), Hungry("db", node="second")])
def test_parts_that_share_no_memory_do_not_count_together(other: Hungry) -> None:
    stack = Stack(Hungry("web"), other)
    wanted = dict.fromkeys((knob.name for knob in stack.knobs() if "workers" in knob.name), 60)
    assert stack.apply(wanted).configuration == {**stack.configuration(), **wanted} and len(wanted) == 2


def test_what_does_not_fit_from_the_start_on_is_the_operators_choice() -> None:
    web, db = Hungry("web"), Hungry("db")
    for part in (web, db):
        part.values["workers"] = 60
    stack = Stack(web, db)
    stack.apply({"web.workers": 50, "db.workers": 70})
    with pytest.raises(ApplyRefused, match="together more than"):
        stack.apply({"web.workers": 51})


def test_what_had_room_before_a_trial_goes_back_also_where_others_have_taken_it_since() -> None:
    web, db = Hungry("web"), Hungry("db")
    stack = Stack(web, db)
    stack.apply({"web.workers": 40, "db.workers": 20})
    stack.apply({"web.workers": 60})
    web.left = 50
    for trial in ({"web.workers": 59}, {"web.workers": 40, "db.workers": 19}):
        with pytest.raises(ApplyRefused, match="together more than"):
            stack.apply(trial)
    stack.apply({"web.workers": 40})
    assert (web.values["workers"], db.values["workers"]) == (40, 20)
    with pytest.raises(ApplyRefused, match="together more than"):
        stack.apply({"web.workers": 60})
    stack.apply({"web.workers": 10, "db.workers": 10})
