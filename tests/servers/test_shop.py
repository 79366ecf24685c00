"""The shop of three tiers: its pages and what they change, by HTTP through Squid and in a real browser."""

from __future__ import annotations

import contextlib
import functools
import http.cookiejar
import os
import pwd
import re
import shutil
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.servers._chromium import chromium
from tests.servers._private_mariadb import as_service
from tests.servers._under_gate import until
from trimtab.clock import SystemClock
from trimtab.plants._stack import Stack
from trimtab.plants.mariadb.plant import Mariadb
from trimtab.plants.tomcat.plant import Tomcat
from trimtab.testbed.shop import Shop, ShopSpec, shop

pytestmark = [pytest.mark.server]
ITEMS = 100
CARD = {"card_type": "VISA", "card_number": "1234567812345678", "card_name": "A Name", "card_expiry": "2030-01-31"}
PERSON = {
    **{
        "first_name": "<b>Ann</b>",
        "last_name": "O'Neil",
        "street_1": '1 "Long" Road',
        "street_2": "",
        "city": "Ürzig",
    },
    **{"state": "", "zip": "54321", "country": "Germany", "phone": "0123456789", "email": "a@b.example"},
    **{"birth_date": "1970-12-31", "data": "'; DROP TABLE customer; --"},
}


@dataclass(frozen=True)
class Answer:
    """What came for one request."""

    status: int
    headers: Any
    text: str

    @property
    def page(self) -> str:
        """The name of the page."""
        found = re.search(r'<body data-page="(\w+)"', self.text)
        return found[1] if found else ""

    def all(self, name: str) -> list[str]:
        """The values of an attribute, in order."""
        return re.findall(rf'{name}="([^"]*)"', self.text)

    @property
    def dollars(self) -> list[Decimal]:
        """The amounts of the table of costs."""
        costs = self.text.partition('class="costs"')[2]
        return [Decimal(amount.replace(",", "")) for amount in re.findall(r"\$([\d,.]+)", costs)]


class Visitor:
    """Somebody with cookies of his own."""

    def __init__(self, running: Shop) -> None:
        self._base = running.url
        self.jar = http.cookiejar.CookieJar()
        proxy = urllib.request.ProxyHandler({})
        self._opener = urllib.request.build_opener(proxy, urllib.request.HTTPCookieProcessor(self.jar))

    def get(self, path: str) -> Answer:
        """Asks for a page."""
        return self._ask(self._base + path, None)

    def post(self, path: str, *pairs: tuple[str, object], **fields: object) -> Answer:
        """Sends a form."""
        return self._ask(self._base + path, urllib.parse.urlencode([*pairs, *fields.items()]).encode())

    def _ask(self, url: str, body: bytes | None) -> Answer:
        try:
            with self._opener.open(url, body, timeout=300) as answer:
                return Answer(answer.status, answer.headers, answer.read().decode(errors="replace"))
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.headers, error.read().decode(errors="replace"))


@pytest.fixture(scope="module")
def running() -> Iterator[Shop]:
    kept = Path(tempfile.mkdtemp(prefix="trimtab-test-shop-"))
    kept.chmod(0o755)
    try:
        plain = ShopSpec(items=ITEMS, browsers=1)
        with shop(plain, directory=kept) as one:
            yield one
    finally:
        shutil.rmtree(kept)


@pytest.fixture
def visitor(running: Shop) -> Visitor:
    return Visitor(running)


@contextlib.contextmanager
def books(running: Shop) -> Iterator[pymysql.cursors.Cursor]:
    """A look at the database beside the shop."""
    me = pwd.getpwuid(os.geteuid()).pw_name
    socket = os.fspath(running.database.socket)
    with pymysql.connect(unix_socket=socket, user=me, database="shop", autocommit=True) as db, db.cursor() as cursor:
        yield cursor


def value(running: Shop, sql: str, *args: object) -> Any:
    with books(running) as cursor:
        cursor.execute(sql, args)
        row = cursor.fetchone()
        assert row is not None
        return row[0]


def bought(visitor: Visitor, item: int, quantity: int, user: str) -> tuple[Answer, Answer]:
    """The till and what comes after it."""
    visitor.get(f"shopping_cart?add={item}")
    visitor.post("shopping_cart", line=item, quantity=quantity)
    till = visitor.post("buy_request", returning="yes", username=user, password=user.lower())
    return till, visitor.post("buy_confirm", **CARD, shipping="AIR")


@pytest.mark.parametrize(
    "path",
    [
        *("home", "home?customer=5", "new_products?subject=ARTS", "best_sellers?subject=TRAVEL", "search_request"),
        *(
            "search_results?type=subject&search=COOKING",
            "product_detail?item=7",
            "shopping_cart",
            "admin_request?item=7",
        ),
        *("customer_registration", "order_inquiry"),
    ],
)
def test_a_page_names_itself_and_is_kept_by_nobody_and_all_its_images_are_there(visitor: Visitor, path: str) -> None:
    answer = visitor.get(path)
    assert (answer.status, answer.page) == (200, path.partition("?")[0])
    assert (
        answer.headers["Cache-Control"] == "no-store" and answer.headers["Content-Type"] == "text/html;charset=UTF-8"
    )
    for image in set(answer.all("img src") + re.findall(r'<img[^>]* src="([^"]*)"', answer.text)):
        assert visitor.get(image.removeprefix("/shop/")).status == 200


def test_the_shops_address_leads_to_its_first_page(visitor: Visitor) -> None:
    assert visitor.get("").page == "home"


def test_an_image_is_cacheable_and_comes_from_the_cache_the_second_time(visitor: Visitor) -> None:
    first, second = visitor.get("images/item/3.png"), visitor.get("images/item/3.png")
    assert "public" in first.headers["Cache-Control"] and first.headers["ETag"] and first.headers["Last-Modified"]
    assert second.headers["X-Cache"].startswith("HIT")


def test_a_missing_image_is_not_kept(visitor: Visitor) -> None:
    answer = visitor.get(f"images/item/{ITEMS + 1}.png")
    assert (answer.status, answer.headers["Cache-Control"]) == (404, "no-store")


@pytest.mark.parametrize("kind", ["title", "author"])
def test_a_search_finds_what_begins_with_its_text(visitor: Visitor, kind: str) -> None:
    found = visitor.get(f"search_results?type={kind}&search=BABABABABABAOG")
    assert len(found.all("data-item")) > 5, "no more than the promotions"
    for wildcard in ("%25", "_", "%5C"):
        assert "No book was found" in visitor.get(f"search_results?type={kind}&search={wildcard}").text


def test_an_order_costs_what_was_shown_at_the_till_and_takes_its_books_from_the_stock(
    running: Shop, visitor: Visitor
) -> None:
    price = value(running, "SELECT i_cost FROM item WHERE i_id = 11")
    stock = value(running, "SELECT i_stock FROM item WHERE i_id = 11")
    discount = value(running, "SELECT c_discount FROM customer WHERE c_uname = 'ALRI'")
    till, done = bought(visitor, 11, 3, "ALRI")
    assert (till.page, done.page) == ("buy_request", "buy_confirm")
    net = (price * 3 * (1 - discount)).quantize(Decimal("0.01"), "ROUND_HALF_UP")
    tax = (net * Decimal("0.0825")).quantize(Decimal("0.01"), "ROUND_HALF_UP")
    assert till.dollars == done.dollars == [net, tax, Decimal(6), net + tax + 6]
    left = stock - 3
    assert value(running, "SELECT i_stock FROM item WHERE i_id = 11") == (left if left >= 10 else left + 21)
    shown = visitor.post("order_display", username="ALRI", password="alri")
    assert shown.dollars == done.dollars and shown.all("data-order") == done.all("data-order")
    assert "1234567812345678" not in shown.text
    assert "cart" not in [cookie.name for cookie in visitor.jar]


def test_a_basket_keeps_what_was_asked_for_and_is_never_empty(visitor: Visitor) -> None:
    visitor.get("shopping_cart?add=5")
    visitor.get("shopping_cart?add=6")
    changed = visitor.post("shopping_cart", ("line", 5), ("quantity", 4), ("line", 6), ("quantity", 0))
    assert (changed.all("data-line"), changed.all("data-quantity")) == (["5"], ["4"])
    emptied = visitor.post("shopping_cart", line=5, quantity=0)
    assert len(emptied.all("data-line")) == 1 and emptied.all("data-quantity") == ["1"]


def test_a_new_customer_is_shown_as_he_wrote_and_can_come_back(running: Shop, visitor: Visitor) -> None:
    visitor.get("shopping_cart?add=5")
    till = visitor.post("buy_request", returning="no", **PERSON)
    assert (
        till.page == "buy_request" and "&lt;b&gt;Ann&lt;/b&gt; O&#39;Neil" in till.text and "<b>Ann" not in till.text
    )
    user = re.findall(r"user name is <b>(\w+)</b>", till.text)[0]
    other = {name: PERSON[name] for name in ("street_1", "street_2", "city", "state", "zip")} | {"country": "Japan"}
    assert visitor.post("buy_confirm", **CARD, shipping="MAIL", **other).page == "buy_confirm"
    assert "Japan" in visitor.post("order_display", username=user, password=user.lower()).text
    assert value(running, "SELECT c_data FROM customer WHERE c_uname = %s", user) == PERSON["data"]


def test_a_changed_book_has_its_new_price_and_the_books_bought_with_it(running: Shop, visitor: Visitor) -> None:
    changed = visitor.post(
        "admin_confirm", item=9, cost="12.50", image="item/8.png", thumbnail="/shop/images/thumb/7.png"
    )
    assert changed.page == "admin_confirm" and "$12.50" in changed.text
    assert value(running, "SELECT i_image FROM item WHERE i_id = 9") == "item/8.png"
    assert value(running, "SELECT i_thumbnail FROM item WHERE i_id = 9") == "thumb/7.png"
    assert value(running, "SELECT i_pub_date = CURRENT_DATE FROM item WHERE i_id = 9") == 1


HOSTILE = [
    *(
        "product_detail",
        "product_detail?item=0",
        "product_detail?item=-1",
        "product_detail?item=1%27",
        "home?customer=x",
    ),
    *(f"product_detail?item={ITEMS + 1}", "product_detail?item=99999999999999999999", "home?customer=99999999"),
    *("best_sellers", "best_sellers?subject=%3Cscript%3E", "new_products?subject=arts", "search_results?type=title"),
    *(
        "search_results?type=x&search=a",
        "search_results?type=title&search=%00",
        "search_results?type=title&search=%zz",
    ),
    *(f"search_results?type=title&search={'A' * 61}", "shopping_cart?add=0", f"shopping_cart?add={ITEMS + 1}"),
    *("WEB-INF/web.xml", "images/../WEB-INF/web.xml", "nowhere", "buy_confirm", "order_display"),
    "home?" + "&".join(f"a{number}=1" for number in range(2000)),
]


@pytest.mark.parametrize("path", HOSTILE)
def test_a_request_that_no_link_makes_is_refused_and_says_nothing_of_the_inside(visitor: Visitor, path: str) -> None:
    answer = visitor.get(path)
    assert 400 <= answer.status < 500
    assert not re.search(r"Exception|SQL|\bat shop\.|<script", answer.text)


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("buy_request", {"returning": "yes", "username": "' OR 1=1 -- ", "password": "x"}),
        ("buy_request", {"returning": "maybe"}),
        ("buy_request", {"returning": "no", **PERSON, "country": "Nowhere"}),
        ("buy_request", {"returning": "no", **PERSON, "birth_date": "1970-02-30"}),
        ("buy_request", {"returning": "no", **PERSON, "last_name": "x" * 16}),
        ("buy_request", {"returning": "no", **PERSON, "city": "\x00"}),
        ("buy_confirm", {**CARD, "shipping": "AIR"}),
        ("buy_confirm", {**CARD, "shipping": "BALLOON"}),
        ("buy_confirm", {**CARD, "shipping": "AIR", "card_number": "1234-5678"}),
        ("order_display", {"username": "ALRI", "password": "ALRI"}),
        ("admin_confirm", {"item": "9", "cost": "-1", "image": "item/1.png", "thumbnail": "thumb/1.png"}),
        ("admin_confirm", {"item": "9", "cost": "1", "image": "../x.png", "thumbnail": "thumb/1.png"}),
        ("admin_confirm", {"item": "9", "cost": "1", "image": "http://x/1.png", "thumbnail": "thumb/1.png"}),
        ("shopping_cart", {"line": "5"}),
        ("shopping_cart", {"line": "5", "quantity": "1000"}),
        ("shopping_cart", {"line": "5", "quantity": "-1"}),
    ],
)
def test_a_form_that_the_shop_would_not_send_changes_nothing(
    running: Shop, visitor: Visitor, path: str, change: dict[str, str]
) -> None:
    visitor.get("shopping_cart?add=5")
    tables = ("customer", "address", "orders", "order_line", "cc_xacts", "item")

    def state() -> list[Any]:
        with books(running) as cursor:
            cursor.execute(f"CHECKSUM TABLE {', '.join(tables)}")
            return list(cursor.fetchall())

    before = state()
    assert 400 <= visitor.post(path, **change).status < 500
    assert state() == before
    assert visitor.get("shopping_cart").all("data-quantity") == ["1"]


def test_nobody_gets_at_a_strangers_basket_by_its_number(running: Shop, visitor: Visitor) -> None:
    visitor.get("shopping_cart?add=5")
    (cart,) = [cookie.value for cookie in visitor.jar if cookie.name == "cart"]
    assert cart is not None
    guessed = cart[:-1] + ("1" if cart[-1] == "0" else "0")
    stranger = urllib.request.Request(running.url + "shopping_cart", headers={"Cookie": f"cart={guessed}"})
    with urllib.request.urlopen(stranger, timeout=300) as answer:
        assert "cart=" in answer.headers["Set-Cookie"]


def test_buyers_of_the_same_books_at_the_same_time_each_get_their_order(running: Shop) -> None:
    before = value(running, "SELECT COUNT(*) FROM orders")
    done: list[str] = []

    def buy(first: int, second: int, user: str) -> None:
        one = Visitor(running)
        one.get(f"shopping_cart?add={first}")
        done.append(bought(one, second, 2, user)[1].page)

    pairs = [(21, 22), (22, 21)] * 4
    threads = [threading.Thread(target=buy, args=(*pair, "RI")) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == ["buy_confirm"] * len(pairs)
    assert value(running, "SELECT COUNT(*) FROM orders") == before + len(pairs)
    assert value(running, "SELECT COUNT(*) = COUNT(DISTINCT o_id) FROM orders JOIN cc_xacts ON cx_o_id = o_id") == 1


def test_somebody_searches_buys_and_sees_his_order_in_a_browser(running: Shop) -> None:
    with chromium() as tab:
        tab.open(f"{running.url}search_request", "search_request")
        tab.fill("form.search", search="BABABABABABAAL")
        tab.click("form.search button", "search_results")
        tab.click("ol.books a", "product_detail")
        title = tab.run("document.querySelector('h1').textContent")
        assert tab.run("[...document.images].every(image => image.naturalWidth > 0)")
        tab.click("a.button", "shopping_cart")
        assert tab.run("[...document.images].every(image => image.naturalWidth > 0)")
        tab.click("form a.button", "customer_registration")
        tab.fill("form", username="REAT", password="reat")
        tab.click("form button", "buy_request")
        tab.fill("form", **{name: text for name, text in CARD.items() if name != "card_type"})
        tab.click("form button", "buy_confirm")
        order = tab.run("document.querySelector('[data-order]').textContent")
        tab.open(f"{running.url}order_inquiry", "order_inquiry")
        tab.fill("form", username="REAT", password="reat")
        tab.click("form button", "order_display")
        assert tab.run("document.querySelector('[data-order]').textContent") == order
        assert title in tab.run("document.querySelector('table.cart').textContent")


def test_each_tier_has_limits_of_its_own(running: Shop) -> None:
    if os.geteuid() != 0:
        pytest.skip("limits need root")
    assert all("0.5 cores" in words and "memory" in words for words in running.confinement.values())
    groups = [frozenset(bed.cgroups.values()) for _, bed, _ in running.tiers]
    assert len(set(groups)) == 3


def test_what_is_copied_at_the_begin_of_a_connection_reaches_the_pool_s_and_no_page_fails(
    running: Shop, visitor: Visitor, tmp_path: Path
) -> None:
    def connections(cursor: pymysql.cursors.Cursor) -> set[int]:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE user = 'shop'")
        return {row[0] for row in cursor.fetchall()}

    def gone(before: set[int]) -> bool:
        return not before & connections(cursor)

    clock, journals = SystemClock(), tmp_path / "journals"
    stack = Stack(
        Tomcat.attach(clock, running.application.pid),
        Mariadb.attach(clock, running.database.pid, None, False, journals),
    )
    with contextlib.closing(stack), books(running) as cursor:
        assert visitor.get("search_results?type=subject&search=COOKING").status == 200
        for change in (lambda: stack.apply({"join_buffer_size": 512 << 10}), stack.restore):
            before = connections(cursor)
            change()
            until(functools.partial(gone, before), "connections from before are still there")
            assert visitor.get("search_results?type=subject&search=COOKING").status == 200
            assert connections(cursor)


def test_no_page_fails_while_the_database_behind_it_is_restarted(
    running: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the last one here: the database is another process after it, and ends with it."""
    said, ended = list[int](), threading.Event()

    def ask() -> None:
        while not ended.is_set():
            said.append(Visitor(running).get("search_results?type=subject&search=COOKING").status)

    clock, more = SystemClock(), 20
    with as_service(running.database, tmp_path, monkeypatch):
        snippets, journals = running.database.snippet_directory, tmp_path / "journals"
        stack = Stack(
            Tomcat.attach(clock, running.application.pid),
            Mariadb.attach(clock, running.database.pid, None, False, journals, snippets),
        )
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            until(lambda: len(said) > more, "no pages come")
            notes = stack.apply({"thread_stack": 299008 + 5120}).notes
            there = len(said)
            until(lambda: len(said) > there + more, "no pages come after it")
            stack.restore()
            there = len(said)
            until(lambda: len(said) > there + more, "no pages come after it was put back")
        finally:
            ended.set()
            for thread in threads:
                thread.join()
            stack.close()
    assert [status for status in said if status != 200] == []
    assert any(note.startswith("Tomcat held requests back") for note in notes)
