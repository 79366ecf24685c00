"""A change of a configuration: all of it or nothing, whatever fails, and what could not be put back is said."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests._family import until
from tests._memory_plant import FakeClock
from trimtab.errors import ApplyFailed, ApplyRefused, PlantGone, UsageError
from trimtab.own import SYSTEM_PATH
from trimtab.plants import _change, _own_file, _program
from trimtab.plants._change import NotBack
from trimtab.plants._master import Master
from trimtab.plants._program import Verdict
from trimtab.plants._standstill import Standstill
from trimtab.processes import start_of

MASTER = Master(1 << 30, 1, Path("/bin/true"), ("server",), os.geteuid())


@dataclass
class Server:
    """One that has what its file says in force, once it is reloaded."""

    path: Path
    says: Callable[[str | None], Verdict] = lambda _: Verdict(True, "")
    ends: bool = False
    """In the reload."""
    gone: bool = False
    master: Master = MASTER
    in_force: dict[str, int] = field(default_factory=lambda: {"size": 1})
    standstill: Standstill | None = None
    by_hand: str = "serverctl reload"

    def test(self) -> Verdict:
        if self.gone:
            raise PlantGone("the server has ended")
        return self.says(_own_file.read(self.path))

    def refresh(self) -> None:
        pass

    def reload(self) -> None:
        if self.ends:
            raise PlantGone("the server has ended")
        text = _own_file.read(self.path)
        self.in_force["size"] = min(9, int(text)) if text else 1


@dataclass(frozen=True)
class Change(_change.Change[Server]):
    """A number in a file."""

    def reloaded(self, expected: Mapping[str, int]) -> tuple[str, ...]:
        self.server.reload()
        self.require(expected)
        return ("reloaded",)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "zz.conf"


def change(server: Server, value: int) -> Change:
    return Change(server, FakeClock(), {server.path: str(value)})


def test_what_takes_is_written_and_in_force(path: Path) -> None:
    server = Server(path)
    assert change(server, 5).bring({"size": 5}) == ("reloaded",)
    assert (path.read_text(), server.in_force) == ("5", {"size": 5})


def test_what_the_server_refuses_is_not_loaded_and_the_file_is_as_it_was(path: Path) -> None:
    server = Server(path, lambda text: Verdict(text != "5", "no fives"))
    path.write_text("3")
    with pytest.raises(ApplyRefused, match="the server refuses the configuration: no fives"):
        change(server, 5).bring({"size": 5})
    assert (path.read_text(), server.in_force) == ("3", {"size": 1})


def test_what_the_server_does_not_read_is_refused(path: Path) -> None:
    server = Server(path, lambda _: Verdict(True, "", frozenset()))
    with pytest.raises(ApplyRefused, match=f"does not read {path}"):
        change(server, 5).bring({"size": 5})
    assert not path.exists()


def test_a_server_that_cannot_be_asked_refuses(path: Path) -> None:
    def fails(_: str | None) -> Verdict:
        raise UsageError("the program was replaced")

    with pytest.raises(ApplyRefused, match="the program was replaced"):
        change(Server(path, fails), 5).bring({"size": 5})
    assert not path.exists()


def test_what_the_server_clips_is_put_back_with_one_more_reload(path: Path) -> None:
    server = Server(path)
    change(server, 4).bring({"size": 4})
    with pytest.raises(ApplyFailed, match="size is 9 after the reload, not 12"):
        change(server, 12).bring({"size": 12})
    assert (path.read_text(), server.in_force) == ("4", {"size": 4})


def test_a_server_that_ends_in_the_reload_has_its_file_put_back(path: Path) -> None:
    with pytest.raises(PlantGone):
        change(Server(path, ends=True), 5).bring({"size": 5})
    assert not path.exists()


@pytest.mark.parametrize("place", ["test", "reload"])
def test_an_interrupt_puts_everything_back(path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    server, calls = Server(path), list[str]()
    real = getattr(Server, place)

    def interrupted(self: Server) -> object:
        calls.append(place)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return real(self)

    monkeypatch.setattr(Server, place, interrupted)
    with pytest.raises(KeyboardInterrupt):
        change(server, 5).bring({"size": 5})
    assert (path.exists(), server.in_force) == (False, {"size": 1})


def full(monkeypatch: pytest.MonkeyPatch, when: Callable[[str | None], bool]) -> None:
    """Lets the disk be full where these texts are to be written."""
    real = _own_file.write

    def write(path: Path, text: str | None, mode: int) -> None:
        if when(text):
            raise OSError(28, "No space left on device")
        real(path, text, mode)

    monkeypatch.setattr(_own_file, "write", write)


def test_a_full_disk_refuses_a_change_and_nothing_had_to_be_put_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text("3")
    full(monkeypatch, lambda _: True)
    with pytest.raises(ApplyRefused, match=f"cannot write {path}: No space left on device"):
        change(Server(path), 5).bring({"size": 5})
    assert path.read_text() == "3"


def test_what_could_not_be_put_back_is_said_with_both_reasons(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("3")
    full(monkeypatch, lambda text: text == "3")
    server = Server(path, lambda text: Verdict(text != "5", "no fives"))
    with pytest.raises(ApplyFailed, match=r"no fives; .*could not be put back: No space.*'trimtab runs undo'"):
        change(server, 5).bring({"size": 5})
    assert path.read_text() == "5", "so that the undo finds it"


def test_an_undo_puts_the_file_back_even_where_the_server_then_refuses_which_is_said(path: Path) -> None:
    server = Server(path, lambda _: Verdict(False, "some other line"))
    why = r"is as it was, but the server was not reloaded to it: .*some other line; .*reload it \(serverctl reload\)"
    with pytest.raises(ApplyFailed, match=why):
        change(server, 3).undo()
    assert path.read_text() == "3"


def test_a_defect_in_the_reload_of_an_undo_is_told_and_the_file_is_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defect(_: Server) -> None:
        raise IndexError("list index out of range")

    path.write_text("5")
    monkeypatch.setattr(Server, "reload", defect)
    with pytest.raises(ApplyFailed, match="is as it was, but the server was not reloaded to it: list index out of"):
        change(Server(path), 3).undo()
    assert path.read_text() == "3"


def test_a_reload_that_was_refused_is_not_taken_back_by_another_and_the_file_is_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str | None]()

    def busy(self: Server) -> None:
        asked.append(_own_file.read(self.path))
        raise ApplyRefused("not now: nothing was reloaded")

    path.write_text("3")
    monkeypatch.setattr(Server, "reload", busy)
    with pytest.raises(ApplyRefused, match="not now: nothing was reloaded"):
        change(Server(path), 5).bring({"size": 5})
    assert (asked, path.read_text()) == (["5"], "3")


LATER = replace(MASTER, pid=MASTER.pid + 1, started=MASTER.started + 1)
"""The server anew, as after a restart by its operator."""


def undone_after_its_end(path: Path, monkeypatch: pytest.MonkeyPatch, *running: Master) -> str:
    """The file after an undo for a server that has ended, while these run; it is back in any case."""
    monkeypatch.setattr(Master, "running", classmethod(lambda _: list(running)))
    path.write_text("5")
    try:
        change(Server(path, gone=True), 3).undo()
    finally:
        assert path.read_text() == "3"
    return path.read_text()


def test_an_undo_for_a_server_that_has_ended_says_nothing_where_no_other_runs(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert undone_after_its_end(path, monkeypatch) == "3"


def test_an_undo_in_whose_reload_the_server_ends_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run said that the configuration from before it is in force again, and nobody was served."""
    monkeypatch.setattr(Master, "running", classmethod(lambda _: []))
    with pytest.raises(
        ApplyFailed, match=f"{path} is as it was, but the server has ended in the reload to it: start"
    ):
        change(Server(path, ends=True), 3).undo()
    assert path.read_text() == "3"


@pytest.mark.parametrize("argv", [MASTER.argv, ()], ids=["the same command line", "one that may not be read"])
def test_a_server_that_was_started_in_its_place_is_named_with_how_to_reload_it(
    path: Path, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
) -> None:
    there = rf"the server \(pid {LATER.pid}\), started meanwhile"
    said = rf"{path} is as it was, but {there}, may have read it before that: reload it \(serverctl reload\)"
    with pytest.raises(ApplyFailed, match=said):
        undone_after_its_end(path, monkeypatch, replace(LATER, argv=argv))


def test_a_server_that_is_started_anew_in_the_middle_of_a_change_is_owed_that_it_may_have_read_ours(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change was over as if nothing were left of it, and the end of a run said that all is as it was."""
    path.write_text("3")
    monkeypatch.setattr(Master, "running", classmethod(lambda _: [LATER]))
    with pytest.raises(NotBack, match=rf"has ended; {path} is as it was, but .*, started meanwhile, may") as told:
        change(Server(path, ends=True), 5).bring({"size": 5})
    assert isinstance(told.value.why, PlantGone)
    assert path.read_text() == "3"
    with pytest.raises(ApplyFailed, match="started meanwhile, may have read it"):
        told.value.debt.pay()


@pytest.mark.parametrize(
    "other",
    [
        replace(LATER, started=MASTER.started - 1),
        replace(LATER, exe=Path("/opt/bin/true")),
        replace(LATER, argv=("server", "-f", "/etc/other.conf")),
    ],
    ids=["started earlier", "another program", "another configuration"],
)
def test_a_server_beside_it_that_does_not_stand_in_its_place_is_none_of_its_business(
    path: Path, monkeypatch: pytest.MonkeyPatch, other: Master
) -> None:
    assert undone_after_its_end(path, monkeypatch, other) == "3"


def test_a_program_is_asked_with_our_path_and_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH_OF_OURS", "x")
    said = _program.ask(["/usr/bin/env"], {"LANG": "C", "PATH": "/home/eve"}).stdout.split()
    assert sorted(said) == ["LANG=C", f"PATH={SYSTEM_PATH}"]
    with pytest.raises(UsageError, match="cannot run /no/such"):
        _program.ask(["/no/such"], {})
    both = _program.ask(["/bin/sh", "-c", "echo one; echo two >&2; exit 3"], {})
    assert (both.stdout, both.stderr, both.returncode) == ("one\n", "two\n", 3)


def begun(path: Path) -> bool:
    """Whether a file holds a whole line."""
    return path.exists() and path.read_text().endswith("\n")


@pytest.mark.parametrize(
    ("says", "ready", "why"),
    [
        ("exec yes", False, "it says more than 1 MiB"),
        ("wait", False, "timed out after 60"),
        ("wait", True, "timed out after 60"),
    ],
)
def test_an_answer_without_an_end_is_not_heard_to_it_and_nothing_of_it_goes_on(
    path: Path, monkeypatch: pytest.MonkeyPatch, says: str, ready: bool, why: str
) -> None:
    """A script of opcache.preload, which may be another user's, runs in the test of PHP-FPM's configuration."""
    monkeypatch.setattr(_program, "_MOST_BYTES", 1 << (12 if ready else 20))
    if ready:  # with another word whenever one was heard
        monkeypatch.setattr(_program, "os", SimpleNamespace(read=lambda fd, size: b"y", killpg=os.killpg))
    if says == "wait":  # time is over once it has begun
        monkeypatch.setattr(_program, "time", SimpleNamespace(monotonic=lambda: 61.0 * begun(path)))
    with pytest.raises(UsageError, match=f"cannot run /bin/sh: .*{why}"):
        _program.ask(["/bin/sh", "-c", f"sleep 3600 & echo $! > {path}; echo; {says}"], {})
    left = int(path.read_text())
    until(lambda: start_of(left) is None)
