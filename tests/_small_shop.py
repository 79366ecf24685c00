"""A bookstore of no books that keeps to what TPC-W's browsers expect of one, in a process of its own.

It refuses what a browser that follows the pages would not send: an item or a line that it has not shown, a wrong
password, a form without a field. It notes every request with its cookies, and tells them all at `/noted`.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from urllib.request import urlopen

PAGES = {
    *(
        "admin_confirm",
        "admin_request",
        "best_sellers",
        "buy_confirm",
        "buy_request",
        "customer_registration",
        "home",
    ),
    *("new_products", "order_display", "order_inquiry", "product_detail", "search_request", "search_results"),
    "shopping_cart",
}
ADDRESS = ["street_1", "street_2", "city", "state", "zip", "country"]
NEW = ["first_name", "last_name", *ADDRESS, "phone", "email", "birth_date", "data"]
CARD = ["card_type", "card_number", "card_name", "card_expiry", "shipping"]
FIELDS: dict[tuple[str, str], list[list[str]]] = {
    ("home", "GET"): [[], ["customer"]],
    ("new_products", "GET"): [["subject"]],
    ("best_sellers", "GET"): [["subject"]],
    ("search_results", "GET"): [["type", "search"]],
    ("product_detail", "GET"): [["item"]],
    ("shopping_cart", "GET"): [[], ["add"]],
    ("buy_request", "POST"): [["returning", "username", "password"], ["returning", *NEW]],
    ("buy_confirm", "POST"): [CARD, [*CARD, *ADDRESS]],
    ("order_display", "POST"): [["username", "password"]],
    ("admin_request", "GET"): [["item"]],
    ("admin_confirm", "POST"): [["item", "cost", "image", "thumbnail"]],
}


class Refused(Exception):
    """A request that no browser should have sent."""


class Shop:
    """What it knows: carts by their cookie, customers that registered, which items it has shown to whom."""

    def __init__(self) -> None:
        self.carts: dict[str, dict[str, int]] = {}
        self.shown: dict[str, set[str]] = {}
        self.noted: list[dict[str, Any]] = []
        self.numbers = itertools.count(1)
        self.fail: str | None = None

    def page(
        self, name: str, method: str, fields: list[tuple[str, str]], cookies: dict[str, str]
    ) -> tuple[str, list[str]]:
        """A page's body and the cookies that it sets."""
        given = dict(fields)
        kept: list[str] = []
        if (name, method) == ("shopping_cart", "POST"):
            self._refresh(cookies, fields)
        elif [key for key, _ in fields] not in FIELDS.get((name, method), [[]] if method == "GET" else []):
            raise Refused(f"fields {fields} of {method} {name}")
        self._check(name, given)
        if name == "home" and "customer" in given:
            kept.append(f"customer={given['customer']}; Path=/shop")
        if name == "buy_request" and given["returning"] == "no":
            kept.append(f"customer={900_000 + next(self.numbers)}; Path=/shop; HttpOnly")
        body = "".join(
            f'<a data-item="{n}" href="product_detail?item={n}"><img src="images/thumb/{n}.png"></a>' for n in (3, 5)
        )
        if name == "shopping_cart":
            cart, made = self._cart(cookies)
            kept += [f"cart={cart}; Path=/shop"] if made else []
            lines = self.carts[cart]
            if "add" in given:
                lines[given["add"]] = lines.get(given["add"], 0) + 1
            elif not lines:
                lines["7"] = 1
            body = "".join(f'<p data-line="{item}" data-quantity="{n}">' for item, n in lines.items())
        return f'<body data-page="{name}"><img src="/shop/images/logo.png">{body}', kept

    def _check(self, name: str, given: dict[str, str]) -> None:
        if "username" in given and given["username"].lower() != given["password"]:
            raise Refused("password")
        if name == "product_detail" and given["item"] not in ("3", "5"):
            raise Refused(f"item {given['item']}, which no page has shown")

    def _cart(self, cookies: dict[str, str]) -> tuple[str, bool]:
        if cookies.get("cart") in self.carts:
            return cookies["cart"], False
        cart = f"c{next(self.numbers)}-x/y"
        self.carts[cart] = {}
        return cart, True

    def _refresh(self, cookies: dict[str, str], fields: list[tuple[str, str]]) -> None:
        cart = self.carts.get(cookies.get("cart", ""))
        if cart is None:
            raise Refused("a refresh without a cart")
        keys = [key for key, _ in fields]
        values = [value for _, value in fields]
        if keys != ["line", "quantity"] * len(cart) or values[::2] != list(cart):
            raise Refused(f"lines {fields} of {cart}")
        changed = {item: int(n) for item, n in zip(values[::2], values[1::2], strict=True)}
        cart.clear()
        cart.update({item: n for item, n in changed.items() if n})


class Handler(BaseHTTPRequestHandler):
    """HTTP/1.1 with pages, images and what was noted."""

    protocol_version = "HTTP/1.1"
    # Head and body in one segment: else the second waits for the first one's acknowledgement.
    wbufsize = -1
    shop = Shop()

    def do_GET(self) -> None:
        self._do("GET")

    def do_POST(self) -> None:
        self._do("POST")

    def _do(self, method: str) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        fields = parse_qsl(parts.query if method == "GET" else body, keep_blank_values=True)
        cookies = dict(one.split("=", 1) for one in self.headers.get("Cookie", "").split("; ") if one)
        if parts.path == "/noted":
            return self._answer(200, json.dumps(self.shop.noted).encode(), [])
        if parts.path == "/fail":
            self.shop.fail = dict(fields)["page"]
            return self._answer(200, b"", [])
        name = parts.path.removeprefix("/shop/")
        self.shop.noted.append({"method": method, "page": name, "fields": fields, "cookies": cookies})
        if name.startswith("images/"):
            return self._answer(200, b"x" * 100, ["Cache-Control: public, max-age=3600"])
        try:
            if name not in PAGES or name == self.shop.fail:
                raise Refused(f"page {name}")
            text, kept = self.shop.page(name, method, fields, cookies)
        except Refused as refused:
            return self._answer(400, f"refused: {refused}".encode(), [])
        self._answer(200, text.encode(), ["Cache-Control: no-store", *(f"Set-Cookie: {one}" for one in kept)])

    def _answer(self, status: int, body: bytes, headers: list[str]) -> None:
        self.send_response(status)
        for header in headers:
            self.send_header(*header.split(": ", 1))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


class Server(ThreadingHTTPServer):
    """Many browsers at once."""

    request_queue_size = 1024
    daemon_threads = True


class SmallShop:
    """The shop in its own process; a context manager."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def noted(self) -> list[dict[str, Any]]:
        """Every request: method, page, fields in order, cookies."""
        found: list[dict[str, Any]] = json.loads(self._ask("/noted"))
        return found

    def refuse(self, page: str) -> None:
        """From now on a page fails."""
        self._ask(f"/fail?page={page}")

    def _ask(self, path: str) -> bytes:
        with urlopen(self.url + path, timeout=20) as answer:
            body: bytes = answer.read()
            return body

    def __enter__(self) -> SmallShop:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)
        assert self._process.stdout is not None
        self._process.stdout.close()


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
