"""What a promise for one window is worth for all that a source may send, and what a promise for all of it would cost.

The noise of windows is independent, so k reports of one source have sqrt(k) times the mu of one (`repeated`), and
sqrt(M k) times where M windows may be merged. To
promise the same epsilon for all of them, every window has to have that much more noise.
"""

from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context
from math import sqrt

from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.privacy.gaussian import gaussian_epsilon, gaussian_mu
from lintra_protocol.task import Task


@dataclass(frozen=True)
class Together:
    """Both epsilons of a task with windows, and a promise for all reports of one source instead of for one window.

    Attributes:
        windows: how many there are.
        merged: how many in a row may be released together.
        reports: in how many of them one source may answer.
        delta: that both epsilons belong to.
        epsilon_of_one: of one window, recomputed; the largest of any cohort.
        epsilon_of_all: of all reports of one source.
        epsilon_to_ask: that one window may have if all of them together shall keep the promise; five digits, rounded
            down.
        noise_factor: how many times the noise that every window then has.
    """

    windows: int
    merged: int
    reports: int
    delta: float
    epsilon_of_one: float
    epsilon_of_all: float
    epsilon_to_ask: Real
    noise_factor: float

    @classmethod
    def of(cls, task: Task) -> "Together | None":
        """Return both epsilons of a valid task, or None if it has no windows."""
        if task.windows is None:
            return None
        one, together, reports = task.worst_privacy(), task.worst_together(), task.reports_per_source
        claim = task.claim
        left = float(fraction(claim.delta) - reports * fraction(claim.delta_coalition))
        share = gaussian_mu(claim.float_epsilon, left) / sqrt(reports * task.max_merge)
        return cls(
            windows=task.windows.max_windows,
            merged=task.max_merge,
            reports=reports,
            delta=one.delta,
            epsilon_of_one=one.epsilon,
            epsilon_of_all=together.epsilon,
            epsilon_to_ask=_rounded_down(gaussian_epsilon(share, claim.noise_delta)),
            noise_factor=gaussian_mu(claim.float_epsilon, claim.noise_delta) / share,
        )


def _rounded_down(number: float) -> Real:
    return real(Context(prec=5, rounding=ROUND_FLOOR).create_decimal_from_float(number))
