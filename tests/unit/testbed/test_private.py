"""A private server reads no link in the place of its log, takes nobody else for itself, and serves what it has."""

from __future__ import annotations

import os
import pwd
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from trimtab import processes
from trimtab.errors import PlantError
from trimtab.plants.squid import private
from trimtab.plants.squid.private import SquidSpec, SquidTestbed
from trimtab.sensors._tcp_listeners import listeners
from trimtab.testbed import _private
from trimtab.testbed._private import PrivateServer
from trimtab.testbed.cgroup import Limits
from trimtab.testbed.registry import Record, Registry

SECRET = "a line of a file that the server's user cannot read"


class Ending(PrivateServer[Limits]):
    """A server that ends at once; what stands at its log another user has put there."""

    program_name = "ending"
    log = "given/own.log"
    target = ""

    def require_installed(self) -> None:
        pass

    def limits(self) -> Limits:
        return self.spec

    def furnish(self) -> None:
        for name in ("logs", "given"):
            (self.directory / name).mkdir()
        (self.directory / self.log).symlink_to(self.target)

    def configured(self, ports: Sequence[int]) -> list[str]:
        return ["/bin/sh", "-c", r"printf 'no such \033[31mdirective'"]

    def answers(self) -> bool:
        raise ConnectionRefusedError


GOES_ON = """
import socket, sys, time
with socket.socket() as one:
    try:
        one.bind(("127.0.0.1", int(sys.argv[1])))
        one.listen()
    except OSError:
        pass
    time.sleep(300)
"""


class GoingOn(PrivateServer[Limits]):
    """A server that goes on without its port where somebody else has it, as Tomcat does."""

    program_name = "goingon"

    def require_installed(self) -> None:
        pass

    def limits(self) -> Limits:
        return self.spec

    def furnish(self) -> None:
        for name in ("logs", "pages"):
            (self.directory / name).mkdir(mode=0o755)
        (self.directory / "pages" / "page").write_text("a page")

    def configured(self, ports: Sequence[int]) -> list[str]:
        return [sys.executable, "-I", "-c", GOES_ON, str(ports[0]), os.fspath(self.directory)]

    def answers(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), timeout=5):
            return True


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "registry")


def furnished(registry: Registry, directory: Path) -> Ending:
    """A server with a directory that holds nothing yet."""
    bed, owner = Ending(Limits(), registry), processes.identify(os.getpid())
    assert owner is not None
    bed.hold(Record(processes.boot_id(), owner, os.fspath(directory)))
    (directory / "given").mkdir(parents=True)
    return bed


def test_a_log_is_read_and_may_be_missing(registry: Registry, tmp_path: Path) -> None:
    bed = furnished(registry, tmp_path / "bed")
    assert bed.error_log() == ""
    (bed.directory / bed.log).write_text("started\n")
    assert bed.error_log() == "started\n"


def test_a_link_in_the_place_of_a_log_is_not_followed(registry: Registry, tmp_path: Path) -> None:
    bed = furnished(registry, tmp_path / "bed")
    (tmp_path / "secret").write_text(SECRET)
    (bed.directory / bed.log).symlink_to(tmp_path / "secret")
    assert SECRET not in bed.error_log()
    assert "is not a regular file" in bed.error_log()


def test_a_pipe_in_the_place_of_a_log_is_not_waited_for(registry: Registry, tmp_path: Path) -> None:
    bed = furnished(registry, tmp_path / "bed")
    os.mkfifo(bed.directory / bed.log)
    assert "is not a regular file" in bed.error_log()


def test_a_server_that_does_not_start_is_quoted_without_what_steers_a_terminal_and_without_other_files(
    registry: Registry, tmp_path: Path
) -> None:
    bed = Ending(Limits(), registry)
    bed.target = os.fspath(tmp_path / "secret")
    (tmp_path / "secret").write_text(SECRET)
    with pytest.raises(PlantError) as refused:
        bed.start()
    assert str(refused.value).startswith(r"ending did not start: no such \x1b[31mdirective")
    assert SECRET not in str(refused.value)
    assert registry.records() == []


def test_squids_user_gets_one_directory_and_this_user_opens_no_file_in_it(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Path] = []
    monkeypatch.setattr(private, "_user", lambda: pwd.getpwuid(os.geteuid()).pw_name)
    monkeypatch.setattr(os, "chown", lambda path, uid, gid: given.append(Path(path)))
    bed, owner = SquidTestbed(SquidSpec(), registry), processes.identify(os.getpid())
    assert owner is not None
    bed.hold(Record(processes.boot_id(), owner, os.fspath(tmp_path)))
    bed.furnish()
    (own,) = given
    assert own not in (bed.directory, bed.directory / "logs", bed.snippet_directory)
    bed.configured([8080])
    lines = bed.config_file.read_text().splitlines()
    logs = [line for line in lines if line.startswith(("cache_log", "access_log"))]
    assert len(logs) == 2 and all(f"{own}/" in line for line in logs)


def test_who_has_taken_its_port_meanwhile_is_not_taken_for_it(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as stranger, socket.socket() as other:
        for one in (stranger, other):
            one.bind(("127.0.0.1", 0))
        stranger.listen()
        taken, free = (one.getsockname()[1] for one in (stranger, other))
        other.close()
        given = iter([[taken], [free]])
        monkeypatch.setattr(_private, "free_ports", lambda number: next(given))
        with GoingOn(Limits(), registry) as bed:
            assert bed.port == free
            assert listeners(bed.pid) == (("127.0.0.1", free),)
            ours = f"{bed.directory}"
            running = [one for one in processes.pids() if ours in _command(one)]
            assert running == [bed.pid], "the one that went on without its port has ended"
    assert registry.records() == []


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's servers are run by other users")
def test_its_pages_can_be_read_by_the_user_that_it_drops_to_whatever_the_umask(registry: Registry) -> None:
    before = os.umask(0o077)
    try:
        with GoingOn(Limits(), registry) as bed:
            pages = bed.directory / "pages"
            assert [path.stat().st_mode & 0o777 for path in (pages, pages / "page")] == [0o755, 0o644]
            assert os.umask(0o077) == 0o077
    finally:
        os.umask(before)
