"""`trimtab run --gate` on an unmodified Apache: classes, budgets that move live, readings, and a clean end."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.servers._under_gate import (
    BASIC,
    PAGE,
    PATIENCE_S,
    PREMIUM,
    SPEC,
    UnderGate,
    a_name,
    fetched,
    gate_processes,
    kill_together,
    trimtab_run,
    under_gate,
    until,
)
from trimtab.clock import SystemClock
from trimtab.gate.server import processes_of
from trimtab.plants.apache import Apache
from trimtab.plants.gate import Gate
from trimtab.processes import identify
from trimtab.sensors._shared_file import Counters, SharedFile
from trimtab.sensors.gate import Gate as GateSensor
from trimtab.sensors.shim import Shim
from trimtab.testbed.apache_config import Mpm
from trimtab.testbed.content import WEBSTONE, cgi_url

pytestmark = [pytest.mark.server, pytest.mark.apache]

LIMIT, OF_PREMIUM, OF_BASIC = "max_request_workers", "process_budget@premium", "process_budget@basic"


@pytest.fixture(scope="module")
def bed() -> Iterator[UnderGate]:
    with under_gate() as running:
        yield running


@pytest.fixture
def plant(bed: UnderGate) -> Iterator[Gate]:
    made = bed.plant()
    yield made
    made.restore()
    made.close()


def sensor_of(plant: Gate, kind: type) -> GateSensor | Shim:
    found = next(sensor for sensor in plant.sensors() if isinstance(sensor, kind))
    assert isinstance(found, GateSensor | Shim)
    return found


def counters(bed: UnderGate) -> Counters:
    """What the shim has counted so far."""
    with contextlib.closing(SharedFile(bed.run_dir.shared)) as file:
        return file.counters()


def now(plant: Gate, name: str, key: str) -> int:
    """What the gate says of a class at this moment."""
    return int(next(getattr(c, key) for c in plant.link.readings().classes if c.name == name))


def settled(plant: Gate) -> None:
    """Waits until the server has noticed that its clients have closed: only then is a last request complete."""
    until(lambda: all(now(plant, n, "in_service") == 0 for n in plant.classes), "closed connections stay in service")


def test_its_configuration_is_that_of_the_spec(bed: UnderGate, plant: Gate) -> None:
    assert plant.configuration() == {LIMIT: 8, OF_PREMIUM: 4, OF_BASIC: 4}
    bed.pages(BASIC)


def test_connections_are_classified_by_their_source_and_counted_exactly(bed: UnderGate, plant: Gate) -> None:
    sensor = sensor_of(plant, GateSensor)
    before = {n: now(plant, n, "arrivals") for n in plant.classes}
    began_s = time.monotonic()
    sensor.begin()
    for _ in range(7):
        bed.pages(PREMIUM)
    for _ in range(11):
        bed.pages(BASIC)
    readings = sensor.read()
    assert {n: now(plant, n, "arrivals") - before[n] for n in plant.classes} == {"premium": 7, "basic": 11}
    assert readings["arrival_rate_hz@basic"] / readings["arrival_rate_hz@premium"] == pytest.approx(11 / 7)
    assert readings["dispatch_rate_hz@premium"] == pytest.approx(readings["arrival_rate_hz@premium"])
    assert 0 <= readings["connection_delay_s@basic"] < time.monotonic() - began_s
    settled(plant)


def test_a_class_at_its_budget_waits_until_the_budget_is_raised(bed: UnderGate, plant: Gate) -> None:
    plant.apply({OF_BASIC: 1})
    sensor = sensor_of(plant, GateSensor)
    with contextlib.closing(bed.client(BASIC)) as first, contextlib.closing(bed.client(BASIC, 0.7)) as second:
        assert fetched(first) == 200
        sensor.begin()
        second.request("GET", PAGE)
        until(lambda: now(plant, "basic", "queue") == 1, "the second connection does not wait")
        with pytest.raises(TimeoutError):
            second.getresponse()
        bed.pages(PREMIUM)
        assert (now(plant, "basic", "queue"), now(plant, "basic", "in_service")) == (1, 1)
        assert sensor.read()["in_service@basic"] == pytest.approx(1, abs=0.01)
        applied = plant.apply({OF_BASIC: 2})
        assert applied.configuration[OF_BASIC] == 2
        until(lambda: now(plant, "basic", "in_service") == 2, "the waiting connection was not given to a worker")
        readings = sensor.read()
        assert readings["connection_delay_s@basic"] > 0.6
        assert readings["connection_delay_p95_s@basic"] > 0.6
        assert 1 < readings["in_service@basic"] < 2
    settled(plant)


def test_the_number_of_all_connections_in_service_moves_live(bed: UnderGate, plant: Gate) -> None:
    plant.apply({LIMIT: 2})
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(contextlib.closing(bed.client(s))) for s in (BASIC, PREMIUM)]
        assert [fetched(client) for client in held] == [200, 200]
        third = stack.enter_context(contextlib.closing(bed.client(PREMIUM, 0.7)))
        with pytest.raises(TimeoutError):
            fetched(third)
        plant.apply({LIMIT: 3})
        until(lambda: now(plant, "premium", "in_service") == 2, "M was not raised")
    settled(plant)


def test_the_shim_counts_connections_requests_and_service_times(bed: UnderGate, plant: Gate) -> None:
    sensor = sensor_of(plant, Shim)
    first, began_s = counters(bed), time.monotonic()
    sensor.begin()
    for _ in range(5):
        bed.pages(BASIC, number=4)
    settled(plant)
    readings, last = sensor.read(), counters(bed)
    assert (last.connections - first.connections, last.requests - first.requests) == (5, 20)
    assert last.sent_bytes - first.sent_bytes > 20 * WEBSTONE[0].size_bytes
    assert last.clipped == 0
    assert readings["burst_length"] == 4
    assert 0 <= readings["accept_queue_delay_s"] < time.monotonic() - began_s

    first, began_s = last, time.monotonic()
    sensor.begin()
    for _ in range(3):
        bed.pages(BASIC, path=cgi_url(300))
    settled(plant)
    readings, last = sensor.read(), counters(bed)
    assert (last.connections - first.connections, last.requests - first.requests) == (3, 3)
    assert 0.3 <= readings["service_time_s"] <= time.monotonic() - began_s, (
        "a page may end while the next one is served"
    )
    derived = plant.derive(readings)
    assert derived["response_time_s"] == pytest.approx(
        readings["accept_queue_delay_s"] + readings["service_time_s"], rel=1e-6
    )


def test_a_gate_without_its_controller_opens_and_a_lease_brings_the_budgets_back(bed: UnderGate, plant: Gate) -> None:
    plant.apply({OF_BASIC: 1})
    with contextlib.closing(bed.plant()) as controller:
        controller.lease(0.5)
    until(lambda: plant.link.apply({}).mode == "open", "the lease did not run out")
    with contextlib.closing(bed.client(BASIC)) as first, contextlib.closing(bed.client(BASIC)) as second:
        assert [fetched(first), fetched(second)] == [200, 200]
        assert now(plant, "basic", "in_service") == 2
    plant.lease(PATIENCE_S)
    state = plant.link.apply({})
    assert (state.mode, state.configuration[OF_BASIC]) == ("budgets", 1)
    plant.end_lease()
    settled(plant)


def test_the_preemptive_policy_takes_back_an_idle_connection_of_a_class_above_its_budget_for_one_that_waits() -> None:
    with contextlib.ExitStack() as stack:
        bed = stack.enter_context(under_gate(spec=f'policy = "preemptive"{SPEC}'))
        plant = stack.enter_context(contextlib.closing(bed.plant()))
        plant.apply({OF_PREMIUM: 2, OF_BASIC: 6})
        idle = [stack.enter_context(contextlib.closing(bed.client(s))) for s in 6 * [BASIC] + 2 * [PREMIUM]]
        assert {fetched(client) for client in idle} == {200}
        plant.apply({OF_PREMIUM: 4, OF_BASIC: 4})
        assert all(map(still_open, idle)), "all eight workers hold one, and nobody waits"
        bed.pages(PREMIUM)
        left = [client for client in idle if still_open(client)]
        assert len(left) == 7
        assert {fetched(client) for client in left} == {200}


def still_open(client: http.client.HTTPConnection) -> bool:
    """Whether the server has not ended an idle connection."""
    client.sock.setblocking(False)
    try:
        return client.sock.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    finally:
        client.sock.settimeout(PATIENCE_S)


def test_the_loop_moves_m_and_the_window_has_exact_terms(bed: UnderGate, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trimtab", "tune", "gate", "--name", bed.run_dir.name, "--controller", "fuzzy"]
    more = ["--window", "1s", "--json", "--on-exit", "restore", "--store", str(tmp_path / "runs")]
    said = tmp_path / "said"
    with said.open("w") as out, ThreadPoolExecutor(4) as clients:
        process = subprocess.Popen([*command, *more], stdout=out, stderr=subprocess.PIPE, text=True)

        def of_type(kind: str) -> list[dict[str, Any]]:
            whole = said.read_text().rpartition("\n")[0].splitlines()
            return [line for line in map(json.loads, whole) if line["type"] == kind]

        def enough() -> bool:
            assert process.poll() is None, process.communicate()
            list(clients.map(lambda _: bed.pages(BASIC, number=2), range(8)))
            return len(of_type("window")) >= 3 and any(LIMIT in line["move"]["changes"] for line in of_type("move"))

        try:
            until(enough, "M is not moved")
        finally:
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (128 + signal.SIGINT, "")
    for window in of_type("window"):
        assert {"response_time_s", "service_time_s", "busy_workers", "arrival_rate_hz@basic"} <= set(
            window["readings"]
        )
    # A window begins and ends within requests, which counts where there are few of them.
    assert median(line["readings"]["burst_length"] for line in of_type("window")) == pytest.approx(2, rel=0.2)


def test_apache_under_the_gate_tells_its_exact_terms(bed: UnderGate, plant: Gate) -> None:
    apache = Apache.attach(SystemClock(), processes_of(bed.run_dir)[0].pid, bed.status_url)
    try:
        (exact,) = (sensor for sensor in apache.sensors() if sensor.name == "shim")
        settled(plant)
        exact.begin()
        bed.pages(BASIC, number=6)
        settled(plant)
        assert dict(exact.read())["burst_length"] == pytest.approx(6)
    finally:
        apache.close()


@pytest.mark.parametrize("mpm", ["worker", "event"])
def test_threads_and_events_are_scheduled_too(mpm: Mpm) -> None:
    with under_gate(mpm) as bed, contextlib.closing(bed.plant()) as plant:
        plant.apply({OF_BASIC: 1})
        with contextlib.closing(bed.client(BASIC)) as first, contextlib.closing(bed.client(BASIC, 0.7)) as second:
            assert fetched(first) == 200
            with pytest.raises(TimeoutError):
                fetched(second)
            bed.pages(PREMIUM)
            assert now(plant, "basic", "queue") == 1


def test_a_graceful_restart_is_passed_on_and_the_gate_goes_on(bed: UnderGate, plant: Gate) -> None:
    workers = {one.pid for one in processes_of(bed.run_dir)}
    bed.process.send_signal(signal.SIGUSR1)
    until(lambda: {one.pid for one in processes_of(bed.run_dir)} != workers, "no new workers came")
    for _ in range(5):
        bed.pages(PREMIUM)
    assert plant.configuration()[OF_PREMIUM] == 4


def test_sigterm_ends_all_and_leaves_nothing() -> None:
    with under_gate() as bed:
        bed.pages(BASIC)
        gate, server = gate_processes(bed), processes_of(bed.run_dir)
        assert len(gate) == 2 and len(server) > 1
        everybody = [*server, *filter(None, map(identify, gate))]
        bed.process.send_signal(signal.SIGTERM)
        assert bed.ended() == (0, "")
        assert not bed.run_dir.directory.exists()
        assert [one for one in everybody if one.alive()] == []
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", bed.port), 5):
            pass


def test_a_gate_of_which_both_processes_die_is_started_anew() -> None:
    with under_gate() as bed, contextlib.closing(bed.plant()) as plant:
        plant.apply({OF_BASIC: 3})
        first = gate_processes(bed)
        kill_together(first)
        bed.pages(BASIC)
        until(lambda: len(gate_processes(bed)) == 2 and not set(first) & set(gate_processes(bed)), "no new gate")
        until(lambda: served_through_gate(bed, plant), "the workers did not return to the gate")
        assert plant.configuration()[OF_BASIC] == 3
        bed.process.send_signal(signal.SIGTERM)
        assert bed.ended() == (0, "trimtab run: the gate has ended; starting it anew\n")


def served_through_gate(bed: UnderGate, plant: Gate) -> bool:
    before = now(plant, "basic", "dispatched")
    bed.pages(BASIC)
    return now(plant, "basic", "dispatched") > before


def test_a_run_that_is_killed_leaves_server_and_gate_which_end_together() -> None:
    with under_gate() as bed, contextlib.closing(bed.plant()) as plant:
        gate, server = gate_processes(bed), processes_of(bed.run_dir)[0]
        bed.process.kill()
        bed.process.wait(PATIENCE_S)
        plant.apply({OF_BASIC: 2})
        assert served_through_gate(bed, plant)
        again = trimtab_run("--name", bed.run_dir.name, "--ports", 8080, "--", "sh", "-c", "exit 0")
        _, err = again.communicate(timeout=PATIENCE_S)
        assert again.returncode == 2
        assert "is in use: its gate still serves the server of a run that was killed" in err
        os.kill(server.pid, signal.SIGTERM)
        until(lambda: not server.alive(), "Apache did not end")
        until(lambda: all(one is None or not one.alive() for one in map(identify, gate)), "the gate did not end")
        again = trimtab_run("--name", bed.run_dir.name, "--ports", 8080, "--", "sh", "-c", "exit 0")
        assert again.communicate(timeout=PATIENCE_S) == ("", "")
        assert again.returncode == 0


def test_a_server_in_the_background_is_followed_and_ended() -> None:
    with under_gate(foreground=False) as bed:
        bed.pages(BASIC)
        first = processes_of(bed.run_dir)[0]
        parent = int(Path(f"/proc/{first.pid}/stat").read_text().rpartition(")")[2].split()[1])
        assert parent != bed.process.pid
        bed.process.send_signal(signal.SIGTERM)
        code, err = bed.ended()
        assert (code, err.count("\n")) == (0, 1)
        assert "the server went to the background; following its process" in err
        assert not bed.run_dir.directory.exists()
        assert not first.alive()


def test_without_a_gate_the_shim_only_measures() -> None:
    with under_gate(gate=False) as bed:
        clock = SystemClock()
        sensor, began_s = Shim(bed.run_dir.shared, clock), time.monotonic()
        sensor.begin()
        for _ in range(4):
            bed.pages(BASIC, number=3)
        until(lambda: sensor.read()["burst_length"] == 3, "the last request is not counted")
        readings = sensor.read()
        assert readings["burst_length"] == pytest.approx(3)
        assert 0 <= readings["accept_queue_delay_s"] < time.monotonic() - began_s
        assert gate_processes(bed) == []
        sensor.close()


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_its_exit_code_is_that_of_the_server(command: str, code: int) -> None:
    process = trimtab_run("--name", a_name(), "--ports", 8080, "--", "sh", "-c", command)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (code, "")


def test_listeners_that_systemd_has_given_to_it_are_its_servers() -> None:
    server = ("sh", "-c", "echo $LISTEN_PID $$ $LISTEN_FDS $LISTEN_PIDFDID")
    run = (sys.executable, "-m", "trimtab", "run", "--name", a_name(), "--", *server)
    systemd = ("sh", "-c", 'export LISTEN_FDS=1 LISTEN_PID=$$ LISTEN_PIDFDID=7; exec "$@"', "sh")
    done = subprocess.run((*systemd, *run), capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    named, pid, number = done.stdout.split()
    assert (done.returncode, done.stderr, named, number) == (0, "", pid, "1")


def test_a_gate_that_does_not_start_is_one_line_and_the_server_is_not_started(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        spec = tmp_path / "spec.toml"
        metrics = f'metrics = "127.0.0.1:{taken.getsockname()[1]}"'
        spec.write_text(f'listen = [8080]\nworkers = 4\n{metrics}\n[[class]]\nname = "all"\n')
        name = a_name()
        process = trimtab_run("--name", name, "--gate", spec, "--", "sh", "-c", "echo started")
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("trimtab: the gate ended with 1: ")
    assert not Path("/run/trimtab", name).exists()
