"""An arm says what its run is made of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trimtab.lab._arm import LAST_CHANGE_S, WARM_S, Arm
from trimtab.testbed import setups

ARM = Arm("compare-dynamic", "trim", setups.DYNAMIC, "trim", 1, 56.0)


def test_the_server_starts_with_the_shipped_limit_unless_the_arm_says_another() -> None:
    assert ARM.spec() == setups.DYNAMIC.spec
    assert replace(ARM, start=32).spec() == replace(setups.DYNAMIC.spec, max_request_workers=32)


def test_clients_are_those_of_the_set_up_unless_the_arm_has_its_own() -> None:
    assert ARM.clients() == setups.DYNAMIC.workload.populations()
    assert replace(ARM, populations=setups.switch(1.0)).clients() == setups.switch(1.0)


def test_the_load_lasts_until_a_last_change_is_through() -> None:
    assert ARM.load_s() == pytest.approx(WARM_S + 56.0 + LAST_CHANGE_S)
