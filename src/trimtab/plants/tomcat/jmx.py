"""A conversation with the MBeans of a running Tomcat, through a small Java program with the rights of that Tomcat.

The program (`Jmx.java`) attaches to the JVM and speaks JMX; here it is started and asked. When trimtab is root, and
the Tomcat another user's, the program has that user and his group, sees the files that the Tomcat sees (Debian's has
a /tmp of its own), and has nothing of root's: whoever runs that JVM can reach nothing by it that is not his. What it
answers is believed to be numbers and names, within bounds, and no more.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from trimtab import codec
from trimtab.core import Clock
from trimtab.errors import NotMeasured, TrimtabError, UsageError
from trimtab.plants._vetted import require_here, same_network
from trimtab.plants.tomcat.java import ATTACHES, ENVIRONMENT, JVM, NEEDED, compiled, java
from trimtab.plants.tomcat.process import TomcatProcess
from trimtab.trust import printable

PATIENCE_S = 10.0
"""Patience for questions of the operator: a garbage collection or a full CPU share may take a while."""
_START_S = 60.0
_MOST_BYTES = 1 << 20
_CONNECT = 0
"""Number of the question that nobody asks: whether the program has connected."""
_LARGEST = 1 << 62
_UNRUN = 1
"""Java's exit code where it cannot run a program, which has then said nothing: a runtime may lack the compiler."""
_NOT_RUN = f"our program did not run: {NEEDED}"
_DEAF = ("/bin/sh", "-c", "trap '' TERM HUP INT; exec \"$@\"", "sh")
"""It ends with its input: who ends all, as systemd does, leaves trimtab time to put back. Older `env` cannot."""
Values = list[Mapping[str, int | str | None] | None]


class _Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"value": "is"}):
    """One line of the program.

    Args:
        id: number of the request that it answers; None for what nobody asked.
        ready: whether it has connected.
        value: what was asked for; nothing in it is known to be what it should.
        error: the server's words where it did not do it.
    """

    id: int | None = None
    ready: bool = False
    value: Any = None
    error: str | None = None


class Refused(TrimtabError):
    """The server refused an operation; the message carries its words."""


def identity(process: TomcatProcess, files: str | None = None) -> list[str]:
    """Command prefix that runs a command with the rights and files of a Tomcat; empty where we have them.

    Whoever has set up the files of a container would have us run what he likes, with more rights than he has.

    Args:
        process: the Tomcat.
        files: path of its mount namespace; None for the one in /proc.

    Raises:
        UsageError: it has the rights of several users, or is in a container or another network.
        PlantGone: it has ended.
    """
    require_here(process)
    same_network(process)
    if os.geteuid() != 0:
        return []
    user, groups = process.user, set(process.status("Gid").split())
    if user is None or len(groups) != 1:
        raise UsageError(f"{process} has the rights of several users: trimtab leaves it alone")
    group = groups.pop()
    if not process.shares("mnt"):
        # It clears the other groups too, and who leaves user 0 has no capabilities any more, nor gets any.
        enter = ["/usr/bin/setpriv", "--no-new-privs", "--", "/usr/bin/nsenter"]
        enter += [f"--mount={files or f'/proc/{process.pid}/ns/mnt'}"]
        return [*enter, "--setgid", group, "--setuid", str(user), "--"]
    if user == 0:
        return []
    drop = ["/usr/bin/setpriv", "--reuid", str(user), "--regid", group, "--clear-groups"]
    return [*drop, "--inh-caps=-all", "--no-new-privs", "--"]


class Jmx:
    """The conversation; ends with `close`.

    Args:
        process: the Tomcat.
        clock: for the waits.

    Raises:
        UsageError: it cannot be attached to; the message says what is needed.
        PlantGone: it has ended.
    """

    def __init__(self, process: TomcatProcess, clock: Clock) -> None:
        self.process = process
        self._clock = clock
        self._last = _CONNECT
        self._paused = set[str]()
        self._until_s = math.inf
        self._begin()

    def _begin(self) -> None:
        """Starts the program and waits until it has connected.

        Raises:
            UsageError, PlantGone: as for the class.
        """
        process, clock = self.process, self._clock
        self._buffer = self._unsent = b""
        # The questions that somebody waits for; a reply to another is not kept.
        self._replies: dict[int, _Reply | None] = {_CONNECT: None}
        process.attachable()
        self._client = self._start()
        assert self._client.stdin is not None
        # Whoever runs the JVM can stop the program, and a write that waits for it would wait for ever.
        os.set_blocking(self._client.stdin.fileno(), False)
        try:
            ready = self._awaited(_CONNECT, clock.now_s() + _START_S)
        except NotMeasured as error:
            self.close()
            process.check()
            why = _NOT_RUN if self._client.returncode == _UNRUN else str(error)
            raise UsageError(f"{process} cannot be attached to: {why}") from None
        if ready is None or ready.error is not None:
            self.close()
            process.check()
            said = "it does not answer" if ready is None else printable(str(ready.error))
            raise UsageError(f"{process} cannot be attached to: {said}")

    def revived(self) -> bool:
        """Starts the program anew where it has ended, as one that was killed has; whether that was so.

        Raises:
            UsageError, PlantGone: as for the class.
        """
        if self._client.poll() is None:
            return False
        self.close()
        self._begin()
        return True

    @contextlib.contextmanager
    def within(self, duration_s: float) -> Iterator[None]:
        """While it lasts, all answers together may take so long, and each no longer than ever."""
        self._until_s = self._clock.now_s() + duration_s
        try:
            yield
        finally:
            self._until_s = math.inf

    def read(self, beans: Mapping[str, Iterable[str]], patience_s: float = PATIENCE_S) -> Values:
        """Attributes of MBeans, None for an MBean that is not there.

        Args:
            beans: name of the MBean to the names of its attributes.
            patience_s: how long to wait.

        Raises:
            NotMeasured: no answer came.
            PlantGone: the server has ended.
        """
        return self.understood(beans, self.wait(self.ask_for(beans), patience_s))

    def names(self, *patterns: str) -> list[str]:
        """The names of the MBeans that fit one of these patterns.

        Raises:
            NotMeasured: no answer came.
            PlantGone: the server has ended.
        """
        found = self.wait(self._send("names", *patterns))
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            raise NotMeasured("the server's list of MBeans is none")
        # Names that do not fit into a line, or cannot be shown, are nobody's in earnest.
        return [name for name in found if name.isprintable()]

    def set(self, bean: str, attribute: str, value: int) -> None:
        """Sets an attribute of an MBean.

        Raises:
            Refused: the server did not.
            NotMeasured: no answer came.
            PlantGone: the server has ended.
        """
        self.wait(self._send("set", bean, attribute, str(value)))

    def call(self, *calls: tuple[str, str]) -> None:
        """Calls operations of MBeans that take nothing.

        They are called one after the other until one fails, and the last in any case, also where we are killed
        meanwhile.

        Args:
            calls: MBean and operation of each.

        Raises:
            Refused: the server did not.
            NotMeasured: no answer came.
            PlantGone: the server has ended.
        """
        self.wait(self._send("call", *(word for call in calls for word in call)))
        self._paused -= {bean for bean, operation in calls if operation in ("resume", "start")}

    def empty(self, pool: str) -> None:
        """Has a pool of DBCP close the JDBC connections that nobody has borrowed.

        Two of its settings are others for that moment, and are put back also where we are killed meanwhile.

        Args:
            pool: its MBean.

        Raises:
            Refused: the server did not.
            NotMeasured: no answer came.
            PlantGone: the server has ended.
        """
        self.wait(self._send("empty", pool))

    def pause(self, connector: str, endpoint: str, limit: int, requests: int) -> None:
        """Has a connector take no more connections; those that come wait, and none that it took is closed unserved.

        It is resumed, by the operation of that name, once the conversation ends, however it ends.

        Args:
            connector: its MBean.
            endpoint: the MBean of its ThreadPool.
            limit: its maxConnections, which is 0 until it is resumed.
            requests: its maxKeepAliveRequests, which is another meanwhile.

        Raises:
            Refused: the server did not.
            NotMeasured: no answer came.
            PlantGone: the server has ended.
        """
        self._paused.add(connector)
        self.wait(self._send("pause", connector, endpoint, str(limit), str(requests)))

    def ask_for(self, beans: Mapping[str, Iterable[str]]) -> int:
        """Asks for attributes of MBeans; the number of the question, for `arrived`.

        Raises:
            PlantGone: the server has ended.
            NotMeasured: the conversation has, or takes no more questions.
        """
        words = (word for bean, attributes in beans.items() for word in (bean, ",".join(attributes)))
        return self._send("read", *words)

    def arrived(self, number: int) -> Any:
        """The answer to a question if it has come, else None.

        Raises:
            Refused, NotMeasured, PlantGone: as in `wait`.
        """
        return self._answer(self._awaited(number, self._clock.now_s()))

    def wait(self, number: int, patience_s: float = PATIENCE_S) -> Any:
        """The answer to a question.

        Raises:
            Refused: the server refused what was asked.
            NotMeasured: no answer came.
            PlantGone: the server has ended.
        """
        patience_s = min(patience_s, max(0.0, self._until_s - self._clock.now_s()))
        reply = self._awaited(number, self._clock.now_s() + patience_s)
        if reply is None:
            self._replies.pop(number, None)
            self.process.check()
            raise NotMeasured(f"{self.process} did not answer within {patience_s:.3g} s")
        return self._answer(reply)

    @staticmethod
    def understood(beans: Mapping[str, Iterable[str]], found: Any) -> Values:
        """Values in an answer, for each MBean that was asked for.

        Raises:
            NotMeasured: it is not such an answer.
        """
        if not isinstance(found, list) or len(found) != len(beans):
            raise NotMeasured("the server's answer is not what was asked for")
        values: Values = []
        for attributes, row in zip(beans.values(), found, strict=True):
            names = list(attributes)
            if row is not None and (not isinstance(row, list) or len(row) != len(names)):
                raise NotMeasured("the server's answer is not what was asked for")
            values.append(None if row is None else {n: _plain(v) for n, v in zip(names, row, strict=True)})
        return values

    def close(self) -> None:
        """Ends the conversation; may be called twice.

        A program that has paused what it was not heard to resume is never killed: it resumes that once the server
        answers, and ends then.
        """
        client = self._client
        with contextlib.suppress(OSError):
            if client.stdin is not None:
                client.stdin.close()
        try:
            # It has the JVM close what it had it open.
            client.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            if not self._paused:
                client.kill()
                client.wait()
        if client.stdout is not None:
            client.stdout.close()

    def _start(self) -> subprocess.Popen[bytes]:
        """Starts the program; it is in memory, as others may not look where we are installed."""
        fd = os.memfd_create("trimtab-jmx")
        files = -1
        try:
            program = java(self.process)
            with open(fd, "wb", closefd=False) as jar:
                jar.write(compiled(program))
            # Open before it is asked whether this is still the process that we mean.
            files = os.open(f"/proc/{self.process.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            self.process.check()
            command = [*_DEAF, *identity(self.process, f"/proc/self/fd/{files}"), program, *JVM, ATTACHES]
            return subprocess.Popen(
                [*command, "-cp", f"/dev/fd/{fd}", "Jmx", str(self.process.pid)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=(fd, files),
                env=ENVIRONMENT,
                cwd="/",
                bufsize=0,
                # Ctrl-C in a terminal reaches trimtab alone, which still has something to put back.
                start_new_session=True,
            )
        except subprocess.SubprocessError:
            self.process.check()
            raise UsageError(f"{self.process} cannot be attached to: {_NOT_RUN}") from None
        except OSError as error:
            self.process.check()
            raise UsageError(f"cannot run java for {self.process}: {error}") from None
        finally:
            os.close(fd)
            if files >= 0:
                os.close(files)

    def _send(self, verb: str, *words: str) -> int:
        """Asks; what the program does not take at once is sent while its reply is awaited."""
        if len(self._unsent) > _MOST_BYTES:
            self.process.check()
            raise NotMeasured(f"{self.process} takes no more questions")
        self._last += 1
        self._unsent += ("\t".join((verb, str(self._last), *words)) + "\n").encode()
        self._push()
        self._replies[self._last] = None
        return self._last

    def _push(self) -> None:
        """Writes the questions that the program takes now, a short one whole or not at all (pipe(7), PIPE_BUF)."""
        assert self._client.stdin is not None
        try:
            while self._unsent:
                taken = self._client.stdin.write(self._unsent[: self._unsent.index(b"\n") + 1])
                if not taken:
                    return
                self._unsent = self._unsent[taken:]
        except (OSError, ValueError):
            raise self._ended() from None

    def _awaited(self, number: int, deadline_s: float) -> _Reply | None:
        """The reply to a question; None when it does not come in time, whatever else comes."""
        in_time = True
        try:
            while (reply := self._replies.get(number)) is None and in_time:
                in_time = self._exchanged(deadline_s)
        except NotMeasured:
            self._replies.pop(number, None)
            raise
        if reply is not None:
            del self._replies[number]
        return reply

    def _exchanged(self, deadline_s: float) -> bool:
        """Sends and reads once, whatever the time; whether something went or came, and before the deadline."""
        assert self._client.stdin is not None and self._client.stdout is not None
        unsent = [self._client.stdin] if self._unsent else []
        left_s = max(0.0, deadline_s - self._clock.now_s())
        readable, writable, _ = select.select([self._client.stdout], unsent, [], left_s)
        if writable:
            self._push()
        if readable:
            self._take(os.read(self._client.stdout.fileno(), 1 << 16))
        return bool(readable or writable) and self._clock.now_s() < deadline_s

    def _take(self, came: bytes) -> None:
        """Keeps replies to the questions that somebody waits for."""
        if not came or len(self._buffer) > _MOST_BYTES:
            raise self._ended()
        *lines, self._buffer = (self._buffer + came).split(b"\n")
        for reply in map(_parsed, lines):
            number = _CONNECT if reply.id is None else reply.id
            if number in self._replies:
                self._replies[number] = reply
            elif reply.id is None and reply.error is not None:
                raise self._ended()

    def _ended(self) -> NotMeasured:
        """Error for a conversation that has ended.

        Raises:
            PlantGone: the server has, too.
        """
        self.process.check()
        return NotMeasured(f"the conversation with {self.process} has ended")

    def _answer(self, reply: _Reply | None) -> Any:
        if reply is None:
            return None
        if reply.error is not None:
            self.process.check()
            raise Refused(printable(reply.error[:300]))
        return reply.value


def _parsed(line: bytes) -> _Reply:
    try:
        return codec.decode(line, _Reply)
    except ValueError:
        raise NotMeasured("the server's answer is not one") from None


def _plain(value: Any) -> int | str | None:
    """A number or a text of a stranger."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value if abs(value) < _LARGEST else None
    return printable(value) if isinstance(value, str) else None
