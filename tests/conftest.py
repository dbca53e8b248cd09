"""Settings for every test: deterministic Hypothesis runs, no deadline (the machine is shared and noisy)."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "secroute",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("secroute")
