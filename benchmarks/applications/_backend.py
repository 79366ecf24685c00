"""The server behind a proxy: `python _backend.py KIND PORT` answers on 127.0.0.1 until its standard input ends.

It works on 20 requests at a time, a tenth of a second on each, and lets the others wait.

    waiting     nothing else
    refusing    where more than 151 are there, the next gets a 503 at once: as many connections as MariaDB allows
    slowing     where more than 30 are there, each takes longer, twice as long with 45: as where tables do not fit
"""

from __future__ import annotations

import asyncio
import sys

SLOTS, TIME_S = 20, 0.1
MOST = 151
CALM, SLOWER = 30, 15
PAGE, REFUSAL = b"p" * 4000, b"no more than 151"
REPLY = b"HTTP/1.1 %s\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n"


class Backend:
    """The server.

    Args:
        kind: what becomes of those for whom there is no room.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._there = 0
        self._slots = asyncio.Semaphore(SLOTS)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of a connection."""
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                served = await self._serve()
                body = PAGE if served else REFUSAL
                writer.write(REPLY % (b"200 OK" if served else b"503 Service Unavailable", len(body)) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _serve(self) -> bool:
        if self._kind == "refusing" and self._there >= MOST:
            return False
        self._there += 1
        try:
            slower = max(0, self._there - CALM) / SLOWER if self._kind == "slowing" else 0.0
            async with self._slots:
                await asyncio.sleep(TIME_S * (1 + slower))
        finally:
            self._there -= 1
        return True


async def main() -> None:
    """Serves until the standard input ends."""
    backend = Backend(sys.argv[1])
    server = await asyncio.start_server(backend.talk, "127.0.0.1", int(sys.argv[2]), backlog=1024)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
