"""What /proc says of a process is believed, and not what the process wrote there itself: its name."""

from __future__ import annotations

import os
import re
import resource
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests._own_name import name
from trimtab import processes
from trimtab.plants.squid.process import SquidMaster
from trimtab.plants.tomcat.process import TomcatProcess
from trimtab.processes import (
    executed,
    hidden,
    holds,
    not_permitted,
    program_of,
    start_of,
    threads_left,
    user_of,
    users_in,
)

__all__ = ["name"]

ME = os.getpid()
NAMES = [b"\xff", b"\x0cUid: 1", b"\rUid: 1", b"\x1cUid: x", b"\nUid: 1", b"\\nUid: 1"]


@pytest.mark.parametrize("called", NAMES, ids=repr)
def test_the_user_of_a_process_is_the_kernels_word_whatever_it_calls_itself(name: Path, called: bytes) -> None:
    name.write_bytes(called)
    assert name.read_bytes() == called + b"\n"
    assert user_of(ME) == os.geteuid()
    assert users_in(Path(f"/proc/{ME}/status").read_bytes()) == {os.geteuid()}


@pytest.mark.parametrize("called", [b"\x0cUid: 7 7 7 7", b"\x0cGid: 7"], ids=repr)
def test_squid_and_tomcat_are_run_by_whom_the_kernel_says(name: Path, called: bytes) -> None:
    name.write_bytes(called)
    started = start_of(ME)
    assert started is not None
    assert SquidMaster.user_of(ME) == os.geteuid()
    tomcat = TomcatProcess(ME, started, Path("/usr/bin/java"), (), os.geteuid())
    assert {int(one) for one in tomcat.status("Gid").split()} == {os.getegid()}


def test_no_process_has_started_before_boot_in_a_container_that_counts_from_its_own_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By lxcfs /proc/uptime is the container's; the kernel counts the starts of processes from the machine's boot."""
    started = start_of(ME)
    assert started is not None
    (tmp_path / "uptime").write_text("0.01 0.01\n")
    monkeypatch.setattr(processes, "PROC", tmp_path)
    assert processes.uptime_s() >= started / processes.TICKS_HZ


def test_who_listens_is_known_without_a_look_at_all_his_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of nginx may have tens of thousands, and is looked at in every window."""
    looked, link = list[str](), os.readlink

    def seen(path: str) -> str:
        looked.append(path)
        return link(path)

    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for _ in range(50):
            stack.enter_context(socket.socket())
        name = link(f"/proc/self/fd/{listener.fileno()}")
        monkeypatch.setattr(os, "readlink", seen)
        assert holds(ME, frozenset({name}))
        assert 0 < len(looked) <= listener.fileno() + 1
        assert not holds(ME, frozenset({"socket:[0]"}))


def test_who_has_the_rights_of_several_users_has_none_of_them() -> None:
    assert users_in(b"Name:\tx\nUid:\t0\t33\t0\t33\nGid:\t5\t5\t5\t5\n") == {0, 33}
    assert users_in(b"") == set()


def test_a_process_that_was_only_forked_is_told_from_one_that_has_executed_a_program() -> None:
    assert executed(os.getpid())
    end, hold = os.pipe()
    if (child := os.fork()) == 0:
        os.close(hold)
        os.read(end, 1)
        os._exit(0)
    os.close(end)
    try:
        assert not executed(child)
    finally:
        os.close(hold)
        os.waitpid(child, 0)


@pytest.mark.parametrize("called", [b"\xff", b"squid\xc3", b"\x1b[2J"], ids=repr)
def test_a_name_that_is_no_text_is_the_program_of_who_may_not_be_looked_into(
    name: Path, called: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> str:
        raise PermissionError(path)

    name.write_bytes(called)
    monkeypatch.setattr(os, "readlink", refused)
    assert program_of(ME) == Path(os.fsdecode(called))


def test_who_has_no_descriptor_left_to_look_does_not_take_others_for_ended() -> None:
    """A run with a low `ulimit -n` said that its server had ended."""
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, usual[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            start_of(ME)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)
    assert start_of(ME)


@pytest.mark.parametrize(
    ("me", "said"), [(0, "CAP_SYS_PTRACE .*--cap-add"), (4242, "start trimtab with them too"), (7, "root or as its")]
)
def test_who_may_not_look_into_a_process_is_told_what_he_lacks(
    monkeypatch: pytest.MonkeyPatch, me: int, said: str
) -> None:
    """Root in a container has no CAP_SYS_PTRACE; a server's own user has not the capability to bind a low port."""
    monkeypatch.setattr(os, "geteuid", lambda: me)
    monkeypatch.setattr(processes, "user_of", lambda pid: 4242)
    assert re.search(f"no permission to look into pid {ME}: .*{said}", str(not_permitted(ME, f"look into pid {ME}")))


@pytest.mark.parametrize(
    ("most", "user", "capabilities", "left"),
    [
        ("4096", 53, 0, 3996),
        ("64", 53, 0, 0),
        ("unlimited", 53, 0, None),
        ("4096", 0, 0, None),
        ("4096", 53, 1 << 24, None),
        ("4096", 53, 1 << 21, None),
        ("4096", 53, 1 << 10, 3996),
    ],
)
def test_a_users_limit_of_threads_is_one_for_all_his_processes(
    tmp_path: Path, most: str, user: int, capabilities: int, left: int | None
) -> None:
    for pid, threads, owner in ((77, 60, user), (78, 40, 53), (79, 900, 54)):
        (tmp_path / str(pid)).mkdir()
        uids = f"{owner}\t{owner if pid != 78 else 0}\t{owner}\t{owner}"  # the real one counts
        (tmp_path / str(pid) / "status").write_text(
            f"Name:\t\rUid:\t53\nUid:\t{uids}\nThreads:\t{threads}\nCapEff:\t{capabilities:016x}\n", newline=""
        )
    (tmp_path / "79" / "status").rename(tmp_path / "79" / "stat")  # has ended meanwhile
    (tmp_path / "77" / "limits").write_text(
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        f"Max processes             {most:<20} 31403                processes \n"
        "Max open files            1024                 524288               files     \n"
    )
    assert threads_left(77, tmp_path) == left
    assert threads_left(78, tmp_path) is None, "it has ended"


def test_where_the_first_process_is_not_seen_those_of_others_are_hidden(tmp_path: Path) -> None:
    assert not hidden()
    own = tmp_path / str(ME)
    own.mkdir()
    (own / "stat").write_bytes(Path(f"/proc/{ME}/stat").read_bytes())
    assert hidden(tmp_path)
    own.rename(tmp_path / "1")
    assert not hidden(tmp_path)
