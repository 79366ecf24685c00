"""Memory that a connection costs while it waits in the gate's queue, up to the descriptors of this machine.

A small Apache under the gate gets connections that send one byte (with none, its deferred accept would leave them in
the kernel for half a minute) until its workers are taken; all others wait. The client is a
process of its own, as each process has one limit of descriptors, and so is a plain process that only accepts and
keeps: it tells what the kernel takes for a connection without the gate. Resident memory is that of guardian and gate;
memory that they share is counted once (PSS). Slab memory is that of the objects in use on the whole machine, both
ends of each connection, because the client is on the same machine; the two ways take turns. Figures for 100,000 are a
straight line through those that were measured, and are marked; `memory_vm.py` measures them where
this machine cannot.
"""

from __future__ import annotations

import contextlib
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from _bench import Placement, facts, options, save, table
from _stacks import Stack, stack

from trimtab.testbed.apache_config import ApacheSpec

STEPS = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0)
SPARE_DESCRIPTORS = 500
WANTED = 100_000
SOURCES = 10
SETTLE_S = 1.0
REPEATS = 3
BACKLOG = 4096
PATIENCE_S = 60.0

CLIENT = """
import socket, sys
port, sources, kept = int(sys.argv[1]), int(sys.argv[2]), []
for line in sys.stdin:
    while len(kept) < int(line):
        one = socket.socket()
        one.bind(("127.0.0.%d" % (2 + len(kept) % sources), 0))
        one.connect(("127.0.0.1", port))
        one.send(b"G")
        kept.append(one)
    print(len(kept), flush=True)
"""
KEEPER = """
import socket, sys
listener, kept = socket.create_server(("127.0.0.1", 0), backlog=int(sys.argv[1])), []
print(listener.getsockname()[1], flush=True)
while True:
    kept.append(listener.accept()[0])
"""


@contextlib.contextmanager
def script(text: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A Python process that ends with the block."""
    command = [sys.executable, "-c", text, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def slab_bytes() -> int:
    """Objects in use in the kernel's slabs, all of the machine's; what lies free in them from earlier is left out.

    Raises:
        SystemExit: not root.
    """
    try:
        lines = Path("/proc/slabinfo").read_text().splitlines()[2:]
    except PermissionError:
        raise SystemExit("only root may read /proc/slabinfo") from None
    return sum(int(active) * int(size) for active, size in (line.split()[1:4:2] for line in lines))


def resident(pids: Sequence[int]) -> dict[str, int]:
    """Resident memory, once with shared pages in every process and once with them shared out."""
    found = {"rss_bytes": 0, "pss_bytes": 0}
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            key = {"Rss:": "rss_bytes", "Pss:": "pss_bytes"}.get(line.split()[0])
            if key:
                found[key] += int(line.split()[1]) * 1024
    return found


def gate_of(one: Stack) -> list[int]:
    """Guardian and gate."""
    words = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in one.members()}
    return [pid for pid, line in words.items() if line[1:2] == [b"gate"]]


def steps(port: int, held: Callable[[], int], most: int, pids: Sequence[int]) -> list[dict[str, int]]:
    """Memory at numbers of connections.

    Args:
        port: where the client connects.
        held: connections that are on the other side.
        most: connections at the end.
        pids: processes whose memory is taken.
    """
    found = []
    with script(CLIENT, port, SOURCES) as client:
        assert client.stdin is not None and client.stdout is not None
        for share in STEPS:
            wanted = int(most * share)
            client.stdin.write(f"{wanted}\n")
            client.stdin.flush()
            if int(client.stdout.readline() or -1) != wanted:
                raise SystemExit(f"the client could not keep {wanted} connections")
            deadline = time.monotonic() + PATIENCE_S
            while held() < wanted:
                if time.monotonic() > deadline:
                    raise SystemExit(f"only {held()} of {wanted} connections were accepted")
                time.sleep(0.1)
            time.sleep(SETTLE_S)
            found.append({"connections": wanted, "slab_bytes": slab_bytes(), **resident(pids)})
            print(f"{wanted:,} connections", file=sys.stderr, flush=True)
    return found


def descriptors(pid: int) -> int:
    """How many descriptors a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def through_gate(most: int) -> list[dict[str, int]]:
    """Connections that wait in the gate."""
    apache = ApacheSpec("prefork", 8, 8)
    with stack("prefork", "gate", Placement("unpinned", None, None), apache) as one:
        pids = gate_of(one)
        idle = descriptors(pids[-1])
        # Those that the workers have are no longer the gate's.
        return steps(one.port, lambda: descriptors(pids[-1]) - idle + apache.max_request_workers, most, pids)


def plainly(most: int) -> list[dict[str, int]]:
    """The same connections, accepted and kept by a process that does nothing else."""
    with script(KEEPER, BACKLOG) as keeper:
        assert keeper.stdout is not None
        port = int(keeper.stdout.readline())
        idle = descriptors(keeper.pid)
        return steps(port, lambda: descriptors(keeper.pid) - idle, most, [keeper.pid])


def line(points: Sequence[dict[str, int]], key: str) -> tuple[float, float]:
    """Bytes for each connection and without any, by least squares."""
    slope, start = np.polyfit([p["connections"] for p in points], [p[key] for p in points], 1)
    return float(slope), float(start)


def measure(out: Path, quick: bool) -> None:
    """Runs both in turn and writes the result."""
    before = facts()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    most = min(hard, WANTED + SPARE_DESCRIPTORS) - SPARE_DESCRIPTORS
    most = min(most, 4000) if quick else most
    runs = [(plainly(most), through_gate(most)) for _ in range(1 if quick else REPEATS)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    last = runs[-1][1][-1]
    pss, pss_start, slab, slab_plain = (
        statistics.median(values)
        for values in zip(
            *(
                (*line(gate, "pss_bytes"), line(gate, "slab_bytes")[0], line(plain, "slab_bytes")[0])
                for plain, gate in runs
            ),
            strict=True,
        )
    )
    figures = {
        "connections_measured": most,
        "gate_pss_mib": round(last["pss_bytes"] / 2**20, 2),
        "gate_rss_mib": round(last["rss_bytes"] / 2**20, 2),
        "gate_bytes_per_connection": round(pss),
        "slab_bytes_per_connection_both_ends": round(slab),
        "slab_bytes_per_connection_both_ends_without_gate": round(slab_plain),
        "extrapolated_gate_pss_mib_at_100000": round((pss_start + WANTED * pss) / 2**20, 1),
        "extrapolated_slab_mib_at_100000_both_ends": round(WANTED * slab / 2**20),
    }
    lines = table(["figure", "value"], ([key.replace("_", " "), value] for key, value in figures.items()))
    lines += [f"Up to {most} connections were measured; what is called extrapolated was not.", ""]
    result = {
        "descriptors": hard,
        "figures": figures,
        "raw": [{"plain": plain, "gate": gate} for plain, gate in runs],
    }
    save(out, "memory", before, result, lines)


if __name__ == "__main__":
    args = options(__doc__)
    measure(args.out, args.quick)
