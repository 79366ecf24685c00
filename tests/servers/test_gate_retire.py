"""A smaller M gives the memory of prefork's idle processes back, and no client notices."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

from tests.servers._under_gate import BASIC, PREMIUM, UnderGate, fetched, under_gate, until
from trimtab import processes
from trimtab.gate.server import server_of
from trimtab.plants.gate.knobs import LIMIT
from trimtab.plants.gate.retire import SPARE
from trimtab.testbed import apache_config
from trimtab.testbed.apache import module_directory

pytestmark = [pytest.mark.server, pytest.mark.apache]
WORKERS, FEW = 40, 4


@pytest.fixture(scope="module")
def bed() -> Iterator[UnderGate]:
    with under_gate(workers=WORKERS) as running:
        yield running


def children(bed: UnderGate) -> set[int]:
    """The server's processes that have not ended."""
    server = server_of(bed.run_dir)
    assert server is not None
    return {pid for pid in processes.children(server) if processes.start_of(pid) is not None}


def test_idle_processes_beyond_a_smaller_limit_end_and_those_with_a_client_stay(bed: UnderGate) -> None:
    until(lambda: len(children(bed)) >= WORKERS, "not all processes have begun")
    plant = bed.plant()
    with contextlib.closing(bed.client(PREMIUM)) as kept:
        assert fetched(kept) == 200
        applied = plant.apply({LIMIT: FEW})
        assert any(f"{WORKERS - FEW - SPARE} idle processes" in note for note in applied.notes), applied.notes

        def gone() -> bool:
            bed.pages(BASIC)
            return len(children(bed)) <= FEW + SPARE

        until(gone, "the idle processes did not end")
        sent = kept.sock
        assert fetched(kept) == 200
        assert kept.sock is sent, "its connection was ended"
    plant.restore()
    plant.close()


def test_no_request_is_lost_while_they_end(bed: UnderGate) -> None:
    plant, stop, lost = bed.plant(), threading.Event(), list[str]()
    done: list[int] = []

    def browse() -> None:
        while not stop.is_set():
            try:
                bed.pages(BASIC)
                done.append(1)
            except Exception as error:
                lost.append(repr(error))

    clients = [threading.Thread(target=browse) for _ in range(4)]
    for client in clients:
        client.start()
    try:
        for limit in (FEW, WORKERS, 2 * FEW):
            so_far = len(done)
            plant.apply({LIMIT: limit})
            until(lambda: len(done) > so_far + 50, "the clients are not served")  # noqa: B023
    finally:
        stop.set()
        for client in clients:
            client.join()
    assert lost == []
    assert len(children(bed)) >= 2 * FEW
    plant.restore()
    plant.close()


def assert_no_signal(running: UnderGate) -> None:
    """No process ends where M becomes smaller."""
    before, plant = children(running), running.plant()
    applied = plant.apply({LIMIT: FEW})
    running.pages(BASIC, 3)
    assert not any("idle processes" in note for note in applied.notes)
    assert children(running) >= before
    plant.restore()
    plant.close()


def test_a_server_of_threads_gets_no_signal() -> None:
    with under_gate("event", workers=WORKERS) as running:
        assert_no_signal(running)


def test_a_prefork_with_a_process_of_a_module_gets_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """mod_cgid's daemon ends by SIGUSR1; so does mod_fcgid's, whose end has Apache restart itself at once."""
    module, modules, text = module_directory() / "mod_cgid.so", apache_config.modules, apache_config.text
    monkeypatch.setattr(apache_config, "modules", lambda *a: [*modules(*a), ("cgid_module", module)])
    monkeypatch.setattr(apache_config, "text", lambda *a: f"{text(*a)}ScriptSock cgid.sock\n")
    with under_gate(workers=WORKERS) as running:
        until(lambda: len(children(running)) > WORKERS, "not all processes have begun")
        assert_no_signal(running)
