"""The conversation with a gate: what it gives, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests._fake_gate import START, FakeGate
from tests._memory_plant import FakeClock
from trimtab.errors import ApplyRefused, PlantGone
from trimtab.gate.link import Link
from trimtab.gate.run_directory import RunDirectory


@pytest.fixture
def link(gate: FakeGate, clock: FakeClock) -> Iterator[Link]:
    made = Link(gate.run_dir, clock)
    yield made
    made.close()


def test_no_changes_ask_what_is_in_force(gate: FakeGate, link: Link) -> None:
    state = link.apply({})
    assert (state.configuration, state.mode, state.generation) == (START, "budgets", 1)
    assert gate.orders == [{"type": "apply", "changes": {}}]


def test_orders_are_as_the_gate_reads_them_and_go_over_one_conversation(gate: FakeGate, link: Link) -> None:
    link.apply({"process_budget@basic": 7})
    link.lease(4.0)
    link.readings()
    link.end_lease()
    assert gate.orders == [
        {"type": "apply", "changes": {"process_budget@basic": 7}},
        {"type": "lease", "timeout_s": 4.0},
        {"type": "read"},
        {"type": "end_lease"},
    ]
    assert gate.conversations == 1


def test_a_refusal_carries_the_gates_words(link: Link) -> None:
    with pytest.raises(ApplyRefused, match="the gate refused: there is no knob workers"):
        link.apply({"workers": 3})
    assert link.apply({}).configuration == START


def test_an_order_whose_conversation_breaks_is_given_again_with_the_lease_before_it(
    gate: FakeGate, link: Link
) -> None:
    link.lease(9.0)
    gate.answers.append(None)
    assert link.apply({"process_budget@basic": 7}).configuration["process_budget@basic"] == 7
    apply = {"type": "apply", "changes": {"process_budget@basic": 7}}
    lease = {"type": "lease", "timeout_s": 9.0}
    assert gate.orders == [lease, apply, lease, apply]
    assert gate.conversations == 2


def test_a_gate_that_comes_back_within_the_patience_is_not_missed(
    gate: FakeGate, link: Link, clock: FakeClock
) -> None:
    link.apply({})
    gate.die()
    clock.at.append((1.0, gate.return_anew))
    assert link.apply({}).generation == 2


def test_a_gate_that_stays_away_is_gone(gate: FakeGate, link: Link) -> None:
    gate.die()
    with pytest.raises(PlantGone, match="no gate for the run 'fake' within 5 s"):
        link.apply({})


def test_no_gate_at_all_is_gone(tmp_path: Path, clock: FakeClock) -> None:
    with pytest.raises(PlantGone, match="No such file"):
        Link(RunDirectory("none", tmp_path), clock).apply({})


def test_a_gate_that_keeps_silent_is_gone(gate: FakeGate, clock: FakeClock) -> None:
    gate.answers.append(b"")
    link = Link(gate.run_dir, clock, patience_s=0.05)
    with pytest.raises(PlantGone, match="it does not answer"):
        link.apply({})
    link.close()


def test_readings_without_readings_are_said(gate: FakeGate, link: Link) -> None:
    gate.answers.append({"type": "readings", "now_s": 1.0})
    with pytest.raises(PlantGone, match=r"it sent .*missing required field `mode`"):
        link.readings()


@pytest.mark.parametrize(
    "answer",
    [b"hello\n", b"[1]\n", b"{}\n", {"type": "done"}, {"type": "readings"}, b'{"type":"done","configuration":3}\n'],
)
def test_what_is_not_the_protocol_is_said(gate: FakeGate, link: Link, answer: object) -> None:
    gate.answers.append(answer)
    with pytest.raises(PlantGone, match="is not the control socket of a gate: it sent"):
        link.apply({})
