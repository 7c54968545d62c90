"""How property tests look for counterexamples."""

from hypothesis import HealthCheck, settings

few = settings(
    max_examples=settings.default.max_examples // 2,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
"""How property tests look for counterexamples: the same ones everywhere, however slow the machine."""
