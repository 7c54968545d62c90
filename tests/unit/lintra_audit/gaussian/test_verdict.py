"""White-box audits: verdicts that are certain, both directions, and every neighbour."""

import math

import numpy as np
import pytest

from lintra_audit.gaussian.verdict import audit_law, audit_pair, without_each_row
from lintra_curator.ndis import GaussianPair, delta, rp_pair, rp_pstar


def test_a_claim_below_the_exact_delta_is_a_violation_and_one_above_is_not() -> None:
    pair = rp_pair(0.05, 30)
    exact = delta(pair, 1.0).value
    verdicts = [audit_pair(pair, [(1.0, factor * exact)], rtol=1e-6).verdict for factor in (0.99, 1.0, 1.01)]
    assert verdicts == ["VIOLATION", "UNDECIDED", "WITHIN"]


def test_a_violation_in_the_other_direction_is_found() -> None:
    pair = rp_pair(0.05, 30).reverse()
    assert delta(pair, 1.0).hi < 1e-8
    audit = audit_pair(pair, [(1.0, 1e-8)])
    assert audit.verdict == "VIOLATION"
    assert {finding.direction: finding.verdict for finding in audit.findings} == {
        "forward": "WITHIN",
        "backward": "VIOLATION",
    }
    assert audit.worst.eta == pytest.approx(rp_pair(0.05, 30).eta)


def test_every_claim_is_judged_by_itself() -> None:
    audit = audit_pair(rp_pair(0.05, 30), [(1.0, 1e-4), (0.5, 1e-4), (3.0, 1e-12)])
    assert [finding.verdict for finding in audit.worst_findings] == ["WITHIN", "VIOLATION", "WITHIN"]
    assert audit.verdict == "VIOLATION"


def test_the_epsilon_of_a_pair_is_certified() -> None:
    found = audit_pair(rp_pair(0.05, 30), [(1.0, 1e-4)]).epsilon_at(8.85509089968e-6)
    assert found.lo <= 1.0 <= found.hi
    assert found.hi - found.lo < 1e-8


def test_disjoint_laws_violate_every_claim_below_1() -> None:
    audit = audit_pair(GaussianPair([], [], [], disjoint=True), [(1e9, 0.999)])
    assert audit.verdict == "VIOLATION"


def test_a_mechanism_is_audited_on_all_neighbours_of_its_data() -> None:
    """A mean with noise for rows of norm 1, on data with one row of norm 3: only its removal violates the claim."""
    data = np.vstack([np.full((20, 2), 0.5), [[3.0, 0.0]]])

    def noisy_sum(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return rows.sum(axis=0), 16.0 * np.eye(2)

    audit = audit_law(noisy_sum, data, [(1.0, 1e-4)])
    assert audit.verdict == "VIOLATION"
    assert {f.neighbour for f in audit.findings if f.verdict == "VIOLATION"} == {"without row 20"}
    assert len(audit.findings) == 42
    assert audit_law(noisy_sum, data[:20], [(1.0, 1e-4)]).verdict == "WITHIN"


def test_the_published_noise_of_a_projection_is_within_and_a_row_beyond_the_bound_violates() -> None:
    rng = np.random.default_rng(3)
    data = rng.standard_normal((50, 3))
    data /= np.maximum(1.0, np.linalg.norm(data, axis=1, keepdims=True))
    ridge = 1 / rp_pstar(1.0, 1e-5, 40) - 1

    def columns(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(3), rows.T @ rows + ridge * np.eye(3)

    single = audit_law(columns, data, [(1.0, 1e-5)], without_each_row(data)[:5], rtol=1e-4)
    assert single.verdict == "WITHIN"
    far = np.vstack([np.zeros((4, 3)), [[40.0, 0, 0]]])
    assert audit_law(columns, far, [(1.0, 1e-5)], without_each_row(far)[-1:], rtol=1e-4).verdict == "VIOLATION"


@pytest.mark.parametrize("numbers", [(-1.0, 0.1), (math.nan, 0.1), (math.inf, 0.1), (1.0, -0.1), (1.0, 1.1)])
def test_what_is_no_claim_is_refused(numbers: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="claim"):
        audit_pair(rp_pair(0.1, 3), [numbers])


def test_an_audit_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        audit_pair(rp_pair(0.1, 3), [])
    with pytest.raises(ValueError, match="at least one"):
        audit_law(lambda rows: (rows.sum(axis=0), np.eye(2)), np.zeros((0, 2)), [(1.0, 0.1)])
