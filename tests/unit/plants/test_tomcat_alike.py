"""Parts of a Tomcat that share a port or a name are told apart: each has its own values, and gets them back."""

from __future__ import annotations

from tests._jvm import CONNECTOR, ENDPOINT, POOL, SOCKETS, Bench, bench

__all__ = ["bench"]
HOME, LAN = "127.0.0.1", "10.0.0.1"


def at(address: str) -> tuple[str, str, str]:
    """The MBeans of the connector at an address, as Tomcat calls them."""
    endpoint, sockets = (one.replace("nio-8080", f"nio-{address}-8080") for one in (ENDPOINT, SOCKETS))
    return f'{CONNECTOR},address="{address}"', endpoint, sockets


def on_one_port(bench: Bench) -> None:
    """It listens on one port at two addresses; the connector at the second one has fewer threads."""
    beans = bench.jvm.beans
    one = [beans.pop(bean) for bean in (CONNECTOR, ENDPOINT, SOCKETS)]
    for address in (HOME, LAN):
        beans |= {bean: dict(said) for bean, said in zip(at(address), one, strict=True)}
    beans[at(LAN)[1]]["maxThreads"] = 50


def threads(bench: Bench) -> list[object]:
    return [bench.jvm.beans[at(address)[1]]["maxThreads"] for address in (HOME, LAN)]


def test_two_connectors_on_one_port_have_knobs_of_their_own_and_get_back_what_each_had(bench: Bench) -> None:
    on_one_port(bench)
    plant = bench.attach()
    now = plant.configuration()
    assert [now[f"max_threads@{address}:8080"] for address in (HOME, LAN)] == [200, 50]
    plant.apply({f"max_threads@{HOME}:8080": 100})
    assert threads(bench) == [100, 50]
    plant.restore()
    assert threads(bench) == [200, 50]


def test_each_of_them_is_paused_with_the_limits_of_its_own_endpoint(bench: Bench) -> None:
    on_one_port(bench)
    there = bench.attach()._tomcat.layout.connectors
    assert {(one.bean, one.endpoint) for one in there} == {at(HOME)[:2], at(LAN)[:2]}


def test_pools_of_one_name_in_applications_of_one_name_are_told_apart(bench: Bench) -> None:
    said = bench.jvm.beans.pop(POOL)
    bench.jvm.beans |= {f"{POOL},context=/shop,host={host}": dict(said) for host in ("a", "b")}
    names = [knob.name for knob in bench.attach().knobs()]
    assert len(names) == len(set(names))
    assert sum(name.startswith("pool_max_active@") for name in names) == 2


def test_shared_executors_of_one_name_in_two_services_are_told_apart(bench: Bench) -> None:
    bench.jvm.beans[CONNECTOR]["executorName"] = "pool"
    for domain, most in (("Catalina", 200), ("Other", 50)):
        bench.jvm.beans[f"{domain}:type=Executor,name=pool"] = {"maxThreads": most, "minSpareThreads": 10}
    now = bench.attach().configuration()
    assert sorted(value for name, value in now.items() if name.startswith("max_threads@")) == [50, 200]


def test_a_connector_at_a_unix_socket_is_left_alone_and_said(bench: Bench) -> None:
    """The kernel shows none of its requests, and a pause that has to connect to its port would fail for all."""
    before = bench.attach().configuration()
    at_socket = [one.replace("nio-8080", "nio-/run/tomcat.sock") for one in (ENDPOINT, SOCKETS)]
    for bean, of in zip(at_socket, (ENDPOINT, SOCKETS), strict=True):
        bench.jvm.beans[bean] = dict(bench.jvm.beans[of])
    bench.jvm.beans[at_socket[0]]["localPort"] = -1
    other = 'Catalina:type=Connector,port=0,address="/run/tomcat.sock"'
    bench.jvm.beans[other] = bench.jvm.beans[CONNECTOR] | {"localPort": -1}
    plant, notes = bench.attach(), list[str]()
    assert plant.configuration() == before
    assert plant.notes[-1] == "/run/tomcat.sock is a Unix socket: neither measured, moved nor held back"
    with plant.held(notes):
        assert not bench.jvm.serves()
