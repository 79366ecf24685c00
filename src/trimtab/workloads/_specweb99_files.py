"""The files of SPECweb99: directories of 36, their sizes, and how often each is asked for.

From the published description of the benchmark (Standard Performance Evaluation Corporation, 1999):

    class c, file n of 0 to 8: (n + 1) x 0.1, 1, 10, 100 KB for c = 0 to 3
    popularity of a directory: Zipf, the one of rank r is asked for in proportion to 1 / r
    popularity within a class: `WITHIN_CLASS`, Zipf again, with file 4 as the first

and from sugiki2005, Table 2: how often each class is asked for in its two loads, `SHARES`.

Departures from the benchmark
- It sizes the set by the load: 3.6 GB in sugiki2005, on a server with 512 MB, so some of its files came from a disk.
  Here the number of directories is an option and small, so that all of it stays in the page cache: what is looked at
  is the keep-alive time. Zipf's law brings half of the requests to the first few directories in any case.
- A tenth of a KB is rounded to whole bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from trimtab.workloads._population import Url, required

WITHIN_CLASS = (0.039, 0.059, 0.088, 0.177, 0.353, 0.118, 0.071, 0.050, 0.044)
"""Share of a class's requests for its files 0 to 8."""


class Mix(StrEnum):
    """The loads of sugiki2005, Table 2."""

    STANDARD = "standard"
    LARGE = "large"


SHARES = {Mix.STANDARD: (0.35, 0.50, 0.14, 0.01), Mix.LARGE: (0.01, 0.14, 0.50, 0.35)}
"""Share of the requests for each class."""


@dataclass(frozen=True)
class File:
    """One static file.

    Args:
        path: its URL path.
        size_bytes: its length.
        weight: its share of the requests, in proportion.
    """

    path: str
    size_bytes: int
    weight: float


@dataclass(frozen=True)
class SpecFileSet:
    """A set of directories.

    Args:
        directories: how many; each takes 5 MB.
        mix: how often each class is asked for.

    Raises:
        UsageError: a value is outside what is allowed.
    """

    directories: int = 20
    mix: Mix = Mix.STANDARD

    def __post_init__(self) -> None:
        required(1 <= self.directories <= 1000, "directories", self.directories, "1 to 1000")

    def files(self) -> Iterator[File]:
        """Every file, the most popular directory first."""
        for directory in range(self.directories):
            for kind, share in enumerate(SHARES[self.mix]):
                for number, within in enumerate(WITHIN_CLASS):
                    weight = share * within / (directory + 1)
                    yield File(path(directory, kind, number), size_bytes(kind, number), weight)

    @property
    def urls(self) -> tuple[Url, ...]:
        """The files as a mix of URLs."""
        return tuple(Url(file.path, file.weight) for file in self.files())


def size_bytes(kind: int, number: int) -> int:
    """Length of a file.

    Args:
        kind: its class, 0 to 3.
        number: its number in the class, 0 to 8.
    """
    return round((number + 1) * 102.4 * (1, 10, 100, 1000)[kind])


def path(directory: int, kind: int, number: int) -> str:
    """URL path of a file; all from 0."""
    return f"/file_set/dir{directory:05d}/class{kind}_{number}"
