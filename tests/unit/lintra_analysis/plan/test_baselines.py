"""A plan is what a task would do: its noise is the mechanism's, its errors are what a simulation finds."""

import math
from dataclasses import replace

import numpy as np
import pytest

from lintra_analysis.kinds.planned import MOST_CLIENTS, PlannedMechanism, report_bytes
from lintra_analysis.kinds.prediction import predict_moments
from lintra_analysis.kinds.sketches import sketch_error
from lintra_analysis.plan.baselines import Baselines, baselines, best_rows, best_sketch_error, mu_of, sensitivity
from lintra_analysis.plan.flags import PlanFlags
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidTaskError, RowUnderfilledError
from lintra_protocol.report.report import make_report
from lintra_protocol.report.upload import block_bytes
from support import make_task, source
from support.measured import measurement_of

GRID = [(1_000, 64), (10_000, 64), (100_000, 256), (1_000_000, 1024), (1_000_000, 4096)]


def question(
    clients: int = 1_000_000, rows: int | None = 1024, columns: int = 10, sparsity: int = 1, **flags: object
) -> PlanFlags:
    """Ask for what theory is about: nothing is counted beside the sketch, and nobody is corrupt."""
    plain = PlanFlags(
        noise="clients",
        columns=columns,
        clients=clients,
        delta="0.000001",
        corrupt=0,
        rows=rows,
        sparsity=sparsity,
        clip_count_weight="0",
    )
    return replace(plain, **flags)  # type: ignore[arg-type]


def plan_sketch(asked: PlanFlags) -> PlannedMechanism:
    return asked.planned("osnap")


def plan_second_moment(asked: PlanFlags) -> PlannedMechanism:
    return asked.planned("second_moment")


def yardsticks(asked: PlanFlags, rows: int | None = None) -> Baselines:
    context = asked.context("osnap")
    return baselines(context, rows or asked.rows or best_of(asked), asked.sparsity)


def best_of(asked: PlanFlags) -> int:
    return plan_sketch(asked).mechanism.num_rows


def error(asked: PlanFlags, rows: float, sigma: float) -> float:
    variance = asked.clients * sigma**2 / rows
    return sketch_error(asked.clients, asked.columns, asked.norm, rows, variance)


def best_error(asked: PlanFlags) -> float:
    return best_sketch_error(asked.context("osnap"))


@pytest.mark.parametrize(("clients", "rows"), GRID)
@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
@pytest.mark.parametrize("bound", ["1", "0.3", "170"])
def test_sigma_is_within_a_thousandth_of_theory_and_never_below(
    clients: int, rows: int, neighbours: str, bound: str
) -> None:
    asked = replace(question(clients, rows, neighbours=neighbours), row_bound=bound, row_norm=0.3)
    option = plan_sketch(asked)
    distance = float(fraction(bound)) * (2 if neighbours == "replace-one" else 1)
    theory = distance * math.sqrt(1 / (clients // rows)) / 0.236704380663
    assert theory <= option.sigma <= theory * 1.001
    assert option.leverage == 1 / (clients // rows)
    assert 0.999 < option.epsilon <= 1


@pytest.mark.parametrize(("clients", "rows", "sparsity"), [(1_000, 64, 8), (10_000, 64, 8), (100_000, 256, 4)])
@pytest.mark.slow
def test_with_more_entries_a_column_sigma_is_that_of_the_planned_leverage(
    clients: int, rows: int, sparsity: int
) -> None:
    option = plan_sketch(question(clients, rows, sparsity=sparsity))
    theory = 2 * math.sqrt(option.leverage) / 0.2367043806635
    assert theory <= option.sigma <= theory * 1.001
    # The leverages sum up to the rank, so no bound is below their average.
    assert rows / clients <= option.leverage <= 1.5 * rows / clients


def test_corrupt_clients_are_paid_for() -> None:
    adaptive = question(corrupt=100, threat="adaptive")
    static = question(corrupt=100, threat="static", delta_coalition="0.000000001")
    nobody = question()
    assert plan_sketch(adaptive).leverage == 1 / (976 - 100)
    assert plan_sketch(nobody).sigma < plan_sketch(static).sigma < plan_sketch(adaptive).sigma
    assert plan_second_moment(adaptive).leverage == 1 / (1_000_000 - 100)


@pytest.mark.parametrize("allowance", ["on", "off"])
@pytest.mark.parametrize("clients", [1_000, 10_000, 100_000, 1_000_000])
def test_a_plan_with_one_corrupt_client_in_twenty_holds_at_its_own_rows(clients: int, allowance: str) -> None:
    corrupt = {"corrupt": clients // 20, "threat": "static"}
    asked = question(clients, None, delta_coalition="0.0000005", **corrupt)
    option = plan_sketch(asked)
    rows = option.mechanism.num_rows
    if allowance == "on":
        assert clients // rows > 3 * asked.context("osnap").claim.quota(rows)
        assert 0.999 < option.epsilon <= 1
    else:  # without a part of delta for rows that are crowded by chance, all of them may share one
        with pytest.raises(RowUnderfilledError, match=r"-\d+ honest clients|0 honest clients"):
            plan_sketch(question(clients, rows, delta_coalition="0", **corrupt))


def test_the_yardsticks_are_those_of_the_design() -> None:
    # ltm: local over ours 30, published over ours 3 for ten columns and 7 for fifty; one entry a column.
    option, others = plan_sketch(question()), yardsticks(question())
    assert others.local == pytest.approx(8.449, abs=5e-4)
    assert others.central == pytest.approx(8.449 * math.sqrt(1024 / 1e6), rel=1e-4)
    assert others.central < option.sigma < 1.001 * others.central
    assert others.published is not None
    assert others.published / option.sigma == pytest.approx(3.02, abs=0.01)
    fifty = yardsticks(question(columns=50)).published
    assert fifty is not None
    assert fifty / option.sigma == pytest.approx(7.1, abs=0.1)
    four = yardsticks(question(sparsity=4)).published
    assert four == pytest.approx(math.sqrt(464.7185147183 / 10), rel=1e-9)
    assert others.published_epsilon == pytest.approx(0.305, abs=5e-4)


def test_a_yardstick_that_is_not_defined_says_why() -> None:
    others = yardsticks(question(1_000, 64))
    assert others.published is None
    assert others.published_epsilon is None
    assert "undefined" in others.undefined
    isolated = yardsticks(question(100_000, None, corrupt=50_000, threat="adaptive"), rows=1)
    assert isolated.published_epsilon is not None


def test_the_best_number_of_rows_is_the_vector_and_no_other_number_does_better() -> None:
    asked = question(rows=None)
    context = asked.context("osnap")
    assert best_rows(context) == pytest.approx(1400.724, abs=5e-4)
    assert best_of(asked) == 1401
    best = best_error(asked)
    for factor in (0.5, 0.8, 1.25, 2.0):
        rows = best_rows(context) * factor
        sigma = sensitivity(context) / mu_of(context.claim) * math.sqrt(rows / 1e6)
        assert best < error(asked, rows, sigma)


def test_the_rule_keeps_three_rows_a_column_and_thirty_clients_a_row() -> None:
    assert best_of(question(100_000, None, columns=50)) == 150
    assert best_of(question(3_000, None, columns=50)) == 100
    assert best_of(question(20, None)) == 2


def test_products_beat_the_sketch_by_the_ratio_of_the_design() -> None:
    asked = question()
    ratio = best_error(asked) / plan_second_moment(asked).predicted.squared_error
    assert ratio == pytest.approx(16 * 1_000_000 / 10, rel=0.01)
    # A clip counter's price is 1 + 0.2^2 of the variance, here that of the products alone.
    counted = plan_second_moment(replace(asked, clip_count_weight=None)).predicted.squared_error
    assert best_error(asked) / counted == pytest.approx(16 * 1_000_000 / 10 / 1.04, rel=0.01)


@pytest.mark.parametrize("sparsity", [1, 4])
def test_a_sketch_that_counts_clipped_rows_says_how_exactly_and_pays_for_it(sparsity: int) -> None:
    asked = question(10_000, 64, sparsity=sparsity)
    bare, counting = (plan_sketch(replace(asked, clip_count_weight=weight)) for weight in ("0", None))
    assert "clipped rows" not in bare.deviations
    # sqrt(1.04)/(.2 mu) where leverages are all n/m; a planned leverage is up to a fifth above.
    assert counting.deviations["clipped rows"] == pytest.approx(21.54, rel=0.01 if sparsity == 1 else 0.12)
    assert 1.015 < counting.sigma / bare.sigma < 1.0199
    assert counting.report_bytes["uniform"] == bare.report_bytes["uniform"] + 8 * asked.num_servers


def sphere(clients: int, columns: int, generator: np.random.Generator) -> FloatArray:
    """Return rows of norm 1 in all directions alike."""
    rows = generator.normal(size=(clients, columns))
    unit: FloatArray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


@pytest.mark.parametrize(("rows", "sigma"), [(25, 0.05), (50, 0.3), (100, 1.0)])
@pytest.mark.slow
def test_the_predicted_error_of_a_sketch_is_what_a_simulation_finds(rows: int, sigma: float) -> None:
    # 400 sketches; the mean of their errors varies by about 2 %, so 10 % is five deviations.
    clients, columns, generator = 2_000, 4, np.random.default_rng(7)
    data = sphere(clients, columns, generator)
    errors = []
    for _ in range(400):
        noised = (data + generator.normal(size=data.shape) * sigma) * generator.choice([-1.0, 1.0], (clients, 1))
        sketch = noised[generator.permutation(clients)].reshape(rows, clients // rows, columns).sum(axis=1)
        gram = sketch.T @ sketch - clients * sigma**2 * np.eye(columns)
        errors.append(float(((gram - data.T @ data) ** 2).sum()))
    asked = question(clients, rows, columns)
    predicted = error(asked, rows, sigma)
    assert np.mean(errors) == pytest.approx(predicted, rel=0.1)
    assert np.mean(errors) != pytest.approx(error(asked, rows * 1.25, sigma), rel=0.1)


def test_the_predicted_error_of_second_moments_is_that_of_the_noise_the_mechanism_draws() -> None:
    asked = question(50, None, 4, epsilon="8")
    option = plan_second_moment(asked)
    mechanism = option.mechanism
    draws = 400
    noise = measurement_of(mechanism, 4).noise(50 * draws, expand(bytes(32), "plan"))
    sketches = noise.reshape(draws, 50, -1).sum(axis=1)
    errors = [float((measurement_of(mechanism, 4).decode(sketch[np.newaxis]) ** 2).sum()) for sketch in sketches]
    # Each error is a weighted sum of ten squares: five deviations of the mean of 400 are 12 %.
    assert np.mean(errors) == pytest.approx(option.predicted.squared_error, rel=0.12)


def test_a_regression_loses_what_is_predicted_to_first_order() -> None:
    clients, columns, generator = 20_000, 6, np.random.default_rng(8)
    data = sphere(clients, columns, generator)
    weights = np.array([0.6, 0.0, -0.5, 0.3, 0.2])
    data[:, 5] = data[:, :5] @ weights + 0.3 * data[:, 5]
    gram = data.T @ data
    sigma, lost, squared = 1.0, [], []
    for _ in range(200):
        noise = np.triu(generator.normal(size=(columns, columns)) * math.sqrt(clients) * sigma, 1)
        noise = noise + noise.T + np.diag(generator.normal(size=columns) * math.sqrt(2 * clients) * sigma)
        noisy = gram + noise
        found = np.linalg.solve(noisy[:5, :5], noisy[:5, 5])
        best = np.linalg.solve(gram[:5, :5], gram[:5, 5])
        lost.append(float((found - best) @ gram[:5, :5] @ (found - best)) / clients * columns)
        squared.append(float((noise**2).sum()))
    asked = replace(question(clients, None, columns), features=5, rank=2)
    predicted = predict_moments(asked.context("osnap"), float(np.mean(squared)))
    # |weights|^2 is .74 instead of 1, and the columns' variances are not quite equal: first order, within a factor.
    assert predicted.ridge / 1.5 < np.mean(lost) < predicted.ridge * 1.5


def test_no_direction_loses_more_energy_than_predicted() -> None:
    clients, columns, generator = 2_000, 6, np.random.default_rng(9)
    data = sphere(clients, columns, generator) * np.array([1, 1, 0.5, 0.3, 0.3, 0.1])
    gram, asked = data.T @ data, replace(question(clients, None, columns), rank=2)
    trace = float(np.trace(gram))
    for _ in range(100):
        noise = generator.normal(size=(columns, columns)) * 100
        noise = noise + noise.T
        top = np.linalg.eigh(gram + noise)[1][:, -2:]
        lost = (float(np.linalg.eigvalsh(gram)[-2:].sum()) - float(np.trace(top.T @ gram @ top))) / trace
        allowed = predict_moments(asked.context("osnap"), float((noise**2).sum())).low_rank * clients / trace
        assert lost <= allowed or allowed >= 1


@pytest.mark.parametrize("form", ["uniform", "seeded"])
@pytest.mark.parametrize("servers", [2, 3, 5])
def test_the_bytes_of_a_report_are_those_of_the_wire(form: str, servers: int) -> None:
    task = make_task("osnap", columns=7, num_servers=servers, share_form=form, suite="mlkem768-x25519", check=False)
    expected = sum(block_bytes(task, server, 1) for server in range(servers))
    assert report_bytes(task.num_words, servers)[form] == expected
    noised = task.encode(np.zeros((1, 7)), source("plan bytes"))[0]
    report = make_report(task, noised, 1, source("plan bytes"))
    assert sum(len(share) for share in report.shares) < expected


def test_headroom_names_the_largest_cohort_that_a_task_can_have() -> None:
    asked = replace(question(1_000, 10), row_bound="1", max_clients=2_000)
    option = plan_second_moment(asked)
    mechanism = option.mechanism
    assert option.max_clients == MOST_CLIENTS or option.max_clients >= asked.cohort
    large = mechanism.model_copy(update={"row_bound": "1", "fraction_bits": 15})
    assert measurement_of(large, 10).log_wrap_probability(option.max_clients) >= measurement_of(
        mechanism, 10
    ).log_wrap_probability(option.max_clients)
    assert option.headroom_bits > 0


def test_a_senseless_question_is_refused() -> None:
    for changes in (
        {"columns": 0},
        {"num_servers": 1},
        {"rank": 11},
        {"features": 11},
        {"row_norm": 1.5},
        {"row_norm": 0.0},
        {"max_clients": 10},
        {"max_clients": MOST_CLIENTS + 1},
    ):
        with pytest.raises(InvalidTaskError):
            replace(question(), **changes)  # type: ignore[arg-type]
    with pytest.raises(InvalidTaskError):
        question(epsilon="-1").context("osnap")
    with pytest.raises(RowUnderfilledError):
        plan_sketch(question(1_000, 1024))
