"""The number of clipped rows, from a specification over the clients' noise to the words about it."""

from math import sqrt

import numpy as np
import pytest

from lintra_analysis.kinds.decode import read
from lintra_analysis.releases.clipped import ClippedRows
from lintra_analysis.spec.build_task import build_task
from lintra_analysis.spec.specification import Specification
from lintra_protocol.errors import FalseClaimError, InvalidReleaseError, InvalidTaskError
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.task import Task
from support import make_task, source
from support.analyzer_world import KEYS, NOW, seeded
from support.measured import clip_words, measurement_of

SERVERS = make_task("sum").servers
CLIENTS, CLIPPED = 1000, 300
KINDS: dict[str, dict[str, object]] = {
    "sum": {"kind": "sum"},
    "second_moment": {"kind": "second_moment", "intercept": 0.5, "trace": True},
    "ron_gauss": {"kind": "ron_gauss", "bins": 4},
    "osnap": {"kind": "osnap", "rows": 8},
    "osnap, s=2": {"kind": "osnap", "rows": 8, "sparsity": 2},
    "second_moment_wishart": {"kind": "second_moment_wishart"},
}
EXACT = ["sum", "second_moment", "ron_gauss", "osnap"]
"""Where mu is known before the matrix is drawn, and has no price beside the noise's own."""
HISTOGRAM: dict[str, object] = {"kind": "histogram", "cells": 4}


def built(kind: str, neighbours: str = "replace-one", **options: object) -> Task:
    trace = {"trace": False} if kind == "second_moment" and neighbours == "zero-out" else {}
    asked = {
        "purpose": "a test",
        "columns": [{"name": name, "lower": -1, "upper": 1} for name in "abc"],
        "mechanism": KINDS.get(kind, HISTOGRAM) | trace | options,
        "row_bound": None if kind == "histogram" else 1,
        "epsilon": 1,
        "delta": "0.000001",
        "min_clients": CLIENTS,
        "max_corrupt_clients": 0,
        "neighbours": neighbours,
    }
    return build_task(Specification.model_validate(asked), SERVERS, KEYS.public_keys, NOW, seeded("first"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_a_release_says_how_many_rows_were_clipped_and_how_exactly(kind: str) -> None:
    task = built(kind)
    rows = np.full((CLIENTS, 3), 0.1)
    rows[:100] = 0.9  # too long
    rows[100:CLIPPED] = [1.5, 0.0, 0.0]  # beyond a bound of a column, and then on the sphere
    total = np.zeros((task.mechanism.num_rows, task.sketch_words), np.int64)
    matrix = task.mechanism.public_matrix(CLIENTS, bytes(32))
    # The whole noise of 40 releases: the mean of their errors varies by 1/6.3 of a deviation; six of them.
    found = []
    for draw in range(40):
        if not draw:
            exact = task.encode(rows, source("clipped 0")) - measurement_of(task, 3).noise(CLIENTS, source("clipped 0"))
            matrix.add_reports(total.view(np.uint64), np.arange(CLIENTS), exact.view(np.uint64))
        noise = np.random.default_rng(draw).normal(0, sqrt(CLIENTS), total.shape) * task.mechanism.sigma
        release = read(task, total + np.rint(noise).astype(np.int64), matrix.row_counts())
        assert release.clipped is not None
        found.append(release.clipped)
    estimates = np.array([clipped.estimate for clipped in found])
    assert abs(estimates.mean() - CLIPPED) < 6 / sqrt(40) * found[0].sd
    assert 0.5 < estimates.std() / found[0].sd < 1.5
    # sqrt(1 + w^2) / (w mu), the design's 21.5 rows; with planned leverages, or Wishart noise, a little more.
    assert found[0].sd == pytest.approx(sqrt(1.04) / (0.2 * gaussian_mu(1, 1e-6)), rel=1e-3 if kind in EXACT else 0.12)
    assert "p values" in found[0].words
    if kind not in ("sum", "ron_gauss"):
        assert release.second_moment().clipped == release.clipped


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_the_usual_weight_costs_the_same_against_a_null_row(kind: str) -> None:
    for neighbours in ("replace-one", "zero-out"):
        counting, bare = built(kind, neighbours), built(kind, neighbours, clip_count_weight=0)
        assert clip_words(bare.mechanism) == 0
        ratio = counting.mechanism.sigma / bare.mechanism.sigma
        assert ratio == pytest.approx(sqrt(1.04), rel=1e-3 if kind in EXACT else 5e-3)
        assert counting.privacy(CLIENTS).epsilon <= 1


def test_a_mechanism_that_cannot_count_has_no_counter_unless_it_is_asked_for_one() -> None:
    assert clip_words(built("histogram").mechanism) == 0
    with pytest.raises(InvalidTaskError, match="histogram cannot count clipped rows"):
        built("histogram", clip_count_weight=0.2)


PUBLISHED: dict[str, object] = {"kind": "osnap_published", "rows": 2, "entry_bound": 1, "published_epsilon": 1}


def published(epsilon: str, **options: object) -> Task:
    asked = {
        "purpose": "a test",
        "columns": [{"name": "a", "lower": -1, "upper": 1}],
        "mechanism": PUBLISHED | options,
        "epsilon": epsilon,
        "delta": "0.000001",
        "min_clients": 240,
        "max_corrupt_clients": 0,
    }
    return build_task(Specification.model_validate(asked), SERVERS, KEYS.public_keys, NOW, seeded("first"))


def test_the_published_noise_counts_only_where_the_claim_has_room_for_it() -> None:
    # Equation (4) asked for 1 gives exactly 1.0922; with the counter, at 1.02 times that mu, 1.1156.
    assert published("1.12").mechanism.clip_count_weight == "0.2"
    assert clip_words(published("1.1").mechanism) == 0
    assert published("1.12").mechanism.sigma == published("1.1").mechanism.sigma
    assert published("1.12").privacy(240).epsilon > 1.11 > published("1.1").privacy(240).epsilon
    with pytest.raises(FalseClaimError):
        published("1.1", clip_count_weight=0.2)
    assert clip_words(published("1.12", clip_count_weight=0).mechanism) == 0
    assert "its clip counter" in published("1.12").mechanism.remark(published("1.12").privacy(240))


def test_the_words_follow_the_upper_end() -> None:
    assert ClippedRows(0.0, 1.0, 1000).words.endswith("few")
    assert ClippedRows(20.0, 5.0, 1000).words.endswith("clipped rows")
    assert ClippedRows(45.0, 5.0, 1000).words.endswith("real ones")
    low = ClippedRows(-50.0, 10.0, 1000)
    assert (low.share, low.upper_rows) == (0.0, 0.0)
    assert ClippedRows(5000.0, 10.0, 1000).upper_share == 1.0
    with pytest.raises(InvalidReleaseError):
        ClippedRows(float("nan"), 1.0, 10)
