"""Parts of a running Tomcat that can be steered: connectors, shared executors, pools of connections.

| part      | MBean                                  | what                                                     |
|-----------|----------------------------------------|----------------------------------------------------------|
| Connector | type=Connector and type=ThreadPool     | a port, with threads of its own where it has no executor |
| Executor  | type=Executor                          | threads that connectors share; theirs say -1 then        |
| Pool      | tomcat.jdbc:type=ConnectionPool        | JDBC connections, by Tomcat's own pool                   |
|           | type=DataSource that has maxTotal      | likewise by DBCP, used where no factory is named         |

Requests over HTTP/2 are counted apart from their connector's, in an MBean of the same name with `Upgrade=h2`, or
`h2c` without TLS (`Http2Protocol.setHttp11Protocol`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from trimtab.errors import NotMeasured
from trimtab.plants.tomcat.jmx import Jmx

_NAME = re.compile(r'[,:]name=("(?:[^"\\]|\\.)*"|[^,]*)')
_ADDRESS = re.compile(r'[,:]address=("(?:[^"\\]|\\.)*"|[^,]*)')
_OF_HTTP2 = re.compile(r",Upgrade=h2c?(?:,|$)")
_OWN_THREADS = "Internal"
_NOT_SAID = -2
_LARGE_HEAP_BYTES = 2**31 - 1
_TOMCAT_8 = "Apache Tomcat/8."
_MOST_CONNECTORS, _MOST_POOLS = 64, 256
"""What a server says that it has more of is no Tomcat to be steered."""
HEAP = "java.lang:type=Memory"
BUSY, NOT_COUNTED = "currentThreadsBusy", -1
"""Requests in service; Tomcat says -1 of threads without a limit, and -2 of a connector that serves nothing.

Of which kind they are not all of its versions say (`useVirtualThreads`: 10.1.60 does, 11.0.5 does not).
"""


@dataclass(frozen=True)
class Connector:
    """A port on which it serves.

    Args:
        bean: its MBean.
        endpoint: the MBean of its ThreadPool.
        port: on which it listens.
        ajp: whether it speaks AJP.
        executor: name of the executor that it shares; empty where it has threads of its own.
        virtual: whether each request has a thread of its own, so that there is no limit of threads.
        reuses: whether a connection gets the buffers of one that has ended, of whatever size they are.
        address: at which it listens, where its configuration names one.
    """

    bean: str
    endpoint: str
    port: int
    ajp: bool
    executor: str
    virtual: bool
    reuses: bool
    address: str = ""

    @property
    def sockets(self) -> str:
        """The MBean of its sockets' properties."""
        return _beside(self.endpoint, "SocketProperties")

    @property
    def handler(self) -> str:
        """The MBean of its protocol."""
        return self.bean.replace("type=Connector", "type=ProtocolHandler")

    @property
    def requests(self) -> str:
        """The MBean that counts its requests."""
        return _beside(self.endpoint, "GlobalRequestProcessor")


@dataclass(frozen=True)
class Executor:
    """Threads that connectors share.

    Args:
        bean: its MBean.
        name: its name.
    """

    bean: str
    name: str


@dataclass(frozen=True)
class Pool:
    """JDBC connections of an application.

    Args:
        bean: its MBean.
        name: such as "jdbc/shop".
        dbcp: whether it is one of DBCP.
    """

    bean: str
    name: str
    dbcp: bool


@dataclass(frozen=True)
class Layout:
    """All parts of a Tomcat, with its servlets and garbage collectors.

    Args:
        connectors: in the order of their ports, those of HTTP first.
        executors: those that a connector uses and that have a limit of threads, as those of virtual threads have not.
        pools: by name.
        servlets: MBeans of the servlets that make pages; the one for static files is not among them.
        collectors: MBeans of the garbage collectors.
        multiplexed: MBeans that count the connectors' requests over HTTP/2.
        portless: the Unix sockets at which it serves too.
        deaf: whether kept connections do not learn that each is to end with its next response: in Tomcat 8 each
            thread's part of them has a count of its own (`Http11Processor.maxKeepAliveRequests`).
    """

    connectors: tuple[Connector, ...]
    executors: tuple[Executor, ...]
    pools: tuple[Pool, ...]
    servlets: tuple[str, ...]
    collectors: tuple[str, ...]
    multiplexed: tuple[str, ...] = ()
    portless: tuple[str, ...] = ()
    deaf: bool = False


def native(endpoint: str) -> bool:
    """Whether an endpoint is of APR, as up to 10.0, which takes its limit of connections at its start alone."""
    return "-apr-" in name_of(endpoint)


def name_of(bean: str) -> str:
    """The name in an MBean's name, without quotes."""
    found = _NAME.search(bean)
    return "" if found is None else found[1].strip('"')


def look(jmx: Jmx) -> Layout:
    """Present parts of a Tomcat.

    Raises:
        NotMeasured: no answer came.
        PlantGone: the server has ended.
    """
    executors = _executors(jmx)
    pooled = {one.name for one in executors}
    connectors = tuple(sorted(_connectors(jmx, pooled), key=lambda one: (one.ajp, one.port, one.address)))
    used = {one.executor for one in connectors}
    servlets = [bean for bean in jmx.names("*:j2eeType=Servlet,*") if name_of(bean) != "default"]
    return Layout(
        connectors,
        tuple(one for one in executors if one.name in used),
        tuple(sorted(_pools(jmx), key=lambda one: (one.name, one.bean))),
        tuple(servlets),
        tuple(jmx.names("java.lang:type=GarbageCollector,*")),
        _multiplexed(jmx, {name_of(one.endpoint) for one in connectors}),
        tuple(one for one in map(_address_of, jmx.names("*:type=Connector,*")) if one.startswith("/")),
        _deaf(jmx),
    )


def _deaf(jmx: Jmx) -> bool:
    """Whether it is a Tomcat 8."""
    said = jmx.read(dict.fromkeys(jmx.names("*:type=Server"), ("serverInfo",)))
    return any(found and str(found["serverInfo"]).startswith(_TOMCAT_8) for found in said)


def _multiplexed(jmx: Jmx, connectors: Collection[str]) -> tuple[str, ...]:
    """The MBeans that count requests over HTTP/2.

    Args:
        jmx: the conversation.
        connectors: names of its connectors' endpoints.
    """
    counting = jmx.names("*:type=GlobalRequestProcessor,*")
    return tuple(one for one in counting if _OF_HTTP2.search(one) and name_of(one) in connectors)


def _executors(jmx: Jmx) -> list[Executor]:
    """Its shared executors that have a limit of threads."""
    beans = _few(jmx.names("*:type=Executor,name=*"), _MOST_CONNECTORS, "executors")
    said = jmx.read(dict.fromkeys(beans, ("maxThreads",)))
    there = (bean for bean, found in zip(beans, said, strict=True) if found and found["maxThreads"] is not None)
    return [Executor(bean, name_of(bean)) for bean in there]


def _connectors(jmx: Jmx, pooled: Collection[str]) -> list[Connector]:
    """Its connectors that listen at a port; one at a Unix socket has none, and the kernel tells nothing of it.

    Args:
        jmx: the conversation.
        pooled: names of the executors that have a limit of threads.
    """
    beans = _few(jmx.names("*:type=Connector,*"), _MOST_CONNECTORS, "connectors")
    fields = ("localPort", "protocol", "executorName")
    ports: dict[int, list[tuple[str, str, str]]] = {}
    for bean, found in zip(beans, jmx.read(dict.fromkeys(beans, fields)), strict=True):
        if found is not None and isinstance(port := found["localPort"], int):
            ports.setdefault(port, []).append((bean, str(found["protocol"]), str(found["executorName"])))
    connectors = []
    endpoints = _few(jmx.names("*:type=ThreadPool,*"), _MOST_CONNECTORS, "connectors")
    asked = jmx.read(dict.fromkeys(endpoints, ("localPort", BUSY)))
    reusing = _reusing(jmx, [_beside(one, "SocketProperties") for one in endpoints])
    for endpoint, found in zip(endpoints, asked, strict=True):
        port = None if found is None else found["localPort"]
        if found is None or not isinstance(port, int) or (mine := _mine(ports.get(port, []), endpoint)) is None:
            continue
        bean, protocol, executor = mine
        if _address_of(bean).startswith("/"):
            continue
        shared = "" if executor == _OWN_THREADS else executor
        reuses = _beside(endpoint, "SocketProperties") in reusing
        virtual = found[BUSY] == NOT_COUNTED or (shared != "" and shared not in pooled)
        ajp, address = "AJP" in protocol.upper(), _address_of(bean)
        connectors.append(Connector(bean, endpoint, port, ajp, shared, virtual, reuses, address))
    if not connectors:
        raise NotMeasured("it has no connector that is open at a port")
    return connectors


def _mine(there: Sequence[tuple[str, str, str]], endpoint: str) -> tuple[str, str, str] | None:
    """The connector of an endpoint, of those on its port, of which each has an address of its own; None for none."""
    alone = len(there) == 1
    return next((one for one in there if alone or f"-{_address_of(one[0])}-" in name_of(endpoint)), None)


def _address_of(bean: str) -> str:
    """The address in the name of a connector's MBean; empty where its configuration names none."""
    found = _ADDRESS.search(bean)
    return "" if found is None else found[1].strip('"')


def _beside(endpoint: str, kind: str) -> str:
    """An MBean of the same connector."""
    return endpoint.replace("type=ThreadPool", f"type={kind}")


def _few(names: list[str], most: int, what: str) -> list[str]:
    """Names of MBeans.

    Raises:
        NotMeasured: there are too many.
    """
    if len(names) > most:
        raise NotMeasured(f"it says that it has {len(names)} {what}, and trimtab looks at {most} at most")
    return names


def _reusing(jmx: Jmx, sockets: Sequence[str]) -> set[str]:
    """Those whose buffers of connections are kept for others (`SocketProperties.getActualBufferPool`).

    Where nothing is said of it (-2), they are with a heap that may be larger than 2 GiB.
    """
    names = "bufferPool", "bufferPoolSize"
    *rows, memory = jmx.read({**dict.fromkeys(sockets, names), HEAP: ("HeapMemoryUsage.max",)})
    most = None if memory is None else memory["HeapMemoryUsage.max"]
    large = not isinstance(most, int) or not 0 < most <= _LARGE_HEAP_BYTES
    reusing = set()
    for one, found in zip(dict.fromkeys(sockets), rows, strict=True):
        kept = [None if found is None else found[name] for name in names]
        said = next((value for value in kept if value != _NOT_SAID), None)
        if large if said is None else said != 0:
            reusing.add(one)
    return reusing


def _pools(jmx: Jmx) -> list[Pool]:
    """Its pools of JDBC connections."""
    found = [
        Pool(bean, name_of(bean), False)
        for bean in jmx.names("tomcat.jdbc:type=ConnectionPool,*")
        if "connections=" not in bean
    ]
    sources = jmx.names("*:type=DataSource,*")
    for bean, said in zip(sources, jmx.read(dict.fromkeys(sources, ("maxTotal",))), strict=True):
        if said is not None and said["maxTotal"] is not None:
            found.append(Pool(bean, name_of(bean), True))
    _few([pool.bean for pool in found], _MOST_POOLS, "JDBC pools")
    return found
