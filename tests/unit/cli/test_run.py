"""`trimtab run`: what is wrong is one line and exit code 2, and nothing is started or left behind."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests._fake_gate import SPEC
from tests._stranger import STRANGER, needs_root
from tests.unit.cli.conftest import Trimtab
from trimtab import native
from trimtab.cli import run
from trimtab.errors import NativeError, TrimtabError
from trimtab.gate import run_directory
from trimtab.gate.launch import loadable, preloaded, require_active
from trimtab.gate.run_directory import RunDirectory
from trimtab.processes import identify
from trimtab.sensors import _shared_file


@pytest.fixture(autouse=True)
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run directory whose path is short enough for the sockets in it, wherever pytest keeps its own."""
    with tempfile.TemporaryDirectory(prefix="tt-", dir="/tmp") as short:
        directory = Path(short) / "run"
        monkeypatch.setattr(run_directory, "base", lambda: directory)
        yield directory


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no server: write its program and arguments after --"),
        (["--ports", "8080"], "no server: write its program and arguments after --"),
        (["--gate", "x", "--ports", "80", "--", "sh"], "--ports has no meaning with --gate"),
        (["--gate", "/no/such/spec", "--", "sh"], "SPEC /no/such/spec: No such file or directory"),
        (["--ports", "0", "--", "sh"], "--ports '0': write different ports of 1 to 65535"),
        (["--ports", "80,80", "--", "sh"], "--ports '80,80': write different ports"),
        (["--ports", "http", "--", "sh"], "--ports 'http': write different ports"),
        (["--ports", "8080", "--", "no-such-server"], "no such program: 'no-such-server' is not an executable file"),
        (["--ports", "8080", "--name", "a/b", "--", "sh"], "--name 'a/b' is not allowed"),
        (["--ports", "80", "--keep-alive", "0s", "--", "sh"], "keep-alive '0s' is outside of 1ms to 1h"),
        (["--ports", "80", "--keep-alive", "61m", "--", "sh"], "keep-alive '61m' is outside of 1ms to 1h"),
        (["--ports", "80", "--keep-alive", "400", "--", "sh"], "keep-alive '400': write auto, server or a time such"),
        (["--ports", "80", "--keep-alive=-1s", "--", "sh"], "keep-alive '-1s': write auto, server or a time such"),
        (["--ports", "80", "--keep-alive", "-1s", "--", "sh"], "argument --keep-alive: expected one argument"),
        (["--port", "8080", "--", "sh"], "unrecognized arguments: --port"),
    ],
)
def test_bad_input_is_one_line_and_starts_nothing(
    trimtab: Trimtab, base: Path, arguments: list[str], said: str
) -> None:
    result = trimtab("run", *arguments)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert said in result.err
    assert not base.exists()


def test_a_name_in_use_is_refused_and_left_alone(
    trimtab: Trimtab, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_SHIM", __file__)
    mine = run_directory.claim("web")
    result = trimtab("run", "--ports", "8080", "--name", "web", "--", "sh")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert f"--name 'web' is in use by pid {os.getpid()}" in result.err
    assert mine.owner() is not None


def test_the_directory_of_a_killed_run_whose_server_still_serves_is_left_to_it(
    trimtab: Trimtab, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_SHIM", __file__)
    killed = run_directory.claim("web")
    killed.pid_file.write_text(f"{os.getpid()} 1\n")  # the same id, started at another time
    monkeypatch.setattr(run, "processes_of", lambda run_dir: [identify(os.getpid())])
    monkeypatch.setattr(run, "listeners", lambda pid: (("127.0.0.1", 80),))
    result = trimtab("run", "--ports", "8080", "--name", "web", "--", "sh")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert f"--name 'web' is in use: pid {os.getpid()}, the server of a run that was killed, still" in result.err
    assert killed.pid_file.exists()
    monkeypatch.setattr(run, "listeners", lambda pid: ())
    result = trimtab("run", "--ports", "8080", "--name", "web", "--", "sh")
    assert "does not work with this trimtab" in result.err, "what only ends its last requests keeps no name"


def test_a_shim_that_does_not_work_is_said_and_nothing_is_left(
    trimtab: Trimtab, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_SHIM", __file__)
    result = trimtab("run", "--ports", "8080", "--", "sh", "-c", "echo started")
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert "does not work with this trimtab" in result.err
    assert "build both anew with 'make setup'" in result.err
    assert list(base.iterdir()) == []


@needs_root
@pytest.mark.parametrize(
    ("variable", "gate"), [("TRIMTAB_SHIM", False), ("TRIMTAB_NATIVE", True)], ids=["shim", "native program"]
)
def test_root_runs_nothing_that_somebody_else_can_change(
    trimtab: Trimtab, base: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, gate: bool
) -> None:
    named = tmp_path / "shim.so"
    named.write_bytes((native.program() if gate else native.shim_path()).read_bytes())
    named.chmod(0o755)
    (tmp_path / "spec.toml").write_text(SPEC)
    options = ("--gate", tmp_path / "spec.toml") if gate else ()
    monkeypatch.setenv(variable, str(named))
    for owner, mode in ((STRANGER, 0o755), (0, 0o777)):
        os.chown(named, owner, owner)
        named.chmod(mode)
        result = trimtab("run", *options, "--", "/bin/sh", "-c", "echo started")
        assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
        assert f"{named}, because others can change it: {named} " in result.err
        assert not base.exists()


def test_a_line_that_nobody_reads_any_more_does_not_end_who_watches_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, writing = os.pipe()
    with open(reading, encoding="utf-8") as lines, open(writing, "w", encoding="utf-8") as errors:
        monkeypatch.setattr("sys.stderr", errors)
        run._say("the gate has ended")
        assert lines.readline() == "trimtab run: the gate has ended\n"
        lines.close()
        run._say("starting it anew")


def test_arguments_of_the_server_are_not_ours(trimtab: Trimtab) -> None:
    result = trimtab("run", "--ports", "8080", "--", "no-such-server", "--verbose", "-h", "--name", "x")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "no-such-server" in result.err


def test_the_servers_environment_names_what_the_shim_needs_and_keeps_the_rest() -> None:
    run_dir = RunDirectory("web", Path("/run/trimtab/web"))
    before = {"HOME": "/root", "LD_PRELOAD": "/lib/other.so", "TRIMTAB_HANDOFF": "/old", "TRIMTAB_SHIM": "/x"}
    gated = preloaded(before, "/lib/shim.so", run_dir, (8080, 8443), gated=True)
    assert gated == {
        "HOME": "/root",
        "LD_PRELOAD": "/lib/shim.so /lib/other.so",
        "TRIMTAB_SHARED": "/run/trimtab/web/shared",
        "TRIMTAB_HANDOFF": "/run/trimtab/web",
        "TRIMTAB_PORTS": "8080,8443",
    }
    sensed = preloaded({}, "/lib/shim.so", run_dir, (80,), gated=False)
    assert "TRIMTAB_HANDOFF" not in sensed
    assert sensed["LD_PRELOAD"] == "/lib/shim.so"
    assert preloaded({}, "/lib/shim.so", run_dir, (), gated=False)["TRIMTAB_PORTS"] == "*"


def test_a_path_that_the_loader_would_part_is_refused() -> None:
    assert loadable(Path("/usr/lib/shim.so")) == "/usr/lib/shim.so"
    with pytest.raises(TrimtabError, match="cannot read a path with a space or a colon: /my lib/shim"):
        loadable(Path("/my lib/shim.so"))


def test_a_library_that_never_maps_the_file_is_not_active(tmp_path: Path) -> None:
    run_dir = RunDirectory("web", tmp_path)
    _shared_file.create(run_dir.shared)
    libc = next(
        Path(p.split()[-1])
        for p in Path("/proc/self/maps").read_text().splitlines()
        if "libc.so" in p or "libc-" in p
    )
    with pytest.raises(TrimtabError, match=r"its mapped file is not of version 3\): build both anew"):
        require_active(preloaded({}, str(libc), run_dir, (80,), gated=False))


def test_a_build_that_is_named_must_be_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable, find in (("TRIMTAB_NATIVE", native.program), ("TRIMTAB_SHIM", native.shim_path)):
        monkeypatch.setenv(variable, str(tmp_path / "nothing"))
        with pytest.raises(NativeError, match=f"{variable} is '{tmp_path}/nothing', and there is no such file"):
            find()
        (tmp_path / variable).write_text("")
        monkeypatch.setenv(variable, str(tmp_path / variable))
        assert find() == tmp_path / variable
