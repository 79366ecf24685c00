"""tools/setup.sh beside another apt, and where a package does not come; apt, dpkg and Python are stand-ins."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HELD = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4711 (unattended-upgr)"
POLICY = "/usr/sbin/policy-rc.d"
MODULES = "/etc/apache2/mods-enabled"
PARTS = ("trimtab-native", "trimtab-shim")
COMPILED = {"numpy/linalg/_linalg": True, "numpy/tests/test_lazyloading": False, "mypy/build": False}
"""Some of the packages' modules, and whether set-up compiles them."""

APT = """
echo "apt-get $*" >>log
if [ -s held ]; then sed -i 1d held; echo "$LOCK" >&2; exit 100; fi
for word; do case $word in -*|update|install) ;; *) echo "$word" >>installed ;; esac; done
[ ! -e absent ] || sed -i "/^$(cat absent)\\$/d" installed
"""
DPKG_QUERY = 'for name; do :; done; grep -qx "$name" installed && printf "install ok installed"'


@dataclass(frozen=True, slots=True)
class Machine:
    """A copy of the set-up with stand-ins for what it calls."""

    directory: Path

    def program(self, name: str, body: str) -> None:
        path = self.directory / "bin" / name
        path.write_text(f"#!/bin/sh\ncd {self.directory}\n{body}\n", encoding="utf-8")
        path.chmod(0o755)

    def write(self, name: str, *lines: str) -> None:
        (self.directory / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def set_up(self, *arguments: str, uid: int = 0) -> subprocess.CompletedProcess[str]:
        self.program("id", f"echo {uid}")
        environment = {"PATH": f"{self.directory / 'bin'}:{os.environ['PATH']}", "LOCK": HELD}
        script = self.directory / "tools" / "setup.sh"
        return subprocess.run(
            ["sh", str(script), *arguments], env=environment, capture_output=True, text=True, timeout=300, check=False
        )

    def log(self) -> list[str]:
        return (self.directory / "log").read_text(encoding="utf-8").splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """One with one package of the demo's installed and one missing, and one of the tests' missing."""
    made = Machine(tmp_path)
    for name in ("bin", "tools", ".venv/bin"):
        (tmp_path / name).mkdir(parents=True)
    script = (ROOT / "tools" / "setup.sh").read_text(encoding="utf-8")
    for path, name in ((POLICY, "policy-rc.d"), (MODULES, "mods-enabled")):
        assert script.count(path) == 1
        script = script.replace(path, str(tmp_path / name))
    made.write("tools/setup.sh", script)
    by_hand = ("for-benchmarks bench", "for-one-of-them bench-wordpress")
    made.write("packages.txt", "# what is needed", "there", "absent-yet", "for-tests test", "for-rust rust", *by_hand)
    made.write("installed", "there")
    made.write("log")
    made.program("apt-get", APT)
    made.program("dpkg-query", DPKG_QUERY)
    made.program("sleep", 'echo "sleep $*" >>log')
    made.program("cargo", "echo cargo 1.99.0")
    for name in ("cc", "python3.11", "systemctl"):
        made.program(name, "exit 0")
    shutil.copy(tmp_path / "bin" / "cc", tmp_path / ".venv" / "bin" / "python")
    return made


def test_what_is_missing_is_installed_and_what_only_tests_need_is_left_out(machine: Machine) -> None:
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    assert machine.log()[-1] == "apt-get -qq install -y --no-remove --no-install-recommends absent-yet"
    assert not (machine.directory / "policy-rc.d").exists()


@pytest.mark.parametrize(("missing", "beside"), [("for-tests", True), ("build-essential", False)])
def test_the_native_program_is_built_while_packages_come_unless_it_needs_them(
    machine: Machine, missing: str, beside: bool
) -> None:
    machine.write("packages.txt", missing)
    both = " ".join(f"-p {part}" for part in PARTS)
    machine.program("cargo", f'echo cargo 1.99.0; case "$*" in "build "*"{both}") echo built >>log ;; esac')
    patience = 200 if beside else 0
    waiting = f"n=0; until grep -q built log || [ $n = {patience} ]; do /bin/sleep 0.1; n=$((n + 1)); done"
    machine.program("apt-get", f'case "$*" in *install*) {waiting} ;; esac{APT}')
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    words = [line for line in machine.log() if line == "built" or "install" in line]
    assert [word == "built" for word in words] == ([True, False] if beside else [False, True])


def test_a_program_that_cannot_be_built_ends_it_with_the_reason(machine: Machine) -> None:
    machine.program("cargo", 'echo cargo 1.99.0; [ "$1" != build ] || exit 101')
    done = machine.set_up()
    assert done.returncode == 1
    assert "the native parts could not be built" in done.stderr


def test_packages_are_compiled_after_they_have_come_and_what_nobody_imports_is_not(machine: Machine) -> None:
    """An image of a container may forbid to keep what is compiled later: then each start would compile it."""
    machine.program("python", 'echo "python $*" >>log; [ "$2" != compileall ]')
    (machine.directory / "bin" / "python").replace(machine.directory / ".venv" / "bin" / "python")
    done = machine.set_up()
    assert done.returncode == 0, "a template of a package may be none that compiles"
    said = [line.removeprefix("python -m ") for line in machine.log() if line.startswith("python -m ")]
    steps = [line for line in said if line.startswith(("pip install", "compileall"))]
    assert [line.split()[0] for line in steps] == ["pip", "compileall", "pip"]
    assert "--no-compile" in steps[0]
    *_, left_out, place = steps[1].split()
    assert place == ".venv/lib"
    compiled = {name: not re.search(left_out, f"{place}/python3.11/site-packages/{name}.py") for name in COMPILED}
    assert compiled == COMPILED


@pytest.mark.parametrize("part", PARTS)
def test_what_both_native_parts_are_made_of_is_what_each_is_made_of_alone(part: str) -> None:
    """Else pip, for which each is built by itself, would have it built once more."""
    assert made_of(part) <= made_of(*PARTS)


def made_of(*parts: str) -> set[str]:
    """The packages that are built for some of our own, each with its features."""
    chosen = [word for part in parts for word in ("--package", part)]
    manifest = str(ROOT / "native" / "Cargo.toml")
    command = ["cargo", "tree", "--manifest-path", manifest, "--locked", "--offline", *chosen]
    shown = ["--edges", "normal,build", "--no-dedupe", "--prefix", "none", "--format", "{p} {f}"]
    return set(subprocess.run([*command, *shown], capture_output=True, text=True, check=True).stdout.splitlines())


def test_beside_another_apt_it_waits_for_the_lock_and_says_so_once(machine: Machine) -> None:
    machine.write("held", "once", "twice")
    done = machine.set_up("--test")
    assert done.returncode == 0, done.stderr
    words = [" ".join(line.split()[:3]) for line in machine.log()]
    assert words == [*["apt-get -qq update", "sleep 3"] * 2, "apt-get -qq update", "apt-get -qq install"]
    (waiting,) = [line for line in done.stdout.splitlines() if "another apt or dpkg is at work" in line]
    assert "held by process 4711" in waiting


def test_a_lock_that_is_never_given_back_ends_it_after_ten_minutes_with_what_is_missing(machine: Machine) -> None:
    machine.write("held", *["for ever"] * 1000)
    done = machine.set_up()
    assert done.returncode == 1
    assert sum(line == "sleep 3" for line in machine.log()) == 200
    assert "still missing: absent-yet" in done.stderr.splitlines()[-1]


def test_a_package_that_does_not_come_ends_it_with_its_name(machine: Machine) -> None:
    machine.write("absent", "for-tests")
    done = machine.set_up("--test")
    assert done.returncode == 1
    assert "still missing: for-tests" in done.stderr
    assert machine.set_up().returncode == 0, "the demo does not need it"


def test_an_ordinary_user_hears_what_is_missing_and_gets_the_demo_but_not_the_tests(
    machine: Machine,
) -> None:
    demo = machine.set_up(uid=1000)
    assert demo.returncode == 0, demo.stderr
    assert "absent-yet" in demo.stdout
    tests = machine.set_up("--test", uid=1000)
    assert tests.returncode == 1
    assert "absent-yet for-tests" in tests.stdout
    assert "the tests need them all" in tests.stderr
    assert machine.log() == []


def test_a_service_that_was_there_before_is_not_taken_from_the_next_boot(machine: Machine) -> None:
    """Who serves with nginx has its service, and not the package nginx-light that the tests want."""
    machine.write("packages.txt", "nginx-light", "squid")
    machine.program("systemctl", 'echo "systemctl $*" >>log; [ "$1 $2" != "cat squid.service" ]')
    assert machine.set_up().returncode == 0
    assert [line for line in machine.log() if "disable" in line] == ["systemctl --quiet disable squid"]


def test_the_modules_of_a_machines_own_apache_stay_as_they_were(machine: Machine) -> None:
    """Debian's package of PHP's module switches an Apache with threads to prefork, and turns PHP on in it."""
    enabled = machine.directory / "mods-enabled"
    enabled.mkdir()
    for name in ("mpm_event.load", "status.load"):
        (enabled / name).symlink_to(f"../mods-available/{name}")
    switch = "; ".join(
        f"{what} mods-enabled/{name}"
        for what, name in (
            ("rm -f", "mpm_event.load"),
            ("ln -sf ../mods-available/mpm_prefork.load", "mpm_prefork.load"),
            ("ln -sf ../mods-available/php8.2.load", "php8.2.load"),
        )
    )
    machine.program("apt-get", f'case "$*" in *install*) {switch} ;; esac{APT}')
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    assert sorted((path.name, os.readlink(path)) for path in enabled.iterdir()) == [
        ("mpm_event.load", "../mods-available/mpm_event.load"),
        ("status.load", "../mods-available/status.load"),
    ]
    assert "php8.2.load is not enabled in this machine's Apache" in done.stdout


@pytest.mark.parametrize("end", ["HUP", "TERM"])
def test_services_of_later_packages_start_again_however_it_ends(machine: Machine, end: str) -> None:
    """A terminal that is closed in the middle left the file behind by which no package starts its service."""
    policy = machine.directory / "policy-rc.d"
    machine.program("apt-get", f'case "$*" in *install*) [ -e policy-rc.d ] && kill -{end} $PPID; exit 1 ;; esac')
    assert machine.set_up().returncode != 0
    assert not policy.exists()
    policy.write_text("#!/bin/sh\n# tools/setup.sh of trimtab, while it installs packages\nexit 101\n")
    machine.program("apt-get", APT)
    assert machine.set_up().returncode == 0
    assert not policy.exists(), "that of a set-up which was killed"
    policy.write_text("#!/bin/sh\nexit 101\n")
    machine.write("installed", "there")
    assert machine.set_up().returncode == 0
    assert policy.exists(), "the operator's own"
