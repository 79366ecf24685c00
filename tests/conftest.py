"""What all tests have in common: no property is judged by how long its examples took, and a rerun says its reason.

What `-m` asks for is looked for in the files that may have it, and no other is imported.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ["no_proxy"] = "*"  # what tests ask for is on this machine, whatever proxy its environment names
settings.register_profile("trimtab", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("trimtab")
GIVEN_BY = {"server": r"\bmark\.server\b", "alone": r"\bmark\.alone\b", "quiet": r"\bmark\.quiet\b|\b_noise\b"}
"""What the text of a file has that gives a test this mark."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Looks for no garbage while tests are collected, nor later among what was: all of it stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out a file without a test of the kind that `-m` asks for: most of them are imported for nothing then."""
    asked: str = config.option.markexpr
    if collection_path.suffix != ".py" or not asked:
        return None
    return has_none_of(asked, collection_path.read_text(encoding="utf-8")) or None


def has_none_of(asked: str, text: str) -> bool:
    """Whether a file surely has no test that is asked for.

    Args:
        asked: an expression of marks; one with "or" may ask for anything.
        text: the file's.
    """
    words = set() if "or" in asked.split() else set(asked.split(" and "))
    return any(not re.search(GIVEN_BY[word], text) for word in words & GIVEN_BY.keys())


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
