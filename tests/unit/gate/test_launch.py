"""The proof that the shim works, on a machine that is too busy for it."""

from __future__ import annotations

import pytest

from trimtab.errors import UsageError
from trimtab.gate import launch
from trimtab.gate.run_directory import SHARED_VARIABLE


def test_a_proof_that_takes_too_long_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_PROBE_PATIENCE_S", 0.0)
    with pytest.raises(UsageError, match=r"did not end within 0 s.*try again when the machine is less busy"):
        launch.require_active({SHARED_VARIABLE: "/nowhere", "LD_PRELOAD": ""})
