"""Which servers the tiers of a stack are: each once, found again after a restart, and undone without the others."""

from __future__ import annotations

import argparse
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests._memory_plant import FakeClock, MemoryPlant
from trimtab.core import Clock
from trimtab.errors import ApplyFailed, UsageError
from trimtab.plants import stack
from trimtab.plants._stack import Stack
from trimtab.plants.stack import description, keys
from trimtab.plants.stack.tiers import Tiers, attached

GONE, OTHER, HERE = 2**22 + 1, 1, os.getpid()
"""A process id that nobody has, and two that somebody has."""
CLOCK = FakeClock()


class Shop(MemoryPlant):
    """A server in memory; its script says which it is."""

    name = "shop"

    def __init__(self, pid: int, pool: str) -> None:
        super().__init__()
        self.pid, self.pool, self.clock = pid, pool, CLOCK
        self.undone = self.closed = 0
        self.script = f"#!/bin/sh\necho shop {pid}\n"

    def leftover(self) -> str:
        return f"left in {self.pid}"

    def undo_leftover(self) -> None:
        self.undone += 1

    def undo_script(self) -> str:
        return self.script

    def close(self) -> None:
        self.closed += 1


class Shops:
    """The servers that run, as a member of the room of plants."""

    def __init__(self) -> None:
        self.undo: list[bool] = []
        self.running: list[int] = []
        self.made: list[Shop] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--pid", type=int, help="process id")
        parser.add_argument("--pool", default="", help="the pool")

    def from_arguments(self, args: argparse.Namespace, clock: Clock) -> Shop:
        self.undo.append(args.undo)
        if args.pid is not None and args.pid not in self.running:
            raise UsageError(f"pid {args.pid} is no shop")
        if args.pid is None and len(self.running) != 1:
            raise UsageError(f"{len(self.running)} shops run: name one with --pid")
        self.made.append(Shop(args.pid or self.running[0], args.pool))
        return self.made[-1]


@pytest.fixture
def shops(monkeypatch: pytest.MonkeyPatch) -> Shops:
    """Shops in place of all other plants."""
    found = Shops()
    monkeypatch.setattr("trimtab.plants.stack.tiers.discovery", SimpleNamespace(load=lambda room, name: found))
    return found


def said(web: str, db: str, more: str = "") -> description.Description:
    """The description of two tiers with these keys."""
    return description.parse(f'[tiers.web]\nplant = "shop"\n{web}\n[tiers.db]\nplant = "shop"\n{db}\n{more}', "file")


def tiers(web: int, db: int, undo: bool = True, more: str = "") -> Tiers:
    """A stored stack of two tiers that had these process ids."""
    return Tiers.attach(said(f"pid = {web}", f"pid = {db}", more), Path("/"), CLOCK, 0, True, undo)


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh"], input=script, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize("keys", [(f"pid = {HERE}", f"pid = {HERE}"), ("", f"pid = {HERE}")], ids=["named", "found"])
def test_two_tiers_that_are_one_server_are_refused(shops: Shops, keys: tuple[str, str]) -> None:
    shops.running = [HERE]
    with pytest.raises(UsageError, match=rf"\[tiers.\w+\] is the shop \(pid {HERE}\) of another tier: keep one"):
        Tiers.attach(said(*keys), Path("/"), CLOCK, 0)
    assert [one.closed for one in shops.made] == [1, 1]


def test_two_pools_of_one_server_are_two_tiers(shops: Shops) -> None:
    shops.running = [HERE]
    both = Tiers.attach(said('pool = "a"', 'pool = "b"'), Path("/"), CLOCK, 0)
    assert [part.pid for part in both.parts] == [HERE, HERE]


def test_a_stored_process_id_that_another_process_has_by_now_is_a_hint_and_no_more(shops: Shops) -> None:
    shops.running = [HERE]
    for pid in (GONE, OTHER):
        there = said(f"pid = {pid}", "")
        assert attached(there, "web", Path("/"), CLOCK, 0, stored=True).pid == HERE
        with pytest.raises(UsageError, match=f"pid {pid} is no shop"):
            attached(there, "web", Path("/"), CLOCK, 0)


def test_where_nothing_is_found_without_it_either_the_error_is_that_on_the_stored_process(shops: Shops) -> None:
    shops.running = [HERE, GONE]
    with pytest.raises(UsageError, match=f"pid {OTHER} is no shop"):
        attached(said(f"pid = {OTHER}", ""), "web", Path("/"), CLOCK, 0, stored=True)


def test_a_tier_that_cannot_be_used_keeps_no_other_from_being_undone_and_is_named_at_the_end(shops: Shops) -> None:
    shops.running = [HERE, GONE]
    found = tiers(HERE, OTHER)
    assert found.leftover().startswith(f"left in {HERE}; file: [tiers.db]: pid {OTHER} is no shop")
    with pytest.raises(ApplyFailed, match=rf"\[tiers.db\]: pid {OTHER} is no shop"):
        found.undo_leftover()
    assert [(one.pid, one.undone) for one in shops.made] == [(HERE, 1)]


def test_the_script_undoes_the_others_then_fails_and_says_which_tier_it_has_not(shops: Shops) -> None:
    shops.running = [HERE, GONE]
    ended = run(tiers(HERE, OTHER).undo_script())
    assert (ended.returncode, ended.stdout) == (1, f"shop {HERE}\n")
    assert ended.stderr == f"file: [tiers.db]: pid {OTHER} is no shop\n"


def test_no_word_on_a_tier_that_is_not_there_is_taken_for_the_script_s(shops: Shops) -> None:
    shops.running = [HERE]
    found = tiers(HERE, HERE)
    found._absent = (r"'; id; \033[2J", "\x1b[2J")
    assert run(found.undo_script()).stderr == "'; id; \\033[2J\n\\x1b[2J\n"


def test_where_all_tiers_are_there_the_script_succeeds_and_the_last_comes_first(shops: Shops) -> None:
    shops.running = [OTHER, HERE]
    ended = run(tiers(HERE, OTHER).undo_script())
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"shop {OTHER}\nshop {HERE}\n", "")


def test_where_no_tier_can_be_used_there_is_nothing_to_undo(shops: Shops) -> None:
    with pytest.raises(UsageError, match=rf"\[tiers.db\]: pid {OTHER} is no shop"):
        tiers(OTHER, OTHER)


def test_a_tier_whose_server_has_ended_is_not_undone_as_that_of_another_and_the_other_is(shops: Shops) -> None:
    """Without its process id it finds the only one that runs."""
    shops.running = [HERE]
    found = tiers(GONE, HERE)
    assert [(part.tier, part.pid) for part in found.parts] == [("db", HERE)]
    with pytest.raises(ApplyFailed, match=rf"\[tiers.web\] is the shop \(pid {HERE}\) of another tier"):
        found.undo_leftover()
    assert sum(one.undone for one in shops.made) == 1
    with pytest.raises(UsageError, match=r"\[tiers.web\] is the shop"):
        tiers(GONE, HERE, undo=False)


def test_clients_that_cannot_be_made_any_more_keep_nothing_from_being_undone(shops: Shops) -> None:
    shops.running = [HERE, OTHER]
    lost = '[clients]\nworkload = "replayed"\ntrace = "lost.csv"\n'
    tiers(HERE, OTHER, more=lost).undo_leftover()
    assert [one.undone for one in shops.made] == [1, 1]


def test_a_command_that_undoes_says_so_to_the_stack_and_to_each_tier(shops: Shops) -> None:
    shops.running = [HERE]
    words = {"file": Path("stack.toml"), "seed": 0, "extras": {"stack": said(f"pid = {HERE}", f"pid = {OTHER}").text}}
    with pytest.raises(UsageError, match="keep one of them"):
        stack.from_arguments(argparse.Namespace(**words), CLOCK)
    found = stack.from_arguments(argparse.Namespace(**words, undo=True), CLOCK)
    assert [part.tier for part in found.parts] == ["web"]
    assert False in shops.undo and shops.undo[-1] is True


@pytest.mark.parametrize("which", [0, 1], ids=["first", "second"])
def test_the_script_of_a_stack_fails_where_that_of_any_part_does_and_runs_the_others(which: int) -> None:
    parts = Shop(1, ""), Shop(2, "")
    for part, name in zip(parts, ("one", "two"), strict=True):
        part.name = name
        part.knobs = lambda: ()  # type: ignore[method-assign]
    parts[which].script = "#!/bin/sh\nset -e\nfalse\necho never\n"
    ended = run(Stack(*parts).undo_script())
    assert (ended.returncode, ended.stdout) == (1, f"shop {2 - which}\n")


def test_paths_start_from_the_files_directory_those_that_may_be_repeated_too(tmp_path: Path) -> None:
    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--cgroup", type=Path, action="append", default=[])
        parser.add_argument("--file", type=Path)

    found = keys.parsed(add, {"cgroup": ["web", "/run/db"], "file": "own.cnf"}, "[tiers.web]", tmp_path)
    assert (found.cgroup, found.file) == ([tmp_path / "web", Path("/run/db")], tmp_path / "own.cnf")
