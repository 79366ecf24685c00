"""What of a MariaDB needs none: domains, memory, files of an account, the journal, the undo script."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests._memory_plant import StillClock
from trimtab.core import How
from trimtab.core.memory import Need, Room, foreseen
from trimtab.errors import NotMeasured, UsageError
from trimtab.plants.mariadb import knobs, memory, undo
from trimtab.plants.mariadb.credentials import Credentials, read
from trimtab.plants.mariadb.journal import Entry, Journal
from trimtab.plants.mariadb.link import Link, Rejected
from trimtab.plants.mariadb.process import MariadbServer
from trimtab.plants.mariadb.variables import Variable

MIB = 1 << 20
BLOCKS = {"binlog_cache_size": 4096, "net_buffer_length": 1024, "join_buffer_size": 128, "tmp_table_size": 16384}
"""What MariaDB 10.11 rounds to."""


def variables(**values: int) -> dict[str, Variable]:
    """Those of a MariaDB with Debian's settings, but for these."""
    there = {
        name: Variable(name, row.default, 1, 1 << 40, BLOCKS.get(name, 1), row.how is How.RESTART)
        for name, row in knobs.ALL.items()
    }
    for name, value in {
        "open_files_limit": 20_000,
        "table_open_cache_instances": 4,
        "innodb_io_capacity_max": 2000,
        "innodb_buffer_pool_chunk_size": 0,
        "innodb_log_buffer_size": 16 * MIB,
        "max_allowed_packet": 16 * MIB,
        "log_bin": 0,
    }.items():
        there[name] = Variable(name, value, 0, 1 << 40, 1, True)
    handling = ("one-thread-per-connection", "pool-of-threads")
    there["thread_handling"] = Variable("thread_handling", 0, 0, 1, 1, True, handling)
    there["query_cache_type"] = Variable("query_cache_type", 0, 0, 2, 1, False, ("OFF", "ON", "DEMAND"))
    for name, value in values.items():
        there[name] = replace(there[name], value=value)
    return there


def domains(memory_bytes: int = 1024 * MIB, **values: int) -> dict[str, tuple[int, int, int]]:
    """Least, most and step by knob."""
    found = knobs.knobs(variables(**values), knobs.TABLE, memory_bytes)
    return {one.name: (one.domain.minimum, one.domain.maximum, one.domain.step) for one in found}


@given(
    max_connections=st.integers(10, 2000),
    table_open_cache=st.integers(10, 3000),
    innodb_buffer_pool_size=st.integers(5 * MIB, 900 * MIB),
    join_buffer_size=st.integers(128, 30 * MIB),
    binlog_cache_size=st.integers(1, 200).map(lambda blocks: 4096 * blocks),
)
def test_whatever_is_in_force_is_in_its_domain(**values: int) -> None:
    there = variables(**values)
    for knob in knobs.knobs(there, knobs.TABLE, 1024 * MIB):
        assert there[knob.name].value in knob.domain, knob


def test_steps_are_the_papers_unless_mariadb_rounds_to_more() -> None:
    steps = {name: step for name, (_, _, step) in domains().items()}
    assert (steps["max_connections"], steps["table_open_cache"], steps["net_buffer_length"]) == (50, 8, 1024)
    assert (steps["delayed_insert_limit"], steps["delayed_queue_size"]) == (100, 500)
    assert steps["binlog_cache_size"] == 4096, "the paper's 2048 would be rounded"


def test_domains_end_where_the_machine_or_another_variable_ends_them() -> None:
    assert domains(512 * MIB)["innodb_buffer_pool_size"][1] == 512 * MIB
    assert domains(innodb_io_capacity_max=900)["innodb_io_capacity"][1] == 900
    assert domains(open_files_limit=500)["max_connections"][1] <= 470
    assert domains(max_allowed_packet=32768)["net_buffer_length"][1] == 32768
    assert domains()["innodb_log_file_size"][0] == 16 * MIB, "MariaDB refuses less than innodb_log_buffer_size"
    assert domains(innodb_buffer_pool_chunk_size=128 * MIB)["innodb_buffer_pool_size"][2] == 128 * MIB


def test_a_mariadb_that_has_no_chunks_of_its_buffer_pool_any_more_has_the_knob_all_the_same() -> None:
    """From 10.11.12, 11.4.6 and 11.8.2 on the variable says nothing, and a later release may do without it."""
    there = variables()
    del there[knobs.CHUNK]
    assert knobs.CHUNK not in knobs.CONTEXT
    (pool,) = (one for one in knobs.knobs(there, knobs.TABLE, 512 * MIB) if one.name == knobs.BUFFER_POOL)
    assert pool.domain.step == 8 * MIB


@pytest.mark.parametrize(("most", "ends"), [(128 * MIB, 128 * MIB), (256 * MIB, 256 * MIB), (8 << 40, 512 * MIB)])
def test_a_buffer_pool_grows_no_further_than_this_mariadb_lets_it_before_a_restart(most: int, ends: int) -> None:
    there = variables() | {knobs.LARGEST_POOL: Variable(knobs.LARGEST_POOL, most, 0, 1 << 62, 1, True)}
    (pool,) = (one for one in knobs.knobs(there, knobs.TABLE, 512 * MIB) if one.name == knobs.BUFFER_POOL)
    assert pool.domain.maximum == ends
    assert (knobs.LARGEST_POOL in pool.domain.limited_by) == (most <= 512 * MIB)


def test_what_does_nothing_as_it_was_started_is_no_knob() -> None:
    assert "thread_pool_size" not in domains()
    assert "thread_pool_size" in domains(thread_handling=1)


def test_what_this_mariadb_takes_at_its_start_alone_is_no_knob_that_is_set_live() -> None:
    there = variables()
    log = there["innodb_log_file_size"]
    there |= {log.name: replace(log, fixed=True)}
    assert log.name not in {one.name for one in knobs.knobs(there, knobs.ALL, 1024 * MIB)}
    assert "thread_stack" in {one.name for one in knobs.knobs(there, knobs.ALL, 1024 * MIB)}, "by a restart it is"


def test_answers_are_kept_or_not_unless_statements_are_to_ask_for_it() -> None:
    assert domains()["query_cache_type"] == (0, 1, 1)
    assert domains(query_cache_type=2)["query_cache_type"] == (0, 2, 1), "what is in force is in its domain"


def test_nothing_that_loses_commits_or_needs_a_restart_is_a_knob_by_itself() -> None:
    assert not {*knobs.LESS_DURABLE, *knobs.AT_RESTART} & knobs.TABLE.keys()
    assert "innodb_flush_log_at_trx_commit" in knobs.LESS_DURABLE


def test_knobs_that_nothing_is_known_of_say_so() -> None:
    for name in ("delayed_insert_limit", "delayed_queue_size", "binlog_cache_size"):
        assert "othing is known to act" in knobs.TABLE[name].description


START = {"tmp_table_size": 20, "max_heap_table_size": 25}


def test_memory_counts_the_connections_to_plan_for_by_those_there_were_and_no_more_than_there_may_be() -> None:
    values = {name: 10 for name in (*memory.SHARED, *memory.EACH)} | {"max_connections": 100}
    shared, each = 10 * len(memory.SHARED), 10 * len(memory.EACH)

    def need(most: int, **more: int) -> Need:
        (found,) = memory.needs({**values, **more}, most, [Room("group x", 2**30)], START)
        return found

    assert [need(most).size_bytes for most in (0, 7, 500)] == [shared + each, shared + 8 * each, shared + 100 * each]
    assert "8 connections (7 were the most so far)" in need(7).what
    tables = need(7, tmp_table_size=50, max_heap_table_size=30)
    assert tables.size_bytes == shared + 8 * (each + 30 - 20), "the lesser of both, beyond that at the start"


def test_what_fitted_still_fits_when_a_few_more_connections_have_come() -> None:
    assert [foreseen(most) for most in (0, 1, 2, 3, 99, 102, 128, 129)] == [0, 1, 2, 4, 128, 128, 128, 256]


def test_descriptors_are_counted_as_mariadb_does() -> None:
    values = {"max_connections": 151, "table_open_cache": 2000}
    assert knobs.files_needed(values, variables()) == 30 + 151 + 2 * 2000 * 4


@pytest.mark.parametrize(
    ("version", "held", "lacks"),
    [
        ("10.11.19-MariaDB", frozenset(), {"max_connections", "binlog_cache_size", "join_buffer_size"}),
        ("10.11.19-MariaDB", frozenset({"CONNECTION ADMIN"}), {"binlog_cache_size", "join_buffer_size"}),
        ("10.11.19-MariaDB", frozenset({"SUPER"}), set()),
        ("11.8.3-MariaDB-0+deb13u1", frozenset({"SUPER"}), {"max_connections", "binlog_cache_size"}),
        ("11.0.2-MariaDB", frozenset({"SUPER", "BINLOG ADMIN", "CONNECTION ADMIN"}), set()),
        ("12.0.2-MariaDB", frozenset({"ALL PRIVILEGES"}), set()),
    ],
)
def test_what_an_account_may_not_set_is_known_beforehand(version: str, held: frozenset[str], lacks: set[str]) -> None:
    names = ("max_connections", "binlog_cache_size", "join_buffer_size")
    assert knobs.unprivileged(names, held, version).keys() == lacks


@pytest.mark.parametrize(
    ("version", "needed"), [("10.3.39-MariaDB", "SUPER"), ("10.5.1-MariaDB", "CONNECTION ADMIN")]
)
def test_no_privilege_is_asked_for_that_a_release_does_not_know(version: str, needed: str) -> None:
    assert knobs.unprivileged(["max_connections"], frozenset(), version) == {"max_connections": needed}


def test_the_redo_log_is_moved_only_by_who_may_ask_whether_a_backup_is_under_way() -> None:
    def lacking(*held: str) -> dict[str, str]:
        return knobs.unprivileged(["innodb_log_file_size"], frozenset(held), "10.11.19-MariaDB")

    assert lacking("SUPER") == {"innodb_log_file_size": "RELOAD"}
    assert lacking() == {"innodb_log_file_size": "SUPER, RELOAD"}
    assert not lacking("SUPER", "RELOAD") and not lacking("ALL PRIVILEGES")


def account(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("written", "password"),
    [
        ("plain", "plain"),
        ("'quo ted'", "quo ted"),
        ('"a\\sb"', "a b"),
        ("a\\\\b", "a\\b"),
        ("a=b#c", "a=b#c"),
        ("", ""),
    ],
)
def test_an_account_is_read_as_mariadbs_own_programs_read_it(tmp_path: Path, written: str, password: str) -> None:
    text = f"# mine\n[mysqld]\nport = 1\n[client]\nhost = localhost\nuser = tuner\npassword = {written}\n"
    assert read(account(tmp_path / "a.cnf", text)) == Credentials("tuner", password, tmp_path / "a.cnf")


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        ("[client]\nuser = a\n", 0o640, "chmod 600"),
        ("[client]\nuser = a\n", 0o602, "written by everybody"),
        ("[client]\npassword = a\n", 0o600, "names no account"),
        ("[client]\nuser = a\nusr = b\n", 0o600, "unknown setting 'usr'"),
        ("", 0o600, "names no account"),
    ],
)
def test_a_file_that_says_something_else_or_that_others_can_read_is_refused(
    tmp_path: Path, text: str, mode: int, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        read(account(tmp_path / "a.cnf", text, mode))
    with pytest.raises(UsageError, match="No such file"):
        read(tmp_path / "absent.cnf")


def test_a_user_without_a_name_is_told_to_give_an_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs as any number: `doctor` ended with an internal error before its first line."""
    monkeypatch.setattr("os.geteuid", lambda: 4242424242)
    with pytest.raises(
        UsageError, match="uid 4242424242 has no name here, and so no account of its own: give --account or"
    ):
        Credentials.chosen(None, None)
    assert Credentials.chosen("tuner", None).user == "tuner"


def test_a_password_is_in_nothing_that_is_printed() -> None:
    assert "hidden" not in repr(Credentials("a", "hidden"))


def test_the_journal_knows_what_is_still_ours() -> None:
    journal = (
        Journal(Path("j")).with_values({"a": 1, "b": 5}, {"a": 2, "b": 6}).with_values({"a": 2, "b": 6}, {"a": 3})
    )
    assert journal.entries == {"a": Entry(1, (2, 3)), "b": Entry(5, (6,))}
    assert journal.left({"a": 3, "b": 6}) == {"a": 1, "b": 5}
    assert journal.left({"a": 2, "b": 5}) == {"a": 1}, "killed before 3 was set; b was put back"
    assert journal.left({"a": 9, "b": 6}) == {"b": 5}, "the operator has set a"


def test_a_value_of_the_operators_between_two_of_ours_is_what_it_goes_back_to() -> None:
    journal = Journal(Path("j")).with_values({"a": 1}, {"a": 2}).with_values({"a": 7}, {"a": 3})
    assert journal.left({"a": 3}) == {"a": 7}


def test_without_its_driver_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymysql", None)
    link = Link(MariadbServer(1, 1, Path("/usr/sbin/mariadbd"), (), 0), Credentials("root"), 1.0, StillClock())
    how = rf"PyMySQL is not installed: {re.escape(sys.executable)} -m pip install pymysql$"
    with pytest.raises(UsageError, match=how):
        link.ask("SELECT 1")


def test_the_undo_script_says_nothing_is_to_be_done_where_that_is_so() -> None:
    server = MariadbServer(1, 1, Path("/usr/sbin/mariadbd"), (), 0)
    assert undo.script(server, Credentials("root"), {}, lambda _, value: str(value)).endswith("exit 0\n")


def test_domains_are_multiples_of_what_mariadb_rounds_to() -> None:
    for name, (minimum, _, step) in domains().items():
        block = BLOCKS.get(name, 1)
        assert math.gcd(step, block) == block and minimum % block == 0, name


class Ending:
    """A server that is there, and a conversation with it."""

    ended = False

    def check(self) -> None:
        pass

    def _force_close(self) -> None:
        self.ended = True


@pytest.mark.parametrize(("code", "ended"), [(1927, True), (1053, True), (2013, True), (1193, False)])
def test_a_killed_conversation_is_ended_and_no_refusal(code: int, ended: bool) -> None:
    there: Any = Ending()
    link = Link(there, Credentials("trimtab", ""), 1.0, StillClock())
    link._connection = there
    said = link._said(Exception(code, "what MariaDB says"))
    assert isinstance(said, NotMeasured if ended else Rejected)
    assert there.ended == ended == (link._connection is None)
