"""What all tests have in common: no property is judged by how long its examples took, and a rerun says its reason."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

os.environ["no_proxy"] = "*"  # what tests ask for is on this machine, whatever proxy its environment names
settings.register_profile("trimtab", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("trimtab")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Looks for no garbage while tests are collected, nor later among what was: all of it stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Gives a test's reports what can spoil it, as its mark says."""
    mark = item.get_closest_marker("noisy")
    if mark is not None:
        item.user_properties.append(("noisy", mark.args[0]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Names what was rerun, what went wrong, and what can spoil it."""
    reruns = terminalreporter.stats.get("rerun", [])
    if reruns:
        terminalreporter.section("rerun, since measurements differed")
    for report in reruns:
        terminalreporter.line(f"{report.nodeid}: {dict(report.user_properties)['noisy']}")
        terminalreporter.line(f"    {report.longrepr.reprcrash.message}")
