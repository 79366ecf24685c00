"""The knobs of a Tomcat, and the rules among them.

| knob                         | Tomcat                   | of                    | rule                    |
|------------------------------|--------------------------|-----------------------|-------------------------|
| max_threads                  | maxThreads               | connector or executor | >= min_spare_threads    |
| min_spare_threads            | minSpareThreads          | likewise              |                         |
| max_connections              | maxConnections           | connector             | descriptors allow it    |
| keep_alive_timeout_ms        | keepAliveTimeout         | connector             |                         |
| accept_count                 | acceptCount              | connector             | <= net.core.somaxconn   |
| read_buffer_bytes            | socket.appReadBufSize    | connector             |                         |
| write_buffer_bytes           | socket.appWriteBufSize   | connector             |                         |
| pool_max_active              | maxActive, maxTotal      | JDBC pool             | >= pool_min_idle        |
| pool_min_idle, pool_max_idle | minIdle, maxIdle         | JDBC pool             | pool_min_idle <= pool_max_idle |
| pool_max_wait_ms             | maxWait, maxWaitMillis   | JDBC pool             |                         |

Those of an AJP connector begin with `ajp_`. Where there are several connectors, or pools, their knobs end in `@` and
the port, or the pool's name. Steps are those of Table 3 of Chung and Hollingsworth (2004) where it has the knob; the
values begin so that the one in force is among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trimtab.core import Domain, How, Knob, Role
from trimtab.core.metric import of_class
from trimtab.plants.tomcat.layout import Connector, Layout, Pool, native


@dataclass(frozen=True)
class Kind:
    """A kind of knob, of which each connector, executor or pool has one.

    Args:
        name: its name.
        attribute: attribute of the MBean.
        written: its name where the operator sets it.
        unit: unit of its value.
        default: value of Debian's Tomcat where its configuration does not set it.
        step: distance of neighbouring values.
        least: smallest value.
        description: its effect.
        role: its role.
        how: how a change comes into force.
        cost: cost of a change.
    """

    name: str
    attribute: str
    written: str
    unit: str
    default: int
    step: int
    least: int
    description: str
    role: Role = Role.OTHER
    how: How = How.LIVE
    cost: str = "nothing: no request is interrupted"


@dataclass(frozen=True)
class Dial:
    """A knob and where it is set.

    Args:
        knob: the knob.
        bean: the MBean.
        attribute: its attribute.
        location: where the operator would set it for good, such as "the Connector of port 8080".
        part: MBean of the connector's endpoint, executor or pool that has it.
        kind: the name of its kind.
    """

    knob: Knob
    bean: str
    attribute: str
    location: str
    part: str
    kind: str


MAX_THREADS, MIN_THREADS, ACCEPT = "max_threads", "min_spare_threads", "accept_count"
MAX_ACTIVE, MIN_IDLE, MAX_IDLE, MAX_WAIT = "pool_max_active", "pool_min_idle", "pool_max_idle", "pool_max_wait_ms"
_LONGEST_MS = 600_000
_THREADS = (
    Kind(
        *(MAX_THREADS, "maxThreads", "maxThreads", "threads", 200, 5, 1),
        "Requests in service at once; others wait for a thread. Each thread has a stack, 1 MB of address space.",
        Role.WORKER_LIMIT,
        cost="nothing: where it is lowered, threads in the middle of a request finish it",
    ),
    Kind(
        *(MIN_THREADS, "minSpareThreads", "minSpareThreads", "threads", 10, 5, 0),
        "Threads that are kept when there is nothing to do.",
        Role.SPARE_WORKERS,
    ),
)
_CONNECTIONS = Kind(
    *("max_connections", "maxConnections", "maxConnections", "connections", 8192, 1, 1),
    "Connections that are held at once; others wait in the kernel's accept queue.",
    Role.CONNECTION_LIMIT,
)
_KEEP_ALIVE = Kind(
    *("keep_alive_timeout_ms", "keepAliveTimeout", "keepAliveTimeout", "ms", 20_000, 500, 500),
    "How long a connection may be idle between requests; it counts from the next request on each connection.",
    Role.KEEP_ALIVE,
)
_SOCKETS = tuple(
    Kind(
        *(
            f"{way}_buffer_bytes",
            f"app{way.title()}BufSize",
            f"socket.app{way.title()}BufSize",
            "bytes",
            8192,
            512,
            512,
        ),
        f"Buffer of a connection for {what}; what is longer takes more than one {way}.",
        how=How.CONNECTIONS,
    )
    for way, what in (("read", "what comes"), ("write", "what goes"))
)
ACCEPT_COUNT = Kind(
    *(ACCEPT, "acceptCount", "acceptCount", "connections", 100, 5, 1),
    "Connections that wait in the kernel's accept queue. Nothing is known to come of it before max_connections are "
    "held.",
    how=How.RESTART,
    cost="a restart of the connector: it takes nothing until requests in service are done, ends idle connections, "
    "and refuses those that wait or come before it listens again",
)
_JDBC = (
    Kind(
        *(MAX_ACTIVE, "MaxActive", "maxActive", "connections", 100, 1, 1),
        "Connections to the database at once; requests that need one more wait.",
        Role.POOL_LIMIT,
        cost="where it is lowered, connections of the pool are closed and made anew; under load requests are held "
        "back for it, up to some seconds",
    ),
    Kind(
        *(MIN_IDLE, "MinIdle", "minIdle", "connections", 10, 1, 0), "Connections that are kept when none is needed."
    ),
    Kind(*(MAX_IDLE, "MaxIdle", "maxIdle", "connections", 100, 1, 0), "Connections that are kept at most when idle."),
    Kind(
        *(MAX_WAIT, "MaxWait", "maxWait", "ms", 30_000, 500, 500),
        "How long a request waits for a connection before it fails.",
    ),
)
_DBCP = tuple(
    Kind(k.name, attribute, attribute, k.unit, default, k.step, k.least, k.description, k.role, k.how)
    for k, attribute, default in zip(
        _JDBC, ("maxTotal", "minIdle", "maxIdle", "maxWaitMillis"), (8, 0, 8, -1), strict=True
    )
)


def wanted(layout: Layout) -> Iterator[tuple[Kind, str, str, str, str, str]]:
    """Each knob that there may be: its kind, prefix, label, MBean, location and part."""
    own = any(not one.executor and not one.ajp for one in layout.connectors)
    called = _called([(one.name, one.bean) for one in layout.executors])
    for one, name in zip(layout.executors, called, strict=True):
        label = _suffix(name, len(layout.executors) + own)
        for kind in _THREADS:
            yield kind, "", label, one.bean, f"the Executor {one.name}", one.bean
    for connector in layout.connectors:
        alike = [other for other in layout.connectors if other.ajp == connector.ajp]
        called = _called([(str(one.port), f"{one.address}:{one.port}", one.bean) for one in alike])
        name = called[alike.index(connector)]
        prefix, label = "ajp_" if connector.ajp else "", _suffix(name, len(alike))
        for kind, bean in _of_connector(connector):
            yield kind, prefix, label, bean, f"the Connector of port {label or connector.port}", connector.endpoint
    called = _called([(one.name, f"{_context(one)}:{one.name}", one.bean) for one in layout.pools])
    for pool, name in zip(layout.pools, called, strict=True):
        for kind in _DBCP if pool.dbcp else _JDBC:
            yield kind, "", _suffix(name, len(called)), pool.bean, f"the Resource {pool.name}", pool.bean


def restarting(layout: Layout) -> dict[tuple[str, str], str]:
    """MBean and attribute of each knob that needs a restart of its connector, whether it may be moved or not.

    Returns:
        To the name of the knob.
    """
    return {
        (bean, kind.attribute): _name(kind, prefix, label)
        for kind, prefix, label, bean, _, _ in wanted(layout)
        if kind.how is How.RESTART
    }


def dials(
    layout: Layout,
    values: Mapping[tuple[str, str], int],
    descriptors: int,
    restart: bool,
    tasks: int | None = None,
    threads: int | None = None,
) -> tuple[tuple[Dial, ...], tuple[str, ...]]:
    """The knobs that exist, and notes on those that do not.

    Args:
        layout: its parts.
        values: MBean and attribute to the value in force.
        descriptors: files and sockets that the server may have open.
        restart: whether connectors may be restarted.
        tasks: threads that its control groups let it start; None where nothing limits them.
        threads: threads that its user may start; likewise.
    """
    found, missing, most_threads = [], [], _most_threads(layout, values, tasks, threads)
    connectors = {connector.endpoint: connector for connector in layout.connectors}
    counting = {bean for (bean, name), value in values.items() if name == _CONNECTIONS.attribute and value > 0}
    for kind, prefix, label, bean, location, part in wanted(layout):
        name = _name(kind, prefix, label)
        value = values.get((bean, kind.attribute))
        if value is None:
            continue
        if why := _hindrance(kind, value, location, connectors.get(part), part in counting, restart):
            missing.append(f"{name} {why}")
            continue
        most, limit = _most(kind, value, descriptors, most_threads)
        domain = Domain(value - kind.step * ((value - kind.least) // kind.step), most, kind.step, limit)
        knob = Knob(
            *(name, kind.written, kind.unit, domain, kind.default),
            *(kind.how, kind.cost, kind.description, kind.role, label),
        )
        found.append(Dial(knob, bean, kind.attribute, location, part, kind.name))
    return tuple(found), tuple(missing)


def _name(kind: Kind, prefix: str, label: str) -> str:
    return of_class(f"{prefix}{kind.name}", label) if label else f"{prefix}{kind.name}"


def _hindrance(
    kind: Kind, value: int, location: str, connector: Connector | None, counts: bool, restart: bool
) -> str:
    """Why a knob cannot be moved, as it follows its name; empty where it can.

    Args:
        kind: its kind.
        value: its value in force.
        location: where it is set.
        connector: the connector that has it; None for one of an executor or a pool.
        counts: whether that counts its connections.
        restart: whether connectors may be restarted.
    """
    if value < kind.least:
        pauses = ", and to lose no request where that is paused" if kind is _CONNECTIONS else ""
        return f"has no limit ({kind.written}={value}): set one in {location} to have it moved{pauses}"
    if kind is _CONNECTIONS and connector is not None and native(connector.endpoint):
        return f"is {value}; an APR connector takes it at its start alone, and where it is paused may lose requests"
    if kind.how is How.CONNECTIONS and connector is not None and connector.reuses:
        # Not only would it act on few: the buffers made meanwhile would outlive the undo.
        return (
            f"is {value}; connections get the buffers of ended ones here: add "
            f'socket.bufferPool="0" to {location} and restart Tomcat to have it moved'
        )
    if kind.how is How.CONNECTIONS and not counts:
        return (
            f"is {value}; what it takes is not known, as Tomcat counts no connections where "
            f"{_CONNECTIONS.written} is no limit: set one in {location} to have it moved"
        )
    if kind.how is How.RESTART and connector is not None and connector.virtual:
        return f"is {value}; no restart, as Tomcat does not say how many of its virtual threads serve a request"
    if kind.how is How.RESTART and not restart:
        return f"is {value}; to have it moved, allow restarts of the connector: --allow-restart"
    return ""


def objection(dials: Sequence[Dial], values: Mapping[str, int]) -> str:
    """Which rule these values break; empty when they break none."""
    for low, high in pairs(dials):
        least, most = values[low.knob.name], values[high.knob.name]
        if least > most:
            return f"{low.knob.name} {least} is more than {high.knob.name} {most}"
    return ""


def pairs(dials: Sequence[Dial]) -> Iterator[tuple[Dial, Dial]]:
    """Knobs of which the first may not be greater than the second.

    Tomcat keeps such a value, says it when it is read back, and its pool goes on with the one before.
    """
    by_part = {(dial.part, dial.kind): dial for dial in dials}
    for (part, kind), dial in by_part.items():
        for low, high in ((MIN_THREADS, MAX_THREADS), (MIN_IDLE, MAX_IDLE), (MIN_IDLE, MAX_ACTIVE)):
            if kind == low and (part, high) in by_part:
                yield dial, by_part[part, high]


def turn(dial: Dial | None, grows: bool) -> int:
    """Sort key of a value among several to set, so that no rule is broken on the way.

    First those that shrink, from least to greatest, then those that grow, from greatest to least.

    Args:
        dial: its knob; None for a value that follows a maximum.
        grows: whether the value grows.
    """
    kind = "" if dial is None else dial.kind
    rank = 0 if kind in (MIN_THREADS, MIN_IDLE) else 2 if kind in (MAX_THREADS, MAX_ACTIVE) else 1
    return -rank + 3 if grows else rank - 3


def _of_connector(connector: Connector) -> Iterator[tuple[Kind, str]]:
    """The kinds of a connector, and the MBean of each."""
    if not connector.executor and not connector.virtual:
        yield from ((kind, connector.endpoint) for kind in _THREADS)
    yield _CONNECTIONS, connector.endpoint
    yield _KEEP_ALIVE, connector.endpoint
    yield from ((kind, connector.sockets) for kind in _SOCKETS)
    yield ACCEPT_COUNT, connector.endpoint


def _most_threads(
    layout: Layout, values: Mapping[tuple[str, str], int], tasks: int | None, threads: int | None
) -> tuple[int, str]:
    """The most threads that can be of use, or can be had, and what limits them.

    More than there may be connections are never busy at once, by Tomcat's own limit where there is none. A thread
    that cannot be started serves nobody, and ends that which would have started it, after which the connector serves
    nobody ("unable to create native thread" of its Poller). So each pool may have its share of the threads that are
    left, as if it had none yet.
    """
    held = [values.get((one.endpoint, _CONNECTIONS.attribute), -1) for one in layout.connectors]
    most = sum(one if one > 0 else _CONNECTIONS.default for one in held)
    limit = f"connections have no limit here; {_CONNECTIONS.default} is Tomcat's own"
    if all(one > 0 for one in held):
        limit = f"{most} connections are held at most, so no more are ever busy"
    for left, why in (
        (tasks, "its control group has room for {} more threads (pids.max)"),
        (threads, "its user may start {} more threads (ulimit -u)"),
    ):
        if left is not None and (share := left // max(1, len(layout.connectors))) < most:
            most, limit = share, why.format(left)
    return most, limit


def _most(kind: Kind, value: int, descriptors: int, threads: tuple[int, str]) -> tuple[int, str]:
    """The greatest value of a knob, and what limits it."""
    if kind.role is Role.CONNECTION_LIMIT:
        most, why = descriptors, f"the server may open {descriptors} files and sockets (ulimit -n)"
    elif kind.name == ACCEPT:
        most = _kernel("net/core/somaxconn")
        why = f"net.core.somaxconn = {most}"
    elif kind.unit == "ms":
        most, why = _LONGEST_MS, "nobody waits for longer than ten minutes"
    elif kind.unit == "bytes":
        most, why = 1 << 20, "two such buffers for each connection"
    else:
        most, why = threads
    return max(most, value), why


def _kernel(name: str) -> int:
    return int(Path(f"/proc/sys/{name}").read_text(encoding="ascii"))


def _called(forms: Sequence[Sequence[str]]) -> list[str]:
    """For each part the first of its names that no other part has; the last ones are the MBeans' own."""
    alike = [Counter(names) for names in zip(*forms, strict=True)]
    return [next(name for name, count in zip(names, alike, strict=True) if count[name] == 1) for names in forms]


def _suffix(label: str, number: int) -> str:
    return label if number > 1 else ""


def _context(pool: Pool) -> str:
    """The application of a pool, such as "/shop"."""
    words = dict(word.partition("=")[::2] for word in pool.bean.partition(":")[2].split(","))
    return words.get("context", "")
