"""The rows of the bookstore's tables, the same for the same numbers and seed on every machine.

Cardinalities, lengths and ranges are TPC-W's, version 1.8; dates count back from a fixed day, not from today.

The latest orders are small, as those of browsers are (`LATEST`). The specification has three lines in each order,
and browsers buy a book or two at a time. Best sellers, the dearest page of all, are asked of the latest 3333 orders:
with three lines in each they take three times the work, 15 ms in place of 5, and become cheaper through the first
minutes of any run, so that whatever is tried late looks better than what is tried early.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import UsageError
from trimtab.testbed.bookstore.words import Words, digsyl

SUBJECTS = (
    *("ARTS", "BIOGRAPHIES", "BUSINESS", "CHILDREN", "COMPUTERS", "COOKING", "HEALTH", "HISTORY", "HOME", "HUMOR"),
    *("LITERATURE", "MYSTERY", "NON-FICTION", "PARENTING", "POLITICS", "REFERENCE", "RELIGION", "ROMANCE"),
    *("SELF-HELP", "SCIENCE-NATURE", "SCIENCE-FICTION", "SPORTS", "YOUTH", "TRAVEL"),
)
BACKINGS = ("HARDBACK", "PAPERBACK", "USED", "AUDIO", "LIMITED-EDITION")
SHIPPING = ("AIR", "UPS", "FEDEX", "SHIP", "COURIER", "MAIL")
STATUS = ("PROCESSING", "SHIPPED", "PENDING", "DENIED")
CARDS = ("VISA", "MASTERCARD", "DISCOVER", "DINERS", "AMEX")
COUNTRIES = tuple((Path(__file__).parent / "countries.txt").read_text(encoding="utf-8").splitlines())
CUSTOMERS_PER_BROWSER = 2880
DAY = datetime.date(2026, 1, 1)
"""The population's today."""
LATEST = 10_000
"""Orders that pages look back on at most, and a third of all where there are fewer than three times as many."""
_SECOND_LINE = 0.2
"""Share of these with a second line: browsers' orders had 1.0 lines in the mean under the ordering mix, 1.2 under
browsing and 1.4 under shopping."""
_CHUNK = 20_000
_TAX_PER_10000 = 825
_SHIPPING_BASE_CENTS, _SHIPPING_PER_LINE_CENTS = 300, 100
_MOST_BROWSERS, _LEAST_ITEMS, _MOST_ITEMS = 1_000, 50, 100_000
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class _Orders:
    """Columns that orders, order_line and cc_xacts have in common: days back from today, and cents."""

    lines: Integers
    age_days: Integers
    ship_days: Integers
    sub_total: Integers
    tax: Integers
    total: Integers


@dataclass(frozen=True)
class Population:
    """The rows of all tables.

    Args:
        items: books, 50 to 100,000; the specification has 1000, 10,000 and more.
        browsers: emulated browsers it is for, each with 2880 customers; 1 to 1000.
        seed: seed of everything that is random.

    Raises:
        UsageError: a number is out of its range.
    """

    items: int
    browsers: int
    seed: int = 1

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("items", self.items, _LEAST_ITEMS, _MOST_ITEMS),
            ("browsers", self.browsers, 1, _MOST_BROWSERS),
        ):
            if not least <= value <= most:
                raise UsageError(f"{name} = {value}: {least} to {most} are allowed")

    @property
    def customers(self) -> int:
        """Rows of customer."""
        return CUSTOMERS_PER_BROWSER * self.browsers

    @property
    def authors(self) -> int:
        """Rows of author."""
        return self.items // 4

    @property
    def orders(self) -> int:
        """Rows of orders."""
        return self.customers * 9 // 10

    @property
    def latest(self) -> int:
        """Rows of orders, the last ones, that are as browsers make them."""
        return min(LATEST, self.orders // 3)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that hold something, in an order in which nothing points ahead."""
        return ("country", "address", "author", "customer", "item", "orders", "order_line", "cc_xacts")

    def rows(self, table: str) -> Iterator[str]:
        """The rows of a table as lines of columns with tabs between, in the order of the schema."""
        made: Iterator[str] = getattr(self, f"_{table}")(*self._random(table))
        return made

    def _random(self, stream: str) -> tuple[np.random.Generator, Words]:
        rng = np.random.default_rng([self.seed, *stream.encode()])
        return rng, Words(rng)

    def _country(self, rng: np.random.Generator, words: Words) -> Iterator[str]:
        del rng, words
        return (f"{number}\t{name}\n" for number, name in enumerate(COUNTRIES, 1))

    def _address(self, rng: np.random.Generator, words: Words) -> Iterator[str]:
        for first, n in _chunks(2 * self.customers):
            columns = (
                *(words.texts(n, 15, 40), words.texts(n, 15, 40), words.names(n, 4, 30), words.names(n, 2, 20)),
                *(words.digits(n, 5, 10), _whole(rng, 1, len(COUNTRIES), n)),
            )
            for number, row in enumerate(zip(*columns, strict=True), first):
                yield f"{number}\t" + "\t".join(map(str, row)) + "\n"

    def _author(self, rng: np.random.Generator, words: Words) -> Iterator[str]:
        n, days = self.authors, _days(datetime.date(1800, 1, 1), datetime.date(1990, 12, 31))
        columns = (
            *(words.names(n, 3, 20), words.names(n, 1, 20), words.names(n, 2, 6)),
            *(_picked(rng, days, n), words.texts(n, 125, 500)),
        )
        for number, (first, middle, tail, born, life) in enumerate(zip(*columns, strict=True), 1):
            last = digsyl((number - 1) % (self.items // 10 + 1), 7) + tail
            yield f"{number}\t{first}\t{middle}\t{last}\t{born}\t{life}\n"

    def _customer(self, rng: np.random.Generator, words: Words) -> Iterator[str]:
        births, lately = _days(datetime.date(1880, 1, 1), datetime.date(2000, 12, 31)), _back(730)
        for first, n in _chunks(self.customers):
            since, later = rng.integers(1, 731, n), rng.integers(0, 61, n)
            columns = (
                *(words.names(n, 8, 15), words.names(n, 8, 15), _whole(rng, 1, 2 * self.customers, n)),
                *(
                    words.digits(n, 9, 16),
                    words.names(n, 2, 9),
                    since.tolist(),
                    np.maximum(since - later, 0).tolist(),
                ),
                *(
                    _whole(rng, 0, 50, n),
                    _whole(rng, 0, 99_999, n),
                    _picked(rng, births, n),
                    words.texts(n, 100, 500),
                ),
            )
            for c, row in enumerate(zip(*columns, strict=True), first):
                given, family, address, phone, host, joined, seen, discount, paid, born, data = row
                user = digsyl(c)
                yield (
                    f"{c}\t{user}\t{user.lower()}\t{given}\t{family}\t{address}\t{phone}\t{user}@{host}.com\t"
                    f"{lately[joined]}\t{lately[seen]}\t{DAY} 00:00:00\t{DAY} 02:00:00\t{_cents(discount)}\t0.00\t"
                    f"{_cents(paid)}\t{born}\t{data}\n"
                )

    def _item(self, rng: np.random.Generator, words: Words) -> Iterator[str]:
        n, first = self.items, datetime.date(1930, 1, 1)
        days = _days(first, datetime.date(2001, 1, 31))
        published = rng.integers(0, (datetime.date(2000, 12, 31) - first).days + 1, n)
        srp = rng.integers(100, 100_000, n)
        ids = np.arange(n)
        # Steps that add up to less than n lead to five different items, none of them the same one.
        related = ((ids[:, None] + np.cumsum(rng.integers(1, (n - 1) // 5 + 1, (n, 5)), axis=1)) % n + 1).tolist()
        columns = (
            *(words.texts(n, 0, 45), words.texts(n, 14, 60), _picked(rng, SUBJECTS, n), words.texts(n, 100, 500)),
            *(published.tolist(), rng.integers(1, 31, n).tolist(), srp.tolist()),
            *(np.maximum(1, np.round(srp * (1 - rng.uniform(0, 0.5, n)))).astype(np.int64).tolist(),),
            *(_whole(rng, 10, 30, n), words.digits(n, 13, 13), _whole(rng, 20, 9999, n), _picked(rng, BACKINGS, n)),
            *(rng.integers(1, 10_000, (n, 3)).tolist(), rng.integers(1, self.authors + 1, n).tolist(), related),
        )
        for i, row in enumerate(zip(*columns, strict=True), 1):
            (
                tail,
                house,
                subject,
                text,
                day,
                wait,
                list_price,
                cost,
                stock,
                isbn,
                pages,
                backing,
                size,
                author,
                near,
            ) = row
            title = f"{digsyl((i - 1) % (n // 5 + 1), 7)} {tail}".rstrip()
            yield (
                f"{i}\t{title}\t{i if i <= self.authors else author}\t{days[day]}\t{house}\t{subject}\t{text}\t"
                + "\t".join(map(str, near))
                + f"\tthumb/{i}.png\titem/{i}.png\t{_cents(list_price)}\t{_cents(cost)}\t{days[day + wait]}\t"
                f"{stock}\t{isbn}\t{pages}\t{backing}\t{'x'.join(map(_cents, size))}\n"
            )

    def _orders(self, rng: np.random.Generator, words: Words) -> Iterator[str]:
        del words
        every, lately, addresses = self._sums, _back(60, ahead=7), 2 * self.customers
        for first, n in _chunks(self.orders):
            part = slice(first - 1, first - 1 + n)
            columns = (
                *(_whole(rng, 1, self.customers, n), every.age_days[part].tolist(), every.ship_days[part].tolist()),
                *(every.sub_total[part].tolist(), every.tax[part].tolist(), every.total[part].tolist()),
                *(_picked(rng, SHIPPING, n), _whole(rng, 1, addresses, n), _whole(rng, 1, addresses, n)),
                _picked(rng, STATUS, n),
            )
            for o, row in enumerate(zip(*columns, strict=True), first):
                customer, age, wait, net, tax, total, way, billed, sent, status = row
                yield (
                    f"{o}\t{customer}\t{lately[age]}\t{_cents(net)}\t{_cents(tax)}\t{_cents(total)}\t{way}\t"
                    f"{lately[age - wait]}\t{billed}\t{sent}\t{status}\n"
                )

    def _order_line(self, rng: np.random.Generator, words: Words) -> Iterator[str]:
        for first, n in _chunks(self.orders):
            lines = self._sums.lines[first - 1 : first - 1 + n]
            total = int(lines.sum())
            owners = np.repeat(np.arange(first, first + n), lines)
            starts = np.repeat(np.cumsum(lines) - lines, lines)
            items = _whole(rng, 1, self.items, total)
            copies = np.where(owners > self.orders - self.latest, 1, rng.integers(1, 301, total))
            columns = (
                *(owners.tolist(), (np.arange(total) - starts + 1).tolist(), items),
                *(copies.tolist(), _whole(rng, 0, 30, total), words.texts(total, 20, 100)),
            )
            for o, number, item, quantity, discount, note in zip(*columns, strict=True):
                yield f"{o}\t{number}\t{item}\t{quantity}\t{_cents(discount)}\t{note}\n"

    def _cc_xacts(self, rng: np.random.Generator, words: Words) -> Iterator[str]:
        every, lately = self._sums, _back(60, ahead=7)
        expiry = _days(DAY + datetime.timedelta(days=10), DAY + datetime.timedelta(days=730))
        for first, n in _chunks(self.orders):
            part = slice(first - 1, first - 1 + n)
            columns = (
                *(_picked(rng, CARDS, n), words.digits(n, 16, 16), words.texts(n, 14, 30), _picked(rng, expiry, n)),
                *(words.names(n, 15, 15), every.total[part].tolist()),
                *((every.age_days[part] - every.ship_days[part]).tolist(), _whole(rng, 1, len(COUNTRIES), n)),
            )
            for o, (kind, number, name, until, auth, total, day, country) in enumerate(
                zip(*columns, strict=True), first
            ):
                yield f"{o}\t{kind}\t{number}\t{name}\t{until}\t{auth}\t{_cents(total)}\t{lately[day]}\t{country}\n"

    @cached_property
    def _sums(self) -> _Orders:
        rng, _ = self._random("sums")
        n = self.orders
        lines, net = rng.integers(1, 6, n), rng.integers(1_000, 1_000_000, n)
        tax = (net * _TAX_PER_10000 + 5_000) // 10_000
        ages_days, ships_days = rng.integers(1, 61, n), rng.integers(0, 8, n)
        lines[n - self.latest :] = 1 + (rng.random(self.latest) < _SECOND_LINE)
        total = net + tax + _SHIPPING_BASE_CENTS + _SHIPPING_PER_LINE_CENTS * lines
        return _Orders(lines, ages_days, ships_days, net, tax, total)


def _chunks(rows: int) -> Iterator[tuple[int, int]]:
    """The first id and the number of rows of each part of a table."""
    return ((first, min(_CHUNK, rows - first + 1)) for first in range(1, rows + 1, _CHUNK))


def _whole(rng: np.random.Generator, least: int, most: int, n: int) -> list[int]:
    found: list[int] = rng.integers(least, most + 1, n).tolist()
    return found


def _picked(rng: np.random.Generator, values: Sequence[str], n: int) -> list[str]:
    return [values[i] for i in rng.integers(0, len(values), n).tolist()]


def _days(first: datetime.date, last: datetime.date) -> list[str]:
    return [str(datetime.date.fromordinal(day)) for day in range(first.toordinal(), last.toordinal() + 1)]


def _back(most: int, ahead: int = 0) -> dict[int, str]:
    """Days by how many of them ago they are; those ahead have negative numbers."""
    return {ago: str(DAY - datetime.timedelta(days=ago)) for ago in itertools.chain(range(-ahead, most + 1))}


def _cents(amount: int) -> str:
    return f"{amount // 100}.{amount % 100:02d}"
