"""The systemd units in docs/ are valid, and leave a service little that could be turned against the machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
UNITS = ("trimtab.service", "trimtab-run.service")
INSTALLED = "/opt/trimtab/bin/trimtab"
MOST_EXPOSED = "30"
"""A tenth of it is systemd's level: up to 3 is good for a service that has to be root."""

pytestmark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


@pytest.fixture(params=UNITS)
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A unit as it would be installed, beside the one it belongs to."""
    path = tmp_path / str(request.param)
    text = (DOCS / path.name).read_text()
    assert INSTALLED in text
    path.write_text(text.replace(INSTALLED, sys.executable))
    (tmp_path / "apache2.service").write_text("[Service]\nExecStart=/bin/true\n")
    return path


def analyze(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_unit_is_valid(unit: Path) -> None:
    done = analyze("verify", "--man=no", unit)
    # It reads this machine's own units too, and has something to say of some packages'.
    said = [line for line in done.stderr.splitlines() if not line.startswith(("/lib/", "/usr/lib/", "/etc/"))]
    assert (done.returncode, said) == (0, [])


def test_what_is_wrong_in_a_unit_is_seen(unit: Path) -> None:
    unit.write_text(unit.read_text() + "MemoryMaximum=1G\n")
    said = analyze("verify", "--man=no", unit).stderr.splitlines()
    assert any(line.startswith(f"{unit}:") and "MemoryMaximum" in line for line in said)


def test_the_applications_of_a_server_under_the_gate_write_where_they_did_before() -> None:
    """As under Debian's apache2.service: sessions and uploads are in /var, sites may be in /home."""
    lines = (DOCS / "trimtab-run.service").read_text(encoding="utf-8").splitlines()
    given = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    assert (given["ProtectSystem"], given["ReadOnlyPaths"]) == ("full", "/opt/trimtab")
    assert given.keys().isdisjoint({"ProtectHome", "InaccessiblePaths", "TemporaryFileSystem"})
    assert "apache2/socks" in given["RuntimeDirectory"].split()  # where Debian has the socket of mod_cgid


def test_a_unit_is_not_exposed_beyond_what_it_needs(unit: Path) -> None:
    done = analyze("security", "--offline=true", f"--threshold={MOST_EXPOSED}", unit)
    assert done.returncode == 0, done.stdout
