"""A MariaDB that was broken into says what it likes: trimtab takes numbers and words, and an error for all else."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import _mariadb_packets as wire
from tests._mariadb_packets import END, HELLO, LONG, OK, TEXT, answer, column, greeting, packet, packets
from tests._memory_plant import StillClock
from tests.unit.plants.test_mariadb import variables
from tests.unit.plants.test_mariadb_change import World, attach, fresh
from trimtab.errors import NotMeasured, PlantError, UsageError
from trimtab.plants.mariadb import bounded, knobs
from trimtab.plants.mariadb import variables as system_variables
from trimtab.plants.mariadb.attached import Attached
from trimtab.plants.mariadb.credentials import Credentials
from trimtab.plants.mariadb.link import Link
from trimtab.plants.mariadb.process import MariadbServer
from trimtab.plants.mariadb.status import MariadbStatus

__all__ = ["fresh"]

PATIENCE_S = 60.0
MOST_BYTES = bounded._MOST_BYTES
GOODBYE = b"\1\0\0\0\1"


class Peer:
    """The other end of a socket: what it says comes in these pieces, and each takes some time of a clock.

    Args:
        said: the pieces.
        clock: the clock.
        each_s: the time of a piece, in seconds.
    """

    def __init__(self, said: Iterable[bytes], clock: StillClock, each_s: float = 0.0) -> None:
        self._said, self._rest = iter(said), b""
        self._clock, self._each_s = clock, each_s
        self.told, self.read_bytes, self.closed = b"", 0, False

    def settimeout(self, timeout_s: float) -> None:
        assert 0 < timeout_s <= PATIENCE_S

    def recv_into(self, buffer: Any, count: int) -> int:
        self._clock.seconds += self._each_s
        self._rest = self._rest or next(self._said, b"")
        piece, self._rest = self._rest[:count], self._rest[count:]
        buffer[: len(piece)] = piece
        self.read_bytes += len(piece)
        return len(piece)

    def sendall(self, data: bytes) -> None:
        self.told += data

    def close(self) -> None:
        self.closed = True


class Server:
    """A MariaDB with these at the other end of its socket, one connection after the other."""

    def __init__(self, peers: Iterable[Peer]) -> None:
        self._peers = iter(peers)

    def __str__(self) -> str:
        return "MariaDB (pid 1)"

    def check(self) -> None:
        pass

    def connect(self, patience_s: float) -> Peer:
        return next(self._peers)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StillClock:
    """A clock, and no look at the process of a server that has none."""
    monkeypatch.setattr("trimtab.plants.mariadb.link.vet", lambda server: None)
    return StillClock(1000.0)


def linked(clock: StillClock, *peers: Peer) -> Link:
    """A conversation with these peers."""
    server: Any = Server(peers)
    return Link(server, Credentials("root", "the secret"), PATIENCE_S, clock)


NONSENSE = {
    "a file is asked for": packet(1, b"\xfb/etc/shadow"),
    "nothing in a packet": packet(1, b""),
    "an error without its number": packet(1, b"\xff"),
    "an error without its text": packet(1, b"\xff\x10\x04"),
    "an error whose state is no text": packet(1, b"\xff\x10\x04#" + b"\xff" * 5),
    "a column that is none": packets(b"\1", b"\xfa"),
    "columns that do not end": packets(b"\1", column(TEXT), OK),
    "a row that ends in a value": packets(b"\1", column(TEXT), END, b"\x09abc"),
    "a number that is none": answer([LONG], [b"x"]),
    "a number of more than 64 bits": answer([LONG], [b"9" * 21]),
    "a number that takes a gigabyte to write out": answer([wire.DECIMAL], [b"1E+999999999"]),
    "a text that is none": answer([TEXT], [b"\xff\xfe"]),
    "a day": answer([wire.DATE], [b"2026-11-28"]),
}


@pytest.mark.parametrize("said", NONSENSE.values(), ids=list(NONSENSE))
def test_what_makes_no_sense_is_an_error_of_ours_and_the_next_question_begins_anew(
    clock: StillClock, said: bytes
) -> None:
    hostile, other = Peer([HELLO, said], clock), Peer([HELLO, answer([TEXT, LONG], [b"a", b"7"])], clock)
    link = linked(clock, hostile, other)
    with pytest.raises(NotMeasured, match=r"MariaDB \(pid 1\) does not answer as MariaDB does: \w"):
        link.ask("SELECT 1")
    assert hostile.closed
    assert link.ask("SELECT 1") == (("a", 7),)
    link.close()


def test_a_setting_of_ours_that_a_mariadb_does_not_have_is_no_error_and_none_waits_for_a_cluster(
    clock: StillClock,
) -> None:
    unknown = packet(1, b"\xff\xa9\x04#HY000Unknown system variable")
    peer = Peer([HELLO[: -len(packet(1, OK))], unknown, answer([LONG], [b"7"])], clock)
    link = linked(clock, peer)
    assert link.ask("SELECT 7") == ((7,),)
    assert b"SET SESSION wsrep_sync_wait = 0" in peer.told
    link.close()


@pytest.mark.parametrize(
    "said",
    [b"", b"\x0a", greeting().replace(b"10.11", b"ten"), greeting(b"\xff"), b"\x0a10.11-MariaDB\0\1\0"],
    ids=repr,
)
def test_who_greets_as_no_mariadb_does_is_an_error_of_ours(clock: StillClock, said: bytes) -> None:
    peer = Peer([packet(0, said)], clock)
    with pytest.raises(NotMeasured):
        linked(clock, peer).ask("SELECT 1")
    assert peer.closed


@pytest.mark.parametrize(
    "then",
    [packet(2, b"\xfeauth_socket\0"), packet(2, b"\xff\x15\x04#28000no"), HELLO[len(packet(0, greeting())) :]],
    ids=["its own way in", "not let in", "let in"],
)
def test_a_mysql_is_named_whether_it_lets_us_in_or_not(clock: StillClock, then: bytes) -> None:
    """Its account of root's has an authentication that MariaDB has not, and the advice on accounts is MariaDB's."""
    mysql = packet(0, greeting(b"caching_sha2_password").replace(b"10.11-MariaDB", b"8.0.43-0ubuntu"))
    peer = Peer([mysql + then], clock)
    with pytest.raises(UsageError, match=r"says that it is '8\.0\.43-0ubuntu', not MariaDB: trimtab tunes only that"):
        linked(clock, peer).ask("SELECT 1")
    assert peer.closed


@pytest.mark.parametrize("plugin", [b"mysql_clear_password", b"dialog", b"sha256_password", b"caching_sha2_password"])
def test_a_greeting_that_asks_for_the_password_in_clear_or_for_our_key_does_not_get_it(
    clock: StillClock, plugin: bytes
) -> None:
    for more in (b"\1\4", b"\1a public key"):
        peer = Peer([packet(0, greeting(plugin)), packet(2, more)], clock)
        with pytest.raises(UsageError, match="in clear"):
            linked(clock, peer).ask("SELECT 1")
        assert peer.closed and peer.told and b"the secret" not in peer.told


def pieces(whole: bytes) -> Iterable[bytes]:
    """Its bytes, one by one, and then one more for ever."""
    return itertools.chain((bytes([one]) for one in whole), itertools.repeat(b"\0"))


@pytest.mark.parametrize("before", [[], [HELLO]], ids=["in the greeting", "in an answer"])
def test_who_says_a_byte_every_few_seconds_is_waited_for_no_longer_than_for_one_who_says_nothing(
    clock: StillClock, before: list[bytes]
) -> None:
    began_s = clock.seconds
    slow = pieces(answer([TEXT], *[[b"a" * 200]] * 100) if before else HELLO)
    peer = Peer(itertools.chain(before, slow), clock, each_s=5.0)
    with pytest.raises(NotMeasured, match="timed out"):
        linked(clock, peer).ask("SELECT 1")
    assert clock.seconds - began_s <= PATIENCE_S + 5.0
    assert peer.closed


@pytest.mark.parametrize("each_s", [0.0, 0.5], ids=["at once", "byte by byte"])
def test_who_does_not_answer_the_least_question_in_a_moment_is_silent_and_may_be_asked_again(
    clock: StillClock, each_s: float
) -> None:
    began_s, said = clock.seconds, answer([LONG], [b"1"])
    slow = Peer(pieces(HELLO + said), clock, each_s) if each_s else Peer([HELLO, said], clock)
    link = linked(clock, slow, Peer([HELLO, said], clock))
    assert link.silent(2.0) is bool(each_s)
    assert clock.seconds - began_s <= 2.5
    assert link.silent(2.0) is False or not each_s
    link.close()


def test_past_the_deadline_nothing_is_sent_or_read(clock: StillClock) -> None:
    peer: Any = Peer([HELLO], clock)
    over = bounded.Bounded(peer, clock, clock.seconds)
    for do in (lambda: over.sendall(b"a"), lambda: over.readinto(bytearray(1))):
        with pytest.raises(TimeoutError):
            do()
    assert (peer.told, peer.read_bytes) == (b"", 0)


def endless() -> Iterable[bytes]:
    """Rows without an end."""
    yield packets(b"\1", column(TEXT), END)
    yield from (packet(number, b"\x64" + b"a" * 100) for number in itertools.count(4))


@pytest.mark.parametrize(
    "said",
    [endless, lambda: itertools.chain([b"\xff\xff\xff\1"], itertools.repeat(bytes(1 << 16)))],
    ids=["rows", "one packet"],
)
def test_an_answer_without_end_takes_no_more_than_its_share_of_memory(
    clock: StillClock, said: Callable[[], Iterable[bytes]]
) -> None:
    peer = Peer(itertools.chain([HELLO], said()), clock)
    with pytest.raises(NotMeasured, match=f"more than {MOST_BYTES} bytes in one answer"):
        linked(clock, peer).ask("SELECT 1")
    assert peer.read_bytes <= len(HELLO) + MOST_BYTES
    assert peer.closed


def test_a_conversation_may_last_for_days_and_say_much_as_long_as_each_answer_is_in_time(clock: StillClock) -> None:
    rows = [[b"a" * 200]] * 300
    peer = Peer([HELLO, *[answer([TEXT], *rows)] * 50], clock)
    link = linked(clock, peer)
    for _ in range(50):
        assert len(link.ask("SELECT 1")) == len(rows)
        clock.seconds += 3600.0
    assert peer.read_bytes > 2 * MOST_BYTES
    link.close()
    assert peer.told.endswith(GOODBYE), "else MariaDB counts a connection that broke"
    assert peer.closed


class Ended(Peer):
    """It answers one question, and ends the conversation a while after the next."""

    def recv_into(self, buffer: Any, count: int) -> int:
        found = super().recv_into(buffer, count)
        self._clock.seconds += 0.0 if found else 50.0
        return found


def test_a_question_that_is_asked_once_more_on_a_new_connection_has_no_more_time_than_another(
    clock: StillClock,
) -> None:
    first = Ended([HELLO, answer([LONG], [b"1"])], clock)
    second = Peer(pieces(HELLO), clock, each_s=5.0)
    link = linked(clock, first, second)
    assert link.ask("SELECT 1") == ((1,),)
    began_s = clock.seconds
    with pytest.raises(NotMeasured, match="timed out"):
        link.ask("SELECT 1")
    assert (first.closed, second.closed) == (True, True)
    assert PATIENCE_S <= clock.seconds - began_s <= PATIENCE_S + 5.0


def test_a_connection_is_waited_for_no_longer_than_is_left_for_the_answer(
    clock: StillClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    first, second = Ended([HELLO, answer([LONG], [b"1"])], clock), Peer([HELLO, answer([LONG], [b"2"])], clock)
    link, connect = linked(clock, first, second), Server.connect

    def connected(self: Server, patience_s: float) -> Peer:
        waits.append(patience_s)
        return connect(self, patience_s)

    monkeypatch.setattr(Server, "connect", connected)
    assert [link.ask("SELECT 1"), link.ask("SELECT 1")] == [((1,),), ((2,),)]
    assert waits == [PATIENCE_S, PATIENCE_S - 50.0]
    link.close()


def saying(rows: object) -> Any:
    """A conversation in which every question has this answer."""
    return SimpleNamespace(ask=lambda *_: rows, close=lambda: None, begun=1)


def described(choices: object, now: object = "OFF", name: object = "QUERY_CACHE_TYPE") -> tuple[object, ...]:
    """A variable that is a choice, as MariaDB describes it."""
    return (name, now, None, None, None, "NO", choices)


HOSTILE = [
    "ON\nEND\nid >/tmp/was-here\ncat <<'END'",
    "ON'",
    "`id`",
    "$(id)",
    "ON; SET GLOBAL x = 1",
    'O"N',
    "\x1b[2J",
    "ÖN",
    "",
    "ON\n",
    "a" * 65,
]
"""Choices that nothing may come of: in a shell's script, in a file of options, on a terminal."""


@pytest.mark.parametrize("choice", HOSTILE, ids=ascii)
def test_a_choice_is_a_word_of_letters_digits_and_dashes(choice: str) -> None:
    for listed in (f"OFF,{choice}", f"{choice},OFF", f"OFF,{choice},DEMAND"):
        with pytest.raises(UsageError, match=r"where the name of a choice was expected"):
            system_variables.read(saying((described(listed),)), ["query_cache_type"])


def test_choices_are_few() -> None:
    with pytest.raises(UsageError, match="'b' where the name of a choice was expected"):
        system_variables.read(saying((described(",".join(["OFF", *"a" * 31, *"b" * 1000])),)), ["query_cache_type"])


@pytest.mark.parametrize("name", [*HOSTILE, "a.b", "a-b", "1a", None, 7], ids=ascii)
def test_the_name_of_a_variable_is_one_that_may_stand_in_a_statement(name: object) -> None:
    with pytest.raises(UsageError, match="where the name of a variable was expected"):
        system_variables.read(saying((described("OFF,ON", name=name),)), ["query_cache_type"])
    mariadb = object.__new__(Attached)
    mariadb.link = saying(((name,),))
    with pytest.raises(PlantError, match="where the name of a variable was expected"):
        mariadb.set_live()


def test_the_choices_that_mariadb_has_are_taken() -> None:
    handling = "one-thread-per-connection,no-threads,pool-of-threads"
    said = saying((described("OFF,ON,DEMAND"), described(handling, "pool-of-threads", "THREAD_HANDLING")))
    there = system_variables.read(said, ["query_cache_type", "thread_handling"])
    assert there["query_cache_type"].choices == ("OFF", "ON", "DEMAND")
    assert (there["thread_handling"].value, there["thread_handling"].most) == (1, 1)


@pytest.mark.parametrize(
    ("now", "choices"),
    [
        ("one-thread-per-connection", ("one-thread-per-connection", "pool-of-threads")),
        ("no-threads", ("one-thread-per-connection", "no-threads", "pool-of-threads")),
    ],
)
def test_what_serves_one_connection_at_a_time_is_tried_by_no_search(now: str, choices: tuple[str, ...]) -> None:
    listed = "one-thread-per-connection,no-threads,pool-of-threads"
    there = system_variables.read(saying((described(listed, now, "THREAD_HANDLING"),)), ["thread_handling"])
    (knob,) = knobs.knobs({**variables(), **there}, {"thread_handling": knobs.AT_RESTART["thread_handling"]}, 1 << 30)
    assert knob.domain.choices == choices
    assert knob.domain.shown(there["thread_handling"].value) == now


@pytest.mark.parametrize("value", ["1e9", "٣", "1_000", " 5", "5\n", "9" * 21, "nan", 2.5, None], ids=ascii)
def test_a_number_is_one_of_digits(value: object) -> None:
    there = {"max_connections": variables()["max_connections"]}
    with pytest.raises(UsageError, match="where a whole number was expected"):
        system_variables.values(saying(((value,),)), there)
    for place in range(1, 5):
        row: list[object] = ["MAX_CONNECTIONS", "151", "10", "100000", "1", "NO", None]
        row[place] = value if value is not None else "None"
        with pytest.raises(UsageError, match="where a whole number was expected"):
            system_variables.read(saying((tuple(row),)), ["max_connections"])


@pytest.mark.parametrize("value", ["3", "-1", 3, "ON,OFF"])
def test_a_value_of_a_choice_is_one_of_its_choices(value: object) -> None:
    there = {"query_cache_type": variables()["query_cache_type"]}
    with pytest.raises(UsageError, match="where one of OFF, ON, DEMAND was expected"):
        system_variables.values(saying(((value,),)), there)
    mariadb = object.__new__(Attached)
    mariadb.there = there
    for number in (-1, 3):
        with pytest.raises(UsageError, match=r"query_cache_type .* none of MariaDB's choices: OFF, ON, DEMAND"):
            mariadb.literal("query_cache_type", number)


@pytest.mark.parametrize("rows", [(), ((1,), (2,)), ((),), ((1, 2, 3),)], ids=repr)
def test_other_rows_than_were_asked_for_are_an_error_of_ours(rows: object) -> None:
    there = {"max_connections": variables()["max_connections"]}
    with pytest.raises(NotMeasured, match="values were expected"):
        system_variables.values(saying(rows), there)
    mariadb = object.__new__(Attached)
    mariadb.link, mariadb._asked, mariadb.there = saying(rows), there, variables()
    for ask in (mariadb.values, mariadb.look_around, mariadb.clients, mariadb._pool_bytes):
        with pytest.raises(PlantError, match="values were expected"):
            ask()
    with pytest.raises(PlantError, match="values were expected"):
        mariadb._globals(["max_connections"])


@pytest.mark.parametrize(
    "row",
    [
        (1, "QUESTIONS"),
        ("1", "QUESTIONS", "5"),
        (2, "QUESTIONS", "5"),
        (1, "OTHER", "5"),
        (None, None, None),
        *((1, "QUESTIONS", value) for value in ("nan", "inf", "-1", "1e400", "x", None)),
    ],
    ids=repr,
)
def test_a_counter_that_is_none_is_not_measured(row: tuple[object, ...]) -> None:
    server: Any = Server([])
    sensor = MariadbStatus(server, Credentials("root"), StillClock())
    sensor._link = saying(((1, "QUESTIONS", "7"), row))
    with pytest.raises(NotMeasured, match="expected"):
        sensor.state()
    sensor._link = saying(((1, "QUESTIONS", "7"), (-1, "QUESTIONS", "2"), (1, "QUERY_TIME", "0.25")))
    assert sensor.state() == {"QUESTIONS": 5.0, "QUERY_TIME": 0.25}


def test_a_mariadb_without_what_its_knobs_are_judged_by_is_one_line(
    fresh: Callable[[], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = variables()
    del there["open_files_limit"]
    monkeypatch.setattr("trimtab.plants.mariadb.variables.read", lambda link, names: there)
    with pytest.raises(UsageError, match="has no open_files_limit"):
        attach(fresh())


def test_a_server_that_tells_of_more_variables_than_there_are_is_not_restarted() -> None:
    mariadb = object.__new__(Attached)
    mariadb.link, mariadb.server = saying([(f"V{n}",) for n in range(5000)]), MariadbServer(1, 1, Path("/x"), (), 0)
    with pytest.raises(PlantError, match="5000 variables were set, more than there are"):
        mariadb.set_live()


def test_what_a_restart_has_forgotten_is_set_again_within_one_deadline() -> None:
    clock, asked = StillClock(), list[str]()

    def ask(statement: str, values: object) -> None:
        asked.append(statement)
        clock.seconds += PATIENCE_S
        raise NotMeasured("MariaDB did not answer")

    mariadb = object.__new__(Attached)
    mariadb.clock, mariadb.link = clock, SimpleNamespace(ask=ask)  # type: ignore[assignment]
    names = {f"v{n}": n for n in range(500)}
    assert mariadb.set_again(names) == [*names], "what was not set is named"
    assert len(asked) < 5
