"""The plant against a real MariaDB: found, read, changed, read back, undone, and put back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests._memory_plant import MemoryPlant
from tests.servers._private_mariadb import DEBIAN, Bed, private
from tests.servers._under_gate import standing_still, until
from trimtab.clock import SystemClock
from trimtab.core import How
from trimtab.errors import ApplyFailed, ApplyLater, ApplyRefused, OperatorEdit, PlantError, PlantGone, UsageError
from trimtab.plants._stack import Stack
from trimtab.plants.mariadb import process, variables
from trimtab.plants.mariadb.credentials import Credentials
from trimtab.plants.mariadb.findings import findings
from trimtab.plants.mariadb.journal import Journal
from trimtab.plants.mariadb.knobs import ALL, DURABILITY
from trimtab.plants.mariadb.plant import Mariadb
from trimtab.processes import start_of

pytestmark = pytest.mark.server
CHANGED = {
    "max_connections": 101,
    "innodb_buffer_pool_size": 192 << 20,
    "join_buffer_size": 128 << 10,
    "query_cache_type": 1,
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with private(tmp_path_factory.mktemp("journals")) as bed:
        yield bed


@pytest.fixture
def bed(shared: Bed) -> Iterator[Bed]:
    """One that is left as it was found."""
    yield shared
    shared.set({name: DEBIAN[name] for name, value in shared.values().items() if value != DEBIAN[name]})
    for path in shared.journals.iterdir():
        path.unlink()


@pytest.fixture
def plant(bed: Bed) -> Iterator[Mariadb]:
    """trimtab attached to it."""
    mariadb = bed.attach()
    yield mariadb
    mariadb.close()


def test_it_is_found_and_read_and_its_defaults_are_those_of_debian(plant: Mariadb) -> None:
    assert plant.configuration() == DEBIAN
    assert {knob.name: knob.default for knob in plant.knobs()} == DEBIAN
    plant.check_permissions()
    assert plant.leftover() == ""


def test_every_variable_that_can_be_set_has_a_name_and_a_value_that_are_taken(plant: Mariadb) -> None:
    asked = (
        "SELECT VARIABLE_NAME FROM information_schema.SYSTEM_VARIABLES "
        "WHERE READ_ONLY = 'NO' AND VARIABLE_SCOPE != 'SESSION ONLY'"
    )
    names = [variables.named(name) for (name,) in plant._mariadb.link.ask(asked)]
    assert len(plant._mariadb._globals(names)) == len(names) > 300


def test_a_change_is_in_force_and_restore_undoes_it(bed: Bed, plant: Mariadb) -> None:
    applied = plant.apply(CHANGED)
    assert applied.configuration == bed.values() == {**DEBIAN, **CHANGED}
    plant.apply({"table_open_cache": 1000})
    assert bed.values() == {**DEBIAN, **CHANGED, "table_open_cache": 1000}
    plant.restore()
    assert bed.values() == DEBIAN
    assert list(bed.journals.iterdir()) == [], "what is restored needs no undo"
    plant.restore()


def test_its_temporary_tables_are_apart_since_one_that_starts_removes_those_that_it_finds(bed: Bed) -> None:
    ((directory,),) = bed.sql("SELECT @@tmpdir")
    assert Path(directory).parent == bed.testbed.directory


def test_the_buffer_pool_really_has_its_new_size(bed: Bed, plant: Mariadb) -> None:
    def pages() -> int:
        return int(bed.sql("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_total'")[0][1])

    before = pages()
    plant.apply({"innodb_buffer_pool_size": 256 << 20})
    assert pages() == pytest.approx(2 * before, rel=0.02)
    plant.apply({"innodb_buffer_pool_size": 160 << 20})
    assert pages() == pytest.approx(1.25 * before, rel=0.02)


def test_limits_that_all_statements_have_cut_neither_a_change_nor_the_way_back_short(bed: Bed) -> None:
    bed.sql("SET GLOBAL max_statement_time = 0.3, sql_select_limit = 5")
    try:
        plant = bed.attach()
        plant.apply({"innodb_log_file_size": 128 << 20})
        plant.restore()
        plant.close()
    finally:
        bed.sql("SET GLOBAL max_statement_time = DEFAULT, sql_select_limit = DEFAULT")
    assert bed.values() == DEBIAN


def test_the_redo_log_waits_for_a_backup_and_all_else_goes_back_meanwhile(bed: Bed, plant: Mariadb) -> None:
    backup = bed.root()
    with backup, backup.cursor() as cursor:
        cursor.execute("BACKUP STAGE START")
        with pytest.raises(ApplyLater, match="a backup is under way, and would fail if innodb_log_file_size"):
            plant.apply({"innodb_log_file_size": 128 << 20, "table_open_cache": 2008})
        assert bed.values() == DEBIAN
        cursor.execute("BACKUP STAGE END")
        plant.apply({"innodb_log_file_size": 128 << 20, "table_open_cache": 2008})
        cursor.execute("BACKUP STAGE START")
        with pytest.raises(ApplyFailed, match="innodb_log_file_size 100663296: a backup is under way"):
            plant.restore()
        assert bed.values() == DEBIAN | {"innodb_log_file_size": 128 << 20}
    plant.restore()
    assert bed.values() == DEBIAN


def test_open_connections_keep_what_they_began_with_and_new_ones_get_the_change_and_that_is_said(
    bed: Bed, plant: Mariadb
) -> None:
    def size(connection: object) -> int:
        with connection.cursor() as cursor:  # type: ignore[attr-defined]
            cursor.execute("SELECT @@SESSION.join_buffer_size")
            return int(cursor.fetchone()[0])

    with bed.shop() as old:
        applied = plant.apply({"join_buffer_size": 512 << 10})
        with bed.shop() as new:
            assert (size(old), size(new)) == (256 << 10, 512 << 10)
    assert applied.notes == ("open connections keep their join_buffer_size",)
    assert {knob.how for knob in plant.knobs() if knob.name == "join_buffer_size"} == {How.CONNECTIONS}


def test_answers_are_kept_for_connections_that_begin_once_that_is_on(bed: Bed, plant: Mariadb) -> None:
    def hits(connection: Any) -> int:
        before = int(bed.sql("SHOW GLOBAL STATUS LIKE 'Qcache_hits'")[0][1])
        with connection.cursor() as cursor:
            for _ in range(3):
                cursor.execute("SELECT COUNT(*) FROM answers")
        return int(bed.sql("SHOW GLOBAL STATUS LIKE 'Qcache_hits'")[0][1]) - before

    bed.sql("CREATE TABLE shop.answers (a INT)")
    with bed.shop() as old:
        plant.apply({"query_cache_size": 4 << 20, "query_cache_type": 1})
        with bed.shop() as new:
            assert (hits(old), hits(new)) == (0, 2)
            plant.restore()
            assert hits(new) == 0
    bed.sql("DROP TABLE shop.answers")
    (knob,) = (one for one in plant.knobs() if one.name == "query_cache_type")
    assert knob.domain.choices == ("OFF", "ON"), "DEMAND keeps nothing that does not ask for it"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"max_connections": 152}, "max_connections 152 is outside 51..2801 in steps of 50"),
        ({"max_connections": 101, "binlog_cache_size": 63488}, "binlog_cache_size 63488 is outside 4096"),
        ({"innodb_io_capacity": 2100}, "innodb_io_capacity_max"),
        ({"innodb_flush_log_at_trx_commit": 2}, "unknown knob"),
        ({"thread_stack": 299008}, "unknown knob"),
        ({"max_connections": 2801, "table_open_cache": 3616}, "need .* descriptors, more than open_files_limit"),
    ],
)
def test_what_is_not_valid_or_against_a_rule_is_refused_and_changes_nothing(
    bed: Bed, plant: Mariadb, changes: dict[str, int], why: str
) -> None:
    with pytest.raises(ApplyRefused, match=why):
        plant.apply(changes)
    assert bed.values() == DEBIAN
    assert list(bed.journals.iterdir()) == []


def test_a_value_that_mariadb_clips_is_not_taken_for_applied(bed: Bed, plant: Mariadb) -> None:
    knob = plant._knobs["binlog_cache_size"]
    plant._knobs["binlog_cache_size"] = replace(knob, domain=replace(knob.domain, step=2048))
    with pytest.raises(ApplyFailed, match="binlog_cache_size is 61440 after it was set to 63488"):
        plant.apply({"max_connections": 101, "binlog_cache_size": 63488})
    assert bed.values() == DEBIAN
    assert plant.configuration() == DEBIAN, "and our own values are not taken for somebody else's"


def test_durability_is_a_knob_only_where_that_is_allowed(bed: Bed) -> None:
    mariadb = bed.attach(less_durable=True)
    mariadb.apply({"innodb_flush_log_at_trx_commit": 2})
    assert bed.sql("SELECT @@GLOBAL.innodb_flush_log_at_trx_commit") == ((2,),)
    mariadb.close()
    other = bed.attach()
    assert DURABILITY not in other.configuration()
    other.undo_leftover()
    assert bed.sql("SELECT @@GLOBAL.innodb_flush_log_at_trx_commit") == ((1,),)
    other.close()


def test_a_setting_of_the_operators_stands_that_knob_down_alone_and_outlives_restore(
    bed: Bed, plant: Mariadb
) -> None:
    plant.apply({"max_connections": 101, "table_open_cache": 1000})
    bed.set({"max_connections": 77})
    with pytest.raises(OperatorEdit, match="max_connections was set to 77 by somebody else") as edit:
        plant.configuration()
    assert edit.value.knob == "max_connections"
    assert plant.configuration()["max_connections"] == 77, "it is said once"
    with pytest.raises(OperatorEdit):
        plant.apply({"max_connections": 201})
    plant.apply({"table_open_cache": 1600})
    plant.restore()
    assert bed.values() == {**DEBIAN, "max_connections": 77}


def test_a_setting_of_the_operators_before_ours_is_not_overwritten(bed: Bed, plant: Mariadb) -> None:
    bed.set({"max_connections": 77})
    with pytest.raises(OperatorEdit):
        plant.apply({"max_connections": 101})
    assert bed.values()["max_connections"] == 77


def test_a_change_is_taken_back_when_another_part_of_a_stack_refuses_its_own(bed: Bed, plant: Mariadb) -> None:
    plant.apply({"max_connections": 201})
    prepared = plant.prepare({"max_connections": 101, "table_open_cache": 1000})
    plant.rollback(prepared)
    assert bed.values() == {**DEBIAN, "max_connections": 201}, "it was only prepared"
    plant.commit(prepared)
    plant.rollback(prepared)
    assert bed.values() == {**DEBIAN, "max_connections": 201}
    assert plant.configuration()["max_connections"] == 201, "and nobody is taken for the operator"
    plant.restore()
    assert bed.values() == DEBIAN
    assert list(bed.journals.iterdir()) == []


def test_it_is_a_tier_of_a_stack_that_changes_as_one_or_not_at_all(bed: Bed, plant: Mariadb) -> None:
    other = MemoryPlant()
    other.apply_error = ApplyFailed("not today")
    stack = Stack(plant, other)
    with pytest.raises(ApplyFailed, match="not today"):
        stack.apply({"max_connections": 101, "workers": 20})
    assert bed.values() == DEBIAN
    other.apply_error = None
    assert stack.apply({"max_connections": 101, "workers": 20}).configuration["max_connections"] == 101
    stack.restore()
    assert bed.values() == DEBIAN


def test_an_interrupt_in_the_middle_of_a_change_puts_everything_back(bed: Bed, plant: Mariadb) -> None:
    ask, left = plant._mariadb.link.ask, [0, 1]

    def interrupted(statement: str, values: tuple[object, ...] = ()) -> object:
        if statement.startswith("SET") and left and not left.pop():
            raise KeyboardInterrupt
        return ask(statement, values)

    plant._mariadb.link.ask = interrupted  # type: ignore[method-assign,assignment]
    with pytest.raises(KeyboardInterrupt):
        plant.apply({"max_connections": 101, "table_open_cache": 1000, "sort_buffer_size": 1 << 20})
    assert bed.values() == DEBIAN
    assert list(bed.journals.iterdir()) == []


KILLED = {
    "before anything is set": "plant.Attached.set = die",
    "after the first": "link.Link.ask = dying(link.Link.ask)",
    "when all is set": "plant.Mariadb.configuration = die",
}


@pytest.mark.parametrize("point", KILLED)
def test_what_a_run_that_was_killed_at_any_point_left_is_recognised_and_undone(bed: Bed, point: str) -> None:
    run = textwrap.dedent(f"""
        import os, pathlib, signal
        from trimtab.clock import SystemClock
        from trimtab.plants.mariadb import link, plant
        mariadb = plant.Mariadb.attach(SystemClock(), {bed.testbed.pid}, journals=pathlib.Path({str(bed.journals)!r}))
        def die(*_):
            os.kill(os.getpid(), signal.SIGKILL)
        def dying(ask):
            def asked(self, statement, values=()):
                rows = ask(self, statement, values)
                if statement.startswith("SET"):
                    die()
                return rows
            return asked
        {KILLED[point]}
        mariadb.apply({CHANGED})
    """)
    assert subprocess.run([sys.executable, "-c", run], check=False).returncode == -signal.SIGKILL
    changed = {name for name, value in bed.values().items() if value != DEBIAN[name]}
    mariadb = bed.attach()
    left = mariadb.leftover()
    assert changed == {name for name in CHANGED if name in left}
    assert len(changed) == {"before anything is set": 0, "after the first": 1, "when all is set": len(CHANGED)}[point]
    mariadb.undo_leftover()
    assert bed.values() == DEBIAN
    assert mariadb.leftover() == ""
    assert list(bed.journals.iterdir()) == []
    mariadb.apply({"max_connections": 101})
    mariadb.close()


def test_undo_leaves_what_somebody_has_set_since(bed: Bed) -> None:
    first = bed.attach()
    first.apply(CHANGED)
    first.close()
    bed.set({"max_connections": 77})
    second = bed.attach()
    second.undo_leftover()
    assert bed.values() == {**DEBIAN, "max_connections": 77}
    second.close()


def test_a_run_after_one_that_was_not_undone_goes_back_to_its_own_start_and_undo_to_the_first_ones(bed: Bed) -> None:
    first = bed.attach()
    first.apply({"max_connections": 101})
    first.close()
    second = bed.attach()
    second.apply({"max_connections": 201})
    second.restore()
    assert bed.values()["max_connections"] == 101
    assert "max_connections" in second.leftover()
    second.undo_leftover()
    assert bed.values() == DEBIAN
    second.close()


def test_the_undo_script_undoes_without_trimtab_but_not_what_somebody_has_set_since(bed: Bed, plant: Mariadb) -> None:
    plant.apply(CHANGED)
    bed.set({"max_connections": 77})
    ended = subprocess.run(["sh", "-c", plant.undo_script()], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert bed.values() == {**DEBIAN, "max_connections": 77}


def test_an_account_without_rights_is_told_which_and_changes_nothing(bed: Bed, tmp_path: Path) -> None:
    bed.sql("CREATE OR REPLACE USER little@localhost IDENTIFIED BY 'kept apart'")
    file = tmp_path / "little.cnf"
    file.write_text("[client]\nuser = little\npassword = 'kept apart'\n")
    with pytest.raises(UsageError, match="chmod 600"):
        Credentials.chosen(None, file)
    file.chmod(0o600)
    who = Credentials.chosen(None, file)
    assert "kept apart" not in repr(who)
    mariadb = bed.attach(who=who)
    assert mariadb.configuration() == DEBIAN, "reading needs no rights"
    with pytest.raises(UsageError, match="GRANT BINLOG ADMIN, CONNECTION ADMIN, RELOAD, SUPER ON"):
        mariadb.check_permissions()
    with pytest.raises(ApplyRefused, match="may not set max_connections: GRANT CONNECTION ADMIN ON"):
        mariadb.apply({"max_connections": 101})
    mariadb.close()
    bed.sql("GRANT CONNECTION ADMIN ON *.* TO little@localhost")
    mariadb = bed.attach(who=who)
    mariadb.check_permissions()
    mariadb.apply({"max_connections": 101})
    with pytest.raises(ApplyRefused, match="may not set table_open_cache: GRANT SUPER"):
        mariadb.apply({"max_connections": 201, "table_open_cache": 1000})
    assert bed.values() == {**DEBIAN, "max_connections": 101}
    assert "kept apart" not in mariadb.undo_script()
    mariadb.restore()
    mariadb.close()
    bed.sql("DROP USER little@localhost")


def test_rights_that_come_with_a_role_count(bed: Bed, tmp_path: Path) -> None:
    bed.sql("CREATE OR REPLACE ROLE tuner", "GRANT SUPER ON *.* TO tuner")
    bed.sql("CREATE OR REPLACE USER ruled@localhost IDENTIFIED BY 'a'", "GRANT tuner TO ruled@localhost")
    bed.sql("SET DEFAULT ROLE tuner FOR ruled@localhost")
    mariadb = bed.attach(who=Credentials("ruled", "a"))
    mariadb.check_permissions()
    assert mariadb.apply({"table_open_cache": 1000}).configuration == {**DEBIAN, "table_open_cache": 1000}
    assert bed.values() == {**DEBIAN, "table_open_cache": 1000}
    mariadb.close()
    bed.sql("DROP USER ruled@localhost", "DROP ROLE tuner")


def test_an_account_that_mariadb_does_not_know_is_one_line_that_says_how_to_make_it(bed: Bed) -> None:
    with pytest.raises(UsageError, match="does not let account nobody-such in: CREATE USER"):
        bed.attach(who=Credentials("nobody-such"))


def test_the_doctor_names_every_knob_and_those_that_need_leave(bed: Bed) -> None:
    said = {one.subject.rpartition(" ")[2]: one for one in findings(process.MariadbServer.find(bed.testbed.pid))}
    assert all(said[knob].usable for knob in DEBIAN)
    for knob, option in (
        ("innodb_flush_log_at_trx_commit", "--allow-less-durable"),
        ("thread_stack", "--allow-restart"),
    ):
        assert not said[knob].usable and option in said[knob].enable
    assert "removed" in said["thread_concurrency"].detail


def test_a_conversation_that_the_server_ends_begins_anew(bed: Bed, plant: Mariadb) -> None:
    ((ours,),) = plant._mariadb.link.ask("SELECT CONNECTION_ID()")
    bed.sql(f"KILL {ours}")
    until(lambda: not bed.sql(f"SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = {ours}"), "it goes on")
    assert plant.configuration() == DEBIAN


def test_a_server_that_stands_still_is_an_error_and_no_hang(bed: Bed) -> None:
    mariadb = bed.attach()
    mariadb._mariadb.link._patience_s = 0.3  # from here on: what answers may take longer
    with standing_still(bed.testbed.pid):
        with pytest.raises(PlantError, match="did not answer"):
            mariadb.configuration()
        with pytest.raises(PlantError, match="did not answer"):
            mariadb.apply({"max_connections": 101})
    assert bed.attach().configuration() == DEBIAN
    mariadb.close()


def test_a_server_that_has_ended_is_said_and_the_next_one_has_nothing_to_undo(tmp_path: Path) -> None:
    with private(tmp_path) as bed:
        mariadb = bed.attach()
        mariadb.apply(CHANGED)
        script = mariadb.undo_script()
        os.kill(bed.testbed.pid, signal.SIGKILL)
        until(lambda: start_of(bed.testbed.pid) is None, "it did not end")
        for asked in (mariadb.configuration, lambda: mariadb.apply({"max_connections": 201})):
            with pytest.raises(PlantGone):
                asked()
        mariadb.restore()  # what was set live is gone with it
        assert bed.testbed.pid not in {one.pid for one in process.MariadbServer.running()}
        ended = subprocess.run(["sh", "-c", script], check=False, capture_output=True, text=True)
        assert ended.returncode == 0 and "has ended, and what was set live with it" in ended.stdout
        mariadb.close()
        assert len(list(tmp_path.iterdir())) == 1
    with private(tmp_path) as bed:
        mariadb = bed.attach()
        assert mariadb.leftover() == ""
        mariadb.apply({"max_connections": 101})
        assert [one.name for one in tmp_path.iterdir()] == [
            Journal.of(process.MariadbServer.find(bed.testbed.pid), ALL).path.name
        ]
        mariadb.restore()
        mariadb.close()


def test_a_buffer_pool_beyond_the_memory_is_refused(tmp_path: Path) -> None:
    with private(tmp_path, memory_limit_bytes=512 << 20) as bed:
        if "not" in bed.testbed.confinement:
            pytest.skip("no control group of the memory here")
        mariadb = Mariadb.attach(SystemClock(), bed.testbed.pid, journals=tmp_path)
        with pytest.raises(ApplyRefused, match="more than 90% of the 512 MiB of control group"):
            mariadb.apply({"innodb_buffer_pool_size": 480 << 20})
        mariadb.apply({"innodb_buffer_pool_size": 320 << 20})
        mariadb.restore()
        mariadb.close()


def test_in_a_thread_pool_its_groups_are_a_knob_and_data_are_kept_between_runs(tmp_path: Path) -> None:
    kept = Path(tempfile.mkdtemp(prefix="trimtab-kept-"))
    kept.chmod(0o755)
    try:
        with private(tmp_path, directory=kept / "data", debian=False) as bed:
            bed.sql("CREATE TABLE shop.t AS SELECT 42 AS i")
            mariadb = bed.attach()
            start = mariadb.configuration()
            assert (start["max_connections"], start["table_open_cache"]) == (100, 64)
            assert all(start[knob.name] in knob.domain for knob in mariadb.knobs())
            mariadb.close()
        with private(tmp_path, directory=kept / "data", more=("thread_handling = pool-of-threads",)) as bed:
            assert bed.sql("SELECT i FROM shop.t") == ((42,),)
            _moves_the_groups(bed)
        assert (kept / "data" / "mysql").exists()
    finally:
        shutil.rmtree(kept)


def _moves_the_groups(bed: Bed) -> None:
    """The groups of the thread pool are moved and put back."""
    mariadb = bed.attach()
    assert mariadb.configuration()["thread_pool_size"] == os.cpu_count()
    mariadb.apply({"thread_pool_size": 1})
    assert bed.sql("SELECT @@GLOBAL.thread_pool_size") == ((1,),)
    mariadb.restore()
    mariadb.close()
