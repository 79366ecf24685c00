"""A reload of PHP-FPM is seen by the pair of sockets that each execution makes, whatever else it holds."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from tests._memory_plant import FakeClock
from tests.unit.plants.test_change import MASTER
from tests.unit.plants.test_standstill import Waiting
from trimtab.errors import ApplyFailed
from trimtab.plants._standstill import Standstill
from trimtab.plants.php_fpm import process
from trimtab.plants.php_fpm.process import FpmMaster
from trimtab.plants.php_fpm.reload import Patience, reload

PAIR, NEXT = {"socket:[8]", "socket:[9]"}, {"socket:[30]", "socket:[31]"}
JOURNAL, LISTENS, LISTENS_NEWLY = "socket:[7]", "socket:[10]", "socket:[40]"


def reloaded(monkeypatch: pytest.MonkeyPatch, before: Collection[str], after: Collection[str]) -> int:
    """The workers after a reload of a master that held these sockets before its signal, and those after it."""
    held = [frozenset({*before, LISTENS})]
    monkeypatch.setattr(process, "descriptors", lambda pid, kind: held[-1])
    monkeypatch.setattr(process, "_listening", lambda pid: frozenset({LISTENS, LISTENS_NEWLY}))
    monkeypatch.setattr(FpmMaster, "check", lambda self: None)
    monkeypatch.setattr(FpmMaster, "workers", lambda self, pool: (1, 2))
    monkeypatch.setattr(FpmMaster, "signal", lambda self, number: held.append(frozenset({*after, LISTENS})))
    clock = FakeClock()
    standstill = Standstill(clock, Waiting)
    return reload(FpmMaster(**vars(MASTER)), "www", 0, 2, 0, clock, Patience(), standstill)


def test_a_new_pair_is_a_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reloaded(monkeypatch, PAIR, NEXT) == 2


def test_a_socket_to_the_journal_that_outlives_it_hides_no_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    """systemd gives a service such a socket for its standard error, and FPM keeps it as it executes itself."""
    assert reloaded(monkeypatch, {JOURNAL, *PAIR}, {JOURNAL, *NEXT}) == 2


def test_what_listens_on_the_machine_is_not_looked_through_until_there_may_be_a_reload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel walks through all of its connections for that, and we look every 2 ms."""
    monkeypatch.setattr(process, "descriptors", lambda pid, kind: frozenset({LISTENS, *PAIR}))
    monkeypatch.setattr(process, "_listening", lambda pid: pytest.fail("it was looked through"))
    master = FpmMaster(**vars(MASTER))
    assert not master.anew(master.generation())


@pytest.mark.parametrize(
    "after", [{JOURNAL, *PAIR}, {"socket:[20]", *PAIR}, {"socket:[20]", LISTENS_NEWLY, *PAIR}, {JOURNAL}, set()]
)
def test_a_log_that_is_opened_anew_and_the_moment_in_between_are_none(
    monkeypatch: pytest.MonkeyPatch, after: Collection[str]
) -> None:
    with pytest.raises(ApplyFailed, match="did not reload within 10 s"):
        reloaded(monkeypatch, {JOURNAL, *PAIR}, after)
