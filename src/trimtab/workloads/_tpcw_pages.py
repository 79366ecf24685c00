"""How TPC-W's browsers ask a bookstore for its fourteen pages; the pages carry what the next request needs.

The shop marks the page's name (`data-page`), the item of every link to a product (`data-item`) and each line of the
cart (`data-line`, `data-quantity`); it knows a customer by the cookie `customer`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from trimtab.workloads._graph import (
    After,
    Ask,
    Chance,
    Condition,
    Cookie,
    Date,
    Digits,
    First,
    HasCookie,
    HasMarker,
    Joined,
    Letters,
    Marked,
    Memory,
    Method,
    NuRand,
    One,
    OneOf,
    Remembered,
    Remembers,
    Rows,
    Syllables,
    Text,
    Uniform,
    Value,
)

# Draws whose names the session keeps them under.
_KNOWN, _GUEST, _ITEM = "customer", "guest", "item"


@dataclass(frozen=True, kw_only=True)
class Shop:
    """A bookstore with its population.

    Args:
        path: path under which its pages lie, without a slash at the end.
        customer: a customer's id.
        items: how many.
        search_a: A of NURand for search strings.
        facts: TPC-W as data.
        today: from which dates are counted.
    """

    path: str
    customer: NuRand
    items: int
    search_a: int
    facts: dict[str, Any]
    today: date

    @property
    def memories(self) -> tuple[Memory, ...]:
        """Values that a session has from its start: a returning one its customer."""
        return (Memory(_KNOWN, self.customer, self.facts["session"]["returning_customer_ratio"]),)

    @property
    def item(self) -> Value:
        """An item of the page before; any where it has none."""
        return Marked("data-item", Uniform(1, self.items))

    def ask(self, page: str, *fields: One | Rows, when: tuple[Condition, ...] = (), **more: Any) -> Ask:
        """A way to ask for a page."""
        return Ask(path=f"{self.path}/{page}", fields=fields, when=when, **more)

    def post(self, page: str, *fields: One | Rows, when: tuple[Condition, ...] = (), **more: Any) -> Ask:
        """The same by a form."""
        return self.ask(page, *fields, when=when, method=Method.POST, **more)

    def spelled(self, of: Value, width: int = 0, lower: bool = False) -> Syllables:
        """DigSyl."""
        return Syllables(of, tuple(self.facts["digsyl"]["syllables"]), width, lower)

    def one_of(self, section: str, name: str) -> OneOf:
        """One of a list of the specification's."""
        return OneOf(tuple(self.facts[section][name]))

    def login(self, of: Value) -> tuple[One, ...]:
        """Name and password of a customer."""
        return One("username", self.spelled(of)), One("password", self.spelled(of, lower=True))

    def day(self, first: int, last: int) -> Date:
        """Some day from today."""
        return Date.between(self.today + timedelta(first), self.today + timedelta(last))


def asks(shop: Shop) -> dict[str, tuple[Ask, ...]]:
    """The ways to ask for each page, by its name."""
    plain = ("search_request", "customer_registration", "order_inquiry")
    return {
        **{name: (shop.ask(name),) for name in plain},
        **{name: (shop.ask(name, _subject(shop, "subject")),) for name in ("new_products", "best_sellers")},
        "home": (
            shop.ask("home", One("customer", Remembered(_KNOWN)), when=(First(), Remembers(_KNOWN))),
            shop.ask("home"),
        ),
        "search_results": _search_results(shop),
        "product_detail": (
            shop.ask("product_detail", One("item", Remembered(_ITEM)), remember=(Memory(_ITEM, shop.item),)),
        ),
        "shopping_cart": _shopping_cart(shop),
        "buy_request": _buy_request(shop),
        "buy_confirm": _buy_confirm(shop),
        "order_display": _order_display(shop),
        "admin_request": (
            shop.ask("admin_request", One("item", Remembered(_ITEM)), when=(Remembers(_ITEM),)),
            shop.ask("admin_request", One("item", Remembered(_ITEM)), remember=(Memory(_ITEM, shop.item),)),
        ),
        "admin_confirm": (
            shop.post(
                "admin_confirm",
                One("item", Remembered(_ITEM)),
                One("cost", Uniform(100, 99_999, 2)),
                One("image", _image(shop, "item")),
                One("thumbnail", _image(shop, "thumb")),
            ),
        ),
    }


def _image(shop: Shop, kind: str) -> Value:
    return Joined((Text(f"{kind}/"), Uniform(1, shop.items), Text(".png")))


def _subject(shop: Shop, name: str) -> One:
    return One(name, shop.one_of("fields", "subjects"))


def _search_results(shop: Shop) -> tuple[Ask, ...]:
    def spelled(divisor: int) -> Value:
        return shop.spelled(NuRand(shop.search_a, 0, shop.items // divisor), 7)

    page = "search_results"
    return (
        shop.ask(page, One("type", Text("author")), One("search", spelled(10)), when=(Chance(1 / 3),)),
        shop.ask(page, One("type", Text("title")), One("search", spelled(5)), when=(Chance(1 / 2),)),
        shop.ask(page, One("type", Text("subject")), _subject(shop, "search")),
    )


def _shopping_cart(shop: Shop) -> tuple[Ask, ...]:
    page = "shopping_cart"
    refresh = Rows("line", "data-line", "quantity", "data-quantity", (1, 10), (0, 9))
    return (
        shop.ask(page, One("add", Remembered(_ITEM)), when=(After("product_detail"), Remembers(_ITEM))),
        shop.post(page, refresh, when=(After(page), HasMarker("data-line"))),
        shop.ask(page),
    )


def _address(shop: Shop) -> tuple[One, ...]:
    return (
        One("street_1", Letters(15, 40)),
        One("street_2", Letters(15, 40)),
        One("city", Letters(4, 30)),
        One("state", Letters(2, 20)),
        One("zip", Digits(5, 10)),
        One("country", shop.one_of("fields", "countries")),
    )


def _buy_request(shop: Shop) -> tuple[Ask, ...]:
    page = "buy_request"
    returning = One("returning", Text("yes"))
    new = (
        One("returning", Text("no")),
        One("first_name", Letters(8, 15)),
        One("last_name", Letters(8, 15)),
        *_address(shop),
        One("phone", Digits(9, 16)),
        One("email", Letters(8, 20)),
        One("birth_date", Date.between(date(1880, 1, 1), date(2000, 12, 31))),
        One("data", Letters(100, 500)),
    )
    return (
        shop.post(page, returning, *shop.login(Remembered(_KNOWN)), when=(Remembers(_KNOWN),)),
        shop.post(page, returning, *shop.login(Cookie("customer")), when=(HasCookie("customer"),)),
        shop.post(page, *new),
    )


def _buy_confirm(shop: Shop) -> tuple[Ask, ...]:
    card = (
        One("card_type", shop.one_of("order", "card_types")),
        One("card_number", Digits(16, 16)),
        One("card_name", Letters(14, 30)),
        One("card_expiry", shop.day(10, 730)),
        One("shipping", shop.one_of("order", "ship_types")),
    )
    elsewhere = Chance(shop.facts["order"]["other_address_ratio"])
    return shop.post("buy_confirm", *card, *_address(shop), when=(elsewhere,)), shop.post("buy_confirm", *card)


def _order_display(shop: Shop) -> tuple[Ask, ...]:
    page = "order_display"
    return (
        shop.post(page, *shop.login(Remembered(_KNOWN)), when=(Remembers(_KNOWN),)),
        shop.post(page, *shop.login(Cookie("customer")), when=(HasCookie("customer"),)),
        shop.post(page, *shop.login(Remembered(_GUEST)), remember=(Memory(_GUEST, shop.customer),)),
    )
