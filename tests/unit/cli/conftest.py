"""A plant of the tests' own, found by discovery, and the command line as a function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from trimtab import discovery
from trimtab import plants as trimtab_plants
from trimtab.cli import doctor, main

MEMORY = '''"""The plant in memory, as a member of the room."""
from tests._memory_plant import FakeSensor, MemoryPlant
from trimtab.core import Domain, Finding, How, Knob
from trimtab.errors import PlantGone, UsageError

class Memory(MemoryPlant):
    permitted = True
    left = ""
    first = 7

    def check_permissions(self):
        if not self.permitted:
            raise UsageError("no permission to reload pid 7: run as root")

    def leftover(self):
        return type(self).left

    def undo_leftover(self):
        type(self).left = ""

def add_arguments(parser):
    parser.add_argument("--forbid", action="store_true", help="no permission")
    parser.add_argument("--choice", action="store_true", help="a knob that is a choice in place of the others")
    parser.add_argument("--dies", type=float, help="seconds after which it ends")
    parser.add_argument("--pid", type=int, help="its first process")

def from_arguments(args, clock):
    if args.pid not in (None, Memory.first):
        raise UsageError(f"pid {args.pid} is not the first process of Memory; there is pid {Memory.first}")
    plant = Memory()
    plant.permitted = not args.forbid
    if args.choice:
        plant.values = {"pool": 1}
        plant.readings = lambda: {"response_time_s": 1.0 + plant.values["pool"], "request_rate_hz": 20.0}
        domain = Domain.choice("static", "dynamic")
        plant.knobs = lambda: (Knob("pool", "pm", "", domain, 1, How.LIVE, "nothing", "How the pool grows."),)
        plant._sensors = (FakeSensor(plant.readings, gives="response_time_s request_rate_hz"),)
    if args.dies:
        gone = PlantGone("pid 7 has ended")
        plant.fake_clock.at.append((args.dies, lambda: setattr(plant, "configuration_error", gone)))
    return plant

def probe():
    return (Finding("memory", False, "is forgetful", "write things down"),)

PLANT = Memory
'''


@dataclass(frozen=True)
class Said:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str


Trimtab = Callable[..., Said]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The default store of this test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("trimtab.own.transient", lambda name: tmp_path / f"transient-{name}")
    return tmp_path / "trimtab" / "runs.sqlite"


@pytest.fixture
def trimtab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], store: Path
) -> Iterator[Trimtab]:
    """Runs a command in a room of plants that has one more, `memory`."""
    room = tmp_path / "plants"
    room.mkdir()
    (room / "memory.py").write_text(MEMORY)
    monkeypatch.setattr(trimtab_plants, "__path__", [*trimtab_plants.__path__, str(room)])

    def run(*arguments: object) -> Said:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    yield run
    sys.modules.pop("trimtab.plants.memory", None)


@pytest.fixture
def memory_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doctor looks at `memory` alone: the machine's servers are other tests', which count what they are asked."""
    names = discovery.names
    monkeypatch.setattr(doctor, "ROOMS", ("trimtab.plants",))
    monkeypatch.setattr(discovery, "names", lambda room: ["memory"] if room == "trimtab.plants" else names(room))
