"""Joint sums of organisations: a model of their rows, and noise of their few reports."""

from functools import lru_cache

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.kinds.context import CalibrationContext, FirstRound
from lintra_analysis.kinds.decode import read
from lintra_analysis.kinds.joint_question import JointQuestion, plan_ron_gauss, useful_dimension
from lintra_analysis.kinds.ron_gauss import RonGaussSpecification
from lintra_analysis.kinds.ron_gauss_centred import build
from lintra_analysis.kinds.two_rounds import first_round
from lintra_analysis.releases.joint_sums import ProjectedSums
from lintra_analysis.releases.release import Release
from lintra_analysis.synthetic.generator import synthesize
from lintra_analysis.synthetic.model import fit
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms import RonGauss, RonGaussCentred
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task
from support import make_task, source
from support.measured import calibrated_for, layout_of, with_contributors

ORGANISATIONS = 3
COLUMNS = (
    Column(name="a", lower="-1", upper="1"),
    Column(name="b", lower="-1", upper="1"),
    Column(name="kind", lower="0", upper="1", kind="category", levels=("x", "y")),
)
REPORTS = np.array([ORGANISATIONS])


def contributors(count: str) -> Contributors:
    return Contributors(
        rows_per_person=1 if count == "exact" else 2, organisations_per_person=1, max_rows=4000, count=count
    )


def claim(epsilon: str) -> Claim:
    return Claim(epsilon=epsilon, delta="0.000001", min_clients=ORGANISATIONS, max_corrupt_clients=2)


@lru_cache
def everybody() -> FloatArray:
    """Return 6,000 rows: a third of them of class y, whose a is larger; b falls on a."""
    random = np.random.default_rng(5)
    kinds = (random.random(6000) < 1 / 3).astype(np.float64)
    first = random.uniform(-0.6, 0.2, 6000) + 0.4 * kinds
    return np.column_stack([first, 0.5 * first + random.uniform(-0.2, 0.2, 6000), kinds])


def sent(task: Task) -> IntArray:
    """Return the released integers of three organisations with 1,000, 2,000 and 3,000 rows, `(1, w)`."""
    total = np.zeros(layout_of(task, 3).num_words, np.int64)
    for number, rows in enumerate(np.split(everybody(), [1000, 3000])):
        persons = np.arange(len(rows)) // (task.contributors.rows_per_person if task.contributors else 1)
        total += task.encode_contribution(rows, persons, source(f"organisation {number}"))
    return total[np.newaxis]


def task_of(count: str, epsilon: str, *, label: str | None = "kind", rounds: int = 1) -> Task:
    held, asked = contributors(count), JointQuestion(label=label, bins=4)
    promise, mechanism = claim(epsilon), plan_ron_gauss(claim(epsilon), COLUMNS, asked, bytes(32), contributors=held)
    if rounds == 2:
        promise, mechanism = first_round(promise, mechanism)
    return made(calibrated_for(with_contributors(mechanism, held), 3, promise, 5), promise, held)


def made(mechanism: RonGauss | RonGaussCentred, promise: Claim, held: Contributors) -> Task:
    return make_task(mechanism, columns=COLUMNS, claim=promise, max_clients=5, max_missing="0.4", contributors=held)


def read_first(task: Task) -> ProjectedSums:
    return read(task, sent(task), REPORTS).need("joint_sums")


@pytest.mark.parametrize("count", ["exact", "noisy"])
def test_the_model_is_one_of_rows_and_its_noise_that_of_the_reports(count: str) -> None:
    task, rows = task_of(count, "500"), everybody()
    release = read_first(task)
    assert abs(release.num_clients - 6000) <= (0 if count == "exact" else 3)
    mechanism = task.mechanism
    assert isinstance(mechanism, RonGauss)
    assert release.noise.product == pytest.approx(3**0.5 * mechanism.sigma * 4.0**-mechanism.fraction_bits)
    assert release.noise.cell == pytest.approx(3**0.5 * mechanism.deviations.histograms / mechanism.indicator)
    model, own = fit(release), [rows[rows[:, 2] == level] for level in (0, 1)]
    assert_allclose(model.counts / release.num_clients, [len(each) / 6000 for each in own], atol=2e-3)
    assert_allclose(model.means, [each[:, :2].mean(axis=0) for each in own], atol=5e-3)
    pooled = sum(len(each) * np.cov(each[:, :2].T, ddof=0) for each in own) / 6000
    assert_allclose(model.covariance, pooled, atol=5e-3)
    made_up = synthesize(model, 300, 7)
    assert made_up.num_clients == release.num_clients
    assert len(made_up.columns["a"]) == 300


def second_of(first: Task, release: Release, count: str) -> CalibrationContext[RonGaussSpecification]:
    """Return what the second round of organisations is built for."""
    options, begun = RonGaussSpecification(kind="ron_gauss", rounds=2), FirstRound.of_task(first, release)
    return CalibrationContext(
        options, claim("500"), COLUMNS, None, 5, source("second"), contributors=contributors(count), first=begun
    )


def test_the_second_round_of_organisations_takes_products_about_the_means_of_the_first() -> None:
    first = task_of("exact", "500", rounds=2)
    release = read_first(first)
    held = contributors("exact")
    whole = Release(joint_sums=release)
    built = build(second_of(first, whole, "exact"))
    second = made(built.mechanism, built.claim, held)
    found = read(second, sent(second), REPORTS, lambda task_id: whole if task_id == first.task_id else None)
    assert found.centred is not None
    assert found.joint_sums is release
    assert found.centred.num_clients == 6000
    step = 4.0**-second.mechanism.fraction_bits
    assert found.centred.product_sd == pytest.approx(3**0.5 * second.mechanism.sigma * step)
    rows = everybody()
    pooled = sum(
        np.cov(own[:, :2].T, ddof=0) * len(own) for own in (rows[rows[:, 2] == level] for level in (0, 1))
    ) / len(rows)
    assert_allclose(found.centred.products / 6000, pooled, atol=5e-3)


def test_rows_can_be_counted_with_noise_only_where_classes_count_them() -> None:
    with pytest.raises(InvalidTaskError, match="name a label with levels"):
        task_of("noisy", "10", label=None)
    first = task_of("noisy", "500", rounds=2)
    release = read_first(first)
    with pytest.raises(InvalidTaskError, match="use count 'exact', in the first round too"):
        build(second_of(first, Release(joint_sums=release), "noisy"))


def test_the_dimension_follows_from_rows_and_what_a_person_moves_and_not_from_the_reports() -> None:
    few = claim("1")
    assert useful_dimension(few) == 0
    held = contributors("exact")
    alone = useful_dimension(few, contributors=held)
    # n sqrt(c / M) = 12,000 / sqrt 3 rows of clients who are all honest have as much to say.
    clients = Claim(epsilon="1", delta="0.000001", min_clients=6928, max_corrupt_clients=0)
    assert alone == useful_dimension(clients) > 50
    assert useful_dimension(few, contributors=held.model_copy(update={"rows_per_person": 8})) < alone / 3
