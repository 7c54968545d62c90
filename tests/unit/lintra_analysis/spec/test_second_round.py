"""`ron_gauss` in two rounds: a promise shared by two tasks, the second made from the first's release, and the model."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lintra_analysis.kinds.context import CalibrationContext, FirstRound
from lintra_analysis.kinds.decode import read
from lintra_analysis.kinds.ron_gauss_centred import build
from lintra_analysis.kinds.two_rounds import first_share, require_together
from lintra_analysis.releases.centred_products import CentredProducts
from lintra_analysis.releases.features import ClassLabel
from lintra_analysis.releases.joint_sums import ProjectedSums
from lintra_analysis.releases.release import Release
from lintra_analysis.spec.build_task import build_task, claim_of, warnings_of
from lintra_analysis.spec.second_round import build_second_task
from lintra_analysis.spec.specification import Specification
from lintra_analysis.synthetic.centred_model import fit_two_rounds
from lintra_analysis.synthetic.generator import synthesize
from lintra_analysis.synthetic.model import fit
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import FalseClaimError, InvalidTaskError
from lintra_protocol.ideal import run
from lintra_protocol.mechanisms import RonGauss, RonGaussCentred
from lintra_protocol.task import Task
from support import make_task, nonce, source
from support.analyzer_world import KEYS, NOW, seeded
from support.measured import clip_steps, noise_sigmas, reports_without_noise

SERVERS = make_task("sum").servers
REALS = [{"name": f"x{number}", "lower": -1, "upper": 1} for number in range(10)]
KIND = {"name": "kind", "kind": "category", "levels": ["first", "second"]}


def asked(clients: int, mechanism: dict[str, Any] | None = None, **changes: Any) -> Specification:
    wanted = {
        "purpose": "a test",
        "columns": REALS,
        "mechanism": {"kind": "ron_gauss", "bins": 0, "rounds": 2} | (mechanism or {}),
        "epsilon": 1,
        "delta": "0.000001",
        "min_clients": clients,
        "suite": "x25519",
    }
    return Specification.model_validate(wanted | changes)


def built(specification: Specification) -> Task:
    return build_task(specification, SERVERS, KEYS.public_keys, NOW, seeded("first"))


def second_of(specification: Specification, first: Task, release: ProjectedSums, bound: Fraction | None = None) -> Task:
    return build_second_task(specification, first, Release(joint_sums=release), NOW + 10_000, seeded("second"), bound)


def summed(task: Task, rows: FloatArray, seed: int) -> ProjectedSums | CentredProducts:
    """Return the release of normalised rows, the clients' noise drawn as one."""
    mechanism = task.mechanism
    exact = reports_without_noise(mechanism, rows).sum(axis=0, keepdims=True)
    deviations = noise_sigmas(mechanism, task.num_columns) * len(rows) ** 0.5
    noise = np.rint(np.random.default_rng(seed).normal(0, 1, exact.shape) * deviations).astype(np.int64)
    whole = read(task, exact + noise, np.array([len(rows)]))
    found = whole.centred or whole.joint_sums
    assert found is not None
    return found


def first_of(task: Task, rows: FloatArray, seed: int) -> ProjectedSums:
    found = summed(task, rows, seed)
    assert isinstance(found, ProjectedSums)
    return found


def covariance_of(first: ProjectedSums, second: Task, rows: FloatArray, seed: int) -> FloatArray:
    found = summed(second, rows, seed)
    assert isinstance(found, CentredProducts)
    return fit_two_rounds(first, found).covariance


# --- the promise ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("classes", "covariance", "ratio", "share"),
    [(1, "pooled", 1.0, 0.1804573519), (10, "per_class", 0.7, 0.2392898143), (10, "pooled", 0.7, 0.7587810196)],
)
def test_known_shares_of_the_first_round(classes: int, covariance: str, ratio: float, share: float) -> None:
    label = {"label": -1, "levels": (0,) * 10, "bins": (0,) * 10}
    if classes > 1:
        label = {"label": 10, "levels": (0,) * 10 + (classes,), "bins": (0,) * 11}
    mechanism = RonGauss.model_validate(
        {
            "row_bound": "1",
            "fraction_bits": 0,
            "sigma": 4,
            "dimension": 10,
            "mean_weight": "1",
            "covariance": covariance,
        }
        | label
    )
    assert first_share(mechanism, ratio) == pytest.approx(share, rel=1e-9)


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
@pytest.mark.parametrize("bins", [0, 8])
@pytest.mark.grid(2)
@pytest.mark.slow
def test_both_tasks_together_use_the_promise_up_and_no_more(neighbours: str, bins: int) -> None:
    specification = asked(2000, {"bins": bins}, neighbours=neighbours, max_corrupt_clients=20)
    first = built(specification)
    rows = np.random.default_rng(1).uniform(0, 1, (2000, 10))
    second = second_of(specification, first, first_of(first, rows, 1))
    total = claim_of(specification)
    mus = [task.privacy(2000).mu for task in (first, second)]
    require_together(total, first, second)
    once = asked(2000, {"rounds": 1}, neighbours=neighbours, max_corrupt_clients=20)
    whole = build_task(once, SERVERS, KEYS.public_keys, NOW, seeded("one"))
    assert np.hypot(*mus) == pytest.approx(whole.privacy(2000).mu, rel=1e-3)
    assert first.claim.neighbours == second.claim.neighbours == neighbours
    for task in (first, second):
        assert 0.999 * float(task.claim.epsilon) < task.privacy(2000).epsilon <= float(task.claim.epsilon) < 1
    with pytest.raises(InvalidTaskError, match="together both rounds have delta"):
        require_together(total.model_copy(update={"epsilon": "0.99"}), first, second)
    alone = [task.alone_privacy() for task in (first, second)]
    of_one = whole.alone_privacy()
    assert of_one is not None
    assert np.hypot(*[each.mu for each in alone if each is not None]) == pytest.approx(of_one.mu, rel=1e-3)
    with pytest.raises(InvalidTaskError, match="with all other clients invented both rounds have delta"):
        require_together(total.model_copy(update={"epsilon_alone": "2.98"}), first, second)


def test_the_first_round_has_free_products_and_the_most_exact_means() -> None:
    first, one = built(asked(2000)), built(asked(2000, {"rounds": 1, "mean_weight": "0.6"}))
    assert isinstance(first.mechanism, RonGauss)
    assert first.mechanism.mean_weight == "1.4142135623"
    assert isinstance(one.mechanism, RonGauss)
    assert first.mechanism.dimension == one.mechanism.dimension
    # All of mu goes to the sums: replacing a row moves them by twice the bound; 5 % may leave out their noise. The clip
    # counter adds its own step over its own deviation, a fifth of the rows' distance.
    rows = 2 * first.mechanism.bound / first.mechanism.deviations.sums
    counter = clip_steps(first.mechanism) / first.mechanism.sigma
    assert counter == pytest.approx(0.2 * rows, rel=1e-3)
    floor = first.mechanism.floor / first.mechanism.sigma
    expected = float(np.hypot(rows, counter)) / (1900 + floor**2) ** 0.5
    assert first.privacy(2000).mu == pytest.approx(expected, rel=1e-6)


# --- the second task --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def classes() -> tuple[Specification, Task, FloatArray]:
    """Return a specification of two classes, its first task and rows far from the middle."""
    specification = asked(3000, {"label": "kind"}, columns=[*REALS[:3], KIND], epsilon=4, row_bound=1.5)
    rng = np.random.default_rng(5)
    kinds = rng.integers(0, 2, 3000)
    left = rng.normal(0, 0.1, (3000, 3)) @ np.array([[1, 0.5, 0], [0, 1, -0.5], [0, 0, 0.4]])
    rows = np.column_stack([left + np.array([[0.7, 0.6, -0.5], [0.6, -0.8, 0.4]])[kinds], kinds])
    return specification, built(specification), rows


def test_the_second_task_is_the_first_about_its_released_means(classes: tuple[Specification, Task, FloatArray]) -> None:
    specification, first, rows = classes
    release = first_of(first, rows, 3)
    second = second_of(specification, first, release)
    mechanism = second.mechanism
    assert isinstance(mechanism, RonGaussCentred)
    assert mechanism.after == first.task_id
    assert second.task_id != first.task_id
    assert (second.columns, second.servers, second.analyzer) == (first.columns, first.servers, first.analyzer)
    assert second.not_before > first.not_before
    np.testing.assert_allclose(np.array(mechanism.centers) / 2**15, fit(release).means, atol=2**-15)
    # About their means rows have a root mean square norm of 0.163, so that 0.23 is wanted and room for its noise.
    assert 0.23 < float(mechanism.row_bound) < 0.4 < float(first.mechanism.row_bound)
    given = second_of(specification, first, release, Fraction("0.35"))
    assert given.mechanism.row_bound == "0.35"
    for task in (first, second, given):
        others = [warning for warning in warnings_of(task) if "classical suite" not in warning]
        assert others == [task.mechanism.remark(task.privacy(3000))] * (task is not first)


def test_what_the_first_does_not_give_is_refused_in_words(classes: tuple[Specification, Task, FloatArray]) -> None:
    specification, first, rows = classes
    release = first_of(first, rows, 3)

    def following(asked_for: Specification, task: Task, **changes: object) -> CalibrationContext[object]:
        total = claim_of(asked_for).model_copy(update=changes)
        begun = FirstRound.of_task(task, Release(joint_sums=release))
        return CalibrationContext(asked_for.mechanism, total, task.columns, None, 6000, seeded("second"), first=begun)

    with pytest.raises(InvalidTaskError, match="one round"):
        second_of(asked(3000, {"rounds": 1}), first, release)
    with pytest.raises(InvalidTaskError, match="must be positive"):
        second_of(specification, first, release, Fraction(0))
    with pytest.raises(InvalidTaskError, match="not sum"):
        build(following(specification, make_task("sum")))
    with pytest.raises(InvalidTaskError, match="used up"):
        build(following(specification, first, epsilon="0.1"))
    for changes in ({"neighbours": "zero-out"}, {"min_clients": 2999}, {"delta": "0.00001"}):
        with pytest.raises(InvalidTaskError, match="promised to other neighbours"):
            build(following(specification, first, **changes))
    rare = replace(release, counts=np.array([3000.0, release.noise.count]))
    with pytest.raises(InvalidTaskError, match="cannot be told from noise"):
        second_of(specification, first, rare)
    with pytest.raises(InvalidTaskError, match="drowned"):
        second_of(specification, first, replace(release, sums=release.sums + 1e8))
    with pytest.raises(InvalidTaskError, match="delta_coalition"):
        built(asked(3000, delta_coalition="0.0000001"))


def test_a_false_claim_for_the_second_task_is_refused_by_everybody(
    classes: tuple[Specification, Task, FloatArray],
) -> None:
    specification, first, rows = classes
    second = second_of(specification, first, first_of(first, rows, 3))
    better = second.claim.model_copy(update={"delta": "0.00000099"})
    with pytest.raises(FalseClaimError):
        second.model_copy(update={"claim": better}).check()


# --- accuracy ---------------------------------------------------------------------------------------------------------


def errors_of(ratio: float, runs: int) -> tuple[float, float]:
    """Return mean relative errors of the covariance in one round and in two, the mean `ratio` radii from the middle."""
    clients, radius = 5000, 0.15
    bound = {"row_bound": float(f"{1.5 * radius * (1 + ratio**2) ** 0.5:.6g}")}
    whole, shared = asked(clients, {"rounds": 1}, **bound), asked(clients, **bound)
    one, first = built(whole), built(shared)
    found: list[tuple[float, float]] = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        left = rng.normal(0, radius / 10**0.5, (clients, 10)) * np.linspace(0.5, 1.5, 10)
        rows, truth = left + ratio * radius / 10**0.5, np.cov(left.T, bias=True)
        release = first_of(first, rows, 100 + seed)
        second = second_of(shared, first, release)
        both = covariance_of(release, second, rows, 200 + seed)
        single = fit(first_of(one, rows, 300 + seed)).covariance
        norm = float(np.linalg.norm(truth))
        found.append((float(np.linalg.norm(single - truth)) / norm, float(np.linalg.norm(both - truth)) / norm))
    means = np.mean(found, axis=0)
    return float(means[0]), float(means[1])


@pytest.mark.slow
def test_two_rounds_beat_one_far_from_the_middle_and_cost_nothing_near_it() -> None:
    far, near = errors_of(4.0, 3), errors_of(0.0, 3)
    assert far[1] < 0.4 * far[0]
    assert far[1] < 0.2
    assert near[1] < 1.3 * near[0] < 0.1


# --- end to end -------------------------------------------------------------------------------------------------------


def released(task: Task, rows: list[list[float | str]]) -> ProjectedSums | CentredProducts:
    """Return what the whole protocol in one process releases."""
    clients = [(row, source(f"{task.task_id} {number}")) for number, row in enumerate(rows)]
    floors = [source(f"{task.task_id} floor {server}") for server in range(3)]
    result = run(task, clients, [nonce(server) for server in range(3)], smoothing=floors)
    whole = read(task, result.sketch, result.row_counts)
    found = whole.centred or whole.joint_sums
    assert found is not None
    return found


@pytest.mark.parametrize("covariance", ["pooled", "per_class"])
@pytest.mark.slow
def test_both_rounds_of_a_task_with_classes_from_rows_to_synthetic_rows(covariance: str) -> None:
    columns = [*REALS[:2], KIND]
    specification = asked(200, {"label": "kind", "bins": 4, "covariance": covariance}, columns=columns, epsilon=1000)
    rng = np.random.default_rng(11)
    left = rng.normal(0, 0.1, (200, 2)) @ np.array([[1, 0.8], [0, 0.6]])
    means = np.array([[0.6, 0.5], [-0.5, 0.7]])
    rows: list[list[float | str]] = [
        [*(left[number] + means[number % 2]).tolist(), KIND["levels"][number % 2]] for number in range(200)
    ]
    first = built(specification)
    opened = released(first, rows)
    assert isinstance(opened, ProjectedSums)
    second = second_of(specification, first, opened, Fraction("0.6"))
    closed = released(second, rows)
    assert isinstance(closed, CentredProducts)
    model = fit_two_rounds(opened, closed)
    assert isinstance(model.release.label, ClassLabel)
    np.testing.assert_allclose(model.means, means, atol=0.1)
    for matrix in model.covariances:
        np.testing.assert_allclose(matrix, np.cov(left.T), atol=0.004)
    assert model.release.promise.mu == pytest.approx(np.hypot(first.privacy(200).mu, second.privacy(200).mu))
    assert model.release.promise.epsilon <= 1000
    made = synthesize(model, 400, 1)
    assert set(made.columns) == {"x0", "x1", "kind"}


@pytest.mark.slow
def test_both_rounds_of_a_task_with_a_numeric_label() -> None:
    specification = asked(200, {"label": "x1"}, columns=REALS[:2], epsilon=1000)
    rng = np.random.default_rng(12)
    x = rng.normal(0.5, 0.1, 200)
    y = 0.8 * x - 0.7 + rng.normal(0, 0.05, 200)
    rows: list[list[float | str]] = np.column_stack([x, y]).tolist()
    first = built(specification)
    opened = released(first, rows)
    assert isinstance(opened, ProjectedSums)
    second = second_of(specification, first, opened)
    closed = released(second, rows)
    assert isinstance(closed, CentredProducts)
    covariance = fit_two_rounds(opened, closed).covariance
    assert covariance[0, 1] / covariance[0, 0] / opened.label.scale == pytest.approx(0.8, abs=0.15)  # type: ignore[union-attr]
