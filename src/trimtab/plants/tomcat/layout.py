"""What a running Tomcat is made of, as far as it can be steered: connectors, shared executors, pools of connections.

| part      | MBean                                  | what                                                     |
|-----------|----------------------------------------|----------------------------------------------------------|
| Connector | type=Connector and type=ThreadPool     | a port, with threads of its own where it has no executor |
| Executor  | type=Executor                          | threads that connectors share; theirs say -1 then        |
| Pool      | tomcat.jdbc:type=ConnectionPool        | JDBC connections, by Tomcat's own pool                   |
|           | type=DataSource that has maxTotal      | likewise by DBCP, used where no factory is named         |
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from trimtab.errors import NotMeasured
from trimtab.plants.tomcat.jmx import Jmx

_NAME = re.compile(r'[,:]name=("(?:[^"\\]|\\.)*"|[^,]*)')
_OWN_THREADS = "Internal"


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
    """

    bean: str
    endpoint: str
    port: int
    ajp: bool
    executor: str
    virtual: bool

    @property
    def sockets(self) -> str:
        """The MBean of its sockets' properties."""
        return self.endpoint.replace("type=ThreadPool", "type=SocketProperties")

    @property
    def requests(self) -> str:
        """The MBean that counts its requests."""
        return self.endpoint.replace("type=ThreadPool", "type=GlobalRequestProcessor")


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
    """All of these, and the servlets.

    Args:
        connectors: in the order of their ports, those of HTTP first.
        executors: those that a connector uses.
        pools: by name.
        servlets: MBeans of the servlets that make pages; the one for static files is not among them.
        collectors: MBeans of the garbage collectors.
    """

    connectors: tuple[Connector, ...]
    executors: tuple[Executor, ...]
    pools: tuple[Pool, ...]
    servlets: tuple[str, ...]
    collectors: tuple[str, ...]


def name_of(bean: str) -> str:
    """The name in an MBean's name, without quotes."""
    found = _NAME.search(bean)
    return "" if found is None else found[1].strip('"')


def look(jmx: Jmx) -> Layout:
    """What a Tomcat is made of now.

    Raises:
        NotMeasured: no answer came.
        PlantGone: the server has ended.
    """
    connectors = tuple(sorted(_connectors(jmx), key=lambda one: (one.ajp, one.port)))
    used = {one.executor for one in connectors}
    executors = (Executor(bean, name_of(bean)) for bean in jmx.names("*:type=Executor,name=*"))
    servlets = [bean for bean in jmx.names("*:j2eeType=Servlet,*") if name_of(bean) != "default"]
    return Layout(
        connectors,
        tuple(one for one in executors if one.name in used),
        tuple(sorted(_pools(jmx), key=lambda one: (one.name, one.bean))),
        tuple(servlets),
        tuple(jmx.names("java.lang:type=GarbageCollector,*")),
    )


def _connectors(jmx: Jmx) -> list[Connector]:
    """Its connectors."""
    beans = jmx.names("*:type=Connector,*")
    fields = ("localPort", "protocol", "executorName")
    ports = {}
    for bean, found in zip(beans, jmx.read(dict.fromkeys(beans, fields)), strict=True):
        if found is not None and isinstance(found["localPort"], int):
            ports[found["localPort"]] = bean, str(found["protocol"]), str(found["executorName"])
    connectors = []
    endpoints = jmx.names("*:type=ThreadPool,*")
    asked = jmx.read(dict.fromkeys(endpoints, ("localPort", "useVirtualThreads")))
    for endpoint, found in zip(endpoints, asked, strict=True):
        port = None if found is None else found["localPort"]
        if found is None or not isinstance(port, int) or port not in ports:
            continue
        bean, protocol, executor = ports[port]
        own = executor == _OWN_THREADS
        virtual = bool(found["useVirtualThreads"])
        connectors.append(
            Connector(bean, endpoint, port, "AJP" in protocol.upper(), "" if own else executor, virtual)
        )
    if not connectors:
        raise NotMeasured("it has no connector that is open")
    return connectors


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
    return found
