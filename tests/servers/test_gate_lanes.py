"""While no budget binds the workers accept for themselves; what they took counts as what the gate gives."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time

import pytest

from tests.servers._asking import Asking, asking, pages
from tests.servers._under_gate import (
    BASIC,
    PAGE,
    PEEKING,
    PREMIUM,
    UnderGate,
    fetched,
    gate_processes,
    under_gate,
    until,
)
from trimtab.plants.gate import Gate
from trimtab.sensors._shared_file import SharedFile
from trimtab.testbed.apache_config import Mpm

pytestmark = [pytest.mark.server, pytest.mark.apache]


def taken(bed: UnderGate) -> tuple[int, ...]:
    """Connections that workers took for themselves, by class."""
    with contextlib.closing(SharedFile(bed.run_dir.shared)) as file:
        return file.taken(2)


def total(plant: Gate, key: str) -> list[int]:
    return [int(getattr(found, key)) for found in plant.link.readings().classes]


def lent(bed: UnderGate) -> bool:
    """Whether workers may accept for themselves."""
    with contextlib.closing(SharedFile(bed.run_dir.shared)) as file:
        return file.lends()


def warmed(bed: UnderGate, plant: Gate) -> None:
    """Workers accept for themselves: idle ones wait for the gate alone until it has given each something."""
    until(lambda: lent(bed), "nothing is lent")
    first = taken(bed)

    def takes() -> bool:
        bed.pages(BASIC)
        return taken(bed) != first

    until(takes, "no worker accepts for itself")
    settled(plant)


def settled(plant: Gate) -> None:
    until(lambda: total(plant, "in_service")[1] == 0, "closed connections stay in service")


@pytest.mark.parametrize("mpm", ["prefork", "worker", "event"])
def test_workers_accept_for_themselves_and_every_connection_is_counted_once(mpm: Mpm) -> None:
    with under_gate(mpm, workers=64) as bed, contextlib.closing(bed.plant()) as plant:
        before, start = total(plant, "dispatched"), taken(bed)
        users = Asking(pages(bed.port, PAGE), clients=4)
        with asking(users):
            until(lambda: users.answered >= 400, "nothing is answered")
            until(lambda: taken(bed)[1] - start[1] > 0.3 * users.answered, "the gate accepts nearly all")
        assert not users.failed
        own = taken(bed)[1] - start[1]
        settled(plant)
        dispatched = total(plant, "dispatched")[1] - before[1]
        # Each user counts an answer when it has it, and may have been cut off before that at the end.
        assert 0 <= dispatched - users.answered <= 4
        assert own > 0.2 * dispatched
        assert total(plant, "arrivals") == total(plant, "dispatched")


def test_the_time_in_service_is_the_same_whoever_has_accepted() -> None:
    def so_far(plant: Gate) -> float:
        return plant.link.readings().classes[1].in_service_connection_s

    with under_gate("prefork") as bed, contextlib.closing(bed.plant()) as plant, contextlib.ExitStack() as stack:
        warmed(bed, plant)
        for own in (True, False):
            if not own:
                # A class without room leaves everything to the gate.
                assert fetched(stack.enter_context(contextlib.closing(bed.client(PREMIUM)))) == 200
                plant.apply({"process_budget@premium": 1})
            until(lambda own=own: lent(bed) == own, "what is lent does not follow from the budgets")  # type: ignore[misc]
            began, before = time.monotonic(), so_far(plant)
            with contextlib.closing(bed.client(BASIC)) as client:
                assert fetched(client) == 200
                assert total(plant, "in_service")[1] == 1
                time.sleep(0.5)
                during, then = so_far(plant), time.monotonic()
            assert 0.5 <= during - before <= then - began
            settled(plant)
            assert 0 <= so_far(plant) - during <= time.monotonic() - then + 0.5


def test_budgets_hold_from_the_first_connection_that_is_too_many() -> None:
    with under_gate("prefork") as bed, contextlib.closing(bed.plant()) as plant, contextlib.ExitStack() as stack:
        plant.apply({"process_budget@basic": 3})
        warmed(bed, plant)
        until(lambda: lent(bed), "nothing is lent")
        held = [stack.enter_context(contextlib.closing(bed.client(BASIC))) for _ in range(3)]
        assert [fetched(client) for client in held] == [200] * 3
        waiting = [stack.enter_context(contextlib.closing(bed.client(BASIC, 0.3))) for _ in range(2)]
        for client in waiting:
            with pytest.raises(TimeoutError):
                fetched(client)
        until(lambda: total(plant, "queue") == [0, 2], "those who are too many do not wait")
        assert (total(plant, "in_service"), lent(bed)) == ([0, 3], False)
        bed.pages(PREMIUM)
        until(lambda: total(plant, "in_service") == [0, 3], "a connection that has ended stays in service")
        held[0].close()
        until(lambda: total(plant, "queue") == [0, 1], "nobody takes the free place")
        assert total(plant, "in_service") == [0, 3]


def test_a_worker_that_dies_with_what_it_took_gives_it_back() -> None:
    with under_gate("prefork") as bed, contextlib.closing(bed.plant()) as plant:
        warmed(bed, plant)
        with contextlib.closing(bed.client(BASIC)) as client:
            assert fetched(client) == 200
            until(lambda: total(plant, "in_service") == [0, 1], "more than one connection is in service")
            os.kill(holder(bed), signal.SIGKILL)
            until(lambda: total(plant, "in_service") == [0, 0], "a slot is held by nobody")
        warmed(bed, plant)


def test_classes_that_need_a_look_at_the_request_leave_all_to_the_gate() -> None:
    with under_gate("prefork", spec=PEEKING) as bed, contextlib.closing(bed.plant()) as plant:
        for _ in range(10):
            bed.pages(BASIC)
        assert taken(bed) == (0, 0)
        assert sum(total(plant, "dispatched")) == 10


def test_a_next_gate_knows_what_workers_have_in_service() -> None:
    with under_gate("prefork") as bed:
        with contextlib.closing(bed.plant()) as plant:
            warmed(bed, plant)
        with contextlib.closing(bed.client(BASIC)) as client:
            assert fetched(client) == 200
            gate = gate_processes(bed)[1]
            os.kill(gate, signal.SIGKILL)
            until(lambda: gate_processes(bed)[1:2] not in ([], [gate]), "the gate is not replaced")
            with contextlib.closing(bed.plant()) as plant:
                until(lambda: total(plant, "in_service") == [0, 1], "what was in service is not known")
                assert fetched(client) == 200
                client.close()
                until(lambda: total(plant, "in_service") == [0, 0], "a slot is held by nobody")


@pytest.mark.parametrize("mpm", ["prefork", "event"])
def test_while_budgets_bind_and_do_not_and_gates_die_no_request_is_lost_and_no_slot(mpm: Mpm) -> None:
    chance = random.Random(1)
    with under_gate(mpm, workers=32) as bed:
        users = [Asking(pages(bed.port, PAGE), clients=6) for _ in range(2)]
        with asking(*users):
            for step in range(24):
                time.sleep(chance.uniform(0.05, 0.4))
                if step % 8 == 7:
                    gate = gate_processes(bed)[1]
                    os.kill(gate, signal.SIGKILL)
                    until(lambda: len(set(gate_processes(bed)) - {gate}) == 2, "no new gate")  # noqa: B023
                with contextlib.closing(bed.plant()) as plant:
                    plant.apply({"process_budget@basic": chance.choice([1, 2, 4, 16, 24])})
        assert [user.failed for user in users] == [{}, {}]
        with contextlib.closing(bed.plant()) as plant:
            settled(plant)
            plant.apply({"process_budget@basic": 24})
            warmed(bed, plant)


def holder(bed: UnderGate) -> int:
    """The worker that has the only connection, as its slot says."""
    with contextlib.closing(SharedFile(bed.run_dir.shared)) as file:
        (pid,) = file.holders()
    return pid
