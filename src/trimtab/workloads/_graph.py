"""A site as its visitors' browsers walk it: the Python side of the wire's `graph` messages.

A graph has pages; a page has the ways in which it is asked for and thresholds, from which the next page follows. What
a request carries are values: fixed, drawn, remembered by the session, from a cookie, or taken from the page before,
where an attribute such as `data-item="7"` marks it. Nothing here knows a particular site, or who plays the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from trimtab.errors import UsageError
from trimtab.workloads._distribution import Distribution
from trimtab.workloads._tagged import Tagged


class Text(Tagged, frozen=True):
    """Always the same text."""

    text: str


class OneOf(Tagged, frozen=True):
    """One of several texts, all equally likely."""

    texts: tuple[str, ...]


class Uniform(Tagged, frozen=True):
    """A whole number, uniform from low to high; with decimal places 1234 is 12.34.

    Args:
        low: least.
        high: greatest.
        places: decimal places.
    """

    low: int
    high: int
    places: int = 0


class NuRand(Tagged, frozen=True):
    """A skewed number: ((uniform(0, a) | uniform(low, high)) % (high - low + 1)) + low, as TPC has it.

    Args:
        a: which bits are skewed.
        low: least.
        high: greatest.
    """

    a: int
    low: int
    high: int


class Letters(Tagged, frozen=True):
    """Random letters, from least to most of them."""

    least: int
    most: int


class Digits(Tagged, frozen=True):
    """Random digits, from least to most of them."""

    least: int
    most: int


class Date(Tagged, frozen=True):
    """A day, uniform, as YYYY-MM-DD.

    Args:
        first_day: first, in days since 1970-01-01.
        last_day: last.
    """

    first_day: int
    last_day: int

    @classmethod
    def between(cls, first: date, last: date) -> Date:
        """The days from one to another."""
        epoch = date(1970, 1, 1)
        return cls((first - epoch).days, (last - epoch).days)


class Remembered(Tagged, frozen=True):
    """Value that the session remembers under a name; empty where it remembers nothing."""

    name: str


class Cookie(Tagged, frozen=True):
    """The value of the cookie of this name; empty where there is none."""

    name: str


class Marked(Tagged, frozen=True):
    """One of the values that `marker="..."` has on the page before, all equally likely.

    Args:
        marker: name of the attribute, in lower case.
        otherwise: the value where the page has none.
    """

    marker: str
    otherwise: Value


class Joined(Tagged, frozen=True):
    """Several values, one after the other."""

    parts: tuple[Value, ...]


class Syllables(Tagged, frozen=True):
    """A number's decimal digits as syllables; other text stays as it is.

    Args:
        of: the number.
        syllables: the syllables of the ten digits.
        width: digits at least, filled with zeros from the left.
        lower: in lower case.
    """

    of: Value
    syllables: tuple[str, ...]
    width: int = 0
    lower: bool = False


Value = Text | OneOf | Uniform | NuRand | Letters | Digits | Date | Remembered | Cookie | Marked | Joined | Syllables


class First(Tagged, frozen=True):
    """Holds on the session's first page."""


class After(Tagged, frozen=True):
    """The page before was this one."""

    page: str


class Remembers(Tagged, frozen=True):
    """The session remembers something under this name."""

    name: str


class HasCookie(Tagged, frozen=True):
    """Holds where there is a cookie of this name."""

    name: str


class HasMarker(Tagged, frozen=True, tag="marked"):
    """The page before has this attribute."""

    marker: str


class Chance(Tagged, frozen=True):
    """Holds by chance, with this probability."""

    ratio: float


Condition = First | After | Remembers | HasCookie | HasMarker | Chance


class Method(StrEnum):
    """How a page is asked for: fields in the query, or in a form."""

    GET = "GET"
    POST = "POST"


class One(Tagged, frozen=True):
    """A field of a query or form."""

    name: str
    value: Value


class Rows(Tagged, frozen=True):
    """The rows of a table on the page before, of which some get another number: of each its key and its number.

    Args:
        key: name of the key's field.
        key_marker: marker of the keys.
        number: name of the number's field.
        number_marker: marker of the numbers, in the order of the keys.
        only: least and greatest new number of an only row.
        several: least and greatest new number of each of 1 to n rows, another than it has.
    """

    key: str
    key_marker: str
    number: str
    number_marker: str
    only: tuple[int, int]
    several: tuple[int, int]


@dataclass(frozen=True)
class Memory:
    """A value that a session remembers.

    Args:
        name: name under which it is remembered.
        value: the value.
        ratio: probability that it does.
    """

    name: str
    value: Value
    ratio: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One way to ask for a page.

    Args:
        path: path without a query.
        when: all must hold; the first request of a page of which they do is sent.
        remember: remembered before the fields are filled in.
        method: GET or POST.
        fields: query or form.
    """

    path: str
    when: tuple[Condition, ...] = ()
    remember: tuple[Memory, ...] = ()
    method: Method = Method.GET
    fields: tuple[One | Rows, ...] = ()


@dataclass(frozen=True)
class Page:
    """One page.

    Args:
        name: its name.
        asks: how it is asked for; the last one has no conditions.
        thresholds: transitions: a draw of 1 to the last threshold goes to the first page, in the order
            of the pages, whose threshold is at least the draw; 0 is never.
    """

    name: str
    asks: tuple[Ask, ...]
    thresholds: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A site and how it is walked.

    Args:
        pages: the pages.
        start: name of the page on which a session begins.
        session_s: after so many seconds a session ends at the next move to the start page, where the next one begins.
        first_click_s: a user's first click comes after least to greatest seconds, uniform.
        memories: values that a session remembers from its start.
        name_marker: attribute of a page that holds its name; a page with another one, or none, has failed. None: not
            looked at.
        image_connections: most connections at once for the images of a page.
    """

    pages: tuple[Page, ...]
    start: str
    session_s: Distribution
    first_click_s: tuple[float, float] = (0.0, 0.0)
    memories: tuple[Memory, ...] = ()
    name_marker: str | None = None
    image_connections: int = 4

    def __post_init__(self) -> None:
        names = [page.name for page in self.pages]
        if self.start not in names:
            raise UsageError(f"start page {self.start!r} is not one of the graph's: {', '.join(names)}")
        for page in self.pages:
            used = [t for t in page.thresholds if t]
            if len(page.thresholds) != len(names) or not used or used != sorted(set(used)):
                raise UsageError(f"thresholds of {page.name} must be {len(names)}, rising where they are not 0")
            if not page.asks or page.asks[-1].when:
                raise UsageError(f"the last request of {page.name} must be without conditions")
