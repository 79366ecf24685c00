"""The dispatcher: verbs by discovery, errors in one line, exit codes."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Trimtab
from trimtab import __version__, discovery, metrics
from trimtab.cli import ROOM, doctor, parser_of
from trimtab.core import Finding
from trimtab.errors import UsageError
from trimtab.events import Status
from trimtab.store import Store

STEERS = "\x1b]0;a title\x07\udcff"
SHOWN = r"\x1b]0;a title\x07\udcff"


def test_trimtab_alone_lists_every_verb_with_its_first_line(trimtab: Trimtab) -> None:
    said = trimtab()
    assert said.code == 0
    for verb in discovery.names(ROOM):
        line = next(line for line in said.out.splitlines() if line.strip().startswith(f"{verb} "))
        assert line.rstrip().endswith(".")


def test_version(trimtab: Trimtab) -> None:
    assert trimtab("--version").out == f"trimtab {__version__}\n"


@pytest.mark.parametrize("verb", [v for v in discovery.names(ROOM) if v != "lab"])
def test_every_verb_has_help_with_an_example(trimtab: Trimtab, verb: str) -> None:
    said = trimtab(verb, "--help")
    assert said.code == 0
    assert f"example: trimtab {verb}" in said.out


def test_help_of_a_plant_names_its_own_options(trimtab: Trimtab) -> None:
    assert "--dies" in trimtab("tune", "memory", "--help").out
    assert "--dies" not in trimtab("tune", "--help").out


def test_an_unknown_verb_names_those_there_are(trimtab: Trimtab) -> None:
    said = trimtab("tun")
    assert said.code == 2
    assert said.err.startswith("trimtab: unknown verb 'tun'; choose from: ")
    assert said.err.endswith("; did you mean 'tune'?\n")
    assert said.err.count("\n") == 1


def test_an_abbreviated_option_is_unknown(trimtab: Trimtab) -> None:
    said = trimtab("tune", "memory", "--dur", "1m")
    assert said.code == 2
    assert "unrecognized arguments: --dur 1m" in said.err


def test_verbose_adds_where_an_error_came_from(trimtab: Trimtab) -> None:
    assert "Traceback" not in trimtab("tune", "nothing").err
    said = trimtab("tune", "nothing", "--verbose")
    assert "Traceback" in said.err
    assert said.err.splitlines()[-1].startswith("trimtab: unknown plant")


def test_a_defect_is_one_line_and_exit_code_1(trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch) -> None:
    module, _ = parser_of("doctor")

    def broken(args: object) -> int:
        raise ValueError("two\nlines")

    monkeypatch.setattr(module, "run", broken)
    said = trimtab("doctor")
    assert (said.code, said.err) == (1, "trimtab: internal error: ValueError: two lines\n")


@pytest.mark.parametrize("error", [UsageError(STEERS), ValueError(STEERS)], ids=["error", "defect"])
def test_an_error_with_a_strangers_words_does_not_steer_the_terminal(
    trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    module, _ = parser_of("doctor")

    def broken(args: object) -> int:
        raise error

    monkeypatch.setattr(module, "run", broken)
    for more in ((), ("--verbose",)):
        lines = trimtab("doctor", *more).err.splitlines()
        assert all(line.isprintable() for line in lines)
        assert lines[-1].endswith(SHOWN)


@pytest.mark.usefixtures("memory_alone")
def test_a_finding_with_a_strangers_words_does_not_steer_the_terminal(
    trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = Finding(f"one {STEERS}", False, f"two {STEERS}", f"three {STEERS}")
    monkeypatch.setattr(discovery.load("trimtab.plants", "memory"), "probe", lambda: (finding,))
    said = trimtab("doctor")
    assert (said.code, said.err) == (0, "")
    assert f"no   one {SHOWN}: two {SHOWN}\n     to enable: three {SHOWN}\n" in said.out
    found = [json.loads(line) for line in trimtab("doctor", "--json").out.splitlines()]
    assert f"three {STEERS}" in [one["enable"] for one in found]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def add_arguments(parser:\n", "SyntaxError: '(' was never closed (broken.py, line 1)"),
        ("import no_such_package\n", "ModuleNotFoundError: No module named 'no_such_package'"),
    ],
)
def test_a_plant_of_the_users_own_that_cannot_be_imported_is_told_and_keeps_no_other_from_being_used(
    trimtab: Trimtab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str
) -> None:
    monkeypatch.setattr(metrics, "known", functools.cache(metrics.known.__wrapped__))  # known since another test
    (tmp_path / "plants" / "broken.py").write_text(text)
    assert trimtab("tune", "memory", "--duration", "60s").code == 0
    line = f"{tmp_path}/plants/broken.py cannot be imported: {why}"
    for words in (("tune", "broken"), ("observe", "broken"), ("tune", "broken", "--help")):
        said = trimtab(*words)
        assert (said.code, said.out, said.err) == (2, "", f"trimtab: {line}\n")
    monkeypatch.setattr(doctor, "ROOMS", ("trimtab.plants",))
    names = discovery.names
    own = ["broken", "memory"]
    monkeypatch.setattr(discovery, "names", lambda room: own if room == "trimtab.plants" else names(room))
    said = trimtab("doctor")
    assert (said.code, said.err) == (0, "")
    assert f"no   broken: {line}\n     to enable: mend that file, or take it away\n" in said.out
    assert "no   memory: is forgetful" in said.out


def test_a_plant_that_says_nothing_of_itself_has_no_metrics(
    trimtab: Trimtab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "known", functools.cache(metrics.known.__wrapped__))
    (tmp_path / "plants" / "begun.py").write_text("")
    assert trimtab("tune", "memory", "--duration", "60s").code == 0
    sys.modules.pop("trimtab.plants.begun", None)


def test_help_loads_no_verb() -> None:
    code = "import sys; from trimtab.cli import main; main(['--help']); print(sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for module in ("trimtab.cli.tune", "numpy", "matplotlib", "sqlite3"):
        assert f"'{module}'" not in done.stderr


@pytest.mark.parametrize(("wanted", "alone"), [({}, True), ({"OPENBLAS_NUM_THREADS": "3"}, False)])
def test_numpy_starts_no_threads_unless_the_user_wants_some_and_no_server_inherits_that(
    wanted: dict[str, str], alone: bool
) -> None:
    code = (
        "import os; from trimtab.cli import main; main(['--version']); import numpy, scipy.linalg; "
        "print(len(os.listdir('/proc/self/task')), os.environ.get('OPENBLAS_NUM_THREADS'))"
    )
    without = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**without, **wanted}, capture_output=True, text=True, check=True
    )
    threads, inherited = done.stdout.split()[-2:]
    assert (threads == "1") is alone
    assert inherited == wanted.get("OPENBLAS_NUM_THREADS", "None")


def test_a_run_loads_no_other_plant_and_no_library_for_numbers_or_pictures_not_even_at_its_end(
    tmp_path: Path,
) -> None:
    """Beside a server they would take memory and CPU time: to start and to end took three times as much with them."""
    store = os.fspath(tmp_path / "runs.sqlite")
    code = (
        "import sys; from trimtab.cli import main;"
        f"main(['tune', 'simulated', '--window', '1s', '--duration', '8s', '--store', {store!r}]);"
        "print(sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "\nso:    " in done.stdout and "'trimtab.loop'" in done.stderr
    for module in ("numpy", "scipy", "matplotlib", "jinja2", "pymysql", "trimtab.plants.mariadb", "trimtab.testbed"):
        assert f"'{module}'" not in done.stderr


def test_a_guarantee_and_an_identification_load_what_draws_only_once_there_is_a_report() -> None:
    code = "import sys, trimtab.cli.guarantee, trimtab.cli.identify; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def _tune(tmp_path: Path, *more: str) -> list[str]:
    """A command that tunes the simulated server, with a store in this directory."""
    store = os.fspath(tmp_path / "runs.sqlite")
    return [sys.executable, "-m", "trimtab", "tune", "simulated", "--store", store, *more]


def test_a_reader_that_goes_away_ends_the_run_quietly_with_its_report_and_it_is_stored_as_stopped(
    tmp_path: Path,
) -> None:
    report = tmp_path / "report.html"
    command = _tune(tmp_path, "--duration", "1000h", "--report", os.fspath(report))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    while not process.stdout.readline().startswith(b"     1 "):
        assert process.poll() is None
    process.stdout.close()
    assert process.wait(300) == 141
    assert process.stderr.read() == b""
    process.stderr.close()
    assert Store(tmp_path / "runs.sqlite").run(1).status is Status.STOPPED
    assert report.is_file()


def test_output_that_cannot_be_written_ends_the_run_as_a_signal_does_and_says_why(tmp_path: Path) -> None:
    with open("/dev/full", "w", encoding="ascii") as full:
        command = _tune(tmp_path, "--duration", "1000h")
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert done.stderr == "trimtab: stopped by output that cannot be written (No space left on device)\n"
    assert Store(tmp_path / "runs.sqlite").run(1).status is Status.STOPPED


def test_with_its_standard_streams_closed_a_run_is_made_and_stored_as_ever(tmp_path: Path) -> None:
    def closed() -> None:
        os.closerange(0, 3)

    command = _tune(tmp_path, "--duration", "20s", "--window", "5s")
    assert subprocess.run(command, preexec_fn=closed, timeout=300, check=False).returncode == 0
    assert Store(tmp_path / "runs.sqlite").run(1).status is Status.DONE


def test_a_terminal_without_the_characters_of_a_line_ends_no_run(tmp_path: Path) -> None:
    search = ["tune", "simulated", "--controller", "trust_region", "--trials", "2", "--trial-length", "1s"]
    store = ["--remeasure", "0", "--store", os.fspath(tmp_path / "runs.sqlite")]
    command = [sys.executable, "-m", "trimtab", *search, *store]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, env=environment, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb" \xb1 " in done.stdout


def test_from_a_directory_that_was_removed_a_run_is_made_and_stored_as_ever(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'cd {gone}; rmdir {gone}; exec "$@"'
    command = ["/bin/sh", "-c", script, "sh", *_tune(tmp_path, "--duration", "20s", "--window", "5s")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    run = Store(tmp_path / "runs.sqlite").run(1)
    assert (run.status, run.plan.directory) == (Status.DONE, "/")


def test_exit_codes_of_children_are_known_also_where_they_were_ignored_before() -> None:
    code = (
        "import subprocess; from trimtab.cli import main; main(['--version']);"
        "print(subprocess.run(['/bin/sh', '-c', 'exit 3'], check=False).returncode)"
    )

    def ignored() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    command = [sys.executable, "-c", code]
    done = subprocess.run(command, preexec_fn=ignored, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "3", "0 is what a configuration test that failed would have given"
