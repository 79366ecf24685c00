"""Facts of a run that the analysis of an experiment needs beside those that every plan holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from trimtab.records import Plan

DIGEST = "arm"
"""The version of the declaration that a run was made from."""
_HOST_KEY = "extras"


def kept(extras: Mapping[str, Any]) -> dict[str, str]:
    """The facts of a plan that hold these."""
    return {_HOST_KEY: json.dumps(extras)}


def of(plan: Plan) -> Mapping[str, Any]:
    """Those that a plan holds; none for a run that no experiment made."""
    found: Mapping[str, Any] = json.loads(str(plan.host.get(_HOST_KEY, "{}")))
    return found


def facts(plan: Plan) -> dict[str, str | int | float]:
    """The facts of machine and workload, without these."""
    return {name: value for name, value in plan.host.items() if name != _HOST_KEY}


def workload(plan: Plan) -> str:
    """The traffic of a run, in words."""
    return str(plan.host.get("workload", ""))
