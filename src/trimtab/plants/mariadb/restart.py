"""Settings that need a restart: a file of trimtab's own in MariaDB's configuration, and the restart by systemd.

MariaDB is restarted by the unit of systemd that runs it, and by nothing else: whoever else runs it (a container, a
script, an operator's shell) is not known to bring it back. Every connection is lost by it, and the buffer pool begins
empty. What was set live, by whomever, it forgets, so that is set again; by the next trimtab after a kill (`live`).
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from trimtab import own
from trimtab.core import Clock, give_up
from trimtab.errors import ApplyFailed, ApplyLater, ApplyRefused, PlantError, PlantGone, TrimtabError, UsageError
from trimtab.plants import _own_file
from trimtab.plants._program import ask
from trimtab.plants.mariadb import knobs
from trimtab.plants.mariadb.attached import Attached
from trimtab.plants.mariadb.live import Live
from trimtab.plants.mariadb.process import MariadbServer
from trimtab.trust import require_trusted

DIRECTORY = Path("/etc/mysql/mariadb.conf.d")
"""Included last by Debian's configuration."""
NAME = "zz-trimtab.cnf"
_UNIT = re.compile(r"/([\w@.\\:-]+\.service)$", re.MULTILINE)
_OPTION = re.compile(r"--(?:no-defaults\b|defaults-(?:extra-file|file|group-suffix)=[^\s\"';]+)")
_SUFFIX = "--defaults-group-suffix="
_WORD = re.compile(r"--[^\s\"';]+")
_STAYS_STOPPED = re.compile(r"--(?:loose-)?skip-(?:slave|replica)-start(?:=(\w+))?")
"""Has a replica that is started not replicate until somebody says so; no variable tells of it."""
_SET = re.compile(r"^(\w+) = (\S+)$", re.MULTILINE)
_PATIENCE_S = 1800.0
"""As long as Debian's unit gives MariaDB to end and to start together."""


@dataclass(frozen=True)
class Service:
    """The unit of systemd that runs a MariaDB.

    Args:
        unit: its name.
        systemctl: the program that restarts it.
        options: the unit's options on MariaDB's configuration, as for one of several instances; none as Debian ships
            it.
        words: all options that the unit's own lines have.
    """

    unit: str
    systemctl: str
    options: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @staticmethod
    def of(server: MariadbServer) -> Service:
        """The unit that runs a server.

        Raises:
            UsageError: none does, so that it cannot be restarted from here.
        """
        try:
            found = _UNIT.search(Path(f"/proc/{server.pid}/cgroup").read_text(encoding="ascii"))
        except OSError:
            found = None
        systemctl = own.program("systemctl")
        if found is None or systemctl is None:
            raise UsageError(f"{server} is run by no service of systemd, so it is not restarted from here")
        service = Service(found[1], systemctl)
        if service.main_pid() != server.pid:
            raise UsageError(f"{server} is not the main process of {service.unit}, so it is not restarted from here")
        started = service._asked("show", "--property=ExecStart", "--property=Environment", service.unit)
        options = tuple(dict.fromkeys(_OPTION.findall(started)))
        return replace(service, options=options, words=tuple(_WORD.findall(started)))

    def main_pid(self) -> int:
        """The process that the unit runs now; 0 for none."""
        said = self._asked("show", "--property=MainPID", "--value", self.unit).strip()
        return int(said) if said.isdigit() else 0

    def failed(self) -> bool:
        """Whether systemd has given up on it."""
        return self._asked("show", "--property=ActiveState", "--value", self.unit).strip() == "failed"

    def restart(self) -> None:
        """Begins to restart it: a server with much to write may take minutes to end.

        Raises:
            ApplyFailed: systemd refuses.
        """
        try:
            self._asked("restart", "--no-block", self.unit)
        except UsageError as error:
            raise ApplyFailed(str(error)) from None

    def _asked(self, *words: str) -> str:
        require_trusted(self.systemctl)
        answer = ask([self.systemctl, *words], {})
        if answer.returncode != 0:
            raise UsageError(f"systemctl {' '.join(words)}: {' '.join(answer.stderr.split())[-300:]}")
        return answer.stdout


@dataclass
class Restarts:
    """The knobs of one MariaDB that need a restart.

    Args:
        attached: the running MariaDB.
        service: the unit that restarts it.
        clock: for the wait until it answers.
        moved: called once another server has taken its place, before anything is set in that.
        before: what every knob that we have set live goes back to.
        live: where what a restart forgets is written down.
        others_held: has the servers in front hold requests back (`Plant.others_held`).
        directory: an included directory for trimtab's own file.

    Attributes:
        written: text that we have written in our file, or were about to; None for none.
        original: the text before.
        kept: what that sets where an earlier run has left it, which stays beside what this one sets.
        stale: whether MariaDB may have something else in force than our file says.
    """

    attached: Attached
    service: Service
    clock: Clock
    moved: Callable[[], None]
    before: Callable[[], Mapping[str, int]]
    live: Live
    others_held: Callable[[list[str]], contextlib.ExitStack]
    directory: Path = DIRECTORY
    written: str | None = field(default=None, init=False)
    original: str | None = field(default=None, init=False)
    kept: Mapping[str, str] = field(default_factory=dict, init=False)
    stale: bool = field(default=False, init=False)

    @property
    def path(self) -> Path:
        """Our file: of several instances that read the same directory each has its own, which comes after NAME."""
        suffix = _suffix(self.service.options).lstrip(".").replace("/", "_")
        return self.directory / (NAME.replace(".cnf", f"_{suffix}.cnf") if suffix else NAME)

    def permitted(self) -> None:
        """Makes sure that our file may be written.

        Raises:
            UsageError: it may not, or is not ours; the message says what is needed.
        """
        if not self.directory.is_dir():
            raise UsageError(
                f"{self.directory} is not there: name an included directory by --snippet-directory, such as "
                "/etc/my.cnf.d"
            )
        _own_file.writable(self.path, self.written)

    def require_harmless(self, back: bool = False) -> None:
        """Makes sure that a restart loses no data, and has a replica go on as it does now.

        Args:
            back: True for one that brings back what was there, to which no more matters than the data.

        Raises:
            UsageError: it does not.
            ApplyLater: the same of a way back.
            PlantError: it did not answer.
            PlantGone: it has ended.
        """
        if back:
            self.attached.require_tables_kept()
            return
        self.attached.require_data_kept()
        runs, stopped = self.attached.replicates()
        if not (runs or stopped):
            return
        # The last one counts, and the command line comes after the files.
        words = [word.lower().replace("_", "-") for word in (*self._defaults(), *self.service.words)]
        said = [found[1] for word in words if (found := _STAYS_STOPPED.fullmatch(word))]
        skips = bool(said) and said[-1] not in ("0", "off", "false")
        if runs and skips:
            raise UsageError("this replica has skip-slave-start and would stay stopped: tune without --allow-restart")
        if stopped and not skips:
            raise UsageError(
                "replication is stopped here, and a restart would start it: tune without --allow-restart, or write "
                "skip-slave-start in MariaDB's files"
            )

    def bring(self, values: Mapping[str, int]) -> tuple[str, ...]:
        """Writes our file, and restarts, or puts everything back.

        Args:
            values: knob to value, of all that our file is to set.

        Returns:
            What the user should know.

        Raises:
            ApplyRefused: MariaDB does not read our file; nothing changed.
            ApplyFailed: it did not take; what was before is restored.
        """
        notes: list[str] = []
        before, was = _own_file.read(self.path), self.written
        original = self.original if was is not None else before
        self.kept = self.kept if was is not None else self._left_in_force()
        words = {**self.kept} | {name: self.attached.word(name, value) for name, value in values.items()}
        lines = [f"[mariadbd{_suffix(self.service.options)}]", *(f"{n} = {v}" for n, v in words.items())]
        text = _own_file.compose("".join(f"{line}\n" for line in lines), original)
        self.written, self.original = text, original  # first: what cannot be put back below is by `put_back`
        try:
            _own_file.write(self.path, text)
            self.path.chmod(0o644)  # whatever the umask: MariaDB passes over a file that its own user may not read
            self._require_read(words)
            live, forgets, clients = self._to_set_again()
            held = self.others_held(notes)
        except BaseException as error:
            self._file_back(before, was, error)
            raise
        with held:
            try:
                self._restart(forgets)
                self._require_in_force(values)
            except ApplyLater as error:
                self._file_back(before, was, error)
                raise
            except BaseException as error:
                self._file_back(before, was, error)
                try:
                    self._restart(None)
                except (TrimtabError, OSError) as second:
                    give_up(error, str(error), [f"{second}; {self.path} is as it was"])
                self._set_again(live, clients)
                if isinstance(error, PlantGone):  # it is there again, without what it could not live with
                    raise ApplyFailed(str(error)) from error
                raise
            cost = self._set_again(live, clients)
        return (*cost, *notes)

    def put_back(self) -> tuple[str, ...]:
        """Puts back the text before our first change, and restarts; does nothing where we changed nothing.

        Raises:
            UsageError: somebody has edited our file, which is left alone, or it cannot be put back.
            OSError: it cannot be put back.
            ApplyLater: a backup is under way, or a table is in memory; nothing was put back.
            ApplyFailed: MariaDB did not come back.
        """
        if self.written is None and not self.stale:
            return ()
        with self._no_backup():
            self.require_harmless(back=True)
            self.stale = True
            self.put_file_back()
        return self.restart()

    def put_file_back(self) -> None:
        """Puts back the text before our first change, for the MariaDB that is started next.

        Raises:
            UsageError: somebody has edited our file, which is left alone, or it cannot be put back.
            OSError: it cannot be put back.
        """
        if self.written is None:
            return
        found = _own_file.read(self.path)
        if found not in (self.written, self.original):
            raise UsageError(_own_file.taken_over(self.path, found))
        if found != self.original:
            _own_file.write(self.path, self.original)
        self.written = None

    def successor(self) -> str:
        """What to add to the news that the server has ended where its unit has started another; empty for none."""
        old = self.attached.server
        try:
            found = MariadbServer.find(self.service.main_pid())
        except UsageError:
            return ""
        if (found.pid, found.started) == (old.pid, old.started):
            return ""
        unit = shlex.quote(self.service.unit)
        return (
            f"; {self.path} is as it was, but {found}, started meanwhile, may have read it before that: "
            f"'systemctl restart {unit}' brings what was before into force"
        )

    def left(self) -> dict[str, str]:
        """Variables that an earlier run's file sets, as MariaDB writes them; "" where it is gone and was read."""
        text = _own_file.read(self.path) if self.written is None else ""
        if text is None:
            return dict.fromkeys(self.attached.read_from(self.path.name), "")
        return dict(_SET.findall(text)) if _own_file.leftover(text) else {}

    def _left_in_force(self) -> dict[str, str]:
        """Those of them that are in force: what a run that was killed before its restart has left there is not.

        Raises:
            PlantError: MariaDB did not answer.
            PlantGone: it has ended.
        """
        left = self.left()
        now = self.attached.values() if left else {}
        words = {name: self.attached.word(name, now[name]) for name in left if name in now}
        return {name: word for name, word in left.items() if words.get(name) == word}

    def undo_left(self) -> None:
        """Sets again what earlier runs made MariaDB forget, removes their file, and restarts where that was read.

        What is in force need not be what the file says: a run, or an undo, may have been killed between the two.

        Raises:
            ApplyLater: it has to be restarted, and a backup is under way, or a table is in memory; the file stays.
            ApplyFailed: MariaDB did not come back, or does not take what was set before.
        """
        lost: ApplyFailed | None = None
        try:
            self.live.set_again(self.attached)
        except ApplyFailed as error:
            lost = error
        if self.left():
            read = self.attached.read_from(self.path.name)
            with self._no_backup() if read else contextlib.nullcontext():
                if read:
                    self.require_harmless(back=True)
                _own_file.write(self.path, _own_file.before_all(_own_file.read(self.path)))
            if read:
                self.restart()
        if lost is not None:
            raise lost

    def restart(self) -> tuple[str, ...]:
        """Restarts MariaDB, waits until it answers, and sets again what was set live.

        Returns:
            What the user should know.

        Raises:
            ApplyLater: a backup is under way; it was not restarted.
            ApplyFailed: it did not come back in time.
        """
        notes: list[str] = []
        live, forgets, clients = self._to_set_again()
        try:
            held = self.others_held(notes)
        except (TrimtabError, OSError) as error:  # no reason to leave what is to be put back
            held = contextlib.ExitStack()
            notes.append(f"no requests were held back meanwhile: {error}")
        with held:
            self._restart(forgets)
            cost = self._set_again(live, clients)
        return (*cost, *notes)

    def script(self) -> list[str]:
        """The lines of a shell script that undo our changes or an earlier run's; none where there are none."""
        text, again = _own_file.read(self.path), f"systemctl restart {shlex.quote(self.service.unit)}"
        before = self.original if self.written is not None else _own_file.before_all(text)
        return [] if text == before and not self.left() else [_own_file.put_back(self.path, before), again]

    def _to_set_again(self) -> tuple[Mapping[str, object], Mapping[str, object], int]:
        """What a restart would forget, the same as it was before us, and how many connections it would end."""
        # What an earlier restart has made it forget is set again too: what is written down takes its place.
        live = {**self.live.forgotten(self.attached), **self.attached.set_live()}
        before = {name: value for name, value in self.before().items() if name in live}
        return live, {**live, **before}, self.attached.clients()

    def _restart(self, forgets: Mapping[str, object] | None) -> None:
        """Restarts MariaDB, and talks to the new server as soon as that answers.

        Args:
            forgets: what is to be written down; None for at once, as what is in force may not serve.

        Raises:
            ApplyLater: a backup is under way; it was not asked to.
            ApplyFailed: it did not come back in time.
        """
        old = self.attached.server
        # A backup may have begun since the change was prepared.
        with contextlib.nullcontext() if forgets is None else self._no_backup(forgets):
            self.stale = True
            self.service.restart()
        began_s, unit = self.clock.now_s(), self.service.unit
        try:
            while not self._answers(old):
                if self.service.failed():
                    raise ApplyFailed(f"{unit} did not start: 'journalctl -u {unit}' says why")
                if self.clock.now_s() > began_s + _PATIENCE_S:
                    raise ApplyFailed(f"{unit} did not answer within {_PATIENCE_S:g} s of its restart")
                self.clock.sleep(0.1)
        finally:
            self.attached.held_s += self.clock.now_s() - began_s
        self.stale = False

    @contextlib.contextmanager
    def _no_backup(self, forgets: Mapping[str, object] | None = None) -> Iterator[None]:
        """No backup that a restart would end is under way meanwhile, and what one that begins then forgets is known.

        Of a MariaDB that has ended there is none.

        Raises:
            ApplyLater: one is, or it is not known; or nothing can be written down.
        """
        with contextlib.ExitStack() as stack:
            try:
                with contextlib.suppress(PlantGone):
                    stack.enter_context(self.attached.no_backup(knobs.AT_RESTART))
                if forgets is not None:
                    self.live.keep(self.attached.server, forgets)
            except TrimtabError as error:
                raise ApplyLater(str(error)) from error
            yield

    def _file_back(self, before: str | None, was: str | None, why: BaseException) -> None:
        """Puts back the text of our file before a change that did not take.

        Args:
            before: the text.
            was: the same where it was ours; else None.
            why: why the change did not take.

        Raises:
            ApplyFailed: it cannot.
        """
        try:
            if _own_file.read(self.path) != before:
                _own_file.write(self.path, before)
        except (TrimtabError, OSError) as error:
            self.stale = True
            give_up(why, str(why), [f"{self.path} could not be put back: {error}"])
        self.written = was

    def _answers(self, old: MariadbServer) -> bool:
        """Whether another server than the old one answers; then it is the one that we talk to."""
        try:
            found = MariadbServer.find(self.service.main_pid())
            if (found.pid, found.started) == (old.pid, old.started):
                return False
            self.attached.follow(found)
            self.attached.values()
        except (UsageError, PlantError):
            return False
        return True

    def _set_again(self, live: Mapping[str, object], clients: int) -> tuple[str, ...]:
        """Sets again the variables that the restart has forgotten; returns notes on its cost."""
        try:
            self.moved()
        finally:
            left = self.attached.set_again(live)
        with contextlib.suppress(UsageError):  # left there it does no harm: all in it has been set since
            self.live.settled()
        notes = [f"the restart ended {clients} connections, and the buffer pool begins empty"]
        if left:
            notes.append(f"could not set again what was set live: {', '.join(left)}")
        return tuple(notes)

    def _require_in_force(self, values: Mapping[str, int]) -> None:
        """Makes sure that the new server has these values.

        Raises:
            ApplyFailed: it has not.
        """
        now = self.attached.values()
        for name, value in values.items():
            if now[name] != value:
                raise ApplyFailed(f"{name} is {now[name]} after the restart, not {value}")

    def _require_read(self, values: Mapping[str, str]) -> None:
        """Makes sure that MariaDB would take our file's values, by its program's own account of what it reads.

        Raises:
            ApplyRefused: it would not.
        """
        pairs = (word.removeprefix("--").partition("=")[::2] for word in self._defaults())
        read = {name.replace("-", "_"): value for name, value in pairs}
        for name, value in values.items():
            if read.get(name) != value:
                raise ApplyRefused(
                    f"MariaDB would not read {name} = {value} from {self.path}: it is not included last"
                )

    def _defaults(self) -> list[str]:
        """The options that MariaDB would be started with, by its program's own account of the files that it reads."""
        exe = self.attached.server.exe
        require_trusted(exe)
        return ask([str(exe), *self.service.options, "--print-defaults"], {}).stdout.split()


def _suffix(options: Sequence[str]) -> str:
    """What ends the names of the groups that one of several instances alone reads; empty for none."""
    return next((one.removeprefix(_SUFFIX) for one in reversed(options) if one.startswith(_SUFFIX)), "")
