"""What every plant promises that is steered by a file of trimtab's own: real Apaches, PHP-FPMs and a Squid."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests._stranger import AS_STRANGER
from tests.servers import _private_apache, _private_fpm, _private_squid
from tests.servers._under_gate import until
from trimtab.errors import ApplyFailed, ApplyLater, ApplyRefused, OperatorEdit, PlantGone, UsageError
from trimtab.plants.php_fpm.process import FpmMaster
from trimtab.plants.squid.process import SquidMaster
from trimtab.processes import descriptors, start_of
from trimtab.testbed.apache_config import Mpm

pytestmark = pytest.mark.server

Generation = frozenset[str]
MINE = "x-mine.conf"
KILLED = """
import os, signal
from trimtab.clock import SystemClock
from {room} import change, plant
subject = plant.{attach}
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
{point} = die
subject.{act}
"""


@dataclass(frozen=True)
class Server:
    """A private server, and what a test has to know of its kind.

    Args:
        bed: the server.
        title: its name.
        attach: how trimtab attaches to it, by name.
        start: knob to value as it was started.
        knob: one of them.
        values: values for it, and last that of an operator.
        other: another one, with a value.
        setting: an operator's text that sets the knob.
        elsewhere: an operator's text that sets something else.
        nonsense: a text that it refuses.
        refusal: its words for that.
        comment: a text that says nothing.
        reload: reloads it as an operator does, to the end.
        generation: what it holds since it read its configuration.
        anew: whether it has read it since.
        seen: what looks at it after a reload, by name.
    """

    bed: Any
    title: str
    attach: str
    start: dict[str, int]
    knob: str
    values: tuple[int, int, int, int, int]
    other: dict[str, int]
    setting: str
    elsewhere: str
    nonsense: str
    refusal: str
    comment: str
    reload: Callable[[], None]
    generation: Callable[[], Generation]
    anew: Callable[[Generation], bool]
    seen: str = "reloaded"

    @property
    def room(self) -> str:
        """Where its plant is."""
        return type(self.bed.attach()).__module__.rpartition(".")[0]

    def to(self, number: int) -> dict[str, int]:
        """A change of the knob to one of the values."""
        return {self.knob: self.values[number]}

    @property
    def theirs(self) -> str:
        """An operator's text that sets the knob to the last of the values."""
        return self.setting.format(self.values[-1])


@contextmanager
def apache(mpm: Mpm) -> Iterator[Server]:
    with _private_apache.private(mpm) as bed:
        pid, threads = bed.testbed.pid, bed.threads
        four, five, six, seven, nine = (count * threads for count in (4, 5, 6, 7, 9))
        yield Server(
            bed,
            "Apache",
            f"Apache.attach(SystemClock(), {pid}, {bed.testbed.status_url!r})",
            {"max_request_workers": 8 * threads, "keep_alive_timeout_ms": 300},
            "max_request_workers",
            (four, five, six, seven, nine),
            {"keep_alive_timeout_ms": 700},
            "MaxRequestWorkers {}\n",
            "Timeout 50\n",
            "NoSuchDirective on\n",
            "Invalid command 'NoSuchDirective'",
            "# mine\n",
            partial(_private_apache.reload, pid),
            partial(descriptors, pid, "pipe"),
            lambda before: bool(descriptors(pid, "pipe") - before),
            "read_running",
        )


@contextmanager
def php_fpm(tcp: bool) -> Iterator[Server]:
    with _private_fpm.private(tcp=tcp) as bed:
        master = FpmMaster.find(bed.testbed.pid)
        yield Server(
            bed,
            "PHP-FPM",
            f"PhpFpm.attach(SystemClock(), {master.pid})",
            _private_fpm.DEBIAN,
            "max_children",
            (6, 7, 8, 9, 10),
            {"start_servers": 3},
            "[www]\npm.max_children = {}\n",
            "[www]\nphp_admin_value[memory_limit] = 64M\n",
            "[www]\nno such thing\n",
            r"b\.conf:2\] value is NULL for a ZEND_INI_PARSER_ENTRY",
            "; mine\n",
            bed.restart_pool,
            master.generation,
            master.anew,
        )


@contextmanager
def squid() -> Iterator[Server]:
    with _private_squid.private() as bed:
        master = SquidMaster.find(bed.testbed.pid)
        yield Server(
            bed,
            "Squid",
            f"Squid.attach(SystemClock(), {master.pid}, accept_lost=True)",
            _private_squid.DEBIAN,
            "cache_mem",
            (16, 17, 18, 19, 9),
            {"cache_swap_low": 80},
            "cache_mem {} MB\n",
            "client_lifetime 5 minutes\n",
            "client_lifetime 5 parsecs\n",
            r"Bungled .*b\.conf line 1: client_lifetime 5 parsecs",
            "# mine\n",
            bed.reload,
            lambda: frozenset(master.ports()),
            lambda before: bool(now := master.ports()) and not now.keys() & before,
        )


KINDS: dict[str, Callable[[], AbstractContextManager[Server]]] = {
    "prefork": partial(apache, "prefork"),
    "event": partial(apache, "event"),
    "php-fpm": partial(php_fpm, False),
    "php-fpm-tcp": partial(php_fpm, True),
    "squid": squid,
}
MARKED = [pytest.param(name, marks=[pytest.mark.apache] * (name in ("prefork", "event"))) for name in KINDS]


@pytest.fixture(scope="module", params=MARKED)
def shared(request: pytest.FixtureRequest) -> Iterator[Server]:
    with KINDS[request.param]() as server:
        yield server


@pytest.fixture
def server(shared: Server) -> Iterator[Server]:
    """One that is left as it was found."""
    there = {path: path.read_text() for path in shared.bed.snippets.iterdir()}
    yield shared
    for path in shared.bed.snippets.iterdir():
        if path not in there:
            path.unlink()
    shared.reload()


def test_what_an_earlier_run_has_kept_stays_beside_what_a_later_one_changes(server: Server) -> None:
    bed, kept = server.bed, {**server.start, **server.to(0)}
    bed.attach().apply(server.to(0))
    text, later = bed.snippet.read_text(), bed.attach()
    assert later.apply(server.other).configuration == {**kept, **server.other}
    later.restore()
    assert (bed.snippet.read_text(), later.configuration()) == (text, kept)
    assert f"rm -f {bed.snippet}" in later.undo_script(), "the script goes back to before the first run"
    later.apply(server.other)
    bed.attach().undo_leftover()
    assert bed.attach().configuration() == server.start


def test_a_second_change_keeps_the_first_and_a_new_one_follows_a_restore(server: Server) -> None:
    plant = server.bed.attach()
    plant.apply(server.to(0))
    assert plant.apply(server.other).configuration == {**server.start, **server.to(0), **server.other}
    plant.restore()
    assert plant.apply(server.to(1)).configuration == {**server.start, **server.to(1)}
    plant.restore()
    assert plant.configuration() == server.start


def test_a_configuration_that_the_server_refuses_is_shown_in_its_words_and_not_loaded(server: Server) -> None:
    bed, plant, before = server.bed, server.bed.attach(), server.generation()
    prepared = plant.prepare(server.to(0))
    bed.write("b.conf", server.nonsense)
    with pytest.raises(ApplyRefused, match=server.refusal):
        plant.commit(prepared)
    assert not bed.snippet.exists() and not server.anew(before)
    assert plant.configuration() == server.start


def test_restore_does_not_reload_into_a_configuration_that_the_server_refuses(server: Server) -> None:
    bed, plant = server.bed, server.bed.attach()
    plant.apply(server.to(0))
    before = server.generation()
    bed.write("b.conf", server.nonsense)
    with pytest.raises(ApplyFailed, match=server.refusal):
        plant.restore()
    assert not bed.snippet.exists() and not server.anew(before)
    bed.write("b.conf", None)
    plant.restore()
    assert plant.configuration() == server.start


def test_an_interrupt_in_the_middle_of_a_change_puts_everything_back(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = server.bed.attach()
    change = importlib.import_module(f"{server.room}.change")
    reloads = [change.reload]

    def interrupted(*given: Any) -> Any:
        """The first one, once the server has read our file."""
        seen = reloads[0](*given)
        reloads.append(seen)
        if len(reloads) == 2:
            raise KeyboardInterrupt
        return seen

    monkeypatch.setattr(change, "reload", interrupted)
    with pytest.raises(KeyboardInterrupt):
        plant.apply(server.to(0))
    assert len(reloads) == 3 and not server.bed.snippet.exists()
    assert server.bed.attach().configuration() == server.start


def test_an_edit_of_our_file_stands_the_knobs_down_and_is_not_overwritten(server: Server) -> None:
    bed, plant = server.bed, server.bed.attach()
    plant.apply(server.to(0))
    bed.write(bed.snippet.name, server.theirs)
    with pytest.raises(OperatorEdit) as first:
        plant.configuration()
    assert first.value.knob == server.knob
    assert server.knob in plant.configuration(), "it is said once"
    for edit in (server.to(1), server.other):
        with pytest.raises(OperatorEdit):
            plant.apply(edit)
    with pytest.raises(OperatorEdit, match="changed by somebody"):
        plant.restore()
    assert bed.snippet.read_text() == server.theirs


def test_an_edit_of_the_same_setting_elsewhere_stands_that_knob_down_alone(server: Server) -> None:
    plant, theirs = server.bed.attach(), {**server.start, **server.to(-1)}
    plant.apply(server.to(0))
    server.bed.write(MINE, server.theirs)
    with pytest.raises(OperatorEdit, match=MINE):
        plant.apply(server.to(1))
    server.reload()
    plant.apply(server.other)
    assert plant.configuration() == {**theirs, **server.other}
    plant.restore()
    assert plant.configuration() == theirs


def test_what_is_edited_in_mid_run_waits_for_the_operators_reload_and_a_change_waits_with_it(server: Server) -> None:
    bed, plant, knob, values = server.bed, server.bed.attach(), server.knob, server.values
    plant.apply(server.to(0))
    bed.write(MINE, server.comment)
    bed.write(f".{MINE}.swp", "an editor's")
    plant.apply(server.to(1))
    bed.write(MINE, server.elsewhere)
    for _ in range(2):
        with pytest.raises(ApplyLater, match=f"{MINE} was edited after .* reload {server.title} yourself"):
            plant.apply(server.to(2))
    assert plant.configuration()[knob] == values[1]
    server.reload()
    assert plant.apply(server.to(2)).configuration[knob] == values[2]
    bed.write(MINE, None)
    with pytest.raises(ApplyLater, match=f"{MINE} was edited"):
        plant.apply(server.to(3))
    assert plant.apply(server.to(1)).configuration[knob] == values[1], "a way back waits for nobody"
    bed.write(MINE, server.elsewhere)
    with pytest.raises(ApplyLater, match=f"{MINE} was edited"):
        plant.apply(server.to(2))  # which is a trial again
    plant.restore()
    assert (plant.configuration(), bed.snippet.exists()) == (server.start, False)


@pytest.mark.parametrize(
    "point", ["change.Change.test", "change.reload", "change.Attached.{seen}", "plant.{kind}.configuration"]
)
def test_what_a_run_that_was_killed_at_any_point_left_is_recognised_and_undone(server: Server, point: str) -> None:
    bed, room = server.bed, server.room
    point = point.format(seen=server.seen, kind=server.attach.partition(".")[0])
    run = KILLED.format(room=room, attach=server.attach, point=point, act=f"apply({server.to(0)})")
    assert subprocess.run([sys.executable, "-c", run], check=False).returncode == -signal.SIGKILL
    assert bed.snippet.exists()
    plant = bed.attach()
    assert bed.snippet.name in plant.leftover()
    plant.undo_leftover()
    assert plant.leftover() == ""
    assert not bed.snippet.exists()
    assert plant.configuration() == server.start


@pytest.mark.parametrize("again", ["undo_leftover", "undo_killed"])
def test_an_undo_that_was_killed_between_the_file_and_the_reload_to_that_is_made_good(
    server: Server, again: str
) -> None:
    """Nothing told of it any more: the trial stayed in force, and its run counted as undone."""
    bed = server.bed
    bed.attach().apply(server.to(0))
    run = KILLED.format(room=server.room, attach=server.attach, point="change.reload", act="undo_leftover()")
    assert subprocess.run([sys.executable, "-c", run], check=False).returncode == -signal.SIGKILL
    assert not bed.snippet.exists()
    plant, before = bed.attach(), server.generation()
    assert "may still run with what was on trial" in plant.leftover()
    getattr(plant, again)()
    assert server.anew(before)
    assert (plant.leftover(), bed.attach().leftover()) == ("", "")
    assert plant.configuration() == server.start


def test_a_way_back_to_what_was_kept_that_was_killed_before_its_reload_is_made_good(server: Server) -> None:
    """PHP-FPM was not reloaded to it: our own file, which it had not loaded, passed for somebody's edit."""
    bed = server.bed
    bed.attach().apply(server.to(0))
    kept = bed.snippet.read_text()
    back = f"subject.apply({server.to(1)})\nchange.reload"
    run = KILLED.format(room=server.room, attach=server.attach, point=back, act="restore()")
    assert subprocess.run([sys.executable, "-c", run], check=False).returncode == -signal.SIGKILL
    assert bed.snippet.read_text() == kept
    second = int(time.time())
    until(lambda: int(time.time()) > second, "PHP-FPM counts in seconds")
    os.utime(bed.snippet)
    plant, before = bed.attach(), server.generation()
    plant.undo_killed()
    assert server.anew(before)
    assert plant.configuration() == {**server.start, **server.to(0)}


def test_the_undo_script_undoes_without_trimtab(server: Server) -> None:
    plant = server.bed.attach()
    plant.apply(server.to(0))
    before = server.generation()
    ended = subprocess.run(["sh", "-c", plant.undo_script()], check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert not server.bed.snippet.exists()
    until(lambda: server.anew(before), "it was not reloaded")
    until(lambda: server.bed.attach().configuration() == server.start, "it is not as it was")


def test_a_file_of_the_operators_in_our_place_is_not_touched(server: Server) -> None:
    bed = server.bed
    bed.write(bed.snippet.name, server.comment)
    server.reload()
    plant = bed.attach()
    with pytest.raises(UsageError, match="was not written by trimtab"):
        plant.check_permissions()
    with pytest.raises(ApplyRefused, match="was not written by trimtab"):
        plant.apply(server.to(0))
    assert bed.snippet.read_text() == server.comment


@pytest.mark.root
def test_an_ordinary_user_is_told_in_one_line_what_is_needed(server: Server) -> None:
    code = f"from trimtab.clock import SystemClock; from {server.room} import plant; plant.{server.attach}"
    told = subprocess.run([*AS_STRANGER, sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "run as root or as its user" in told.stderr.splitlines()[-1], told.stderr


@pytest.mark.parametrize("kind", MARKED)
def test_a_server_that_ends_is_gone_and_its_file_is_put_back(kind: str) -> None:
    with KINDS[kind]() as server:
        plant = server.bed.attach()
        plant.apply(server.to(0))
        os.kill(plant.pid, signal.SIGTERM)
        until(lambda: start_of(plant.pid) is None, "it did not end")
        with pytest.raises(PlantGone, match=f"pid {plant.pid}"):
            plant.configuration()
        with pytest.raises(PlantGone):
            plant.apply(server.to(1))
        plant.restore()
        assert not server.bed.snippet.exists()
