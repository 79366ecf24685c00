"""The operator's hand on a real nginx, and what a run that was killed has left, undone to the byte."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from tests.servers import _private_nginx
from tests.servers._private_nginx import CPUS, MORE, SHIPPED, Bed, renewed
from tests.servers._under_gate import until
from trimtab.errors import ApplyLater, OperatorEdit
from trimtab.plants.nginx.process import serving

pytestmark = [pytest.mark.server]


shared, bed = _private_nginx.shared, _private_nginx.bed


def test_an_edit_of_a_knob_stands_it_down_alone_and_every_edit_of_the_operators_stays(bed: Bed) -> None:
    nginx = bed.attach()
    nginx.apply({"worker_processes": MORE, "worker_connections": 600})
    bed.replace("worker_connections 600;", "worker_connections 500; # mine")
    bed.replace("gzip on;", "gzip off;")
    with pytest.raises(OperatorEdit) as edit:
        nginx.configuration()
    assert edit.value.knob == "worker_connections"
    nginx.configuration()
    with pytest.raises(OperatorEdit):
        nginx.apply({"worker_connections": 700})
    with pytest.raises(ApplyLater, match=r"nginx\.conf was edited after nginx read it, .* reload nginx yourself"):
        nginx.apply({"worker_processes": 1})
    os.kill(bed.pid, signal.SIGHUP)
    until(lambda: nginx.configuration()["worker_connections"] == 500, "the reload was not noticed")
    nginx.apply({"worker_processes": 1})
    assert nginx.configuration()["worker_connections"] == 500
    nginx.restore()
    text = bed.config.read_text()
    assert "worker_connections 500; # mine" in text and "gzip off;" in text, "the operator's edits stay"
    assert "worker_processes auto;" in text, "ours is taken back"
    assert bed.processes() == CPUS


def test_a_way_back_waits_for_nobody_and_what_was_tried_before_is_a_trial_again(bed: Bed) -> None:
    nginx = bed.attach()
    nginx.apply({"keepalive_timeout_ms": 400})
    nginx.apply({"keepalive_timeout_ms": 500})
    bed.replace("gzip on;", "gzip off;")
    nginx.apply({"keepalive_timeout_ms": 400})
    bed.replace("gzip off;", "gzip on;")
    with pytest.raises(ApplyLater, match=r"nginx\.conf was edited"):
        nginx.apply({"keepalive_timeout_ms": 500})
    nginx.restore()


def test_a_knob_that_the_operator_sets_elsewhere_stands_down(bed: Bed) -> None:
    nginx = bed.attach()
    bed.write("mine.conf", "keepalive_timeout 9s;\n")
    with pytest.raises(OperatorEdit, match=r"mine\.conf"):
        nginx.apply({"keepalive_timeout_ms": 400})


def test_an_edit_of_our_own_file_stands_down_and_is_not_overwritten(bed: Bed) -> None:
    nginx = bed.attach()
    nginx.apply({"keepalive_timeout_ms": 400})
    bed.write("zz-trimtab.conf", "keepalive_timeout 7s;\n")
    with pytest.raises(OperatorEdit, match=r"zz-trimtab\.conf"):
        nginx.configuration()
    with pytest.raises(OperatorEdit):
        nginx.restore()
    assert (bed.snippets / "zz-trimtab.conf").read_text() == "keepalive_timeout 7s;\n"


def test_a_way_back_to_all_that_was_before_leaves_nothing_and_can_be_taken_back_and_tried_again(bed: Bed) -> None:
    """The next run found what "an earlier run" had left, though nothing differed."""
    before, nginx = bed.files(), bed.attach()
    trial = {"worker_processes": MORE, "keepalive_timeout_ms": 400}
    nginx.apply(trial)
    nginx.apply({"keepalive_timeout_ms": SHIPPED["keepalive_timeout_ms"]})
    assert bed.files() != before, "one is still on trial"
    prepared = nginx.prepare({"worker_processes": CPUS})
    nginx.commit(prepared)
    assert (bed.files(), bed.processes(), bed.attach().leftover()) == (before, CPUS, "")
    nginx.rollback(prepared)
    assert (bed.processes(), nginx.configuration()["worker_processes"]) == (MORE, MORE)
    nginx.apply({"worker_processes": CPUS})
    assert bed.files() == before
    bed.replace("gzip on;", "gzip off;")
    with renewed(bed):
        os.kill(bed.pid, signal.SIGHUP)
    nginx.apply(trial)
    nginx.restore()
    assert bed.processes() == CPUS
    bed.replace("gzip off;", "gzip on;")
    assert bed.files() == before


def test_a_killed_run_that_goes_on_comes_back_to_what_the_operator_had_also_after_its_next_trial(bed: Bed) -> None:
    """The files had the killed part's trial, and were put back to that: each way back failed."""
    before = bed.files()
    bed.attach().apply({"worker_processes": MORE})
    nginx = bed.attach()
    nginx.began_with(SHIPPED)
    nginx.apply({"worker_processes": MORE + 1})
    nginx.apply({"worker_processes": CPUS})
    assert (bed.processes(), nginx.configuration()) == (CPUS, SHIPPED)
    nginx.restore()
    nginx.undo_leftover()
    assert bed.files() == before


def test_what_was_in_force_comes_back_though_the_operator_had_edited_it_and_not_reloaded(bed: Bed) -> None:
    time.sleep(1.1)  # by less the clocks of files and processes may differ
    bed.replace("worker_processes auto;", f"worker_processes {MORE};")
    nginx = bed.attach()
    nginx.apply({"worker_processes": MORE + 1})
    nginx.apply({"worker_processes": CPUS})
    assert (bed.processes(), nginx.configuration()) == (CPUS, SHIPPED)
    nginx.restore()
    assert f"worker_processes {MORE};" in bed.config.read_text()


def test_a_kill_between_the_operators_file_and_the_reload_to_it_is_undone(bed: Bed) -> None:
    """Nothing told of the trial any more, which stayed in force and was taken for the operator's choice."""
    before = bed.files()
    bed.attach().apply({"worker_processes": MORE})
    time.sleep(1.1)  # by less the clocks of files and processes may differ
    for path in bed.files().keys() - before.keys():
        path.unlink()
    bed.config.write_bytes(before[bed.config])
    nginx = bed.attach()
    assert (nginx.configuration()["worker_processes"], nginx.leftover()) == (MORE, "")
    nginx.undo_leftover()
    assert (bed.processes(), nginx.configuration()) == (CPUS, SHIPPED)


@pytest.mark.parametrize("act", ["restore()", f"apply({SHIPPED})"])
def test_a_kill_between_the_files_and_the_reload_to_them_is_undone_whatever_was_tried(bed: Bed, act: str) -> None:
    """The number of processes alone told of it: the trial stayed in force, and its run counted as undone."""
    before = bed.files()
    killed = textwrap.dedent(f"""
        import os, signal
        from trimtab.clock import SystemClock
        from trimtab.plants.nginx import change
        from trimtab.plants.nginx.plant import Nginx
        nginx = Nginx.attach(SystemClock(), {bed.pid}, None, True)
        nginx.apply({{"worker_connections": 600, "keepalive_timeout_ms": 400}})
        change.reload = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        nginx.{act}
    """)
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == -signal.SIGKILL
    assert bed.files() == before
    nginx = bed.attach()
    assert "may still run with what was on trial" in nginx.leftover()
    with renewed(bed):
        nginx.undo_leftover()
    assert (nginx.leftover(), bed.attach().leftover()) == ("", "")
    assert (bed.files(), nginx.configuration()) == (before, SHIPPED)


POINTS = ("nothing written", "original kept", "written", "tested", "reloaded")


@pytest.mark.parametrize("point", range(len(POINTS)), ids=POINTS)
def test_what_a_kill_leaves_is_recognised_and_undone_to_the_byte_wherever_it_comes(bed: Bed, point: int) -> None:
    before = bed.files()
    killed = textwrap.dedent(f"""
        import os, signal
        from trimtab.clock import SystemClock
        from trimtab.plants import _own_file
        from trimtab.plants.nginx import attached, change
        from trimtab.plants.nginx.plant import Nginx
        def die(*given, **more):
            os.kill(os.getpid(), signal.SIGKILL)
        nginx = Nginx.attach(SystemClock(), {bed.pid}, None, True)
        write, point = _own_file.write, {point}
        left = iter(range(point, -1, -1))
        def counted(path, text, *mode):
            if next(left, 0) == 0:
                die()
            write(path, text, *mode)
        if point < 2:
            _own_file.write = counted
        elif point == 2:
            prepared = nginx.prepare({{"worker_processes": {MORE}}})
            attached.Attached.test = die
            nginx.commit(prepared)
        elif point == 3:
            change.reload = die
        nginx.apply({{"worker_processes": {MORE}}})
        die()
    """)
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == -signal.SIGKILL
    assert (bed.files() != before) == (point > 0)
    assert bed.processes() == (MORE if point == 4 else CPUS)
    nginx = bed.attach()
    assert ("nginx.conf" in nginx.leftover()) == (point > 0)
    nginx.undo_leftover()
    assert bed.files() == before
    assert (bed.processes(), bed.attach().leftover()) == (CPUS, "")


def test_a_run_after_a_killed_one_goes_back_to_its_own_start_and_undo_to_the_first(bed: Bed) -> None:
    before, killed = bed.files(), bed.attach()
    killed.apply({"worker_processes": MORE, "keepalive_timeout_ms": 600})
    left = bed.files()
    nginx = bed.attach()
    nginx.apply({"worker_processes": 1, "keepalive_timeout_ms": 500})
    nginx.restore()
    assert bed.files() == left, "as it was before this run"
    assert nginx.configuration() == {**SHIPPED, "worker_processes": MORE, "keepalive_timeout_ms": 600}
    nginx.undo_leftover()
    assert bed.files() == before
    assert nginx.configuration() == SHIPPED


def test_undo_after_a_kill_keeps_what_the_operator_has_edited_since(bed: Bed) -> None:
    bed.attach().apply({"worker_processes": MORE})
    bed.replace("gzip on;", "gzip off;")
    nginx = bed.attach()
    nginx.undo_leftover()
    text = bed.config.read_text()
    assert "gzip off;" in text and "worker_processes auto;" in text
    assert bed.processes() == CPUS


def test_the_undo_script_undoes_to_the_byte_without_trimtab(bed: Bed) -> None:
    before, nginx = bed.files(), bed.attach()
    script = nginx.undo_script()
    nginx.apply({"worker_processes": MORE, "keepalive_timeout_ms": 600})
    for text in (script, nginx.undo_script()):
        with renewed(bed):
            ended = subprocess.run(["sh", "-c", text], check=False, capture_output=True, text=True)
            assert ended.returncode == 0, ended.stderr
        assert bed.files() == before


def test_the_undo_script_leaves_a_file_alone_that_was_edited_since_and_says_what_to_put_back(bed: Bed) -> None:
    nginx = bed.attach()
    nginx.apply({"worker_processes": MORE})
    bed.replace("gzip on;", "gzip off;")
    edited = bed.files()
    ended = subprocess.run(["sh", "-c", nginx.undo_script()], check=False, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "worker_processes auto" in ended.stderr
    assert bed.files() == edited


def crash(bed: Bed, many: int = CPUS) -> None:
    """Ends workers; the master starts others in their place, from the configuration that it has."""
    gone = frozenset(sorted(serving(bed.master))[:many])
    for pid, _ in gone:
        os.kill(pid, signal.SIGKILL)
    until(lambda: len(now := serving(bed.master)) == CPUS and not now & gone, "no others were started")


def test_workers_that_crash_after_an_edit_bring_none_of_it_into_force(bed: Bed) -> None:
    nginx = bed.attach()
    crash(bed)
    assert nginx.configuration() == SHIPPED
    bed.replace("worker_connections 768", "worker_connections 500")
    crash(bed)
    assert nginx.configuration() == SHIPPED
    with pytest.raises(ApplyLater, match=r"nginx\.conf was edited after nginx read it"):
        nginx.apply({"keepalive_timeout_ms": 5000})
    with renewed(bed):
        os.kill(bed.pid, signal.SIGHUP)
    assert nginx.configuration() == {**SHIPPED, "worker_connections": 500}


@pytest.mark.skipif(CPUS < 2, reason="of one worker nothing tells when it was told to start")
def test_an_edit_that_is_not_in_force_is_told_of_though_one_worker_has_crashed_since(bed: Bed) -> None:
    time.sleep(1.1)  # by less the clocks of files and processes may differ
    bed.config.touch()
    time.sleep(1.1)
    crash(bed, 1)
    assert any("nginx.conf was edited after nginx last read it" in note for note in bed.attach().notes)
    with renewed(bed):
        os.kill(bed.pid, signal.SIGHUP)
