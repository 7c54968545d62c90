"""No two rows, whatever they hold, are farther apart than `ron_gauss` and its second round assume; in fractions."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.mechanisms.ron_gauss_centred import RonGaussCentred
from lintra_protocol.privacy.statement import Claim, Neighbours
from lintra_protocol.transforms.orthonormal import frame, frame_digest
from support import few
from support.measured import document_of, layout_of, measurement_of, noise_sigmas, setting_of, words_of_steps

SEED = bytes(range(32))
NEIGHBOURS: list[Neighbours] = ["replace-one", "zero-out"]
values = st.floats(allow_nan=False, allow_infinity=False) | st.floats(-1, 1) | st.sampled_from([-1.0, 0.0, 1.0, 2.0])
rows = st.lists(values, min_size=4, max_size=4)


@st.composite
def mechanisms(draw: st.DrawFn) -> RonGauss:
    """Draw any mechanism of four columns, two of them categories."""
    levels, label = (0, 0, 2, 3), draw(st.integers(-1, 3))
    bins = tuple(
        0 if column == label and number else draw(st.sampled_from([0, number or 5]))
        for column, number in enumerate(levels)
    )
    features = sum(max(1, number) for number in (1, 1, 1, 3)) - (0 if label < 0 else (1, 1, 1, 3)[label])
    dimension = draw(st.integers(1, features))
    projected = dimension < features
    counted = [column for column in range(4) if bins[column] or (column == label and levels[column])]
    pairs = tuple(pair for pair in combinations(counted, 2) if draw(st.booleans()))
    paired = {column for pair in pairs for column in pair}
    own = {column: levels[column] or draw(st.integers(2, 5)) for column in paired}
    return RonGauss(
        row_bound=draw(st.sampled_from(["0.25", "0.7", "1.5"])),
        fraction_bits=draw(st.integers(4, 15)),
        sigma=draw(st.integers(200, 2**28)),
        dimension=dimension,
        frame_seed=base64url(SEED) if projected else "",
        frame_digest=frame_digest(frame(SEED, features, dimension)) if projected else "",
        label=label,
        levels=levels,
        bins=bins,
        indicator=draw(st.sampled_from([1, 64, 4096])),
        covariance=draw(st.sampled_from(["pooled", "per_class"])),
        mean_weight=draw(st.sampled_from(["0.3", "0.6", "1", "1.4"])),
        edges=((-30000, -1, 0, 7), (), (), ()) if bins[0] and draw(st.booleans()) else (),
        pairs=pairs,
        pair_bins=tuple(own.get(column, 0) for column in range(4)) if pairs else (),
        pair_weight=draw(st.sampled_from(["1", "0.5", "4"])) if pairs else "1",
        count_weight=draw(st.sampled_from(["1", "3"])) if label >= 0 and levels[label] else "1",
    )


@st.composite
def centred(draw: st.DrawFn) -> RonGaussCentred:
    """Draw the second round of any of them, with any centres."""
    first = draw(mechanisms())
    shared = {
        name: getattr(first, name)
        for name in (
            "row_bound",
            "fraction_bits",
            "sigma",
            "dimension",
            "frame_seed",
            "frame_digest",
            "label",
            "levels",
        )
    }
    entry = st.integers(-(2**25), 2**25) if draw(st.booleans()) else st.integers(-(2**15), 2**15)
    size = first.num_coordinates
    centers = draw(st.lists(st.tuples(*[entry] * size), min_size=first.num_classes, max_size=first.num_classes))
    if first.has_numeric_label:
        centers = [(*centre[:-1], centre[-1] % 2**15) for centre in centers]
    covariance = first.covariance if first.num_classes > 1 else "pooled"
    return RonGaussCentred(**shared, covariance=covariance, after=base64url(SEED), centers=tuple(centers))


@given(mechanisms() | centred(), rows, rows, st.sampled_from(NEIGHBOURS))
@few
def test_no_two_rows_are_farther_apart_than_promised(
    mechanism: RonGauss | RonGaussCentred, one: list[float], other: list[float], neighbours: Neighbours
) -> None:
    reports = words_of_steps(mechanism, document_of(mechanism).clip(np.array([one, other]), setting_of(mechanism)))
    if neighbours == "zero-out":
        reports[1] = 0
    weights = [Fraction(mechanism.sigma**2, int(sigma) ** 2) for sigma in noise_sigmas(mechanism, 4)]
    pairs = zip(*reports.tolist(), weights, strict=True)
    distance = sum(((a - b) ** 2 * weight for a, b, weight in pairs), Fraction(0))
    claim = Claim(epsilon="1", delta="0.000001", min_clients=2, neighbours=neighbours)
    assert distance <= measurement_of(mechanism, 4, claim).squared_distance
    assert np.abs(reports).max() <= layout_of(mechanism).bound


@pytest.mark.slow
def test_no_vectors_of_a_small_ball_are_farther_apart_than_promised_and_some_are_as_far() -> None:
    """Every pair of rows of a small ball about a centre, with every pair of classes."""
    for bound, covariance in product(("0.25", "0.5"), ("pooled", "per_class")):
        mechanism = RonGaussCentred(
            row_bound=bound,
            fraction_bits=4,
            sigma=200,
            dimension=2,
            label=2,
            levels=(0, 0, 2),
            covariance=covariance,
            after=base64url(SEED),
            centers=((8192, 4096), (-2048, 0)),
        )
        grid = [[x / 16, y / 16, k] for x in range(-16, 17) for y in range(-16, 17) for k in range(2)]
        reports = sorted(
            {
                tuple(words)
                for words in words_of_steps(
                    mechanism, document_of(mechanism).clip(np.array(grid), setting_of(mechanism))
                ).tolist()
            }
        )
        # Squares have a little more than twice the variance; the theorem counts them as twice.
        weights = [1 if sigma == 200 else Fraction(1, 2) for sigma in noise_sigmas(mechanism, 3).tolist()]
        distances = {neighbours: Fraction(0) for neighbours in NEIGHBOURS}
        for one in reports:
            for neighbours, others in (("replace-one", reports), ("zero-out", [(0,) * len(one)])):
                for other in others:
                    pairs = zip(one, other, weights, strict=True)
                    found = sum(((a - b) ** 2 * weight for a, b, weight in pairs), Fraction(0))
                    distances[neighbours] = max(distances[neighbours], found)
        for neighbours, most in distances.items():
            claim = Claim(epsilon="1", delta="0.000001", min_clients=2, neighbours=neighbours)
            assert most == measurement_of(mechanism, 3, claim).squared_distance


@given(mechanisms(), st.lists(rows, min_size=1, max_size=4))
@few
def test_the_coordinates_of_every_row_keep_their_bounds(mechanism: RonGauss, table: list[list[float]]) -> None:
    steps = document_of(mechanism).clip(np.array(table), setting_of(mechanism))
    for row in steps.tolist():
        vector = row[1 : 1 + mechanism.dimension]
        assert sum(entry**2 for entry in vector) <= mechanism.bound**2
        if mechanism.has_numeric_label:
            assert abs(row[1 + mechanism.dimension]) <= mechanism.label_bound
        assert 0 <= row[0] < mechanism.num_classes
