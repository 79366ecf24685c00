"""The mark of tests that compare times or rates of real processes."""

from __future__ import annotations

import pytest

noisy = pytest.mark.flaky(reruns=2, reruns_delay=3)
"""May be tried three times: other programs on the machine can spoil such a comparison, and hardly ever make a wrong
one right. Never for what must hold every time, such as that no request fails."""
