"""Counterexamples to Chanyaswad, Liu, Mittal 2019 and to their published code (docs/explanation/errata.md)."""

import math

import numpy as np
import pytest

from lintra_protocol.crypto.ring import FloatArray


def orthonormal(features: int, kept: int, generator: np.random.Generator) -> FloatArray:
    """Return a uniform frame, shape `(features, kept)`."""
    frame, corner = np.linalg.qr(generator.normal(size=(features, kept)))
    return np.asarray(frame * np.sign(np.diag(corner)))


def test_the_mean_of_the_authors_code_has_half_the_noise_that_its_lemma_2_asks_for() -> None:
    features, count = 64, 100
    row = np.full(features, 1 / math.sqrt(features))
    distance = float(np.abs(row - -row).sum()) / count
    assert distance == pytest.approx(2 * math.sqrt(features) / count)
    assert distance / (math.sqrt(features) / count) == pytest.approx(2)  # so 2 epsilon where epsilon is claimed


def test_a_row_of_zeros_is_normalised_to_no_number_which_reveals_it() -> None:
    rows = np.array([[1.0, 2.0], [0.0, 0.0]])
    with np.errstate(invalid="ignore"):
        normalised = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert np.isnan(normalised.mean(axis=0)).all()
    assert not np.isnan(normalised[:1].mean(axis=0)).any()


def test_parallel_composition_over_classes_fails_for_a_row_that_changes_its_class() -> None:
    # Each class mean carries Laplace noise of scale 2 sqrt(m) / (n_k epsilon), as if the other class stood still.
    features, size, epsilon = 16, 50, 1.0
    row = np.full(features, 1 / math.sqrt(features))
    rest = -row * (size - 1)
    loss = 0.0
    for before, after in (((rest + row) / size, rest / (size - 1)), (rest / (size - 1), (rest + row) / size)):
        loss += float(np.abs(before - after).sum()) / (2 * math.sqrt(features) / (size * epsilon))
    assert loss > 1.9 * epsilon


def test_a_frame_for_each_class_puts_the_classes_into_different_coordinates() -> None:
    generator = np.random.default_rng(8)
    features, kept, classes = 64, 10, 8
    means = 4 * generator.normal(size=(classes, features))
    labels = np.repeat(np.arange(classes), 50)
    rows = means[labels] + generator.normal(size=(len(labels), features))
    frames = [orthonormal(features, kept, generator) for _ in range(classes)]

    def accuracy(of_class: list[FloatArray]) -> float:
        # The model is trained on synthetic rows, each class in its own frame; real rows come in the first one.
        learnt = np.stack([means[k] @ of_class[k] for k in range(classes)])
        distances = np.square((rows @ of_class[0])[:, None] - learnt).sum(axis=2)
        return float(np.mean(distances.argmin(axis=1) == labels))

    assert accuracy([frames[0]] * classes) > 0.95
    assert accuracy(frames) < 0.4


def test_lemma_1_holds_for_a_point_and_its_mirror_whose_projections_are_not_normal() -> None:
    generator = np.random.default_rng(9)
    features = 100
    point = generator.normal(size=features)
    point /= np.linalg.norm(point)
    rows = np.array([point, -point])
    second_moment = rows.T @ rows / 2
    assert np.linalg.eigvalsh(second_moment)[-1] <= 1 + 1e-12  # the lemma's condition
    projected = rows @ orthonormal(features, 2, generator)
    assert len(np.unique(np.abs(projected).round(12), axis=0)) == 1  # two values, no Gaussian


def test_thirteen_dimensions_of_a_hundred_come_from_the_wrong_logarithm() -> None:
    assert 2 * math.log10(100) / math.log10(math.log10(100)) == pytest.approx(13.3, abs=0.05)
    assert 2 * math.log(100) / math.log(math.log(100)) == pytest.approx(6.03, abs=0.005)


def test_projecting_lowers_the_signal_as_it_lowers_the_sensitivity() -> None:
    generator = np.random.default_rng(10)
    row = generator.normal(size=100)
    row /= np.linalg.norm(row)
    kept = [float(np.square(row @ orthonormal(100, 10, generator)).sum()) for _ in range(400)]
    assert np.mean(kept) == pytest.approx(0.1, abs=0.012)  # six deviations: false alarm below 1e-8
    assert max(kept) < 1  # as Lemma 3 says: at most 1


def test_noise_that_is_not_symmetric_inflates_what_is_sampled() -> None:
    # NumPy samples from the singular values of a matrix that is no covariance.
    generator = np.random.default_rng(11)
    size = 10
    traces = []
    for _ in range(200):
        noised = np.eye(size) + generator.laplace(scale=1 / math.sqrt(2) * 2 / math.sqrt(size), size=(size, size))
        traces.append(np.linalg.svd(noised, compute_uv=False).sum() / size)
    assert np.mean(traces) > 1.5  # the expected trace of the noised matrix itself is 1


def test_laplace_noise_in_doubles_has_outputs_that_the_neighbour_cannot_have() -> None:
    # Mironov 2012: the inverse distribution function reaches a thin set of doubles, shifted by the answer.
    generator = np.random.default_rng(12)
    size, features = 1797, 64
    scale = 2 * math.sqrt(features) / size
    answer, neighbour = 0.0, 2 / math.sqrt(features) / size

    def noise(words: np.ndarray) -> FloatArray:
        uniform = words * 2.0**-53
        lower = scale * np.log(uniform + uniform)
        return np.where(uniform < 0.5, lower, -scale * np.log(2.0 - uniform - uniform))

    outputs = answer + noise(generator.integers(1, 2**53, 4000))
    wanted = outputs - neighbour
    tail = np.where(wanted < 0, np.exp(wanted / scale) / 2, 1 - np.exp(-wanted / scale) / 2)
    near = (tail * 2.0**53).round().astype(np.int64)[:, None] + np.arange(-64, 65)
    reached = neighbour + noise(np.clip(near, 1, 2**53 - 1))
    impossible = float(np.mean(~(reached == outputs[:, None]).any(axis=1)))
    assert impossible > 0.1
