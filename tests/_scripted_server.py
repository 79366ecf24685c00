"""A server that does what it is told and counts what it sees, in a process of its own, so that it can be stopped.

The path tells it what to do: /ok?ms=5 replies after 5 ms; /status?code=404; /reset, /cut and /hang break off;
/garbage is not HTTP; /once replies to the first request of a connection and closes it without a word at the
second, as a server does that has just found it idle.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

BODY = b"x" * 1000


class ScriptedServer:
    """The server in its own process; a context manager.

    Args:
        idle_ms: closes a connection that has been idle for this long; 0 keeps it.
    """

    def __init__(self, idle_ms: int = 0) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(idle_ms)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.pid = self._process.pid
        self.port = int(self._process.stdout.readline())
        self.target = f"127.0.0.1:{self.port}"

    def seen(self) -> dict[str, Any]:
        """What it has seen so far: requests by path, connections, connections by peer address, times of requests."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("seen\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def freeze(self, duration_s: float) -> None:
        """Stops the process for a while, as an overloaded machine would."""
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            time.sleep(duration_s)
        finally:
            os.kill(self._process.pid, signal.SIGCONT)

    def __enter__(self) -> ScriptedServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


class _Server:
    def __init__(self, idle_ms: int) -> None:
        self._idle_s = idle_ms / 1000 or None
        self._requests: Counter[str] = Counter()
        self._peers: Counter[str] = Counter()
        self._times: list[tuple[float, str]] = []

    async def main(self) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=4096)
        print(server.sockets[0].getsockname()[1], flush=True)
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        loop.add_reader(sys.stdin, self._say, ended)
        await ended

    def _say(self, ended: asyncio.Future[None]) -> None:
        if not sys.stdin.readline():
            asyncio.get_running_loop().remove_reader(sys.stdin)
            ended.set_result(None)
            return
        seen = {"requests": self._requests, "peers": self._peers, "times": self._times}
        print(json.dumps({**seen, "connections": sum(self._peers.values())}), flush=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._peers[writer.get_extra_info("peername")[0]] += 1
        served = 0
        try:
            while head := await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), self._idle_s):
                path = head.split(b" ", 2)[1].decode()
                self._requests[path] += 1
                self._times.append((time.monotonic(), path))
                if not await self._reply(path, served, writer) or b"connection: close" in head.lower():
                    break
                served += 1
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            pass
        finally:
            writer.close()

    async def _reply(self, path: str, served: int, writer: asyncio.StreamWriter) -> bool:
        """Does what the path says; True keeps the connection."""
        action, query = urlsplit(path).path, parse_qs(urlsplit(path).query)
        status, body = int(query.get("code", ["200"])[0]), BODY
        if action == "/hang":
            await asyncio.sleep(3600)
        if action == "/reset":
            abort = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, abort)
            return False
        if action == "/once" and served:
            return False
        if "ms" in query:
            await asyncio.sleep(float(query["ms"][0]) / 1000)
        if action == "/garbage":
            writer.write(b"this is not HTTP\r\n\r\n")
        elif action == "/cut":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
        else:
            writer.write(b"HTTP/1.1 %d Said\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)
        await writer.drain()
        return action not in ("/garbage", "/cut")


if __name__ == "__main__":
    asyncio.run(_Server(int(sys.argv[1])).main())
