"""Journal of what is set and paused in a running Tomcat, with what was before, on disk before that is done.

What JMX sets is gone when the server ends, so a journal is of one process: its file is named by id and start time,
and one whose process has ended is taken away. It lasts from the first change to the undo, across runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from trimtab import own
from trimtab.plants import _journal
from trimtab.plants.tomcat.process import TomcatProcess
from trimtab.processes import boot_id


@dataclass(frozen=True)
class Entry:
    """One attribute of an MBean that was set.

    Args:
        bean: the MBean.
        attribute: its attribute.
        before: its value before the first change.
        ours: values that it may have from us: the last one set, and the one about to be.
    """

    bean: str
    attribute: str
    before: int
    ours: tuple[int, ...]


@dataclass(frozen=True)
class Paused:
    """A connector that is paused, or about to be.

    Args:
        connector: its MBean.
        endpoint: the MBean of its ThreadPool.
        limit: its maxConnections before.
        requests: its maxKeepAliveRequests before.
    """

    connector: str
    endpoint: str
    limit: int
    requests: int


@dataclass(frozen=True)
class Book:
    """The file's content.

    Args:
        boot: the boot of the process; ids mean nothing in another.
        entries: the settings made.
        paused: the connectors that were paused and are not known to serve again.
    """

    boot: str
    entries: tuple[Entry, ...] = ()
    paused: tuple[Paused, ...] = ()


class Journal:
    """The journal of one Tomcat.

    Args:
        process: the Tomcat.
        directory: where journals are; None for this user's own place.
    """

    def __init__(self, process: TomcatProcess, directory: Path | None = None) -> None:
        self._directory = directory or own.transient("tomcat")
        self._path = self._directory / f"{process.pid}-{process.started}.json"

    def check(self) -> None:
        """Makes sure that it can be kept.

        Raises:
            UsageError: others can change the directory, or it cannot be made.
        """
        _journal.make_directory(self._directory)
        self.tidy()

    def tidy(self) -> None:
        """Removes the journals of processes that have ended."""
        _journal.tidy(self._directory)

    def entries(self) -> tuple[Entry, ...]:
        """Settings made and not undone.

        Raises:
            UsageError: others can change it, or it is none.
        """
        return self._book().entries

    def paused(self) -> tuple[Paused, ...]:
        """Connectors that were paused and are not known to serve again.

        Raises:
            UsageError: as for `entries`.
        """
        return self._book().paused

    def pausing(self, one: Paused) -> None:
        """Journals a connector that is about to be paused.

        Raises:
            UsageError: it cannot be written.
        """
        self.check()
        book = self._book()
        self._write(replace(book, paused=(*_without(book.paused, one), one)))

    def resumed(self, one: Paused) -> None:
        """Journals that a connector serves again.

        Raises:
            UsageError: it cannot be written.
        """
        book = self._book()
        self._write(replace(book, paused=_without(book.paused, one)))

    def about_to(self, changes: Mapping[tuple[str, str], tuple[int, int]]) -> None:
        """Journals the values about to be set.

        Args:
            changes: MBean and attribute to what is in force, and what is to be.

        Raises:
            UsageError: it cannot be written.
        """
        self.check()
        book = self._book()
        known = {(one.bean, one.attribute): one for one in book.entries}
        for (bean, attribute), (now, then) in changes.items():
            # An undo goes back to the operator's value in between.
            old = known.get((bean, attribute))
            before = old.before if old is not None and now in old.ours else now
            known[bean, attribute] = Entry(bean, attribute, before, (now, then))
        self._write(replace(book, entries=tuple(known.values())))

    def settled(self, values: Mapping[tuple[str, str], int | None]) -> None:
        """Journals the result; attributes that have their first value again are dropped.

        Args:
            values: MBean and attribute to what is in force; None for what is not there any more.
        """
        left, book = [], self._book()
        for one in book.entries:
            value = values.get((one.bean, one.attribute), one.ours[-1])
            if value is not None and value != one.before:
                left.append(replace(one, ours=(value,)) if value in one.ours else one)
        self._write(replace(book, entries=tuple(left)))

    def _book(self) -> Book:
        book = _journal.read(self._path, Book, ": restart Tomcat, then remove it")
        return Book(boot_id()) if book is None or book.boot != boot_id() else book

    def _write(self, book: Book) -> None:
        _journal.write(self._path, book if book.entries or book.paused else None)


def _without(paused: tuple[Paused, ...], one: Paused) -> tuple[Paused, ...]:
    return tuple(other for other in paused if other.connector != one.connector)
