"""The page on a curator's second moments: its example runs, and does what the page says."""

import re
from pathlib import Path

from lintra_analysis.estimators.regression_estimate import RegressionEstimate
from lintra_curator.second_moment.central_second_moment import CentralSecondMoment

PAGE = Path(__file__).resolve().parents[4] / "docs/mechanisms/central_second_moment.md"


def test_the_examples_of_the_page_run_and_keep_their_claims() -> None:
    source, session_source = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    made: dict[str, object] = {}
    exec(source, made)
    release, estimate = made["release"], made["estimate"]
    assert isinstance(release, CentralSecondMoment)
    assert isinstance(estimate, RegressionEstimate)
    assert release.noise.law == "discrete, exact integers"
    assert release.noise.delta_at(1.0) <= 1e-6 < release.noise.delta_at(0.99)
    # Ten standard errors, since the example draws from the operating system.
    error = estimate.coefficients[0].standard_error
    assert error is not None
    assert abs(estimate.coef_[0] - 0.6) < 10 * error.total
    assert error.total < 0.03
    exec(session_source, made)
    assert 0.79 < made["session"].epsilon_spent <= 0.8
