"""Processes of earlier configurations that finish what lasts, as a download does, must not pile up without end."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.servers._private_nginx import CPUS, MORE, SHIPPED, Bed, private
from tests.servers._under_gate import PATIENCE_S, until
from trimtab.clock import SystemClock
from trimtab.core.memory import Room
from trimtab.errors import ApplyLater
from trimtab.plants.nginx.attached import Attached
from trimtab.plants.nginx.plant import Nginx
from trimtab.plants.nginx.process import serving, workers
from trimtab.plants.nginx.reload import Patience

pytestmark = [pytest.mark.server]


@pytest.fixture
def bed() -> Iterator[Bed]:
    with private() as one:
        yield one


class Lasting:
    """Requests that last, each of which keeps a process of the configuration that it met."""

    def __init__(self, bed: Bed) -> None:
        self._bed, self._stack = bed, ExitStack()
        self._clients: list[http.client.HTTPConnection] = []

    def __enter__(self) -> Lasting:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def begin(self) -> None:
        """One more, taken by a process."""
        client = http.client.HTTPConnection("127.0.0.1", self._bed.testbed.port, timeout=PATIENCE_S)
        self._stack.enter_context(closing(client))
        before = self._writing()
        client.putrequest("POST", "/long")
        client.putheader("Content-Length", "1")
        client.endheaders()
        until(lambda: self._writing() == before + 1, "it was not taken")
        self._clients.append(client)

    def end(self, count: int) -> None:
        """Ends the oldest of them well, and waits until their processes have gone."""
        left = len(self.finishing()) - count
        for _ in range(count):
            client = self._clients.pop(0)
            client.send(b"x")
            assert client.getresponse().status == 200
            client.close()
        until(lambda: len(self.finishing()) == left, "it does not end")

    def finishing(self) -> set[int]:
        """The processes of earlier configurations."""
        return {pid for pid, _ in workers(self._bed.master) - serving(self._bed.master)}

    def _writing(self) -> int:
        client = http.client.HTTPConnection("127.0.0.1", self._bed.testbed.port, timeout=PATIENCE_S)
        with closing(client):
            client.request("GET", "/nginx_status", headers={"Connection": "close"})
            return int(client.getresponse().read().split(b"Writing: ")[1].split()[0])


def attached(bed: Bed) -> Nginx:
    """A plant that does not wait long for old processes."""
    return Nginx(SystemClock(), Attached(bed.master, None, True), Patience(drain_s=0.2))


def set_to(nginx: Nginx, lasting: Lasting, *connections: int) -> None:
    """Brings these limits into force, and has a request last in each but the last of them."""
    for one in connections:
        lasting.begin()
        assert nginx.apply({"worker_connections": one}).configuration["worker_connections"] == one


def test_a_new_setting_waits_while_processes_of_two_changes_still_finish(bed: Bed) -> None:
    nginx = attached(bed)
    with Lasting(bed) as lasting:
        set_to(nginx, lasting, 600, 601)
        files = bed.files()
        for _ in range(2):
            with pytest.raises(
                ApplyLater, match="2 processes of 2 earlier configurations still finish what lasts, such as downloads"
            ):
                nginx.apply({"worker_connections": 602})
        assert (bed.files(), len(lasting.finishing())) == (files, 2)
        lasting.end(1)
        set_to(nginx, lasting, 602)
    nginx.restore()


def test_what_was_in_force_before_comes_back_beside_them_and_the_start_always(bed: Bed) -> None:
    before, nginx = bed.files(), attached(bed)
    with Lasting(bed) as lasting:
        set_to(nginx, lasting, 600, 601, 600, 601)
        with pytest.raises(ApplyLater, match="4 processes of 4 earlier configurations"):
            nginx.apply({"worker_connections": 600})
        set_to(nginx, lasting, 768)
        for left in (600, 602):
            with pytest.raises(ApplyLater, match="5 processes of 5 earlier configurations"):
                nginx.apply({"worker_connections": left})
        assert nginx.configuration() == SHIPPED
        nginx.restore()
        assert bed.files() == before


def test_restore_and_rollback_are_never_kept_waiting(bed: Bed) -> None:
    before, nginx = bed.files(), attached(bed)
    with Lasting(bed) as lasting:
        set_to(nginx, lasting, 600)
        lasting.begin()
        prepared = nginx.prepare({"worker_processes": MORE})
        nginx.commit(prepared)
        lasting.begin()
        nginx.rollback(prepared)
        assert (bed.processes(), nginx.configuration()["worker_connections"]) == (CPUS, 600)
        lasting.begin()
        nginx.restore()
        assert (bed.files(), nginx.configuration()) == (before, SHIPPED)
        assert len(lasting.finishing()) == 4


def test_one_change_is_enough_to_wait_for_where_its_processes_take_much_of_the_memory(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trimtab.plants.nginx.attached.rooms", lambda pid: [Room("the machine", 3 << 20)])
    nginx = attached(bed)
    with Lasting(bed) as lasting:
        set_to(nginx, lasting, 600)
        said = r"1 process of an earlier configuration still finishes, with \d+ MiB, more than 10% of the memory"
        with pytest.raises(ApplyLater, match=said):
            nginx.apply({"worker_connections": 601})
        set_to(nginx, lasting, 768)
        lasting.end(2)
        set_to(nginx, lasting, 601)
    nginx.restore()
