"""What every plant promises, for each that discovery finds."""

from __future__ import annotations

import argparse
import contextlib
import subprocess
from collections.abc import Iterator

import pytest

from tests import _knob_names
from trimtab import discovery
from trimtab.cli._plant import chosen_controller, chosen_knobs
from trimtab.clock import SystemClock
from trimtab.core import Knob, Objective, Plant, PlantDefaults
from trimtab.errors import ApplyRefused
from trimtab.gate import run_directory
from trimtab.metrics import known
from trimtab.observer import Observer, Stop

ROOM = "trimtab.plants"
pytestmark = pytest.mark.server


def plant(name: str, *words: str) -> Plant:
    """The plant, made as the command line makes it."""
    module, parser = discovery.load(ROOM, name), argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    module.add_arguments(parser)
    made: Plant = module.from_arguments(parser.parse_args(words), SystemClock())
    assert type(made) is module.PLANT
    assert made._sensors is None, "it makes its sensors with itself, not when they are asked for"
    return made


@pytest.fixture(scope="module", params=discovery.names(ROOM))
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plant]:
    """A plant of each kind, on the testbed that its module brings; one without needs none."""
    testbed = getattr(discovery.load(ROOM, request.param), "testbed", lambda: contextlib.nullcontext(()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_directory, "base", lambda: tmp_path_factory.getbasetemp() / "run")
        with testbed() as words:
            made = plant(request.param, *words)
            try:
                yield made
                made.restore()
            finally:
                made.close()


def other(subject: Plant) -> dict[str, int]:
    """A value for each knob that is allowed beside those of the others, and not the present one."""
    present = dict(subject.configuration())
    chosen: dict[str, int] = {}
    for knob in subject.knobs():
        for value in candidates(knob, present[knob.name]):
            if not subject.objection({**present, **chosen, knob.name: value}):
                chosen[knob.name] = value
                break
    assert chosen
    return chosen


def alone(subject: Plant) -> dict[str, int]:
    """A value for each knob that is allowed beside the present ones of the others; none where they bind it."""
    present = dict(subject.configuration())
    found: dict[str, int] = {}
    for knob in reversed(subject.knobs()):
        for value in candidates(knob, present[knob.name]):
            if not subject.objection({**present, knob.name: value}):
                found[knob.name] = value
    return found


def candidates(knob: Knob, present: int) -> list[int]:
    """Some values of a knob other than the present one."""
    domain = knob.domain
    some = (domain.minimum, domain.minimum + domain.step, present - domain.step, present + domain.step)
    return [value for value in dict.fromkeys(some) if value in domain and value != present]


def outside(subject: Plant) -> list[dict[str, int]]:
    """Changes of which one part is not allowed."""
    first, *rest = subject.knobs()
    good = other(subject)
    wrong = [first.domain.minimum - first.domain.step, first.domain.maximum + first.domain.step]
    found = [{**good, first.name: value} for value in wrong]
    found += [{**good, knob.name: knob.domain.maximum + knob.domain.step} for knob in rest]
    return [*found, {**good, "no_such_knob": 1}]


def test_it_goes_by_its_file_name(subject: Plant) -> None:
    assert subject.name in discovery.names(ROOM)


def test_every_knob_has_a_value_and_a_domain_that_says_what_limits_it(subject: Plant) -> None:
    configuration = subject.configuration()
    names = [knob.name for knob in subject.knobs()]
    assert names and len(set(names)) == len(names)
    assert set(configuration) == set(names)
    for knob in subject.knobs():
        assert _knob_names.bare(knob.name) in _knob_names.names(), (
            "tests/_knob_names.py does not see how it is declared"
        )
        assert configuration[knob.name] in knob.domain
        assert knob.unit and knob.native_name and knob.cost and knob.description


def test_its_usual_method_moves_its_usual_knobs(subject: Plant) -> None:
    """`tune PLANT` without another word."""
    usual: PlantDefaults = getattr(discovery.load(ROOM, subject.name), "DEFAULTS", PlantDefaults())
    objective = Objective(usual.maximize or usual.minimize, not usual.maximize)
    controller = chosen_controller(usual.controller, objective, ())
    knobs = chosen_knobs(subject, usual.knobs, usual.roles)
    controller.start(knobs, 1)
    assert {knob.name for knob in knobs} <= set(subject.configuration()) and knobs


def test_what_is_outside_of_a_domain_is_refused_and_nothing_is_changed(subject: Plant) -> None:
    before = subject.configuration()
    for changes in outside(subject):
        with pytest.raises(ApplyRefused):
            subject.apply(changes)
        assert subject.configuration() == before


def test_what_is_applied_is_read_back_and_restore_brings_back_the_start(subject: Plant) -> None:
    start, changes = subject.configuration(), other(subject)
    applied = subject.apply(changes)
    assert applied.configuration == {**start, **changes}
    assert subject.configuration() == applied.configuration
    assert applied.took_s >= 0
    subject.restore()
    assert subject.configuration() == start
    subject.restore()
    assert subject.configuration() == start


def test_each_knob_moves_by_itself_and_leaves_the_others(subject: Plant) -> None:
    start, changes = dict(subject.configuration()), alone(subject)
    assert changes
    for name, value in changes.items():
        assert subject.apply({name: value}).configuration == {**start, name: value}
        subject.restore()
    assert subject.configuration() == start


def test_no_change_is_allowed(subject: Plant) -> None:
    start = subject.configuration()
    assert subject.apply({}).configuration == start
    assert subject.apply(start).configuration == start


def test_its_sensors_give_what_they_declare_and_leave_no_doubt_which_decides(subject: Plant) -> None:
    sensors = subject.sensors()
    assert sensors and subject.sensors() == sensors
    declared = {*subject.metrics, *(one for sensor in sensors for one in sensor.metrics)}
    assert all(known().get(one.name) == one for one in declared)
    window = Observer(subject, Stop(), seed=0).window(0, 0.5, {}, 0.0, lambda partial: "")
    assert window is not None
    assert window.readings
    assert [text for text in window.problems if "does not declare" in text] == []


def test_its_undo_script_is_one_that_a_shell_can_read(subject: Plant) -> None:
    """That it undoes what was changed is tested beside each plant."""
    script = subject.undo_script()
    assert script.startswith("#!/bin/sh\n")
    read = subprocess.run(["sh", "-n"], input=script, capture_output=True, text=True, timeout=300, check=False)
    assert (read.returncode, read.stderr) == (0, "")
