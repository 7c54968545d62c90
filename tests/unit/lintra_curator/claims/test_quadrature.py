"""Quadrature rules have the moments of their laws."""

from numpy.testing import assert_allclose

from lintra_curator.claims.quadrature import chi_square_rule, normal_rule


def test_quadrature_rules_have_the_moments_of_their_laws() -> None:
    for freedom in (1.0, 2.5, 44.0, 1e5):
        x, weights = chi_square_rule(freedom)
        assert_allclose([weights @ x, weights @ (x - freedom) ** 2], [freedom, 2 * freedom], rtol=1e-9)
    x, weights = normal_rule()
    assert_allclose([weights @ x**2, weights @ x**4], [1, 3], rtol=1e-12)
