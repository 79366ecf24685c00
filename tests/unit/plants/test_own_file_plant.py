"""A plant steered by a file of our own and reloads, of which any step can fail: all of a change or nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests._memory_plant import TIMEOUT, WORKERS, FakeClock
from tests.unit.plants.test_change import MASTER
from trimtab.errors import (
    ApplyFailed,
    ApplyLater,
    ApplyRefused,
    NotMeasured,
    OperatorEdit,
    PlantError,
    PlantGone,
    UsageError,
)
from trimtab.plants import _beside, _change, _own_file, _unloaded
from trimtab.plants._change import Texts
from trimtab.plants._master import Master
from trimtab.plants._own_file_plant import OwnFilePlant
from trimtab.plants._program import Verdict
from trimtab.plants._standstill import Standstill

START = {"workers": 10, "timeout": 100}


@dataclass
class Server:
    """One that has what its file says in force, once it is reloaded."""

    path: Path
    master: Master = MASTER
    in_force: dict[str, int] = field(default_factory=lambda: dict(START))
    standstill: Standstill | None = None
    by_hand: str = "serverctl reload"
    steps: int = 0
    faults: dict[int, str] = field(default_factory=dict)
    gone: bool = False

    def step(self, usual: Exception) -> None:
        """One step, which may be the one that fails: as such a step usually does, or by an interrupt."""
        self.steps += 1
        what = self.faults.pop(self.steps, "")
        if what == "interrupt":
            raise KeyboardInterrupt
        if what == "fails":
            raise usual

    def fail(self, *steps: int, how: str = "fails") -> None:
        """From here on these steps fail, counted anew."""
        self.steps, self.faults = 0, dict.fromkeys(steps, how)

    def check(self) -> None:
        if self.gone:
            raise PlantGone("the server has ended")

    def test(self) -> Verdict:
        self.check()
        self.step(UsageError("the program was replaced"))
        return Verdict(True, "")

    def refresh(self) -> None:
        self.check()
        self.step(NotMeasured("the status page does not answer"))

    def reload(self) -> None:
        self.check()
        self.step(ApplyFailed("it cannot be signalled"))
        words = (line.split() for line in (_own_file.read(self.path) or "").splitlines() if line[:1] not in ("#", ""))
        self.in_force = {**START, **{name: 90 if int(value) == 150 else int(value) for name, value in words}}
        self.step(ApplyFailed("the reload took too long"))
        self.check()

    def state(self) -> tuple[dict[str, int], str | None]:
        """What is in force, and our file."""
        return dict(self.in_force), self.path.read_text() if self.path.exists() else None


@dataclass(frozen=True)
class Change(_change.Change[Server]):
    """A new text for our file."""

    def reloaded(self, expected: Mapping[str, int]) -> tuple[str, ...]:
        self.server.reload()
        self.require(expected)
        return ()


class Filed(OwnFilePlant):
    """A plant of that server.

    Attributes:
        fatal: why it would end in a reload.
        lost: what it would lose by one.
        busy: what speaks against one just now.
        against: why no configuration fits.
    """

    fatal = lost = busy = against = ""

    def __init__(self, server: Server) -> None:
        super().__init__(FakeClock(), server, (WORKERS, TIMEOUT), None)
        self._there = server

    def objection(self, configuration: Mapping[str, int]) -> str:
        return self.against

    def find_location(self, directory: Path | None) -> Path:
        return self._there.path

    def permitted(self, accept_lost: bool) -> None:
        if why := self.fatal or ("" if accept_lost else self.lost):
            raise UsageError(why)

    def check_moment(self, values: Mapping[str, int]) -> None:
        if self.busy:
            raise ApplyLater(self.busy)

    def text(self, values: Mapping[str, int], before: str | None) -> str:
        return _own_file.compose("".join(f"{name} {value}\n" for name, value in values.items()), before)

    def edits(self, knobs: Iterable[str]) -> Mapping[str, str]:
        return {}

    def kept(self, path: Path) -> Iterable[str]:
        return [knob for knob in START if f"\n{knob} " in path.read_text()]

    def script(self, path: Path, before: str | None) -> str:
        return "#!/bin/sh\n"

    def change(self, texts: Texts) -> Change:
        return Change(self._there, self.clock, texts)


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Server]:
    """Makes servers one after the other, each with a file of its own."""
    made: list[Server] = []
    real = _own_file.write

    def write(path: Path, text: str | None, mode: int = 0o644) -> None:
        made[-1].step(OSError(28, "No space left on device"))
        real(path, text, mode)

    monkeypatch.setattr(_own_file, "write", write)
    monkeypatch.setattr(_own_file, "require_trusted", lambda path: None)

    def make() -> Server:
        made.append(Server(tmp_path / f"zz-{len(made)}.conf"))
        return made[-1]

    return make


BEFORE: Mapping[str, list[dict[str, int]]] = {"no file was there": [], "our file was there": [{"timeout": 200}]}
before_it = pytest.mark.parametrize("earlier", BEFORE.values(), ids=list(BEFORE))
CHANGE = {"workers": 20}


def begun(fresh: Callable[[], Server], earlier: list[dict[str, int]]) -> tuple[Server, Filed]:
    """A server with earlier changes."""
    server = fresh()
    plant = Filed(server)
    for changes in earlier:
        plant.apply(changes)
    server.fail()
    return server, plant


def steps_of(fresh: Callable[[], Server], earlier: list[dict[str, int]]) -> int:
    """Number of steps of the change where nothing fails."""
    server, plant = begun(fresh, earlier)
    plant.apply(CHANGE)
    return server.steps


def test_root_is_not_told_to_be_root_where_a_directory_is_mounted_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As /etc is to a unit with ProtectSystem=strict, or a mounted configuration in a container."""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UsageError, match="no permission to write in"):
        _own_file.writable(tmp_path / "zz.conf", None)
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY))
    with pytest.raises(UsageError, match=f"cannot write in {tmp_path}: it is mounted read-only here"):
        _own_file.writable(tmp_path / "zz.conf", None)


@pytest.mark.parametrize(
    ("changes", "then", "left"),
    [
        ([{"workers": 20}, {"timeout": 200}, {"workers": 10}, {"timeout": 100}], None, False),
        ([{"workers": 20}, {"timeout": 200}, {"workers": 10}], None, True),
        ([{"workers": 20}, {"workers": 10}], "workers 7\n", True),
    ],
    ids=["all is as before", "a knob is not", "somebody has edited it"],
)
def test_no_file_is_left_where_all_is_as_before_the_first_change_as_what_is_set_later_would_not_count(
    fresh: Callable[[], Server], changes: list[dict[str, int]], then: str | None, left: bool
) -> None:
    server, plant = begun(fresh, changes)
    assert server.path.exists(), "until then: Apache's has StartServers in it"
    if then is not None:
        server.path.write_text(then)
    before = server.state()
    for _ in range(2):
        plant.close()
        assert server.state() == (before if left else (START, None))


def test_what_an_earlier_run_has_kept_and_is_set_again_is_not_taken_for_what_was_there_first(
    fresh: Callable[[], Server],
) -> None:
    """As where a killed one has begun with it, whose trial is undone before the next one begins."""
    server, _ = begun(fresh, [{"timeout": 200}, {"workers": 20}])
    later = Filed(server)
    later.undo_leftover()
    assert server.state() == (START, None)
    later.apply({"timeout": 200})
    later.close()
    assert server.in_force == {**START, "timeout": 200} and server.path.exists()


@before_it
@pytest.mark.parametrize("how", ["fails", "interrupt"])
def test_whichever_step_fails_what_is_in_force_and_the_file_are_as_before(
    fresh: Callable[[], Server], earlier: list[dict[str, int]], how: str
) -> None:
    for step in range(1, steps_of(fresh, earlier) + 1):
        server, plant = begun(fresh, earlier)
        before = server.state()
        server.fail(step, how=how)
        with pytest.raises(PlantError if how == "fails" else KeyboardInterrupt):
            plant.apply(CHANGE)
        assert server.state() == before, f"step {step}"
        assert plant.configuration() == before[0]
        assert plant.apply(CHANGE).configuration == {**before[0], **CHANGE}
        plant.restore()
        assert server.state() == (START, None), f"step {step}"


@before_it
@pytest.mark.parametrize("then", ["restore", "another change"])
def test_what_could_not_be_put_back_either_is_by_whatever_comes_next(
    fresh: Callable[[], Server], earlier: list[dict[str, int]], then: str
) -> None:
    steps, twice = steps_of(fresh, earlier), 0
    for first in range(1, steps + 1):
        for second in range(first + 1, steps + 6):
            server, plant = begun(fresh, earlier)
            server.fail(first, second)
            with pytest.raises(PlantError):
                plant.apply(CHANGE)
            twice += not server.faults
            server.fail()
            assert plant.configuration(), "and nothing of ours is taken for the operator's"
            if then == "another change":
                plant.apply({"timeout": 300})
                assert server.in_force == {"workers": 10, "timeout": 300}, f"steps {first} and {second}"
            plant.restore()
            assert server.state() == (START, None), f"steps {first} and {second}"
    assert twice > 10


def test_where_a_server_does_not_answer_no_trial_stays_in_its_file_at_the_end(fresh: Callable[[], Server]) -> None:
    """The end of a run waited for a reload to the trial before, in vain, and left that one's file there."""
    server, plant = begun(fresh, [{"timeout": 200}])

    def deaf() -> None:
        raise ApplyFailed("it did not reload in time")

    server.reload, answers = deaf, server.reload  # type: ignore[method-assign]
    with pytest.raises(ApplyFailed, match="as it was, but"):
        plant.apply(CHANGE)
    for _ in range(2):
        with pytest.raises(ApplyFailed, match="as it was, but the server was not reloaded to it"):
            plant.restore()
        assert server.state() == ({**START, "timeout": 200}, None), "its next reload brings back what was there"
    server.reload = answers  # type: ignore[method-assign]
    plant.restore()
    assert server.state() == (START, None)


def test_a_rollback_that_fails_is_owed_and_restore_makes_it_good(fresh: Callable[[], Server]) -> None:
    server, plant = begun(fresh, [{"timeout": 200}])
    before, prepared = server.state(), plant.prepare(CHANGE)
    plant.commit(prepared)
    server.fail(3)
    with pytest.raises(ApplyFailed, match="it cannot be signalled"):
        plant.rollback(prepared)
    assert server.in_force["workers"] == 20
    assert plant.configuration()["workers"] == 20
    plant.rollback(prepared)
    assert server.state() == before
    plant.restore()
    assert server.state() == (START, None)


def test_a_file_that_somebody_edits_before_it_could_be_put_back_is_left_to_him(fresh: Callable[[], Server]) -> None:
    server, plant = begun(fresh, [])
    steps = steps_of(fresh, [])
    server, plant = begun(fresh, [])
    server.fail(steps - 1, steps)  # the reload, and writing the file back
    with pytest.raises(ApplyFailed, match="could not be put back: No space left on device"):
        plant.apply(CHANGE)
    server.path.write_text("workers 7\n")
    with pytest.raises(ApplyRefused, match="was changed by somebody"):
        plant.apply({"timeout": 300})
    with pytest.raises(UsageError, match="was changed by somebody"):
        plant.restore()
    assert server.path.read_text() == "workers 7\n"


def test_a_rollback_leaves_our_file_alone_once_somebody_has_edited_it(fresh: Callable[[], Server]) -> None:
    server, plant = begun(fresh, [])
    prepared = plant.prepare(CHANGE)
    plant.commit(prepared)
    server.path.write_text("workers 7\n")
    with pytest.raises(UsageError, match="was changed by somebody"):
        plant.rollback(prepared)
    assert server.path.read_text() == "workers 7\n"


def test_an_edit_that_is_seen_after_the_change_takes_it_back(
    fresh: Callable[[], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, plant = begun(fresh, [{"timeout": 200}])
    before = server.state()
    seen = iter([{}, {"timeout": "timeout was edited in operator.conf"}])
    monkeypatch.setattr(plant, "edits", lambda knobs: next(seen, {}))
    with pytest.raises(OperatorEdit) as caught:
        plant.apply(CHANGE)
    assert caught.value.knob == "timeout"
    assert server.state() == before


def test_a_server_that_ends_in_the_change_leaves_its_file_as_it_was(fresh: Callable[[], Server]) -> None:
    server, plant = begun(fresh, [])
    reload = server.reload

    def dies() -> None:
        reload()
        server.gone = True

    server.reload = dies  # type: ignore[method-assign]
    with pytest.raises(PlantGone):
        plant.apply(CHANGE)
    assert not server.path.exists()


def test_a_value_that_the_server_clips_is_taken_back(fresh: Callable[[], Server]) -> None:
    server, plant = begun(fresh, [])
    wider = replace(WORKERS, domain=replace(WORKERS.domain, maximum=200))
    plant._knobs = {**plant._knobs, "workers": wider}
    with pytest.raises(ApplyFailed, match="workers is 90 after the reload, not 150"):
        plant.apply({"workers": 150})
    assert server.state() == (START, None)


def test_what_an_earlier_run_has_kept_stays_beside_what_a_later_one_changes(fresh: Callable[[], Server]) -> None:
    server, _ = begun(fresh, [{"timeout": 200}])
    kept, later = server.state(), Filed(server)
    assert later.apply(CHANGE).configuration == {"workers": 20, "timeout": 200}
    assert later.apply({"workers": 30}).configuration == {"workers": 30, "timeout": 200}
    later.restore()
    assert server.state() == kept
    later.apply(CHANGE)
    Filed(server).undo_leftover()
    assert server.state() == (START, None), "an undo goes back to before the first of them"


def test_an_undo_needs_no_leave_to_lose_what_a_reload_loses_but_the_server_has_to_outlive_it(
    fresh: Callable[[], Server],
) -> None:
    """What makes a reload lose requests may have come after the run, and `runs undo` has no option for it."""
    server, _ = begun(fresh, [{"workers": 20}])
    later = Filed(server)
    later.lost, later.fatal = "a reload loses requests", "it would end in a reload"
    with pytest.raises(UsageError, match="it would end"):
        later.undo_leftover()
    later.fatal = ""
    later.undo_leftover()
    assert server.state() == (START, None)


def test_what_had_room_before_the_trial_goes_back_also_where_others_have_taken_it_since(
    fresh: Callable[[], Server],
) -> None:
    server, plant = begun(fresh, [{"workers": 30}, {"workers": 20}])
    plant.against = "does not fit into memory"
    with pytest.raises(ApplyRefused, match="does not fit"):
        plant.apply({"workers": 40})
    plant.apply({"workers": 30})
    assert server.in_force["workers"] == 30
    with pytest.raises(ApplyRefused, match="does not fit"):
        plant.apply({"workers": 20})
    plant.apply({"workers": 10})
    assert server.in_force["workers"] == 10


def test_a_trial_that_was_taken_back_is_no_way_back_when_it_is_tried_again(fresh: Callable[[], Server]) -> None:
    _, plant = begun(fresh, [{"workers": 20}, {"workers": 30}])
    assert plant.goes_back({"workers": 20}) and plant.goes_back({"workers": 10})
    plant.apply({"workers": 20})
    assert not plant.goes_back({"workers": 30}) and plant.goes_back({"workers": 10})
    plant.apply({"workers": 30})
    assert plant.goes_back({"workers": 20})
    plant.apply({"workers": 10})
    assert not plant.goes_back({"workers": 30})


def test_the_trial_of_a_killed_run_is_no_way_back_to_one_that_goes_on_with_it(fresh: Callable[[], Server]) -> None:
    server, _ = begun(fresh, [{"workers": 20}])
    later = Filed(server)
    later.began_with(START)
    later.undo_leftover()
    later.against = "does not fit into memory"
    with pytest.raises(ApplyRefused, match="does not fit"):
        later.apply({"workers": 20})
    assert later.configuration() == START


def test_a_way_back_waits_for_nobody_and_may_lose_what_a_trial_may_not(fresh: Callable[[], Server]) -> None:
    """An operator may bring into force in mid-run what makes a reload lose requests."""
    _, plant = begun(fresh, [{"workers": 20}])
    plant.lost = "a reload would lose requests"
    for change in ({"workers": 30}, {"timeout": 200}):
        with pytest.raises(ApplyRefused, match="would lose requests"):
            plant.apply(change)
    plant.lost, plant.busy = "", "a request takes long"
    with pytest.raises(ApplyLater, match="takes long"):
        plant.apply({"workers": 30})
    plant.lost = "a reload would lose requests"
    plant.fatal = "it would end by it"
    with pytest.raises(ApplyRefused, match="would end by it"):
        plant.apply({"workers": 10})
    plant.fatal = ""
    assert plant.apply({"workers": 10}).configuration == START


def test_another_server_that_reads_the_directory_too_hinders_what_is_new_and_no_way_back(
    fresh: Callable[[], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, plant = begun(fresh, [])
    beside = replace(MASTER, pid=MASTER.pid + 1, user=os.geteuid())
    monkeypatch.setattr(Master, "running", classmethod(lambda cls: [beside]))
    monkeypatch.setattr(_beside, "vet", lambda master: None)
    monkeypatch.setattr(Filed, "included_by", lambda plant, other: [server.path.parent])
    for act in (lambda: plant.apply(CHANGE), plant.check_permissions):
        with pytest.raises((ApplyRefused, UsageError), match=r"reads .* too, and would get these settings"):
            act()
    server.in_force = {**START, **CHANGE}  # by a run that was killed before the reload to what was there
    monkeypatch.setattr(_unloaded, "marked", lambda master: server.in_force)
    plant.undo_killed()
    assert server.state() == (START, None)
