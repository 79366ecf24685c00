"""The population: TPC-W's numbers of rows and ranges, and the same rows each time."""

from __future__ import annotations

import hashlib
from collections import Counter
from decimal import Decimal

import pytest

from trimtab.errors import UsageError
from trimtab.testbed.bookstore.population import COUNTRIES, SUBJECTS, Population
from trimtab.testbed.bookstore.words import digsyl

SMALL = Population(items=1000, browsers=1)


def table(name: str, population: Population = SMALL) -> list[list[str]]:
    return [row.rstrip("\n").split("\t") for row in population.rows(name)]


@pytest.mark.parametrize(
    ("name", "rows"),
    [("country", 92), ("address", 5760), ("author", 250), ("customer", 2880), ("item", 1000), ("orders", 2592)],
)
def test_a_table_has_the_rows_of_the_specification(name: str, rows: int) -> None:
    assert [int(row[0]) for row in table(name)] == list(range(1, rows + 1))


def test_the_same_numbers_give_the_same_rows_and_another_seed_gives_others() -> None:
    def digest(population: Population, name: str) -> str:
        return hashlib.sha256("".join(population.rows(name)).encode()).hexdigest()

    for name in SMALL.tables:
        assert digest(SMALL, name) == digest(Population(items=1000, browsers=1), name)
    assert digest(SMALL, "item") != digest(Population(items=1000, browsers=1, seed=2), "item")


def test_an_order_has_one_to_five_lines_and_costs_what_tax_and_shipping_say() -> None:
    lines = Counter(int(row[0]) for row in table("order_line"))
    assert set(lines.values()) == {1, 2, 3, 4, 5}
    assert set(lines) == set(range(1, SMALL.orders + 1))
    for row in table("orders"):
        net, tax, total = map(Decimal, row[3:6])
        assert tax == (net * Decimal("0.0825")).quantize(Decimal("0.01"), "ROUND_HALF_UP")
        assert total == net + tax + 3 + lines[int(row[0])]


def test_the_latest_orders_are_as_small_as_those_of_browsers() -> None:
    rows = table("order_line")
    old = [row for row in rows if int(row[0]) <= SMALL.orders - SMALL.latest]
    new = [row for row in rows if int(row[0]) > SMALL.orders - SMALL.latest]
    assert SMALL.latest == 864 and Population(items=10_000, browsers=100).latest == 10_000
    assert len(old) / (SMALL.orders - SMALL.latest) == pytest.approx(3, abs=0.15)
    assert len(new) / SMALL.latest == pytest.approx(1.2, abs=0.05)
    assert {int(row[3]) for row in new} == {1} and max(int(row[3]) for row in old) == 300


def test_what_points_at_a_row_points_at_one_that_there_is() -> None:
    customers, addresses, items = SMALL.customers, 2 * SMALL.customers, SMALL.items
    assert all(1 <= int(row[5]) <= addresses for row in table("customer"))
    assert all(1 <= int(row[1]) <= customers and 1 <= int(row[8]) <= addresses for row in table("orders"))
    assert all(1 <= int(row[2]) <= items for row in table("order_line"))
    assert {int(row[2]) for row in table("item")} == set(range(1, SMALL.authors + 1))
    for row in table("item"):
        related = set(map(int, row[7:12]))
        assert len(related) == 5 and int(row[0]) not in related and related <= set(range(1, items + 1))


def test_every_search_that_a_browser_may_make_finds_a_title_and_an_author() -> None:
    titles, names = [row[1] for row in table("item")], [row[3] for row in table("author")]
    for k in range(SMALL.items // 5 + 1):
        assert any(title.startswith(digsyl(k, 7)) for title in titles)
    for k in range(SMALL.items // 10 + 1):
        assert any(name.startswith(digsyl(k, 7)) for name in names)
    assert {row[5] for row in table("item")} == set(SUBJECTS)


def test_a_text_keeps_its_length_and_fits_its_column() -> None:
    for row in table("item"):
        assert 14 <= len(row[1]) <= 60 and 100 <= len(row[6]) <= 500 and len(row[18]) == 13
        assert (
            Decimal("0.01") <= Decimal(row[15]) <= Decimal(row[14]) <= Decimal("999.99") and 10 <= int(row[17]) <= 30
        )
    for row in table("customer"):
        assert row[1] == digsyl(int(row[0])) and row[2] == row[1].lower()
        assert 8 <= len(row[3]) <= 15 and 9 <= len(row[6]) <= 16 and len(row[7]) <= 50


def test_syllables_are_those_of_the_specification() -> None:
    assert digsyl(0) == "BA" and digsyl(1234567890) == "OGALRIRESEATULINNGBA" and digsyl(42, 7) == "BABABABABAREAL"
    assert len(COUNTRIES) == 92


@pytest.mark.parametrize(("items", "browsers"), [(49, 1), (100_001, 1), (1000, 0), (1000, 1001)])
def test_a_size_out_of_range_is_refused(items: int, browsers: int) -> None:
    with pytest.raises(UsageError, match="are allowed"):
        Population(items, browsers)
