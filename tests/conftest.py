"""What all tests have in common: no property is judged by how long its examples took on this machine."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("trimtab", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("trimtab")
