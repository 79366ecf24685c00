"""The threads of the servers, and the values given to them.

Threads come and go while they are set. New ones inherit from whoever starts them, so each round finds only those
that were born of a thread that had not been set yet; the rounds end when one finds nothing to do, which is the
read-back too.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping

from trimtab.errors import ApplyFailed, UsageError
from trimtab.plants.linux import knobs, putback
from trimtab.plants.linux.journal import FIELDS, Journal
from trimtab.plants.linux.putback import FAIR, RR, Scheduling, Thread
from trimtab.plants.linux.target import Target

ROUNDS = 20
FIELD_OF = dict(zip((knobs.POLICY, knobs.NICE, knobs.SLICE), FIELDS, strict=True))
_NUMBERS = tuple(knobs.POLICIES.values())
Key = tuple[int, int]
"""Id and start time of a thread."""


class Scheduled:
    """The threads of the servers.

    Args:
        target: the servers.
        journal: journal of the values from before.

    Attributes:
        given: knob to the value that all threads have been given.
    """

    def __init__(self, target: Target, journal: Journal) -> None:
        self._target = target
        self._journal = journal
        self._set: dict[Key, Scheduling] = {}
        self._aside: set[Key] = set()
        self.given: dict[str, int] = {}

    def values(self, names: Iterable[str], there: Mapping[int, Thread]) -> dict[str, int]:
        """Values of these knobs: as they were set, else as most threads have them.

        Args:
            names: the knobs.
            there: the present threads.
        """
        names = list(names)
        asked = [name for name in names if name not in self.given]
        seen = [now for _, now in self._movable(there)] if asked else []
        common = {name: statistics.mode([_value(name, now) for now in seen]) if seen else 0 for name in asked}
        return {name: self.given[name] if name in self.given else common[name] for name in names}

    def check(self) -> None:
        """Makes sure that every thread may be set, by setting its own values.

        Raises:
            UsageError: one may not.
            PlantGone: a server has ended.
        """
        there = self._target.threads()
        movable, base_ns = list(self._movable(there)), knobs.base_slice_ns()
        for thread, now in movable:
            try:
                putback.write(thread.tid, _own(now, base_ns))
            except OSError as error:
                raise UsageError(
                    f"thread {thread.tid} of pid {thread.pid} may not be set: {error.strerror}; "
                    "run trimtab as the server's user, or with the capability CAP_SYS_NICE, which root has by default"
                ) from None
        if not movable:
            raise UsageError(f"no thread of {self._target} has the policy other or batch: they are left alone")

    def left_alone(self) -> int:
        """Number of threads with a policy other than SCHED_OTHER and SCHED_BATCH, set by somebody on purpose."""
        there = self._target.threads()
        return len(there) - sum(1 for _ in self._movable(there))

    def edited(self, there: Mapping[int, Thread]) -> Mapping[str, str]:
        """The knobs that somebody else has set on a thread to which we gave another value, each with a message.

        Args:
            there: the threads that there are.
        """
        found: dict[str, str] = {}
        seen: dict[Key, Scheduling] = {}
        for thread in there.values():
            meant = self._set.get((thread.tid, thread.start))
            if meant is None or (now := putback.read(thread.tid)) is None:
                continue
            seen[thread.tid, thread.start] = meant
            for name in self.given:
                if (value := _value(name, now)) != _value(name, meant) and not _hidden(name, now):
                    where = f"thread {thread.tid} of pid {thread.pid}"
                    found.setdefault(name, f"{name} of {where} is {value}, where trimtab had set {self.given[name]}")
                    self._leave(thread, there, name, now)
        self._set = seen
        return found

    def _leave(self, thread: Thread, there: Mapping[int, Thread], name: str, now: Scheduling) -> None:
        """Makes what somebody else has set on a thread its own, also where it is a value of an earlier trial."""
        was = putback.inherited(thread, there, self._journal.known) or now
        if name == knobs.POLICY:
            was = was._replace(policy=now.policy, priority=now.priority, flags=now.flags)
        elif name == knobs.NICE:
            was = was._replace(nice=now.nice)
        else:
            was = was._replace(slice_ns=now.slice_ns)
        self._journal.taken(thread, was)

    def follow(self, there: Mapping[int, Thread]) -> None:
        """Gives threads born since the values in force; one that may not be set is left alone.

        Args:
            there: the threads that there are.

        Raises:
            PlantGone: a server has ended.
        """
        if self.given and {(one.tid, one.start) for one in there.values()} - self._set.keys() - self._aside:
            self._rounds(self.given, {}, forgiving=True)

    def intend(self, values: Mapping[str, int]) -> None:
        """Journals the scheduling of all threads and the values to give them.

        Raises:
            ApplyFailed: it could not be written; nothing was changed.
            PlantGone: a server has ended.
        """
        there = self._target.threads()
        first, base_ns = self._journal.empty, knobs.base_slice_ns()
        for thread, now in self._seen(there):
            if first or putback.inherited(thread, there, self._journal.known) is None:
                self._journal.found(thread, _own(now, base_ns))
        for name, value in values.items():
            self._journal.meant(FIELD_OF[name], _native(name, value))
        self._journal.write()

    def bring(self, values: Mapping[str, int]) -> None:
        """Gives all threads these values, or puts each one's own back.

        Raises:
            ApplyFailed: did not take; what was before is restored.
            PlantGone: a server has ended.
        """
        self.intend(values)
        before: dict[Thread, Scheduling] = {}
        try:
            self._rounds({**self.given, **values}, before)
        except BaseException as error:
            said = self._put_back(before)
            if not isinstance(error, OSError | ApplyFailed):
                raise  # a server has ended, and the threads of the others are as they were
            why = error.strerror if isinstance(error, OSError) else error
            raise ApplyFailed(f"{why}; {said}") from None
        self.given |= values

    def forget(self, names: Iterable[str] | None = None) -> None:
        """Forgets the values given to these knobs, without a change; None for all."""
        for name in list(self.given if names is None else names):
            self.given.pop(name, None)
        if not self.given:
            self._set.clear()

    def _rounds(self, values: Mapping[str, int], before: dict[Thread, Scheduling], forgiving: bool = False) -> None:
        """Sets threads until a round finds nothing to do; records each one's values before.

        Raises:
            ApplyFailed: it does not end.
            OSError: one may not be set.
        """
        base_ns = knobs.base_slice_ns()
        refused: set[int] = set()
        for _ in range(ROUNDS):
            there, wrong = self._target.threads(), ""
            for thread, now in self._movable(there):
                wanted = self._wanted(thread, there, now, values, base_ns)
                effective = wanted if wanted.slice_ns or now.policy == RR else wanted._replace(slice_ns=base_ns)
                if now == effective or (now.policy == wanted.policy == RR and now.nice == wanted.nice):
                    self._set[thread.tid, thread.start] = now
                    continue
                if thread.tid in refused:
                    continue
                if forgiving and putback.inherited(thread, there, self._journal.known) is None:
                    # It has come into a control group from elsewhere.
                    self._journal.found(thread, _own(now, base_ns))
                    self._journal.write()
                # Looked at again, because another thread may have been given the id by now.
                if (one := putback.stat(thread.pid, thread.tid)) is None or one[1] != thread.start:
                    continue
                wrong = f"thread {thread.tid} of pid {thread.pid} does not take it"
                before.setdefault(thread, _own(now, base_ns))
                try:
                    putback.write(thread.tid, wanted)
                except OSError:
                    if not forgiving:
                        raise
                    refused.add(thread.tid)
            if not wrong:
                self._aside = {(one.tid, one.start) for one in there.values()} - self._set.keys()
                return
        if not forgiving:
            raise ApplyFailed(wrong)

    def _wanted(
        self, thread: Thread, there: Mapping[int, Thread], now: Scheduling, values: Mapping[str, int], base_ns: int
    ) -> Scheduling:
        """How a thread is to be scheduled."""
        wanted = _own(now, base_ns)
        if now.policy == RR:  # its slice cannot be read
            was = putback.inherited(thread, there, self._journal.known)
            flags = 0 if was is None else was.flags
            wanted = wanted._replace(slice_ns=0 if was is None else was.slice_ns, flags=flags)
        if knobs.POLICY in values:
            policy = _NUMBERS[values[knobs.POLICY]]
            wanted = wanted._replace(policy=policy, priority=0)
        if wanted.policy == RR:
            # Children of a real-time thread begin without it: no program that leaves the server takes it along.
            wanted = wanted._replace(priority=1, flags=putback.RESET_ON_FORK)
        if knobs.NICE in values:
            wanted = wanted._replace(nice=values[knobs.NICE])
        if knobs.SLICE in values:
            wanted = wanted._replace(slice_ns=values[knobs.SLICE] * 1000)
        return wanted

    def _put_back(self, before: Mapping[Thread, Scheduling]) -> str:
        """Puts the threads' own values back, and returns a message on whether that went well."""
        left, base_ns = [], knobs.base_slice_ns()
        for thread, was in before.items():
            try:
                one, now = putback.stat(thread.pid, thread.tid), putback.read(thread.tid)
                if one is not None and one[1] == thread.start:
                    if now is None or _own(now, base_ns) != was:
                        putback.write(thread.tid, was)
                    self._set.pop((thread.tid, thread.start), None)
            except OSError as error:
                left.append(f"thread {thread.tid} of pid {thread.pid}: {error.strerror}")
        return f"could not be put back: {'; '.join(left)}" if left else "what was before is restored"

    def _seen(self, there: Mapping[int, Thread]) -> Iterable[tuple[Thread, Scheduling]]:
        for thread in there.values():
            if (now := putback.read(thread.tid)) is not None:
                yield thread, now

    def _movable(self, there: Mapping[int, Thread]) -> Iterable[tuple[Thread, Scheduling]]:
        """The threads that may be moved: those that somebody else made real-time or idle are left alone."""
        for thread, now in self._seen(there):
            was = putback.inherited(thread, there, self._journal.known) if now.policy == RR else None
            if now.policy in FAIR or (was is not None and was.policy != RR):
                yield thread, now


def _own(now: Scheduling, base_ns: int) -> Scheduling:
    """How a thread is scheduled, a slice that is the machine's as none of its own."""
    return now._replace(slice_ns=0) if now.slice_ns == base_ns else now


def _native(name: str, value: int) -> int:
    """A knob's value as the kernel has it."""
    if name == knobs.POLICY:
        return _NUMBERS[value]
    return value * 1000 if name == knobs.SLICE else value


def _value(name: str, now: Scheduling) -> int:
    """A thread's value of a knob."""
    if name == knobs.POLICY:
        return _NUMBERS.index(now.policy) if now.policy in _NUMBERS else -1
    return now.nice if name == knobs.NICE else round(now.slice_ns / 1000)


def _hidden(name: str, now: Scheduling) -> bool:
    """Whether a thread does not show its value of a knob."""
    return name == knobs.SLICE and now.policy == RR
