"""The doctor's findings on a server that ends while it is looked at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import pytest

from tests._memory_plant import FakeClock
from trimtab.core import Finding
from trimtab.errors import PlantError, PlantGone, UsageError
from trimtab.plants import _findings, _master
from trimtab.plants._master import Master
from trimtab.plants.linux import target
from trimtab.processes import HIDDEN


class Server:
    """A plant of which only its end is asked."""

    closed = False

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    "error",
    [
        PlantGone("it has ended"),
        FileNotFoundError("no such file"),
        UsageError("refused"),
        PlantError("it did not answer"),
    ],
)
def test_a_server_that_ends_or_stalls_between_two_looks_is_one_finding_and_is_let_go(error: Exception) -> None:
    server = Server()

    def said(plant: Server) -> Iterable[Finding]:
        yield Finding("first", True, "there", "")
        raise error

    (found,) = _findings.of("a server", lambda: server, said)  # type: ignore[type-var]
    assert (found.subject, found.usable, server.closed) == ("a server", False, True)
    assert str(error) in found.detail


def test_servers_that_answer_slowly_keep_nobody_waiting_for_more_than_one_deadline_and_a_line_says_so() -> None:
    clock = FakeClock()

    def slow(number: int) -> tuple[Finding, ...]:
        clock.sleep(50.0)
        return (Finding(f"server {number}", False, "it does not answer", ""),)

    found = _findings.each("kind", range(100), slow, "start one", clock=clock)
    assert [one.subject for one in found] == ["server 0", "server 1", "server 2", "kind"]
    assert "97 more were not looked at" in found[-1].detail


def test_where_others_processes_are_hidden_no_server_is_said_not_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(number: int) -> tuple[Finding, ...]:
        raise AssertionError

    class Hidden(Master):
        title, called = "Kind", "kind"

        @classmethod
        def running(cls) -> list[Self]:
            return []

    (found,) = _findings.each("kind", (), nothing, "start one")
    assert (found.detail, found.enable) == ("none runs here", "start one")
    for module in (_findings, _master, target):
        monkeypatch.setattr(module, "hidden", lambda: True)
    (found,) = _findings.each("kind", (), nothing, "start one")
    assert (found.usable, found.detail) == (False, f"none is seen here: {HIDDEN}")
    assert found.enable == "run as root or as the server's user; or start one"
    for find in (lambda: Hidden.find(None), lambda: target.find(["no-such-program"], [], [])):
        with pytest.raises(UsageError, match=r"hidden here \(hidepid\): run as root or as the server's user"):
            find()
