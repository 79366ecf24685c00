"""A stack of a real nginx and a real PHP-FPM changes as one or not at all, also when one is killed in the middle."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.servers import _private_fpm, _private_mariadb, _private_nginx
from tests.servers._private_nginx import CPUS, MORE
from tests.servers._under_gate import standing_still, until
from trimtab.errors import ApplyFailed, PlantGone
from trimtab.plants._stack import Stack
from trimtab.plants.nginx.reload import reload as reload_nginx
from trimtab.plants.php_fpm.reload import reload as reload_fpm
from trimtab.processes import children, identify, start_of

pytestmark = [pytest.mark.server]
NGINX, FPM = "trimtab.plants.nginx.change.reload", "trimtab.plants.php_fpm.change.reload"
CHANGE = {"worker_processes": MORE, "max_children": 7}


@dataclass(frozen=True)
class Bed:
    """The two servers."""

    web: _private_nginx.Bed
    app: _private_fpm.Bed

    def files(self) -> tuple[dict[Any, bytes], bool]:
        """nginx's whole configuration, and whether our own file for the pool is there."""
        return self.web.files(), self.app.snippet.exists()

    def stack(self, *, web_first: bool) -> Stack:
        """trimtab attached to both."""
        web, app = self.web.attach(), self.app.attach()
        return Stack(web, app) if web_first else Stack(app, web)


@pytest.fixture
def bed() -> Iterator[Bed]:
    with _private_nginx.private() as web, _private_fpm.private() as app:
        yield Bed(web, app)


def killing(pid: int, before: bool, real: Callable[..., Any]) -> Callable[..., Any]:
    """A reload that loses its server to a kill, just before or just after it; its workers, too, which outlive it."""

    def reload(*arguments: Any) -> Any:
        found = None if before else real(*arguments)
        workers = [worker for child in children(pid) if (worker := identify(child)) is not None]
        os.kill(pid, signal.SIGKILL)
        until(lambda: start_of(pid) is None, "it did not end")
        for worker in workers:
            worker.send(signal.SIGKILL)
        return real(*arguments) if before else found

    return reload


@pytest.mark.parametrize("before", [True, False], ids=["before its reload", "after its reload"])
def test_the_first_is_as_it_was_when_the_second_is_killed_in_the_middle_of_the_change(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    files, stack = bed.files(), bed.stack(web_first=True)
    monkeypatch.setattr(FPM, killing(bed.app.testbed.pid, before, reload_fpm))
    with pytest.raises((PlantGone, ApplyFailed), match="php-fpm"):  # as the one that it is noticed by says
        stack.apply(CHANGE)
    with pytest.raises(PlantGone):
        stack.configuration()
    until(lambda: bed.web.processes() == CPUS, "nginx has not its old number of processes")
    assert bed.files() == files
    assert stack.parts[0].configuration()["worker_processes"] == CPUS
    stack.close()


@pytest.mark.parametrize("before", [True, False], ids=["before its reload", "after its reload"])
def test_a_pool_is_as_it_was_when_the_nginx_behind_it_in_the_stack_is_killed(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    files, stack = bed.files(), bed.stack(web_first=False)
    monkeypatch.setattr(NGINX, killing(bed.web.pid, before, reload_nginx))
    with pytest.raises((PlantGone, ApplyFailed), match="nginx"):
        stack.apply(CHANGE)
    with pytest.raises(PlantGone):
        stack.configuration()
    assert bed.files() == files
    assert stack.parts[0].configuration()["max_children"] == 5
    stack.close()


def test_both_are_as_they_were_when_the_last_reading_fails(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    files, stack = bed.files(), bed.stack(web_first=True)
    app = stack.parts[1]
    read, errors = app.configuration, [OSError(24, "Too many open files")]

    def fails() -> Any:
        if bed.app.snippet.exists() and errors:
            raise errors.pop()
        return read()

    monkeypatch.setattr(app, "configuration", fails)
    with pytest.raises(ApplyFailed, match=r"php-fpm: .*Too many open files; nothing is changed"):
        stack.apply(CHANGE)
    assert bed.files() == files
    assert stack.configuration() == {**stack.configuration(), "worker_processes": CPUS, "max_children": 5}
    assert stack.apply(CHANGE).configuration["max_children"] == 7
    stack.restore()
    assert bed.files() == files
    stack.close()


def test_what_the_operator_edits_in_the_middle_of_a_change_outlives_its_being_taken_back(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = bed.stack(web_first=True)
    text = bed.web.config.read_text()

    def edits(*arguments: Any) -> Any:
        if "gzip off;" in bed.web.config.read_text():
            return reload_fpm(*arguments)
        bed.web.replace("gzip on;", "gzip off;")
        raise ApplyFailed("not today")

    monkeypatch.setattr(FPM, edits)
    with pytest.raises(ApplyFailed, match="not today"):
        stack.apply(CHANGE)
    assert bed.web.config.read_text() == text.replace("gzip on;", "gzip off;")
    until(lambda: bed.web.processes() == CPUS, "nginx has not its old number of processes")
    stack.close()


def test_a_database_that_stands_still_keeps_the_server_before_it_from_nothing(tmp_path: Path) -> None:
    with _private_nginx.private() as web, _private_mariadb.private(tmp_path) as data:
        files, stack = web.files(), Stack(web.attach(), data.attach())
        stack.apply({"worker_processes": MORE, "max_connections": 101})
        restoring = threading.Thread(target=stack.restore)
        with standing_still(data.testbed.pid):
            restoring.start()
            until(lambda: web.files() == files, "nginx waits for MariaDB")
            assert restoring.is_alive(), "MariaDB is asked again"
        restoring.join()
        assert data.values()["max_connections"] == 151
        until(lambda: web.processes() == CPUS, "nginx has not its old number of processes")
        stack.close()
