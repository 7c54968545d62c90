"""How property tests look for counterexamples."""

from hypothesis import HealthCheck, settings

_DEFAULT = settings.get_profile(settings.get_current_profile_name())
few = settings(
    max_examples=_DEFAULT.max_examples // 2,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
"""How property tests look for counterexamples: the same ones everywhere, however slow the machine."""
