"""What earlier runs have left in force: the trial of one that was killed is not what the operator had.

Such a trial is undone before another run changes these servers, so that "as it was" and "the operator has chosen it"
mean what was there before it. What a run that ended in order has kept stays, also where a killed one began with it.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from trimtab import own
from trimtab.cli._plant import attached
from trimtab.core import Configuration, MoveState, Plant, Subject, in_words
from trimtab.core.knob import Identity
from trimtab.errors import StoreError, TrimtabError, UsageError
from trimtab.locks import held
from trimtab.processes import TICKS_HZ, start_of, uptime_s
from trimtab.records import Run
from trimtab.settings import Mode
from trimtab.store import KILLED, Store, default_path
from trimtab.trust import printable, require_trusted

RESUMED = (("tune",), ("guarantee",))
"""The verbs whose runs can be resumed, but for those that identify: their `run` takes the run that was killed."""
CHANGING = (Mode.APPROVE, Mode.AUTONOMOUS)
"""The modes that change something."""
_OF_PROCESS = re.compile(r".+-(\d+)-(\d+)")
"""The lock of a server that is known by the id and the start of its process."""
_MOST_TURNS = 5
"""How often a plant is attached, where others come and go."""
_ENDING_S = 3.0
"""How long another run is waited for that may be just ending, as the one of `trimtab run` that the user has ended."""


@contextlib.contextmanager
def attached_as_found(args: argparse.Namespace, mode: Mode, resumed: bool) -> Iterator[Plant]:
    """The plant that the arguments name, as the operator had it where the run is to change something.

    Args:
        args: the command line.
        mode: of the run.
        resumed: True for a killed run that goes on, which finds its own trial.

    Raises:
        UsageError: none is named, it cannot be used from here, or what a killed run left cannot be undone.
        StoreError: whether one has left something cannot be known; said after all else that may be wrong.
    """
    unknown = list[StoreError]()

    def undo() -> None:
        unknown.clear()
        try:
            _undo_killed(args)
        except StoreError as error:
            unknown.append(error)

    before = (lambda: None) if resumed else undo
    with attached_alone(lambda: attached(args), before) if mode in CHANGING else attached(args) as plant:
        if unknown:
            plant.check_permissions()
            raise unknown[0]
        yield plant


@contextlib.contextmanager
def attached_alone(
    attach: Callable[[], contextlib.AbstractContextManager[Plant]],
    before: Callable[[], None] = lambda: None,
    look: Callable[[Plant], None] = lambda plant: None,
) -> Iterator[Plant]:
    """A plant from whose servers this user's other runs are kept off.

    It is attached anew where another run had them meanwhile, whose trial would be taken for the operator's choice.

    Args:
        attach: attaches to it.
        before: called before that, each time.
        look: given it before the others are kept off, each time; may refuse it.

    Raises:
        UsageError: it cannot be used from here, or another run changes it.
    """
    for left in reversed(range(_MOST_TURNS)):
        before()
        since_ns = last_turn_ns()
        with attach() as plant:
            look(plant)
            with alone(plant, since_ns) as unmoved:
                if unmoved or not left:
                    yield plant
                    return


def last_turn_ns() -> int | None:
    """When one of this user's runs began or ended last, by the directory of their locks; None where none ever has."""
    try:
        return own.transient("runs").stat().st_mtime_ns
    except OSError:
        return None


@contextlib.contextmanager
def alone(plant: Plant, since_ns: int | None) -> Iterator[bool]:
    """Keeps this user's other runs off these servers while it lasts, also those that are stored elsewhere.

    Where the directory of the locks cannot be written, as in a unit that may write only what it names, nobody is kept
    out; those of the same store find one another all the same. Gives whether what the plant has read of its servers
    is what they have now: no run had to be waited for, and none has begun or ended meanwhile, as far as is known.

    Args:
        plant: the servers.
        since_ns: `last_turn_ns` before the plant looked at them.

    Raises:
        UsageError: another run changes one of them.
    """
    directory, locks, unmoved = own.transient("runs"), dict[Path, int](), True
    as_then = last_turn_ns() == since_ns
    try:
        for part in (part for part in plant.parts or (plant,) if part.pid is not None):
            which = part.known_by or f"{part.pid}-{start_of(part.pid or 0)}"
            path = directory / f"{part.name}-{which}"
            if path in locks:
                continue  # another pool of the same server
            alike = as_then and not os.path.lexists(path)  # that of one that was killed is there and not held
            try:
                directory.mkdir(mode=0o700, exist_ok=True)
                require_trusted(directory)
                _tidy(directory)
                lock = held(path, 0.0)
                if lock is None:
                    lock = held(path, _ENDING_S)
            except (OSError, UsageError):
                continue
            if lock is None:
                part.check_permissions()  # which may know better who it is
                raise UsageError(f"another trimtab changes {part.name} (pid {part.pid}): end it first")
            locks[path], unmoved = lock, unmoved and alike
        yield unmoved
    finally:
        for path, lock in locks.items():
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(lock)


def _tidy(directory: Path) -> None:
    """Takes away locks of servers that have ended, which runs that were killed have left; nobody holds such a one."""
    for path in directory.iterdir():
        named = _OF_PROCESS.fullmatch(path.name)
        if named is None or start_of(int(named[1])) == int(named[2]) or (lock := held(path, 0.0)) is None:
            continue
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(lock)


def require_alone(store: Store, plant: Plant) -> None:
    """Makes sure that no other run changes one of these servers, and takes trials for what the operator has set.

    A run's own change may have started its server anew (MariaDB), and then it has another process than its plan says.

    Raises:
        UsageError: one does, or may.
    """
    parts = [part for part in plant.parts or (plant,) if part.pid is not None]
    for run in store.unended():
        if not run.alive or not _changes(run):
            continue
        for part in parts:
            its = _subject(run, part)
            if its is None or its.pid is None:
                continue
            known = its.pid in {one.pid for one in part.subjects}
            where = "on this server" if known else f"on the {its.plant} that was pid {its.pid}, maybe this one by now"
            raise UsageError(f"run {run.id} still runs {where}, and would be taken for an operator: end it first")


def tell_leftovers(args: argparse.Namespace, store: Store, plant: Plant, mode: Mode) -> None:
    """Prints settings left by earlier runs on this plant, on standard error."""
    if not plant.lasting:
        return
    last = [killed[0].run.id for part in _parts(plant) if (killed := _killed(store, part))]
    for run_id in dict.fromkeys(last) if mode not in CHANGING else ():
        _note(f"run {run_id} was killed before its end; '{command(args, 'undo', run_id)}' undoes it")
    if left := plant.leftover():
        _note(left)


def command(args: argparse.Namespace, action: str, run_id: int) -> str:
    """The command that undoes a run of this store, or goes on with it."""
    named = args.store and args.store != default_path()
    return f"trimtab runs {action} {run_id}{f' --store {args.store}' if named else ''}"


def still_tried(store: Store, run: Run, plant: Plant) -> Configuration | None:
    """What a killed run has tried and is in force on these servers; None where one is not known to be the run's."""
    found = dict[str, int]()
    for part in plant.parts or (plant,):
        subject = _subject(run, part)
        if subject is None:
            return None
        tried = _tried(store, _Left(run, subject), part.configuration())
        found |= {f"{_prefix(part)}{name}": value for name, value in tried.items()}
    return found


def out_of_reach(args: argparse.Namespace, store: Store, plant: Plant) -> str:
    """What an undo has left in force for want of a leave that an earlier run had, in one line; empty for nothing."""
    said = []
    for part in plant.parts or (plant,):
        for knob, mend in part.out_of_reach().items():
            had = [one.run.id for one in _there(store, part) if knob in one.movable]
            if mend and not had:  # the operator's own edit waits for a restart there
                continue
            undo = f"'{command(args, 'undo', had[-1])}' undoes it" if had else "undo the run that has"
            stays = "stays as an earlier run has set it, which this one has no leave to undo"
            said.append(f"{_prefix(part)}{knob} {stays}: {mend or undo}")
    return "; ".join(said)


def identifies(run: Run) -> bool:
    """Whether it is one by which `guarantee` identifies the server: a model is made of two whole ones."""
    return run.plan.command[:1] == ("guarantee",) and run.plan.guarantee is None


class _Left(NamedTuple):
    """A run that may have left something on a server.

    Args:
        run: the run.
        subject: the server in its plan.
    """

    run: Run
    subject: Subject

    @property
    def prefix(self) -> str:
        """What stands in the run before the name of a knob of this server."""
        return _prefix(self.subject)

    @property
    def movable(self) -> Configuration:
        """The knobs of this server that the run could move, by the server's own names, each with 0."""
        return self.own({knob.name: 0 for knob in self.run.plan.knobs})

    def own(self, configuration: Configuration) -> Configuration:
        """The part of one of the run's configurations that is this server's, by the server's own names."""
        whole = configuration.items()
        return {name.removeprefix(self.prefix): value for name, value in whole if name.startswith(self.prefix)}


def _prefix(subject: Subject | Plant) -> str:
    """What stands before the names of a server's knobs in its run."""
    return str(Identity(subject.node, subject.tier, "")) if subject.tier else ""


def _parts(plant: Plant) -> list[Plant]:
    """The servers that it steers and that outlive a run, each as a plant of its own."""
    return [part for part in plant.parts or (plant,) if part.lasting]


def _undo_killed(args: argparse.Namespace) -> None:
    """Undoes what the last run on each of these servers left, where it was killed, and says so.

    It has an attachment of its own: a plant takes what is in force when it attaches for what was before the run.

    Raises:
        UsageError: something cannot be undone; or another run still changes these servers.
        StoreError: it cannot be known; once it can, the trial would be taken for the operator's choice.
    """
    with contextlib.closing(Store(args.store or default_path(), create=False)) as store:
        if not any(run.unfinished and _changes(run) for run in store.unended()):
            return
        with attached_alone(lambda: attached(args)) as plant:
            there = [(part, killed) for part in _parts(plant) if (killed := _killed(store, part))]
            if there:
                require_alone(store, plant)
            back, failed = dict[int, dict[str, int]](), list[str]()
            for part, killed in reversed(there):
                last, now = killed[0].run.id, dict[str, int]()
                try:
                    _require_all_there(args, store, part, killed)
                    now |= _undone(store, part, killed)
                except TrimtabError as error:
                    why = f"{part.tier}: {error}" if part.tier else str(error)
                    failed.append(f"run {last} was killed, and what it left in force cannot be undone: {why}")
                back.setdefault(last, {}).update({f"{_prefix(part)}{name}": value for name, value in now.items()})
            if failed:
                raise UsageError("; ".join(failed))
            for run_id, values in back.items():
                whose = [killed[0].subject for _, killed in there if killed[0].run.id == run_id]
                undone = "; what it left is undone, in force again: " if values else ""
                said = f"{undone}{in_words(values, plant.knobs())}{_more(args, store.run(run_id), whose)}"
                _note(f"run {run_id} was killed before its end{said}")


def _more(args: argparse.Namespace, run: Run, here: Sequence[Subject]) -> str:
    """What else can be done with a killed run that had these servers, maybe among others."""
    others = dict.fromkeys(one.tier for one in run.plan.subjects if one.tier not in [same.tier for same in here])
    rest = f"; '{command(args, 'undo', run.id)}' undoes its {', '.join(others)} too" if others else ""
    resumed = run.plan.command[:1] in RESUMED and not identifies(run)
    return rest + (f"; '{command(args, 'resume', run.id)}' goes on with it instead" if resumed else "")


def _require_all_there(args: argparse.Namespace, store: Store, part: Plant, killed: Sequence[_Left]) -> None:
    """Makes sure that nothing is left in a knob that this command leaves out, as without the run's --allow-restart.

    What only lived in a process that has ended is not in force any more.

    Raises:
        UsageError: something may be; the message says what undoes it.
    """
    now, mine = part.configuration(), {one.pid for one in part.subjects}
    for left in () if part.undoes_all else killed:
        if part.known_by or left.subject.pid in mine:
            out = left.movable.keys() - now.keys()
            then = {name: value for name, value in left.own(left.run.plan.initial).items() if name in out}
            tried = [*map(left.own, store.configurations(left.run.id)), _under_way(store, left)]
            moved = [name for name, value in then.items() if any(one.get(name, value) != value for one in tried)]
            if moved:
                said, undo = ", ".join(moved), command(args, "undo", left.run.id)
                raise UsageError(f"it has moved {said} too: give this one the options of that, or '{undo}' undoes it")


def _undone(store: Store, part: Plant, killed: Sequence[_Left]) -> Configuration:
    """Undoes what killed runs left, and returns what is in force again; nothing where none of it was in force.

    Args:
        store: their store.
        part: their server.
        killed: the runs, the last one first.

    Raises:
        TrimtabError: it cannot be undone.
    """
    initial, before = killed[0].own(killed[0].run.plan.initial), part.configuration()
    # A change that was cut may stand in a file and come into force with the server's next reload or start; one of
    # which the file has gone, as in an undo that was cut, may be in force until then.
    left, cut = part.leftover(), bool(_under_way(store, killed[0]))
    if not (left and cut) and not part.not_loaded() and not _of_runs(store, killed, before):
        return {}
    part.undo_killed()
    if cut or _of_runs(store, killed, part.configuration()):
        part.undo_leftover()
    now = part.configuration()
    if not left and now == before:
        return {}
    # An undo goes back to before the first run that left something; this one may have begun with what one kept.
    ours = _tried(store, killed[0], before)  # which may be what the first run began with, and so be what is back
    kept = {
        name: value
        for name, value in initial.items()
        if name in now and now[name] != value and (name in ours or now[name] != before.get(name))
    }
    if kept and not _of_runs(store, killed[1:], initial):
        now = part.apply(kept).configuration
    return {name: value for name, value in now.items() if value != before.get(name)} or now


def _of_runs(store: Store, runs: Iterable[_Left], now: Configuration) -> bool:
    """Whether this configuration has a setting that one of some runs has tried, and that was not there before it."""
    return any(_tried(store, one, now) for one in runs)


def _under_way(store: Store, left: _Left) -> Configuration:
    """What a killed run was changing when it was killed; nothing where it was at no change."""
    last = store.last_move(left.run.id)
    # The last move of a run that somebody has tried in vain to go on with is not open any more.
    cut = last is not None and (last.state is MoveState.OPEN or last.detail == KILLED)
    return left.own(last.move.changes) if last is not None and cut else {}


def _tried(store: Store, left: _Left, now: Configuration) -> Configuration:
    """Those of these settings that a run has tried, and that were not there before it."""
    plan, under_way = left.run.plan, _under_way(store, left)
    initial, movable = left.own(plan.initial), left.movable
    values = [left.own(one) for one in store.configurations(left.run.id)]
    differing = {name: now[name] for name in movable if name in now and now[name] != initial.get(name)}
    return {
        name: value
        for name, value in differing.items()
        if name in under_way or any(one.get(name) == value for one in values)
    }


def _killed(store: Store, part: Plant) -> list[_Left]:
    """The runs that could change this server and were killed, back to one that was not, the last one first."""
    return list(itertools.takewhile(lambda left: left.run.unfinished, reversed(_there(store, part))))


def _there(store: Store, part: Plant) -> list[_Left]:
    """The runs that could change this server, the last one last."""
    changing = [run for run in store.runs() if _changes(run)]
    return [_Left(run, subject) for run in changing if (subject := _subject(run, part)) is not None]


def _subject(run: Run, part: Plant) -> Subject | None:
    """A server in a run's plan; None where it was not among them.

    One whose process has ended was started anew since: it is the one of this kind, and of this tier where there are
    several.
    """
    mine = {one.pid for one in part.subjects}
    # Of one that goes on both are known by the kernel's count, whatever has become of the machine's time since.
    begun = run.process.start_ticks if run.alive else (run.started - time.time() + uptime_s()) * TICKS_HZ

    def elsewhere(one: Subject) -> bool:
        start = None if one.pid is None or one.pid in mine else start_of(one.pid)
        return start is not None and start <= begun

    found = [one for one in run.plan.subjects if one.plant == part.name and not elsewhere(one)]
    return min(found, key=lambda one: (one.pid not in mine, one.tier != part.tier), default=None)


def _changes(run: Run) -> bool:
    return run.plan.settings.mode in CHANGING


def _note(text: str) -> None:
    print(printable(f"note: {text}"), file=sys.stderr)
