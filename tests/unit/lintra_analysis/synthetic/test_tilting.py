"""Pair tables in the rows: what a covariance cannot say, and no more than noise allows."""

from dataclasses import replace

import numpy as np
import pytest

from lintra_analysis.kinds.joint_question import JointQuestion
from lintra_analysis.kinds.pair_tables import GOAL
from lintra_analysis.releases.joint_sums import PairTable, ProjectedSums
from lintra_analysis.synthetic.bootstrap import bootstrap
from lintra_analysis.synthetic.generator import synthesize
from lintra_analysis.synthetic.model import fit
from lintra_analysis.synthetic.rows import SyntheticRows
from lintra_analysis.synthetic.tilting import fit_tilt
from lintra_curator import category_column, curator_claim, mapped_column, release_ron_gauss
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError, InvalidReleaseError
from lintra_protocol.mechanisms.joint_rows import merged_cells

GENERATOR = np.random.default_rng(5)
MONTH = GENERATOR.integers(1, 13, 6000)
WARMTH = np.clip(12 - 11 * np.cos(2 * np.pi * (MONTH - 1) / 12) + GENERATOR.normal(0, 3, 6000), -15, 40)
SEASON = np.where(np.abs(MONTH - 6.5) < 3, 1, 0)
TABLE = np.column_stack([MONTH, WARMTH, SEASON])
COLUMNS = [
    mapped_column("month", 1, 12, "integer"),
    mapped_column("warmth", -15, 40),
    category_column("season", ["cold", "warm"]),
]


def release(question: JointQuestion) -> ProjectedSums:
    return release_ron_gauss(TABLE, COLUMNS, curator_claim(1.0, 1e-6), expand(bytes(32), "a year"), question=question)


def variation(rows: SyntheticRows) -> float:
    """Return the total variation of month and warmth, in 12 by 11 cells, from the true ones."""
    made = np.column_stack([np.asarray(rows.columns[name], np.float64) for name in ("month", "warmth")])
    return float(np.abs(_shares(made) - _shares(TABLE[:, :2])).sum() / 2)


def _shares(table: FloatArray) -> FloatArray:
    counts, _, _ = np.histogram2d(table[:, 0], table[:, 1], (np.arange(0.5, 13), np.arange(-15, 41, 5.0)))
    return np.asarray(counts / len(table), np.float64)


def test_month_and_temperature_are_lost_without_their_table_and_kept_with_it() -> None:
    half = np.random.default_rng(0).permutation(6000)
    split = float(np.abs(_shares(TABLE[half[:3000], :2]) - _shares(TABLE[half[3000:], :2])).sum() / 2)
    lost = variation(synthesize(fit(release(JointQuestion())), 6000, 1))
    kept = variation(synthesize(fit(release(JointQuestion(pairs=[["warmth", "month"]]))), 6000, 1))
    # The rule leaves a table GOAL = .1 of noise, beside what two random halves differ by.
    assert lost > 0.4
    assert kept < min(split + GOAL, 0.4 * lost)


def test_a_class_label_is_told_by_its_pair_tables() -> None:
    found = release(JointQuestion(label="season", pairs="rule"))
    assert {(t.first, t.second) for t in found.tables} >= {("month", "season"), ("warmth", "season")}
    rows = synthesize(fit(found), 6000, 1)
    months, seasons = np.asarray(rows.columns["month"], np.float64), np.asarray(rows.columns["season"])
    assert np.mean((np.abs(months - 6.5) < 3) == (seasons == "warm")) > 0.9


def test_numbers_follow_their_histogram_as_without_tables_and_the_same_seed_gives_the_same_rows() -> None:
    model = fit(release(JointQuestion(pairs=[["warmth", "month"]])))
    rows, again = synthesize(model, 1200, 9), synthesize(model, 1200, 9)
    counts = np.bincount(np.asarray(rows.columns["month"], np.int64), minlength=13)[1:]
    assert np.abs(counts - 1200 * model.marginals[0]).max() <= 1
    assert all(np.array_equal(rows.columns[name], again.columns[name]) for name in rows.columns)
    assert not np.array_equal(rows.columns["warmth"], synthesize(model, 1200, 10).columns["warmth"])


def test_a_table_that_noise_alone_explains_changes_nothing() -> None:
    # Without any excess over its noise a table is not used; half of the tables of pure noise have some, which is small.
    own = release(JointQuestion(pairs=[["month", "season"]]))
    columns = synthesize(fit(release(JointQuestion())), 6000, 1).columns
    months = merged_cells(np.asarray(columns["month"], np.int64) - 1, 12, 11)
    cells = np.zeros((11, 2))
    np.add.at(cells, (months, (columns["season"] == "warm").astype(np.int64)), 1.0)
    kept = []
    for seed in range(20):
        noisy = cells + own.noise.table * np.random.default_rng(seed).normal(size=cells.shape)
        other = _with_table(own, noisy)
        tilt = fit_tilt(other, columns)
        kept.append(tilt.kept[0])
        assert tilt.weights(other, columns).sum() == pytest.approx(1)
    assert np.median(kept) < 0.3
    assert min(kept) == 0
    assert fit_tilt(own, columns).kept[0] > 0.8


def _with_table(own: ProjectedSums, cells: FloatArray) -> ProjectedSums:
    return replace(own, tables=(PairTable("month", "season", cells),))


def test_a_table_of_cells_that_the_columns_have_not_is_refused_and_so_is_its_bootstrap() -> None:
    own = release(JointQuestion(pairs=[["month", "season"]]))
    assert repr(own.tables[0]) == "PairTable('month', 'season', 12 x 2)"
    with pytest.raises(InvalidReleaseError, match="cells do not fit"):
        _with_table(own, np.zeros((13, 2)))
    with pytest.raises(InvalidAnalysisError, match="pair tables"):
        bootstrap(fit(own), lambda table: 0.0, num_rows=100, seed=1, runs=40)
    names, values = own.table()
    assert names[-1] == "cells[month, season] 11 1"
    assert len(names) == values.shape[1]
    assert own.digest != release(JointQuestion()).digest
    assert release(JointQuestion()).tables == ()
