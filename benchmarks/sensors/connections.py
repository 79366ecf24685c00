"""Measures the cost of one look at the connections of a server, by how many there are.

    python benchmarks/sensors/connections.py

Opens connections to a socket of its own, accepts them, and prints the CPU time of this process for one sample of
`trimtab.sensors.connections` with each number of them; the kernel's part is in it. Needs two descriptors for each.
"""

from __future__ import annotations

import os
import resource
import socket
import statistics
import time
from contextlib import ExitStack

from trimtab.clock import SystemClock
from trimtab.sensors.connections import Connections

NUMBERS = (0, 100, 1000, 5000)
ROUNDS = 20


def sample_ms(sensor: Connections) -> float:
    """CPU time of one sample, the median of some, in milliseconds."""
    rounds = []
    for _ in range(ROUNDS):
        began_s = time.process_time()
        sensor.read()
        rounds.append((time.process_time() - began_s) * 1e3)
    return statistics.median(rounds)


def main() -> None:
    """Measures and prints."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=512))
        port = server.getsockname()[1]
        sensor = Connections([("127.0.0.1", port)], SystemClock(), os.getpid())
        stack.callback(sensor.close)
        sensor.begin()
        held = 0
        print(f"load average {os.getloadavg()[0]:.1f}")
        for number in NUMBERS:
            while held < number:
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                stack.enter_context(server.accept()[0])
                held += 1
            print(f"{number:>6} connections: {sample_ms(sensor):.2f} ms of CPU per sample")


if __name__ == "__main__":
    main()
