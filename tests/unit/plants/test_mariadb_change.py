"""A change of a MariaDB that needs a restart, on a server in memory where any step can fail: all of it or nothing."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any

import pytest

from tests._memory_plant import FakeClock, MemoryPlant
from tests.unit.plants.test_mariadb import variables
from trimtab.errors import ApplyFailed, NotMeasured, OperatorEdit, PlantError, PlantGone, UsageError
from trimtab.plants import _journal, _own_file
from trimtab.plants.mariadb import attached, journal, knobs, restart
from trimtab.plants.mariadb.attached import Attached
from trimtab.plants.mariadb.credentials import Credentials
from trimtab.plants.mariadb.live import Live
from trimtab.plants.mariadb.plant import Mariadb
from trimtab.plants.mariadb.restart import Restarts

STACK, MORE = 299008 + 5120, 299008 + 10240
BASE = {name: one.value for name, one in variables().items()}
HANDLING = variables()["thread_handling"].choices
START = {name: BASE[name] for name in knobs.ALL}, None, dict[str, int]()
"""State before the first change."""
CHANGE = {"thread_stack": MORE, "table_open_cache": 1600}
"""A knob that needs a restart, and one that is set live after it."""


class Killed(BaseException):
    """trimtab is killed here: nothing that it would do from here on happens."""


@dataclass
class World:
    """A MariaDB in memory, the unit that restarts it, and trimtab's files on disk; each step can be made to fail."""

    directory: Path
    started: int = 1
    live: dict[str, int] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)
    clips: dict[int, int] = field(default_factory=dict)
    in_memory: tuple[tuple[str, str], ...] = ()
    steps: int = 0
    restarts: int = 0
    faults: dict[int, str] = field(default_factory=dict)
    killed: bool = False

    @property
    def snippet(self) -> Path:
        """trimtab's own file."""
        return self.directory / "conf.d" / restart.NAME

    def step(self, usual: Callable[[], Exception]) -> None:
        """One step, which may be the one that fails: as such a step usually does, or by an interrupt or a kill."""
        self.steps += 1
        what = self.faults.pop(self.steps, "")
        if self.killed or what == "kill":
            self.killed = True
            raise Killed
        if what == "interrupt":
            raise KeyboardInterrupt
        if what == "fails":
            raise usual()

    def values(self) -> dict[str, int]:
        """What is in force."""
        return {**BASE, **self.read, **self.live}

    def state(self) -> tuple[dict[str, int], str | None, Mapping[str, int]]:
        """What is in force of the knobs, our file, and what the journal says is to be undone."""
        server: Any = Server(self, self.started)
        found = journal.Journal.of(server, knobs.ALL, self.directory / "journals")
        text = self.snippet.read_text() if self.snippet.exists() else None
        return {name: self.values()[name] for name in knobs.ALL}, text, found.left(self.values())

    def fail(self, *steps: int, how: str = "fails") -> None:
        """From here on these steps fail, counted anew."""
        self.steps, self.restarts = 0, 0
        self.faults = dict.fromkeys(steps, how)

    def start(self) -> None:
        """The unit starts the server anew, which reads the files and has forgotten what was set live."""
        text = self.snippet.read_text() if self.snippet.exists() else ""
        words = restart._SET.findall(text)
        self.read = {name: HANDLING.index(word) if word in HANDLING else int(word) for name, word in words}
        self.live, self.started, self.restarts = {}, self.started + 1, self.restarts + 1


@dataclass
class Server:
    """One process of it, which is this test's by number."""

    world: World
    started: int
    pid: int = os.getpid()
    exe: Path = Path("/usr/sbin/mariadbd")

    def check(self) -> None:
        if self.started != self.world.started:
            raise PlantGone("MariaDB has ended")


class Link:
    """A conversation with it."""

    def __init__(self, server: Server, credentials: Credentials, patience_s: float, clock: FakeClock) -> None:
        self.server, self.credentials = server, credentials

    def ask(self, statement: str, values: Sequence[Any] = ()) -> tuple[tuple[Any, ...], ...]:
        world = self.server.world
        self.server.check()
        world.step(lambda: NotMeasured("MariaDB did not answer"))
        if statement.startswith("SET GLOBAL"):
            name, _, text = statement.removeprefix("SET GLOBAL ").partition(" = ")
            value = int(values[0] if values else text)
            world.live[name] = world.clips.get(value, value)
            return ()
        if "GLOBAL_VALUE_ORIGIN" in statement:
            return tuple((name.upper(),) for name in world.live)
        if "GLOBAL_VALUE_PATH" in statement:
            return tuple((name.upper(),) for name in world.read)
        if statement.startswith("SELECT @@GLOBAL."):
            return (tuple(world.values()[one.split("@@GLOBAL.")[1]] for one in statement[7:].split(", ")),)
        if "information_schema.TABLES" in statement:
            return world.in_memory
        if "VERSION()" in statement:
            return (("10.11.6-MariaDB",),)
        return (("GRANT ALL PRIVILEGES ON *.* TO `root`",),) if "GRANTS" in statement else (("", 5),)

    def follow(self, server: Server) -> None:
        self.server = server

    def close(self) -> None:
        pass


class Service:
    """The unit that runs it."""

    unit, systemctl, options, words = r"mariadb@a\x2db.service", "/bin/systemctl", (), ()

    def __init__(self, world: World) -> None:
        self.world = world

    def main_pid(self) -> int:
        self.world.step(lambda: UsageError("systemctl does not answer"))
        return os.getpid()

    def failed(self) -> bool:
        return False

    def restart(self) -> None:
        self.world.step(lambda: ApplyFailed("systemctl refuses"))
        self.world.start()


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], World]:
    """Makes servers one after the other, each with files of its own."""
    now: list[World] = []

    def stepping(there: Any, name: str, error: Callable[[], Exception]) -> None:
        real = getattr(there, name)

        def stepped(*arguments: Any) -> Any:
            now[-1].step(error)
            return real(*arguments)

        monkeypatch.setattr(there, name, stepped)

    def full() -> Exception:
        return OSError(28, "No space left on device")

    def defaults(argv: Sequence[str], environment: Mapping[str, str]) -> CompletedProcess[str]:
        now[-1].step(lambda: UsageError("cannot run mariadbd"))
        pairs = restart._SET.findall(now[-1].snippet.read_text())
        return CompletedProcess(argv, 0, " ".join(f"--{name.replace('_', '-')}={value}" for name, value in pairs), "")

    monkeypatch.setattr(os, "fsync", lambda fd: None)  # what the machine's own end leaves is not the question here
    monkeypatch.setattr(attached, "Link", Link)
    monkeypatch.setattr("trimtab.plants.mariadb.variables.read", lambda link, names: variables())
    monkeypatch.setattr(restart, "ask", defaults)
    monkeypatch.setattr(
        "trimtab.plants.mariadb.process.MariadbServer.find", lambda pid: Server(now[-1], now[-1].started)
    )
    monkeypatch.setattr(restart.Service, "of", lambda server: Service(now[-1]))
    monkeypatch.setattr(_journal, "start_of", lambda pid: now[-1].started)
    for module in (restart, _own_file, _journal):
        monkeypatch.setattr(module, "require_trusted", lambda path: None)
    for module in (_own_file, _journal):
        stepping(module, "write_whole", full)
        stepping(module, "remove", full)

    def made() -> World:
        now.append(World(tmp_path / str(len(now))))
        now[-1].snippet.parent.mkdir(parents=True)
        return now[-1]

    return made


def attach(world: World, may_restart: bool = True) -> Mariadb:
    """trimtab attached to it."""
    clock, server = FakeClock(), Server(world, world.started)
    there: Any = server
    rows = {**knobs.TABLE, **(knobs.AT_RESTART if may_restart else {})}
    found = Attached(there, Credentials("root"), clock, rows)
    return Mariadb(clock, found, world.directory / "journals", world.snippet.parent if may_restart else None)


BEFORE: Mapping[str, list[dict[str, int]]] = {
    "nothing was set": [],
    "a live knob was set": [{"max_connections": 201}],
    "our file was there": [{"max_connections": 201, "thread_stack": STACK}],
}
"""Changes before the one that fails."""
before_it = pytest.mark.parametrize("earlier", BEFORE.values(), ids=list(BEFORE))


def begun(fresh: Callable[[], World], earlier: list[dict[str, int]]) -> tuple[World, Mariadb]:
    """A server with earlier changes."""
    world = fresh()
    world.live["max_allowed_packet"] = 32 << 20  # the operator's, which no file says
    plant = attach(world)
    for changes in earlier:
        plant.apply(changes)
    world.fail()
    return world, plant


def steps_of(fresh: Callable[[], World], earlier: list[dict[str, int]]) -> int:
    """Number of steps of the change where nothing fails."""
    world, plant = begun(fresh, earlier)
    plant.apply(CHANGE)
    assert {**world.values(), **CHANGE, "max_allowed_packet": 32 << 20} == world.values()
    assert world.restarts == 1
    return world.steps


@before_it
@pytest.mark.parametrize("how", ["fails", "interrupt"])
def test_whichever_step_fails_values_file_and_journal_are_as_before(
    fresh: Callable[[], World], earlier: list[dict[str, int]], how: str
) -> None:
    failed = 0
    for step in range(1, steps_of(fresh, earlier) + 1):
        world, plant = begun(fresh, earlier)
        state, shown = world.state(), plant.configuration()
        world.fail(step, how=how)
        try:
            plant.apply(CHANGE)
        except (PlantError, KeyboardInterrupt) as error:
            failed += 1
            assert world.state() == state, f"step {step}: {error}"
            assert plant.configuration() == shown, "and nothing of ours is taken for the operator's"
        else:
            assert {**world.values(), **CHANGE} == world.values(), f"step {step}"
        plant.restore()
        assert world.state() == START, f"step {step}"
    assert failed > 10


@before_it
def test_a_kill_at_any_step_is_undone_by_the_next_trimtab(
    fresh: Callable[[], World], earlier: list[dict[str, int]]
) -> None:
    changed = forgotten = 0
    for step in range(1, steps_of(fresh, earlier) + 1):
        world, plant = begun(fresh, earlier)
        world.fail(step, how="kill")
        with pytest.raises(Killed):
            plant.apply(CHANGE)
        world.killed = False
        after = attach(world)
        ours = {name for name in knobs.ALL if world.values()[name] != BASE[name]}
        changed += ours >= {"thread_stack"} and "table_open_cache" not in ours
        assert {name for name in ours if name in after.leftover()} == ours, f"step {step}"
        forgot = "max_allowed_packet" not in world.live
        forgotten += forgot
        assert ("max_allowed_packet not as it was set live" in after.leftover()) == forgot, f"step {step}"
        after.undo_leftover()
        assert (world.state(), after.leftover()) == (START, ""), f"step {step}"
        assert world.values()["max_allowed_packet"] == 32 << 20, f"step {step}"
    assert changed, "between the restart and the live value too"
    assert forgotten, "and before what the operator had set live was set again"


def test_a_kill_at_any_step_leaves_what_the_operator_had_set_live_before_us_to_be_put_back(
    fresh: Callable[[], World],
) -> None:
    theirs = {"max_allowed_packet": 32 << 20, "max_connections": 180}

    def set_by_both() -> tuple[World, Mariadb]:
        world = fresh()
        world.live |= theirs
        plant = attach(world)
        plant.apply({"max_connections": 201})
        world.fail()
        return world, plant

    world, plant = set_by_both()
    plant.apply(CHANGE)
    for step in range(1, world.steps + 1):
        world, plant = set_by_both()
        world.fail(step, how="kill")
        with pytest.raises(Killed):
            plant.apply(CHANGE)
        world.killed = False
        after = attach(world)
        assert "max_connections" in after.leftover(), f"step {step}"
        after.undo_leftover()
        assert {name: world.values()[name] for name in theirs} == theirs, f"step {step}"
        assert after.leftover() == "", f"step {step}"


def killed_in_the_restart(fresh: Callable[[], World]) -> World:
    """A server whose restart has just forgotten what was set live, as trimtab was killed in it."""
    world, plant = begun(fresh, [])
    steps = steps_to_the_restart(world, plant)
    world, plant = begun(fresh, [])
    world.fail(steps + 1, how="kill")
    with pytest.raises(Killed):
        plant.apply(CHANGE)
    world.killed = False
    assert "max_allowed_packet" not in world.live
    return world


def test_what_the_operator_has_set_since_a_kill_in_a_restart_is_left_alone(fresh: Callable[[], World]) -> None:
    world = killed_in_the_restart(fresh)
    world.live["max_allowed_packet"] = 64 << 20
    attach(world).undo_leftover()
    assert world.values()["max_allowed_packet"] == 64 << 20


def test_a_later_run_that_restarts_sets_again_what_one_that_was_killed_has_made_it_forget(
    fresh: Callable[[], World],
) -> None:
    world = killed_in_the_restart(fresh)
    attach(world).apply({"thread_stack": STACK})
    assert world.values()["max_allowed_packet"] == 32 << 20


def steps_to_the_restart(world: World, plant: Mariadb) -> int:
    """Number of the step of a change at which the server is started anew."""
    real, found = world.start, list[int]()

    def start() -> None:
        found.append(world.steps)
        real()

    world.start = start  # type: ignore[method-assign]
    plant.apply(CHANGE)
    return found[0]


@before_it
def test_a_live_value_that_is_clipped_takes_the_restart_back_with_one_more(
    fresh: Callable[[], World], earlier: list[dict[str, int]]
) -> None:
    world, plant = begun(fresh, earlier)
    world.clips[1600] = 1504
    values, state = world.values(), world.state()
    with pytest.raises(ApplyFailed, match="table_open_cache is 1504 after it was set to 1600"):
        plant.apply(CHANGE)
    assert (world.values(), world.state(), world.restarts) == (values, state, 2)


def test_a_change_that_failed_is_taken_for_nobodys_edit_and_the_next_one_leaves_it_out(
    fresh: Callable[[], World],
) -> None:
    world, plant = begun(fresh, [])
    world.clips[1600] = 1504
    with pytest.raises(ApplyFailed):
        plant.apply(CHANGE)
    assert plant.apply({"thread_stack": STACK}).configuration["table_open_cache"] == 2000
    assert world.values()["thread_stack"] == STACK


def test_a_stack_can_take_a_change_with_a_restart_back_but_not_what_the_operator_has_set_since(
    fresh: Callable[[], World],
) -> None:
    world, plant = begun(fresh, [])
    prepared = plant.prepare(CHANGE)
    plant.commit(prepared)
    world.live["table_open_cache"] = 777
    with pytest.raises(OperatorEdit):
        plant.configuration()
    plant.rollback(prepared)
    assert world.values() == {**BASE, "max_allowed_packet": 32 << 20, "table_open_cache": 777}
    assert not world.snippet.exists()


def test_where_the_server_has_ended_our_file_is_put_back_for_the_one_that_is_started_next(
    fresh: Callable[[], World],
) -> None:
    world, plant = begun(fresh, [])
    plant.apply(CHANGE)
    world.started += 1
    with pytest.raises(PlantGone):
        plant.restore()
    assert not world.snippet.exists()


class Front(MemoryPlant):
    """A server in front of it, which can hold requests back."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.error: PlantError | None = None
        self.seen: list[int] = []

    @contextmanager
    def held(self, notes: list[str]) -> Iterator[None]:
        if self.error is not None:
            raise self.error
        self.seen.append(self.world.restarts)
        yield
        self.seen.append(self.world.restarts)
        notes.append("held back")


def test_the_script_restarts_the_unit_whatever_its_name_is(fresh: Callable[[], World]) -> None:
    world, plant = begun(fresh, [])
    plant.apply(CHANGE)
    assert plant._restarts is not None
    assert shlex.split(plant._restarts.script()[-1]) == ["systemctl", "restart", Service(world).unit]


def test_a_restart_happens_while_the_server_in_front_holds_requests_back(fresh: Callable[[], World]) -> None:
    world, plant = begun(fresh, [])
    front = Front(world)
    plant.in_front = (front,)
    assert "held back" in plant.apply(CHANGE).notes
    plant.apply({"max_connections": 201})
    plant.restore()
    assert front.seen == [0, 1, 1, 2], "around each restart, and not for what is set live"


def test_where_no_requests_can_be_held_back_a_change_is_refused_and_what_was_before_comes_back_all_the_same(
    fresh: Callable[[], World],
) -> None:
    world, plant = begun(fresh, [])
    front = Front(world)
    plant.in_front, front.error = (front,), ApplyFailed("it does not answer")
    state = world.state()
    with pytest.raises(ApplyFailed, match="it does not answer"):
        plant.apply(CHANGE)
    assert (world.state(), world.restarts) == (state, 0)
    front.error = None
    plant.apply(CHANGE)
    front.error = PlantGone("it has ended")
    plant.restore()
    assert (world.state(), world.restarts) == (state, 2)


def test_our_file_that_somebody_has_edited_is_left_alone_also_after_a_failure(tmp_path: Path) -> None:
    restarts = Restarts(
        SimpleNamespace(no_backup=lambda changed: ExitStack(), require_tables_kept=dict),  # type: ignore[arg-type]
        Service(World(tmp_path)),  # type: ignore[arg-type]
        FakeClock(),
        lambda: None,
        dict,
        Live(tmp_path / "live.json"),
        lambda notes: ExitStack(),
        tmp_path,
    )
    restarts.written, restarts.stale = "ours", True
    restarts.path.write_text("theirs")
    with pytest.raises(UsageError, match="was changed by somebody"):
        restarts.put_back()
    assert restarts.path.read_text() == "theirs"
