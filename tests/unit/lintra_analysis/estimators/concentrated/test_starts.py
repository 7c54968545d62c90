"""Where the search for the smallest Q begins: eigenvectors within a hyperplane, from one eigendecomposition."""

import numpy as np

from lintra_analysis.estimators.concentrated.minimise import Hyperplanes
from lintra_analysis.estimators.concentrated.starts import Starts
from support import dense_sets


def test_starts_on_a_hyperplane_are_the_eigenvectors_of_the_matrix_within_it_also_where_it_touches_an_axis() -> None:
    generator, size = np.random.default_rng(9), 7
    values = np.array([[0.0, 0.5, 0.5, 3.0, 80.0, 900.0, 1e6]])
    turned = np.linalg.qr(generator.normal(size=(size, size)))[0]
    normals = np.vstack([generator.normal(size=(3, size)), turned[:, 0], turned[:, 3] + 1e-9 * turned[:, 1]])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    found, levels = Starts(values, turned[np.newaxis]).on(Hyperplanes(normals), np.zeros(5, np.int64), 4)
    matrix = turned @ np.diag(values[0]) @ turned.T
    basis = dense_sets.complement(normals)
    expected = np.linalg.eigvalsh(np.swapaxes(basis, 1, 2) @ matrix @ basis)[:, :4]
    assert np.allclose(levels, expected, rtol=1e-8, atol=1e-8)
    assert np.allclose(np.einsum("nsq,nq->ns", found, normals), 0, atol=1e-9)
    assert np.allclose(np.einsum("nsi,ij,nsj->ns", found, matrix, found), expected, rtol=1e-6, atol=1e-6)
