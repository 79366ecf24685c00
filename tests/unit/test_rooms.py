"""Walls of the house that a machine can see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import trimtab

ROOT = Path(trimtab.__file__).parent
INSIDE = ("plants", "lab", "testbed")
"""Where a server's own words may stand."""
STORED = ("store.py", "schema.py", "records.py", "codec.py", "events.py", "replay.py", "processes.py")
"""What keeps a run; it knows of no server."""
NAMES = re.compile(
    r"\b(max_request_workers|keep_alive_timeout_ms|process_budget|max_children|start_servers|min_spare_servers|max_spare_servers"
    r"|worker_processes|worker_connections|slice_us|sched_policy|sched_nice|vm_swappiness|group_swappiness"
    r"|max_threads|min_spare_threads|pool_max_active|max_connections|innodb_\w+|table_open_cache|join_buffer_size"
    r"|binlog_cache_size|cache_mem|maximum_object_size_in_memory)\b|\"keep_alive_ms\""
)


def test_no_knob_is_known_by_its_name_outside_the_plants_and_the_lab() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in sorted(ROOT.rglob("*.py"))
        if path.relative_to(ROOT).parts[0] not in INSIDE
        for match in NAMES.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []


WALLS = {
    "identification": ("lab", "loop", "store", "report", "drawing"),
    "design": ("lab", "loop", "store", "report", "drawing"),
    "referee": ("loop", "store", "report", "plants", "controllers"),
    "core": ("metrics", "plants", "sensors"),
    **dict.fromkeys(STORED, ("plants", "testbed", "gate", "lab", "cli")),
}
"""Room to what it may not import."""


@pytest.mark.parametrize("room", WALLS)
def test_a_room_imports_nothing_that_it_is_not_to_know(room: str) -> None:
    forbidden = re.compile(rf"^\s*(?:from|import) trimtab\.({'|'.join(WALLS[room])})\b", re.MULTILINE)
    paths = [ROOT / room] if room.endswith(".py") else sorted((ROOT / room).rglob("*.py"))
    assert paths
    assert {path.name: forbidden.findall(path.read_text(encoding="utf-8")) for path in paths} == {
        path.name: [] for path in paths
    }
