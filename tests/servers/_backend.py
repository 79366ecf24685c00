"""What a server under test is a proxy of: answers that take their time, and a protocol that is not HTTP any more."""

from __future__ import annotations

import contextlib
import socketserver
import threading
import time
from collections.abc import Iterator

PAUSE_S, PIECES = 0.3, 4
PIECE = b"piece of an answer\n"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


class _Backend(socketserver.StreamRequestHandler):
    """/late answers after a pause, /chunks and /events in pieces, /ws echoes lines; a POST is told its length."""

    def handle(self) -> None:
        first = self.rfile.readline().split()
        fields = {}
        while line := self.rfile.readline().strip():
            name, _, value = line.partition(b":")
            fields[name.lower()] = value.strip()
        body = self.rfile.read(int(fields.get(b"content-length", 0)))
        with contextlib.suppress(OSError):
            self._answer(first[1] if len(first) > 1 else b"", body)

    def _answer(self, path: bytes, body: bytes) -> None:
        if path == b"/ws":
            self.wfile.write(SWITCH)
            while line := self.rfile.readline():
                self.wfile.write(line)
        elif path in (b"/chunks", b"/events"):
            chunked = path == b"/chunks"
            self.wfile.write(CHUNKED if chunked else ENDLESS)
            for _ in range(PIECES):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(PIECE), PIECE) if chunked else PIECE)
                time.sleep(PAUSE_S)
            self.wfile.write(b"0\r\n\r\n" if chunked else b"")
        else:
            time.sleep(PAUSE_S if path == b"/late" else 0)
            said = b"%d bytes" % len(body)
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said))


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


@contextlib.contextmanager
def backend() -> Iterator[int]:
    """Runs it; gives its port."""
    with _Server(("127.0.0.1", 0), _Backend) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()
