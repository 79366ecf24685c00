"""Walls of the house that a machine can see."""

from __future__ import annotations

import re
from pathlib import Path

import trimtab

ROOT = Path(trimtab.__file__).parent
INSIDE = ("plants", "lab", "testbed")
"""Where a server's own words may stand."""
STORED = ("store.py", "schema.py", "records.py", "codec.py", "events.py", "replay.py", "processes.py")
"""What keeps a run; it knows of no server."""
NAMES = re.compile(
    r"\b(max_request_workers|keep_alive_timeout_ms|process_budget|max_children|start_servers|min_spare_servers|max_spare_servers"
    r"|worker_processes|worker_connections)\b|\"keep_alive_ms\""
)


def test_no_knob_is_known_by_its_name_outside_the_plants_and_the_lab() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in sorted(ROOT.rglob("*.py"))
        if path.relative_to(ROOT).parts[0] not in INSIDE
        for match in NAMES.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_core_knows_no_server_identification_nothing_of_the_lab_and_the_store_no_plant() -> None:
    for room, forbidden in (
        ("identification", "trimtab.lab"),
        ("core", "trimtab.metrics"),
        ("core", "trimtab.plants"),
        ("core", "trimtab.sensors"),
        *((room, f"trimtab.{other}") for room in STORED for other in ("plants", "testbed", "gate", "lab", "cli")),
    ):
        paths = [ROOT / room] if room.endswith(".py") else sorted((ROOT / room).rglob("*.py"))
        for path in paths:
            assert f"from {forbidden}" not in path.read_text(encoding="utf-8"), path
