"""The sensor of a MariaDB against known counts, and against what its clients have seen."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests._memory_plant import StillClock
from tests.servers._private_mariadb import Bed, private
from tests.servers._under_gate import until
from trimtab.clock import SystemClock
from trimtab.core.window import Readings
from trimtab.errors import NotMeasured
from trimtab.plants.mariadb import process
from trimtab.plants.mariadb.credentials import Credentials
from trimtab.plants.mariadb.status import MariadbStatus

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with private(tmp_path_factory.mktemp("journals"), more=("max_connections = 20",)) as bed:
        bed.sql("CREATE TABLE shop.t (i INT PRIMARY KEY, v INT) ENGINE=InnoDB")
        bed.sql("USE shop", "INSERT INTO t SELECT seq, 0 FROM seq_1_to_1000")
        yield bed


class Seen:
    """What the sensor saw of a piece of work."""

    readings: Readings
    took_s: float

    def count(self, rate: str) -> float:
        """How often something happened."""
        return self.readings[rate] * self.took_s


@contextmanager
def watched(bed: Bed) -> Iterator[Seen]:
    """A window around a piece of work."""
    clock, seen = SystemClock(), Seen()
    sensor = MariadbStatus(process.MariadbServer.find(bed.testbed.pid), Credentials("root"), clock)
    try:
        until(lambda: _quiet(sensor), "somebody else is at work")
        sensor.begin()
        assert sensor._mark is not None
        yield seen
        seen.readings = sensor.read()
        assert sensor._last is not None
        seen.took_s = sensor._last[0] - sensor._mark[0]
    finally:
        sensor.close()


def _quiet(sensor: MariadbStatus) -> bool:
    """Whether nothing comes by itself: what an ended connection has done is missing for a moment."""
    before = sensor.state()["QUESTIONS"]
    time.sleep(0.05)
    return sensor.state()["QUESTIONS"] == before


def counted(connection: Any, variable: str) -> int:
    """What the server says of itself over a connection."""
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW GLOBAL STATUS LIKE '{variable}'")
        return int(cursor.fetchone()[1])


def test_statements_and_transactions_are_counted_exactly_and_our_own_are_not_among_them(bed: Bed) -> None:
    with bed.shop() as shop, shop.cursor() as cursor, watched(bed) as seen:
        for number in range(1, 31):
            cursor.execute("BEGIN")
            cursor.execute(f"UPDATE t SET v = {number} WHERE i = {number}")
            cursor.execute("COMMIT" if number % 3 else "ROLLBACK")
    assert seen.count("request_rate_hz") == pytest.approx(90, abs=0.01)
    assert seen.count("transaction_rate_hz") == pytest.approx(30, abs=0.01)
    assert seen.readings["buffer_pool_hit_ratio"] > 0.9


def test_a_window_without_work_has_none(bed: Bed) -> None:
    with watched(bed) as seen:
        time.sleep(0.2)
    assert {name: seen.count(name) for name in seen.readings if name.endswith("_rate_hz")} == pytest.approx(
        dict.fromkeys((name for name in seen.readings if name.endswith("_rate_hz")), 0.0)
    )
    assert "service_time_s" not in seen.readings


def test_what_trimtab_asks_between_two_windows_is_no_statement_of_users(bed: Bed) -> None:
    """The loop reads the configuration in force after each window, however soon the next one begins."""
    clock = StillClock()
    sensor = MariadbStatus(process.MariadbServer.find(bed.testbed.pid), Credentials("root"), clock)
    with closing(sensor), bed.root() as plant, plant.cursor() as cursor:
        until(lambda: _quiet(sensor), "somebody else is at work")
        for _ in range(3):
            sensor.begin()
            clock.seconds += 1.0
            assert sensor.read()["request_rate_hz"] == 0
            cursor.execute("SELECT @@GLOBAL.max_connections")


def test_what_an_ended_conversation_of_ours_has_asked_is_no_statement_of_users(bed: Bed) -> None:
    (before,) = bed.sql("SELECT @@GLOBAL.wait_timeout")[0]
    bed.sql("SET GLOBAL wait_timeout = 1")
    try:
        with watched(bed) as seen:
            time.sleep(2.5)
        assert seen.count("request_rate_hz") == 0
    finally:
        bed.sql(f"SET GLOBAL wait_timeout = {before}")


def test_the_time_of_a_statement_is_the_one_that_its_client_waits(bed: Bed) -> None:
    with bed.shop() as shop, shop.cursor() as cursor, watched(bed) as seen:
        began_s = time.monotonic()
        for _ in range(10):
            cursor.execute("SELECT SLEEP(0.05)")
        waited_s = time.monotonic() - began_s
    # Statements of a connection that has just been made may be among them; they take next to no time.
    assert 0.5 <= seen.count("requests_under_way") <= 1.1 * waited_s
    mean_s = seen.count("requests_under_way") / seen.count("request_rate_hz")
    assert seen.readings["service_time_s"] == pytest.approx(mean_s, rel=0.01)


def test_waits_for_locks_are_counted_with_their_length(bed: Bed) -> None:
    one, other = bed.shop(), bed.shop()
    with one, other, one.cursor() as first, other.cursor() as second, watched(bed) as seen:
        first.execute("BEGIN")
        first.execute("UPDATE t SET v = 1 WHERE i = 500")
        waiting = threading.Thread(target=second.execute, args=("UPDATE t SET v = 2 WHERE i = 500",))
        waiting.start()
        until(lambda: counted(one, "Innodb_row_lock_current_waits") == 1, "it does not wait")
        time.sleep(0.2)
        first.execute("COMMIT")
        waiting.join()
    assert seen.count("row_lock_wait_rate_hz") == pytest.approx(1, abs=0.01)
    assert 0.1 <= seen.readings["row_lock_wait_s"] <= seen.count("requests_under_way")


def test_refused_and_broken_connections_are_counted(bed: Bed) -> None:
    held: list[Any] = []
    refused = 0
    with watched(bed) as seen:
        for _ in range(40):
            try:
                held.append(bed.shop())
            except pymysql.err.OperationalError as error:
                assert "Too many connections" in str(error)
                refused += 1
        before = counted(held[3], "Aborted_clients")
        for connection in held[:3]:
            connection._force_close()
        until(lambda: counted(held[3], "Aborted_clients") >= before + 3, "they were not noticed")
    for connection in held[3:]:
        connection.close()
    assert refused >= 20
    assert seen.count("failed_connection_rate_hz") == pytest.approx(refused, abs=0.01)
    assert seen.count("broken_connection_rate_hz") == pytest.approx(3, abs=0.01)


def test_open_connections_are_those_of_clients(bed: Bed) -> None:
    plant = bed.attach()
    status = plant.sensors()[0]
    plant.configuration()
    held = [bed.shop() for _ in range(4)]

    def open_connections() -> float:
        status.begin()
        time.sleep(0.05)
        return status.read()["open_connections"]

    until(lambda: open_connections() == 4, "those of other tests do not end")
    for connection in held:
        connection.close()
    plant.close()


def test_tables_on_disk_and_slow_statements_are_counted(bed: Bed) -> None:
    with bed.shop() as shop, shop.cursor() as cursor:
        cursor.execute("SET long_query_time = 0.01")
        cursor.execute("SET tmp_table_size = 0")
        with watched(bed) as seen:
            for _ in range(5):
                cursor.execute("SELECT v, COUNT(*) FROM t GROUP BY v ORDER BY RAND()")
            cursor.execute("SELECT SLEEP(0.02)")
            cursor.execute("SELECT 1")  # one is counted as slow after its answer, before its connection's next
    assert seen.count("disk_temporary_table_rate_hz") >= 5 - 0.01
    assert seen.count("slow_statement_rate_hz") >= 1 - 0.01


def test_a_counter_that_was_reset_is_absent_and_the_others_are_not(bed: Bed) -> None:
    for _ in range(3):
        with pytest.raises(pymysql.err.OperationalError):
            pymysql.connect(host="127.0.0.1", port=bed.testbed.port, user="shop", password="wrong")
    with watched(bed) as seen:
        bed.sql("FLUSH STATUS")
    assert "failed_connection_rate_hz" not in seen.readings
    assert seen.count("request_rate_hz") >= 1


def test_a_server_that_has_ended_is_not_measured(tmp_path_factory: pytest.TempPathFactory) -> None:
    with private(tmp_path_factory.mktemp("journals")) as bed:
        plant = bed.attach()
    status = plant.sensors()[0]
    with pytest.raises(NotMeasured, match="has ended"):
        status.begin()
    plant.close()


def test_what_a_replica_was_sent_for_days_is_no_statement_that_clients_wait_for(tmp_path: Path) -> None:
    """It ends when the replica goes, and is as long as that was there: a mean of the window is made of it alone."""
    with private(tmp_path, more=("log-bin = binlog", "server-id = 1")) as bed:
        dump = ["mariadb-binlog", "--no-defaults", "--read-from-remote-server", "--stop-never", "--user=root"]
        with subprocess.Popen(
            [*dump, f"--socket={bed.testbed.socket}", "binlog.000001"], stdout=subprocess.DEVNULL
        ) as replica:
            until(lambda: sent(bed) == 1, "it is sent nothing")
            with watched(bed) as served, bed.root() as client, client.cursor() as cursor:
                cursor.execute("SELECT SLEEP(0.05)")
            with watched(bed) as seen:
                replica.terminate()
                until(lambda: (bed.sql("FLUSH BINARY LOGS"), sent(bed))[1] == 0, "it is still sent")
    assert served.readings["service_time_s"] > 0.01
    assert seen.count("request_rate_hz") >= 2
    assert not {"service_time_s", "requests_under_way"} & seen.readings.keys()


def sent(bed: Bed) -> int:
    """How many replicas are sent what is done."""
    ((count,),) = bed.sql("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND = 'Binlog Dump'")
    return int(count)
