"""What `worker_processes auto` stands for: the CPUs that nginx counted at its start, since when some may have come.

A machine that got more of them while nginx ran had each change fail after twenty seconds, and its way back too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests._memory_plant import StillClock
from trimtab.core import Clock
from trimtab.errors import ApplyFailed
from trimtab.plants.nginx import attached
from trimtab.plants.nginx import reload as reloading
from trimtab.plants.nginx.attached import Attached
from trimtab.plants.nginx.knobs import counted, value_of
from trimtab.plants.nginx.process import Master, Worker
from trimtab.plants.nginx.program import Program
from trimtab.plants.nginx.reload import Patience, reload
from trimtab.processes import TICKS_HZ

NOW = os.sysconf("SC_NPROCESSORS_ONLN")
LATE = 1 << 40
"""A start after every edit, in clock ticks."""


def started(*ticks: int) -> frozenset[Worker]:
    return frozenset((100 + number, LATE + tick) for number, tick in enumerate(ticks))


def seen(path: Path, monkeypatch: pytest.MonkeyPatch, workers: Iterable[Worker], words: str = "auto") -> Attached:
    """One that says so many processes in its configuration, and has these."""
    main = path / "nginx.conf"
    main.write_text(f"worker_processes {words}; events {{ }} http {{ }}")
    nginx = object.__new__(Attached)
    nginx.master = Master(77, 1, Path("/usr/sbin/nginx"), (), 0)
    nginx.program = Program(nginx.master.exe, path, main, path / "nginx.pid", (), "")
    nginx.notes, nginx.rooms, nginx.knobs = [], (), {}
    monkeypatch.setattr(attached, "serving", lambda master: frozenset(workers))
    monkeypatch.setattr(attached, "rooms", lambda pid: ())
    monkeypatch.setattr(attached, "_SETTLE_S", 0.0)
    nginx.read_running()
    return nginx


@pytest.mark.parametrize("more", [1, 3])
def test_it_has_as_many_processes_as_it_counted_cpus_at_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    nginx = seen(tmp_path, monkeypatch, started(*range(NOW + more)))
    assert nginx.in_force["worker_processes"] == NOW + more
    assert value_of(nginx.config, "worker_processes") == NOW + more
    (tmp_path / "nginx.conf").write_text("worker_processes auto; events { } http { gzip on; }")
    assert value_of(nginx.config, "worker_processes") == NOW + more, "read again"


@pytest.mark.parametrize(
    ("words", "ticks"),
    [(str(NOW), (0,) * (NOW + 1)), ("auto", (-3 * TICKS_HZ, *(0,) * NOW)), ("auto", ())],
)
def test_one_that_does_not_count_them_or_is_in_the_middle_of_a_reload_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, ticks: tuple[int, ...]
) -> None:
    nginx = seen(tmp_path, monkeypatch, started(*ticks), words)
    assert value_of(nginx.config, "worker_processes") == NOW
    assert counted(nginx.config) is (words == "auto")


@pytest.mark.parametrize(("fresh", "itself", "taken"), [(3, True, True), (3, False, False), (0, True, False)])
def test_of_a_number_that_nginx_counts_itself_any_is_right_in_the_end(
    monkeypatch: pytest.MonkeyPatch, fresh: int, itself: bool, taken: bool
) -> None:
    """As where a killed run's number goes back to `auto`."""
    told, after = list[int](), started(*range(fresh))

    def awaited(master: Master, clock: Clock, patience_s: float, look: Callable[[], object]) -> object:
        return look()

    monkeypatch.setattr(Master, "awaited", awaited)
    monkeypatch.setattr(Master, "signal", lambda master, number: told.append(number))
    for name in ("serving", "workers"):
        monkeypatch.setattr(reloading, name, lambda master: after if told else frozenset())
    master = Master(77, 1, Path("/usr/sbin/nginx"), (), 0)
    if taken:
        assert reload(master, NOW + 4, StillClock(), Patience(), itself).workers == after
    else:
        with pytest.raises(ApplyFailed, match=f"nginx has {fresh} new processes and not {NOW + 4}"):
            reload(master, NOW + 4, StillClock(), Patience(), itself)
