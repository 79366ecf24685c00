"""For how long a server let no request begin for changes of ours, since the window before."""

from __future__ import annotations

from types import SimpleNamespace

from trimtab.core import Reading, Window
from trimtab.core.objective import Objective
from trimtab.referee.turns import Seen
from trimtab.sensors.held_back import HeldBack


def test_what_came_between_two_windows_is_of_the_second_and_of_no_other() -> None:
    server = SimpleNamespace(held_s=4.0)
    sensor, found = HeldBack(server), []
    for change_s in (0.0, 1.5, 0.0):
        server.held_s += change_s
        sensor.begin()
        found.append(sensor.read()["held_s"])
    assert found == [0.0, 1.5, 0.0]


def test_of_several_servers_that_stand_still_for_one_change_a_search_counts_the_longest() -> None:
    measured = tuple(Reading("held_s", value, f"{tier}/held-back") for tier, value in (("web", 0.0), ("app", 2.5)))
    readings = {"held_s": 0.0, "response_time_s": 0.1}
    window = Window(0, 0.0, 10.0, {"workers": 10}, readings, measured=measured)
    assert Seen.of(window, ["workers"], Objective("response_time_s")).held_s == 2.5
