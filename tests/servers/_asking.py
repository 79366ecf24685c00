"""Clients that ask without pause and count what they were refused: what a fault must not cause is seen here."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator

PATIENCE_S = 120.0


class Asking:
    """Threads that ask until they are told to stop.

    Args:
        ask: one connection with its requests; gives how many were answered, raises when the first one was not.
        clients: how many threads.
    """

    def __init__(self, ask: Callable[[], int], clients: int) -> None:
        self.answered = 0
        self.failed: Counter[str] = Counter()
        self._ask, self._stop, self._lock = ask, threading.Event(), threading.Lock()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(clients)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends after the requests on their way."""
        self._stop.set()
        for thread in self._threads:
            thread.join(2 * PATIENCE_S)
            assert not thread.is_alive(), "a client waits for ever"

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                answered = self._ask()
            except OSError as error:
                with self._lock:
                    self.failed[f"{type(error).__name__}: {error}"] += 1
                continue
            with self._lock:
                self.answered += answered


@contextlib.contextmanager
def asking(*kinds: Asking) -> Iterator[None]:
    """Stops them at the end, whatever happens."""
    try:
        yield
    finally:
        for kind in kinds:
            kind.stop()


def pages(port: int, path: str, requests: int = 1) -> Callable[[], int]:
    """One connection to a web server with this many requests.

    A server may close a kept connection between two requests; that ends it and is no failure (RFC 9112, 9.3.1).
    """

    def ask() -> int:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
            for done in range(requests):
                try:
                    page(connection, path, last=done == requests - 1)
                except ConnectionError:
                    if done == 0:
                        raise
                    return done
            return requests

    return ask


def page(connection: socket.socket, path: str, last: bool = False, begun: str = "") -> bytes:
    """The body of one page.

    Args:
        connection: to the web server.
        path: of the page.
        last: whether the server is asked to close.
        begun: how much of the request has been sent already.

    Raises:
        ConnectionError: the reply is not complete, or its status is not 200.
    """
    how = "Connection: close\r\n" if last else ""
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{how}\r\n"
    connection.sendall(request.removeprefix(begun).encode())
    reply = bytearray()
    while b"\r\n\r\n" not in reply:
        reply += _more(connection)
    head, _, body = bytes(reply).partition(b"\r\n\r\n")
    status, *fields = head.split(b"\r\n")
    if b" 200 " not in status + b" ":
        raise ConnectionError(status.decode())
    length = next(int(f.partition(b":")[2]) for f in fields if f.lower().startswith(b"content-length:"))
    whole = bytearray(body)
    while len(whole) < length:
        whole += _more(connection)
    return bytes(whole)


def _more(connection: socket.socket) -> bytes:
    got = connection.recv(65_536)
    if not got:
        raise ConnectionError("the connection ended within a reply")
    return got
