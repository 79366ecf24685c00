"""Sensor: requests that Apache answered with an error, by its access logs.

| reading        | from                                                                                              |
|----------------|---------------------------------------------------------------------------------------------------|
| error_rate_hz  | lines of the window with a status of 500 or more, of each virtual host's first log that has it    |

Statuses are found by the format that the configuration gives the log (LogFormat, or the format in CustomLog itself);
Apache escapes quotes and backslashes in what clients sent (`ap_escape_logitem`). A log that is a pipe, or whose
format has no status, tells nothing, and where no log does the reading is absent. Who may put a file in a log's place
does not matter: only what Apache's first process holds open is read, by its descriptor. What a log has grown by
beyond its last part is counted as that is. One that was put in the place of another, by logrotate, say, is read from
its start.

Source: https://httpd.apache.org/docs/2.4/mod/mod_log_config.html.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trimtab.core import Clock, Precedence, Readings
from trimtab.errors import NotMeasured, UsageError
from trimtab.plants.apache.configuration import Configuration
from trimtab.plants.apache.syntax import file_of
from trimtab.sensors._counter_window import CounterWindow
from trimtab.sensors._metrics import ERROR_RATE

_MOST_LOGS = 256
_MOST_BYTES, _LEAST_BYTES = 1 << 18, 1 << 12
"""Of all logs in a window, the last ones; and of each at least."""
_LEAST_ERROR = b"500"
_STATUS = r"(\d{3}|-)"
_PART = re.compile(
    r'"(?P<quoted>[^"]*)"|(?P<status>%[<>]?s)|(?P<stamp>%t)|(?P<time>%\{[^}]*\}t)'
    r"|(?P<word>(?:%[!\d,]*[<>]?(?:\{[^}]*\})?(?:\^[A-Za-z]{2}|(?!t)[A-Za-z]))+)|(?P<text>[^%\"])"
)
"""A part of a format; words without anything between them are one, as `%U%q`."""


File = tuple[int, int]
"""A file, by device and inode."""


@dataclass(frozen=True)
class Grown:
    """How far a log was at one moment.

    Args:
        file: which file that is.
        opens: the path that leads to it, whatever is at the log's own by now.
        size: its size, in bytes.
    """

    file: File
    opens: str
    size: int


class AccessLog(CounterWindow[Mapping[Path, Grown]]):
    """The access logs of one Apache.

    Args:
        configuration: gives what is on disk now.
        started: ServerRoot before any directive sets it.
        clock: the loop's clock.
        held: gives the files that Apache's first process holds open, each with a path that opens it.
    """

    name = "access-log"
    precedence = Precedence.STATUS_PAGE
    metrics = (ERROR_RATE,)

    def __init__(
        self,
        configuration: Callable[[], Configuration],
        started: Path,
        clock: Clock,
        held: Callable[[], Mapping[File, str]],
    ) -> None:
        super().__init__(clock)
        self._held = held
        self._configuration = configuration
        self._started = started
        self._read: Configuration | None = None
        self._formats: Mapping[Path, re.Pattern[bytes]] = {}

    def there(self) -> Mapping[Path, Grown]:
        """The logs to read, and how far each is.

        Raises:
            UsageError: the configuration cannot be read.
        """
        now = self._configuration()
        if now is not self._read:
            self._read, self._formats = now, logs(now, self._started)
        found, held = {}, self._held()
        for path in self._formats:
            with contextlib.suppress(OSError):
                seen = path.stat()
                file = seen.st_dev, seen.st_ino
                if file in held:
                    found[path] = Grown(file, held[file], seen.st_size)
        return found

    def state(self) -> Mapping[Path, Grown]:
        """How far each log is.

        Raises:
            NotMeasured: there is none.
        """
        try:
            found = self.there()
        except UsageError as error:
            raise NotMeasured(str(error)) from None
        if not found:
            raise NotMeasured("no access log is there that tells the status of a request")
        return found

    def differences(self, elapsed_s: float, first: Mapping[Path, Grown], last: Mapping[Path, Grown]) -> Readings:
        """The readings of the window.

        Raises:
            NotMeasured: a log cannot be read.
        """
        grown = []
        for path, now in last.items():
            before = first.get(path, now)  # of one that is new nothing is known
            began = before.size if before.file == now.file and before.size <= now.size else 0
            grown += [(path, now, began)] if began < now.size else []
        most = max(_LEAST_BYTES, _MOST_BYTES // max(1, len(grown)))
        failed = sum(_failed(self._formats[path], now, began, most) for path, now, began in grown)
        return {ERROR_RATE.name: failed / elapsed_s}


def _failed(status: re.Pattern[bytes], log: Grown, began: int, most: int) -> float:
    """Lines with an error in what a log has grown by, of which the last part is read.

    Raises:
        NotMeasured: it cannot be read.
    """
    start = max(began, log.size - most)
    try:
        fd = os.open(log.opens, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            seen = os.fstat(fd)
            text = os.pread(fd, log.size - start, start) if (seen.st_dev, seen.st_ino) == log.file else b""
        finally:
            os.close(fd)
    except OSError as error:
        raise NotMeasured(f"the access log cannot be read: {error.strerror}") from None
    lines = text.split(b"\n")[(start > began) : -1]  # the first one may be half a line, and the last one too
    told = [match[1] for match in map(status.match, lines) if match is not None]
    if lines and not told:
        raise NotMeasured("the access log is not in the format that the configuration gives it")
    failed = sum(1 for code in told if code >= _LEAST_ERROR)
    return failed * (log.size - began) / (log.size - start)


def logs(configuration: Configuration, started: Path) -> dict[Path, re.Pattern[bytes]]:
    """The logs that tell it, and what leads to the status in a line: of each virtual host the first that has it.

    Args:
        configuration: as it is on disk.
        started: ServerRoot before any directive sets it.
    """
    named = {one.args[1]: one.args[0] for one in configuration.named("logformat") if len(one.args) > 1}
    found: dict[str, tuple[Path, re.Pattern[bytes]]] = {}
    for one in configuration.named("customlog"):
        path = file_of(one, configuration.root(started))
        if path is None or one.args[0].startswith("|") or len(one.args) < 2 or one.section in found:
            continue
        status = leading_to_status(named.get(one.args[1], one.args[1]))
        if status is not None:
            found[one.section] = path, status
    of_paths = dict(found.values())
    return of_paths if len(of_paths) <= _MOST_LOGS else {}


def leading_to_status(log_format: str) -> re.Pattern[bytes] | None:
    """What a line of this format begins with, with its status as the only group; None where that cannot be told.

    No part can end in more than one place, so that a line takes no longer than its length whatever a client sent.

    Args:
        log_format: as LogFormat gives it, unquoted.
    """
    pattern, parts = "", list(_PART.finditer(log_format := log_format.replace(r"\t", "\t")))
    at = 0
    for part, then in zip(parts, (*parts[1:], None), strict=False):
        if part.start() != at:
            return None
        at = part.end()
        ends = "" if then is None or then.lastgroup not in ("text", "quoted") else re.escape(then[0][0])
        kind, inside = part.lastgroup, part["quoted"]
        if kind == "status" or inside in {"%s", "%>s", "%<s"}:
            return re.compile((pattern + (_STATUS if inside is None else f'"{_STATUS}"')).encode())
        if kind == "quoted" and "%" in inside:
            pattern += r'"(?:[^"\\\n]|\\.)*+"'
        elif kind == "stamp":
            pattern += r"\[[^]\n]*+\]"
        elif kind in ("time", "word"):
            pattern += rf"[^\n{ends}]*+" if kind == "time" else rf"[^\s{ends}]*+"
        else:
            pattern += re.escape(part[0])
    return None
