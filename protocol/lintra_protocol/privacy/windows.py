"""What several releases about the same source promise together, when each promises the same.

Gaussian releases compose to the root of the sum of their squared mu, also if later ones are chosen after seeing the
results of earlier ones (Dong, Roth, Su 2022, Corollary 2). What is no noise adds up
(docs/proofs/together.md#composition).
"""

from dataclasses import replace
from math import inf, sqrt

from lintra_protocol.privacy.pure import PureStatement, added_up
from lintra_protocol.privacy.statement import PrivacyStatement


def repeated(statement: PrivacyStatement, times: int, together: int = 1) -> PrivacyStatement:
    """Return the privacy of so many releases with fresh noise, each at least as private as a statement says.

    Epsilon is that of all of them at the statement's own delta, infinite where what is no noise needs more than that.
    Where only a point is known, epsilon and delta both count `times` (basic composition). So does pure epsilon, where
    that is less.

    Where up to `together` of a source's reports may be added up in one release, each moves its sum as if it were alone,
    so that they move it by as much as all of them do (docs/proofs/together.md#windows): mu sqrt(together times).
    What is promised alone has a statement of its own, and is left out here.

    Args:
        statement: of one release in which a source has one report.
        times: how many reports a source has in all, at least 1.
        together: how many of them one release may hold, at least 1.

    Raises:
        ValueError: fewer than one of either, or several reports in a release of which only a point is known.
    """
    if times < 1:
        raise ValueError(f"at least one release, got {times}")
    if together < 1:
        raise ValueError(f"at least one report in a release, got {together}")
    if times == together == 1:
        return statement
    if statement.mu == inf and together > 1:
        raise ValueError("several reports of a source in one release need noise whose whole curve is known")
    if statement.mu == inf:
        delta = min(1.0, times * statement.delta)
        epsilon = times * statement.epsilon
        return replace(statement, epsilon=epsilon, delta=delta, if_colluding=(), epsilon_alone=inf)
    mu = statement.mu * sqrt(times * together) * (1 + 1e-12)  # a shade up: the product rounds to nearest
    slack = statement.slack * times * (1 + 1e-15)
    failure = min(1.0, statement.delta_coalition * times * (1 + 1e-15))
    seen = min(1.0, statement.delta_shares * times * (1 + 1e-15))
    changed = replace(statement, mu=mu, slack=slack, delta_coalition=failure, delta_shares=seen)
    changed = replace(changed, if_colluding=(), epsilon_alone=inf)
    changed = replace(changed, epsilon=changed.epsilon_at(statement.delta))
    if not (isinstance(statement, PureStatement) and statement.is_pure):
        return changed
    pure = replace(added_up(statement, times * together), if_colluding=(), epsilon_alone=inf)
    return pure if pure.epsilon <= changed.epsilon else changed
