"""Sensor: a Tomcat's own figures by JMX: requests, threads, connections, JDBC pools, heap.

| reading                | from                                                                                     |
|------------------------|------------------------------------------------------------------------------------------|
| request_rate_hz        | requestCount of all connectors (GlobalRequestProcessor), those over HTTP/2 with them     |
| http2_request_rate_hz  | those over HTTP/2, where a connector speaks it                                           |
| error_rate_hz          | errorCount: replies of status 400 and above                                              |
| byte_rate_bytes_hz     | bytesSent                                                                                |
| service_time_s         | processingTime / requestCount: from the first byte of a request in a thread to its end   |
| busy_workers           | currentThreadsBusy, or activeCount of an executor; mean over the samples                 |
| idle_workers           | threads less the busy ones, likewise                                                     |
| servlet_rate_hz        | requestCount of every servlet but the one for static files: pages                        |
| servlet_time_s         | processingTime / requestCount of these                                                   |
| pool_busy_connections  | JDBC connections that are lent, of all pools; mean over the samples                      |
| pool_idle_connections  | likewise those that are not                                                              |
| pool_waiting_requests  | requests that wait for a connection; only Tomcat's own pool says so                      |
| heap_bytes             | heap in use at the end of the window                                                     |
| garbage_ratio          | share of the window in which a collector worked (CollectionTime)                         |

A request counts, in Tomcat's books as in these, when it ends. The server answers from a thread of its own, not from
one that serves, so what it says comes in time when all of those are busy. Tomcat does not count virtual threads:
where a connector has them, threads busy and idle are absent. So are the readings of servlets, or of pools, where one
of them has gone with its application. And so are all of requests once a client has changed to HTTP/2 by an upgrade
(h2c): from then on Tomcat has another MBean in the place of the one that counts such requests
(`AbstractHttp11Protocol.getUpgradeGroupInfo`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trimtab.core import Clock, Metric, Precedence, Readings
from trimtab.errors import NotMeasured, TrimtabError
from trimtab.plants.tomcat.jmx import Jmx
from trimtab.plants.tomcat.layout import HEAP, Layout
from trimtab.sensors._counter_window import CounterWindow
from trimtab.sensors._metrics import BUSY_WORKERS, BYTE_RATE, ERROR_RATE, IDLE_WORKERS, REQUEST_RATE, SERVICE_TIME

_EDGE_S = 2.0
_COUNTS = ("requestCount", "processingTime", "errorCount", "bytesSent")
_RATES = {
    "request_rate_hz": "requestCount",
    "error_rate_hz": "errorCount",
    "byte_rate_bytes_hz": "bytesSent",
    "http2_request_rate_hz": "http2 requestCount",
    "servlet_rate_hz": "servlet requestCount",
}
"""Reading to the counter that it is the rate of."""
_NARROW = ("requestCount", "errorCount", "servlet requestCount", "http2 requestCount")
"""Counters of 32 bits with a sign, an int of Java's, which after 2,147,483,647 goes on from below 0."""
_USED = "HeapMemoryUsage.used"
_POOLED = ("pool_busy_connections", "pool_idle_connections", "pool_waiting_requests")
Questions = Mapping[str, tuple[str, ...]]
Said = Mapping[str, Mapping[str, int | str | None] | None]


@dataclass(frozen=True)
class Sample:
    """Values at one moment.

    Args:
        totals: counters by metric.
        levels: gauges by metric.
        heap_bytes: heap in use.
    """

    totals: Mapping[str, float]
    levels: Mapping[str, float]
    heap_bytes: float


class TomcatStatus(CounterWindow[Sample]):
    """Figures that a Tomcat gives of itself by JMX.

    Args:
        jmx: the conversation with it.
        layout: its parts.
        clock: the loop's clock.
    """

    name = "tomcat-status"
    precedence = Precedence.STATUS_PAGE
    sampling_period_s = 0.5
    metrics = (
        REQUEST_RATE,
        BYTE_RATE,
        SERVICE_TIME,
        BUSY_WORKERS,
        IDLE_WORKERS,
        Metric(
            "http2_request_rate_hz", "Hz", "requests per second over HTTP/2, of which a connection has many at a time"
        ),
        ERROR_RATE,
        Metric("servlet_rate_hz", "Hz", "requests per second that a servlet served, not the one for static files"),
        Metric("servlet_time_s", "s", "mean time of such a request in its servlet"),
        Metric("pool_busy_connections", "connections", "time average of JDBC connections that are lent"),
        Metric("pool_idle_connections", "connections", "time average of JDBC connections that are not lent"),
        Metric("pool_waiting_requests", "requests", "time average of requests that wait for a JDBC connection"),
        Metric("heap_bytes", "bytes", "heap in use, garbage included"),
        Metric("garbage_ratio", "ratio", "share of time in which a garbage collector worked"),
    )

    def __init__(self, jmx: Jmx, layout: Layout, clock: Clock) -> None:
        super().__init__(clock)
        self._jmx = jmx
        self._levels_asked = _of_levels(layout)
        self._asked_at_edges = {**_of_totals(layout), **self._levels_asked}
        self._layout = layout
        self._asked: int | None = None
        self._levels: list[Mapping[str, float]] = []

    def begin(self) -> None:
        """Marks the start of a window.

        Raises:
            NotMeasured: the server does not answer.
        """
        super().begin()
        self._levels = []

    def sample(self) -> None:
        """Takes the answer to the last question, and asks again.

        Raises:
            NotMeasured: the server does not answer.
        """
        try:
            if self._asked is not None:
                found = self._jmx.arrived(self._asked)
                if found is None:
                    return
                self._asked = None
                self._levels.append(_levels(self._layout, self._said(self._levels_asked, found)))
            self._asked = self._jmx.ask_for(self._levels_asked)
        except TrimtabError as error:
            self._asked = None
            raise NotMeasured(str(error)) from None

    def differences(self, elapsed_s: float, first: Sample, last: Sample) -> Readings:
        """The readings of the window, gauges as means of their samples.

        Raises:
            NotMeasured: a counter was reset.
        """
        grown = {
            name: _growth(name, first.totals[name], now) for name, now in last.totals.items() if name in first.totals
        }
        if any(value < 0 for value in grown.values()):
            raise NotMeasured("the server's counters were reset within the window")
        readings = {
            "garbage_ratio": min(1.0, grown["collection"] / 1000 / elapsed_s),
            "heap_bytes": last.heap_bytes,
        }
        readings |= {name: grown[count] / elapsed_s for name, count in _RATES.items() if count in grown}
        for name, kind in (("service_time_s", ""), ("servlet_time_s", "servlet ")):
            if (number := grown.get(f"{kind}requestCount", 0.0)) > 0:
                readings[name] = grown[f"{kind}processingTime"] / 1000 / number
        levels = self._levels or [last.levels]
        for name in ("busy_workers", "idle_workers", *_POOLED):
            if all(name in one for one in levels):
                readings[name] = sum(one[name] for one in levels) / len(levels)
        return readings

    def state(self) -> Sample:
        """Asks for a sample now.

        Raises:
            NotMeasured: the server does not answer.
        """
        try:
            found = self._jmx.wait(self._jmx.ask_for(self._asked_at_edges), _EDGE_S)
        except TrimtabError as error:
            raise NotMeasured(str(error)) from None
        said = self._said(self._asked_at_edges, found)
        return Sample(_totals(self._layout, said), _levels(self._layout, said), _number(said, HEAP, _USED))

    @staticmethod
    def _said(asked: Questions, found: object) -> Said:
        """Values in an answer, by MBean."""
        return dict(zip(asked, Jmx.understood(asked, found), strict=True))


def _of_totals(layout: Layout) -> Questions:
    """The attributes to ask for at the edges of a window, by MBean."""
    asked: dict[str, tuple[str, ...]] = dict.fromkeys(_requests(layout), _COUNTS)
    asked |= {servlet: ("requestCount", "processingTime") for servlet in layout.servlets}
    asked |= {collector: ("CollectionTime",) for collector in layout.collectors}
    return {**asked, HEAP: (_USED,)}


def _requests(layout: Layout) -> tuple[str, ...]:
    """The MBeans that count requests."""
    return (*(one.requests for one in layout.connectors), *layout.multiplexed)


def _of_levels(layout: Layout) -> Questions:
    """The attributes to ask for within a window too."""
    asked: dict[str, tuple[str, ...]] = {
        connector.endpoint: ("currentThreadCount", "currentThreadsBusy")
        for connector in layout.connectors
        if not connector.executor and not connector.virtual
    }
    asked |= {executor.bean: ("poolSize", "activeCount") for executor in layout.executors}
    for pool in layout.pools:
        asked[pool.bean] = ("numActive", "numIdle") if pool.dbcp else ("NumActive", "NumIdle", "WaitCount")
    return asked


def _totals(layout: Layout, said: Said) -> dict[str, float]:
    """The counters, summed, one of 32 bits as it is; those of requests and servlets only where all are counted."""
    totals = dict[str, float]()
    over_http2 = [(said.get(one) or {}).get("requestCount") for one in layout.multiplexed]
    if None not in over_http2:
        totals = {name: sum(_count(said, one, name) for one in _requests(layout)) for name in _COUNTS}
    if layout.multiplexed and totals:
        totals["http2 requestCount"] = sum(_count(said, one, "requestCount") for one in layout.multiplexed)
    if _all_there(said, layout.servlets):
        for name in ("requestCount", "processingTime"):
            totals[f"servlet {name}"] = sum(_count(said, one, name) for one in layout.servlets)
    totals["collection"] = sum(_number(said, one, "CollectionTime") for one in layout.collectors)
    return totals


def _levels(layout: Layout, said: Said) -> dict[str, float]:
    """Gauges; those of threads only where all are counted, those of pools only where all of them are there."""
    threads = busy = 0.0
    for one in layout.connectors:
        if not one.executor and not one.virtual:
            threads += _number(said, one.endpoint, "currentThreadCount")
            busy += _number(said, one.endpoint, "currentThreadsBusy")
    for executor in layout.executors:
        threads += _number(said, executor.bean, "poolSize")
        busy += _number(said, executor.bean, "activeCount")
    counted = not any(one.virtual for one in layout.connectors)
    levels = {"busy_workers": busy, "idle_workers": max(0.0, threads - busy)} if counted else {}
    if layout.pools and _all_there(said, [pool.bean for pool in layout.pools]):
        for metric, own, dbcp in (("busy", "NumActive", "numActive"), ("idle", "NumIdle", "numIdle")):
            levels[f"pool_{metric}_connections"] = sum(
                _number(said, pool.bean, dbcp if pool.dbcp else own) for pool in layout.pools
            )
        if not any(pool.dbcp for pool in layout.pools):
            levels["pool_waiting_requests"] = sum(_number(said, pool.bean, "WaitCount") for pool in layout.pools)
    return levels


def _all_there(said: Said, beans: Iterable[str]) -> bool:
    """Whether none of these has gone, as with an application that was taken away or deployed anew."""
    return all(said.get(bean) is not None for bean in beans)


def _growth(name: str, before: float, now: float) -> float:
    """By how much a sum of counters has grown; below 0 where one was reset."""
    grown = now - before
    return (grown + 2**31) % 2**32 - 2**31 if name in _NARROW else grown


def _number(said: Said, bean: str, attribute: str) -> float:
    """A number in an answer; 0 where the server says less, for what it does not count.

    Raises:
        NotMeasured: it was not.
    """
    return max(0.0, _count(said, bean, attribute))


def _count(said: Said, bean: str, attribute: str) -> float:
    """A counter in an answer, as it is.

    Raises:
        NotMeasured: it was not.
    """
    found = (said.get(bean) or {}).get(attribute)
    if not isinstance(found, int):
        raise NotMeasured(f"{bean} does not say its {attribute}: its connector may have been stopped")
    return float(found)
