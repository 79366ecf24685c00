"""Nobody is served anew while Apache reads its configuration: the first reload is expected to take as long."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests._memory_plant import FakeClock
from trimtab.plants._program import Verdict
from trimtab.plants.apache import Apache, attached
from trimtab.plants.apache.attached import Attached
from trimtab.plants.apache.configuration import Origin, evaluate

from .test_apache_limits import cautions

IDLE = {"idle_workers": 10.0, "busy_workers": 0.0}


def expected_s(apache: Attached, more: Mapping[str, float] = {}) -> float:
    plant = object.__new__(Apache)
    plant._server = apache
    return plant.stood_still({**IDLE, **more})["standstill_s"]


def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tests: list[tuple[float, bool]]) -> Attached:
    """One whose program takes so long for each test in turn, which fails or does not."""
    (tmp_path / "main.conf").write_text("")
    apache, clock = object.__new__(Attached), FakeClock()
    apache.origin = Origin(tmp_path / "main.conf", tmp_path)
    apache._config, apache.notes = evaluate(apache.origin), []

    def test(named: frozenset[str]) -> Verdict:
        took_s, valid = tests.pop(0)
        clock.sleep(took_s)
        return Verdict(valid, "")

    parts = {"master": SimpleNamespace(pid=1, buckets=1, started=0, signal=lambda number: None)}
    vars(apache).update(
        parts, listeners=[], program=SimpleNamespace(test=test), limits=SimpleNamespace(threads_per_child=1)
    )
    monkeypatch.setattr(attached, "vet", lambda master: None)
    monkeypatch.setattr(attached, "SystemClock", lambda: clock)
    return apache


@pytest.mark.parametrize(("takes_s", "expected"), [(0.9, 0.05), (7.0, 7.0)])
def test_a_configuration_that_takes_long_to_read_is_said_and_reckoned_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, takes_s: float, expected: float
) -> None:
    tests = [(takes_s + 3, True), (takes_s, True)]
    apache = reading(tmp_path, monkeypatch, tests)
    assert apache.reading_s == math.inf and expected_s(apache) == pytest.approx(0.05 + 10 * 0.002)
    apache.permitted()
    apache.permitted()
    assert not tests, "asked before the first change, once more where that took long, and the least time counts"
    assert expected_s(apache) == pytest.approx(expected + 10 * 0.002)
    assert any("takes 7 s to read its configuration" in note for note in apache.notes) is (takes_s > 1)


@pytest.mark.parametrize(
    ("cores", "cpu_ratio", "under_way", "times"),
    [
        (1.0, 1.0, 6.0, 7.0),  # one of seven who share it
        (1.0, 0.6, 6.0, 2.5),  # what they leave is more: they wait for something else
        (2.0, 1.0, 6.0, 3.5),
        (4.0, 0.5, 9.0, 1.0),  # it has one process, which takes no more than a core
    ],
)
def test_to_read_a_long_configuration_takes_as_much_longer_as_requests_leave_it_less_of_the_cpu(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cores: float,
    cpu_ratio: float,
    under_way: float,
    times: float,
) -> None:
    shared = {"cpu_cores": cores, "cpu_ratio": cpu_ratio, "requests_under_way": under_way}
    apache = reading(tmp_path, monkeypatch, [(3.0, True)] * 2)
    apache.permitted()
    assert expected_s(apache, shared) == pytest.approx(times * 3.0 + 10 * 0.002)
    brief = reading(tmp_path, monkeypatch, [(0.5, True)])
    brief.permitted()
    assert expected_s(brief, shared) == pytest.approx(0.05 + 10 * 0.002), "measured on servers that had work to do"


def test_where_no_process_is_idle_the_first_one_looks_for_ended_ones_a_second_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 127 to 149 busy and connections that waited it was 1.57 to 1.68 s, where 0.35 s had been expected."""
    apache = reading(tmp_path, monkeypatch, [])
    busy = {"idle_workers": 0.5, "busy_workers": 149.5}
    assert expected_s(apache, busy) == pytest.approx(1.0 + 0.05 + 150 * 0.002)
    mean = {"idle_workers": 9.0, "busy_workers": 128.0}
    assert expected_s(apache, mean) == pytest.approx(0.05 + 137 * 0.002)
    assert expected_s(apache, {**mean, "accept_queue_length": 10.0}) == pytest.approx(1.0 + 0.05 + 137 * 0.002)


def test_a_test_that_fails_says_nothing_of_how_long_apache_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = [(0.1, False), (7.0, True), (7.0, True)]  # one stops at the first line
    apache = reading(tmp_path, monkeypatch, tests)
    apache.permitted()
    assert apache.notes == [] and expected_s(apache) == pytest.approx(0.05 + 10 * 0.002)
    apache.permitted()
    assert not tests and expected_s(apache) == pytest.approx(7 + 10 * 0.002)


def test_that_a_reload_puts_members_of_mod_jk_back_into_service_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was disabled at its status worker was active again after a graceful reload."""
    monkeypatch.setattr("trimtab.plants.apache.configuration.require_trusted", lambda path: None)
    (note,) = cautions(tmp_path, "event", "LoadModule jk_module modules/mod_jk.so")
    assert "mod_jk, such as a member out of service, is lost by every change" in note


def test_where_a_macro_writes_hundreds_of_hosts_one_note_says_so(tmp_path: Path) -> None:
    said = f"could not be decided without Apache: macro at {tmp_path}/main.conf:1, and 299 more"
    assert cautions(tmp_path, "event", *["Use Host a.example"] * 300) == [said]


@pytest.mark.parametrize(
    ("lines", "module"),
    [
        ("OIDCRedirectURI /back", "openidc (main.conf:1)"),
        ("OIDCRedirectURI /back\nOIDCCacheType shm", "openidc (main.conf:1)"),
        ("OIDCRedirectURI /back\nOIDCCacheType file", ""),
        ("OIDCRedirectURI /back\nOIDCSessionType client-cookie:persistent", ""),
        ("OIDCSessionType client-cookie\nOIDCSessionType server-cache\nOIDCRedirectURI /a", "openidc (main.conf:3)"),
        ("OIDCOAuthIntrospectionEndpoint https://id.example/", ""),
        ("<Location />\nMellonEnable auth\n</Location>", "mellon (main.conf:2)"),
        ("MellonEnable off\nMellonEnable info", "mellon (main.conf:2)"),
        ("MellonEnable off", ""),
    ],
)
def test_that_a_reload_logs_out_whom_a_module_keeps_in_memory_is_said(
    tmp_path: Path, lines: str, module: str
) -> None:
    notes = [note.replace(f"{tmp_path}/", "") for note in cautions(tmp_path, "event", lines)]
    said = f"who has logged in by mod_auth_{module} has to again after every change"
    assert len(notes) == (module != "") and all(note.startswith(said) for note in notes)
