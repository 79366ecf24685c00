"""What every plant promises, for each that discovery finds."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator

import pytest

from tests._fake_gate import SPEC
from tests.servers._private_apache import private
from trimtab import discovery
from trimtab.clock import SystemClock
from trimtab.core import Plant, metric
from trimtab.errors import ApplyRefused, NotMeasured
from trimtab.gate import place as places
from trimtab.gate.pair import Pair
from trimtab.gate.spec import parse
from trimtab.sensors import _shared_file

ROOM = "trimtab.plants"


def plant(name: str, *words: str) -> Plant:
    """The plant, made as the command line makes it."""
    module, parser = discovery.load(ROOM, name), argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    module.add_arguments(parser)
    made: Plant = module.from_arguments(parser.parse_args(words), SystemClock())
    assert type(made) is module.PLANT
    return made


@contextlib.contextmanager
def gate(name: str) -> Iterator[None]:
    """A gate without a server."""
    place, clock = places.claim(name), SystemClock()
    try:
        _shared_file.create(place.shared)
        line = parse(SPEC).start(place.directory)
        place.write_start_line(line)
        pair = Pair(place, line, clock, print)
        try:
            yield
        finally:
            pair.stop()
    finally:
        place.release()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.server, pytest.mark.apache] if name == "apache" else [])
        for name in discovery.names(ROOM)
    ],
)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plant]:
    """A plant of each kind; the package of one that needs a server has a `testbed()` that starts it."""
    testbed = getattr(discovery.load(ROOM, request.param), "testbed", None)
    if testbed is not None:
        with testbed() as words:
            made = plant(request.param, *words)
            yield made
            made.restore()
            made.close()
    elif request.param == "apache":
        with private("prefork") as bed:
            made = plant("apache", "--pid", str(bed.testbed.pid), "--status-url", bed.testbed.status_url)
            yield made
            made.restore()
            made.close()
    elif request.param == "gate":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(places, "base", lambda: tmp_path_factory.getbasetemp() / "run")
            with gate("conformance"):
                made = plant("gate", "--name", "conformance")
                yield made
                made.close()
    elif request.param == "keep-alive":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(places, "base", lambda: tmp_path_factory.getbasetemp() / "run")
            place = places.claim("conformance-idle")
            _shared_file.create(place.shared)
            made = plant("keep-alive", "--name", "conformance-idle")
            yield made
            made.close()
            place.release()
    else:
        made = plant(request.param)
        yield made
        made.close()


def other(subject: Plant) -> dict[str, int]:
    """A value for each knob that is allowed and not the present one."""
    present = subject.configuration()
    chosen = {}
    for knob in subject.knobs():
        ends = (knob.domain.minimum, knob.domain.minimum + knob.domain.step)
        chosen[knob.name] = ends[0] if present[knob.name] != ends[0] else ends[1]
    return chosen


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
        assert configuration[knob.name] in knob.domain
        assert knob.unit and knob.native_name and knob.cost and knob.description


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
    start, changes = dict(subject.configuration()), other(subject)
    for name, value in changes.items():
        assert subject.apply({name: value}).configuration == {**start, name: value}
        subject.restore()
    assert subject.configuration() == start


def test_no_change_is_allowed(subject: Plant) -> None:
    start = subject.configuration()
    assert subject.apply({}).configuration == start
    assert subject.apply(start).configuration == start


def test_its_sensors_give_only_known_metrics(subject: Plant) -> None:
    sensors = subject.sensors()
    assert sensors and [s.name for s in subject.sensors()] == [s.name for s in sensors]
    for sensor in sensors:
        sensor.begin()
    subject.clock.sleep(0.3)
    readings: dict[str, float] = {}
    for sensor in sensors:
        if sensor.sampling_period_s:
            sensor.sample()
        try:
            readings |= sensor.read()
        except NotMeasured as why:
            assert str(why)
    assert readings
    assert all(metric(name) for name in {*readings, *subject.derive(readings)})


def test_its_undo_script_is_a_shell_script(subject: Plant) -> None:
    assert subject.undo_script().startswith("#!/bin/sh\n")
