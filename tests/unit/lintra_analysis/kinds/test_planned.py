"""Every mechanism is planned for with all its options: the deviations are those of the noise that it really draws."""

import json
from dataclasses import replace

import numpy as np
import pytest

from lintra_analysis.kinds.kind import KINDS
from lintra_analysis.kinds.planned import PlannedMechanism, report_bytes
from lintra_analysis.plan.flags import PlanFlags
from lintra_protocol import command
from lintra_protocol.crypto.ring import FloatArray, from_ring
from lintra_protocol.errors import FalseClaimError, InvalidTaskError, RowUnderfilledError
from lintra_protocol.mechanisms import MECHANISMS, RangeFinder
from lintra_protocol.mechanisms.layout import CLIPPED
from lintra_protocol.mechanisms.measurement import Measurement
from support import source
from support.measured import layout_of

CLIENTS, COLUMNS, DRAWS = 600, 3, 2000

OPTIONS: dict[str, tuple[str, dict[str, object]]] = {
    "osnap": ("osnap", {"rows": 6}),
    "osnap, s=2": ("osnap", {"rows": 6, "sparsity": 2}),
    "osnap_published": ("osnap_published", {"rows": 2}),
    "osnap_published, s=2": ("osnap_published", {"rows": 4, "sparsity": 2}),
    "sum": ("sum", {}),
    "sum_laplace": ("sum_laplace", {}),
    "second_moment": ("second_moment", {}),
    "second_moment, intercept": ("second_moment", {"intercept": "0.5"}),
    "second_moment, trace": ("second_moment", {"trace": True}),
    "second_moment, both": ("second_moment", {"intercept": "0.5", "trace": True}),
    "second_moment_wishart": ("second_moment_wishart", {}),
    "histogram": ("histogram", {"bins": 7}),
    "histogram_laplace": ("histogram_laplace", {"bins": 7}),
    "newton_step": ("newton_step", {}),
    "range_finder": ("range_finder", {}),
    "range_finder, all": ("range_finder", {"intercept": "0.5", "trace": True, "label": 1, "columns": 5}),
    "ron_gauss": ("ron_gauss", {"bins": 0}),
    "ron_gauss, classes": ("ron_gauss", {"label": 2, "bins": 4, "covariance": "per_class"}),
    "ron_gauss, number": ("ron_gauss", {"label": 1, "bins": 4, "dimension": 2}),
    "ron_gauss_centred": ("ron_gauss_centred", {"label": 3, "bins": 4}),
}


def question(**changes: object) -> PlanFlags:
    plain = PlanFlags(columns=COLUMNS, clients=CLIENTS, epsilon="2", delta="0.000001", corrupt=0)
    return replace(plain, **changes)  # type: ignore[arg-type]


def drawn(option: PlannedMechanism, asked: PlanFlags, kind: str) -> FloatArray:
    """Return the noise of released words: of one client, times the root of how many add up, and of every server."""
    mechanism, measurement = option.mechanism, asked.context(kind).measured(option.mechanism)
    behind = np.full(measurement.layout.num_released, CLIENTS * getattr(mechanism, "sparsity", 1) / mechanism.num_rows)
    if CLIPPED in measurement.layout:  # behind the total of a sketch stand all clients, and behind a row a part of them
        behind[measurement.layout.released(CLIPPED)] = CLIENTS
    alone = measurement.noise(DRAWS, source("planned noise"))[:, : measurement.layout.num_released]
    share = np.zeros(alone.shape, np.uint64)
    for server in range(asked.num_servers if measurement.servers_add_noise else 0):
        measurement.add_server_noise(share, source(f"planned floor {server}"))
    noise: FloatArray = alone * np.sqrt(behind) + from_ring(share)
    return noise


def asked_cells(option: PlannedMechanism) -> int:
    return option.mechanism.cells[0]  # type: ignore[attr-defined, no-any-return]


def measured(kind: str, values: FloatArray, option: PlannedMechanism) -> dict[str, float]:
    """Return the deviations of decoded noise, by what the numbers are."""
    if kind.startswith("osnap"):
        return {"entry": float(values.std())}
    if kind == "sum":
        return {"sum": float(values.std()), "mean": float(values.std()) / CLIENTS}
    if kind == "histogram":
        cells = asked_cells(option)
        level = values[:, : cells + 1] - values[:, : cells + 1].mean(axis=1, keepdims=True)
        below, present = level[:, : cells // 2].sum(axis=1), level[:, :cells].sum(axis=1)
        middle = float((below - cells // 2 / cells * present).std()) / CLIENTS
        cell = float(values.std())
        return {"cell": cell, "share of a cell": cell / CLIENTS, "share below an edge": middle}
    if kind.startswith("second_moment"):
        inner = values[:, -COLUMNS:, -COLUMNS:]
        found = {"product": inner[:, 0, 1:].std(), "square": inner[:, range(COLUMNS), range(COLUMNS)].std()}
        if values.shape[-1] > COLUMNS:
            found["sum"] = values[:, 0, 1:].std() / 0.5
            found["mean"] = found["sum"] / CLIENTS
        return {name: float(value) for name, value in found.items()}
    if kind == "newton_step":
        first, second = np.triu_indices(values.shape[2], 1)
        return {"gradient": float(values[:, 0].std()), "hessian": float(values[:, 1 + first, second].std())}
    if isinstance(option.mechanism, RangeFinder):
        return measured_range(option.mechanism, values)
    if kind == "ron_gauss_centred":
        size = option.mechanism.num_coordinates  # type: ignore[attr-defined]
        first, second = np.triu_indices(size)
        blocks = values.reshape(DRAWS, -1, first.size)
        return {
            "product": float(blocks[:, :, first != second].std()),
            "square": float(blocks[:, :, first == second].std()),
        }
    joint = option.mechanism.joint  # type: ignore[attr-defined]
    counts, sums, products, _ = joint.ends
    first, second = np.triu_indices(joint.num_coordinates)
    blocks = values[:, sums:products].reshape(DRAWS, -1, first.size)
    found = {
        "sum": values[:, counts:sums].std(),
        "product": blocks[:, :, first != second].std(),
        "square": blocks[:, :, first == second].std(),
    }
    if counts:
        found["count"] = values[:, :counts].std()
    if joint.bins:
        found["cell"] = values[:, products:].std()
    return {name: float(value) for name, value in found.items()}


def measured_range(mechanism: RangeFinder, values: FloatArray) -> dict[str, float]:
    parts = [mechanism.unpack(drawn) for drawn in values]
    found = {"projected product": float(np.std([part.projected for part in parts]))}
    if mechanism.has_intercept:
        found["sum"] = float(np.std([part.sums for part in parts]))
        found["mean"] = found["sum"] / CLIENTS
    if mechanism.targets:
        found["product with the target"] = float(np.std([part.targets for part in parts]))
    if mechanism.trace:
        found["trace"] = float(np.std([part.trace for part in parts]))
    return found


def clip_count(measurement: Measurement, noise: FloatArray) -> dict[str, float]:
    """Return the deviation of the drawn noise in a count of clipped rows, in rows; nothing without a count."""
    if CLIPPED not in measurement.layout:
        return {}
    counts = [measurement.clipped_rows(np.rint(row)[np.newaxis].astype(np.int64)) for row in noise]
    return {"clipped rows": float(np.std(counts))}


# A client's part of Laplace noise has tails that are far too heavy for so few draws.
@pytest.mark.parametrize("name", [name for name in OPTIONS if "laplace" not in name])
@pytest.mark.grid(3)
@pytest.mark.slow
def test_the_planned_deviations_are_those_of_the_noise_that_is_drawn(name: str) -> None:
    # Every deviation is that of at least 2000 numbers: 1.6 % of error, 2.5 % for Wishart noise; six of them.
    kind, changes = OPTIONS[name]
    asked = question(**changes)
    option = asked.planned(kind)
    noise, measurement = drawn(option, asked, kind), asked.context(kind).measured(option.mechanism)
    decoded = np.array([measurement.decode(np.tile(row, (measurement.num_rows, 1))) for row in noise])
    found = measured(kind, decoded, option) | clip_count(measurement, noise)
    limit = 0.15 if kind == "second_moment_wishart" else 0.1
    assert found.keys() == option.deviations.keys() or kind == "ron_gauss_centred"
    for part, value in found.items():
        assert value == pytest.approx(option.deviations[part], rel=limit), part
        assert value != pytest.approx(option.deviations[part] * 1.3, rel=limit), part


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.grid(2)
def test_every_plan_states_bytes_limits_and_a_kept_promise(name: str) -> None:
    kind, changes = OPTIONS[name]
    asked = question(**changes)
    option = asked.planned(kind)
    words = layout_of(option.mechanism, len(asked.context(kind).columns)).num_noised
    alone = report_bytes(words, asked.num_servers)
    assert option.report_bytes["seeded"] >= alone["seeded"]
    assert (option.report_bytes == alone) == (kind != "ron_gauss_centred")
    assert 0.9 < option.epsilon / 2 <= 1 or kind == "osnap_published"
    assert option.epsilon <= 2
    assert option.max_clients >= asked.cohort
    assert (option.predicted is None) == (
        kind in ("sum", "sum_laplace", "histogram", "histogram_laplace", "newton_step", "range_finder")
    )


def test_both_rounds_together_cost_what_was_promised_and_products_gain_by_the_second() -> None:
    asked = question(label=3, bins=0)
    both, one = asked.planned("ron_gauss_centred"), asked.planned("ron_gauss")
    assert both.deviations.keys() == {"sum", "count", "product", "square", "clipped rows"}
    assert both.report_bytes["uniform"] > one.report_bytes["uniform"]
    assert both.epsilon <= 2


def test_a_plan_of_projected_rows_makes_no_frame_and_projects_all_the_same() -> None:
    option = question(columns=784, dimension=200, bins=0).planned("ron_gauss")
    assert option.mechanism.model_dump()["dimension"] == 200


def test_every_mechanism_has_a_plan_of_its_own() -> None:
    assert set(KINDS.all()) == set(MECHANISMS) == {kind for kind, _ in OPTIONS.values()}


def test_what_is_not_possible_is_refused_in_words() -> None:
    with pytest.raises(
        InvalidTaskError, match="there is no mechanism 'luck'; there are histogram, histogram_laplace, newton_step"
    ):
        question().planned("luck")
    with pytest.raises(RowUnderfilledError):
        question(columns=590).planned("second_moment_wishart")
    with pytest.raises(FalseClaimError):
        question(columns=1, rows=2).planned("osnap_published")
    with pytest.raises(InvalidTaskError, match="trace"):
        question(trace=True, neighbours="zero-out").planned("second_moment")


def lintra(*arguments: str) -> int:
    try:
        command.main(["plan", *arguments])
    except SystemExit as exit_:
        return int(exit_.code or 0)
    return 0


@pytest.mark.parametrize("kind", sorted(set(MECHANISMS) - {"osnap", "second_moment"}))
@pytest.mark.slow
def test_the_command_plans_every_mechanism(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--mechanism", kind, "--columns", "3", "--clients", "6000", "--rows", "4", "--label", "2")
    assert lintra(*asked, "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["mechanism"]["kind"] == kind
    assert {"deviations", "predicted", "uniform_bytes", "epsilon", "max_clients"} < plan.keys()
    assert lintra(*asked) == 0
    assert "deviation of the noise in a released" in capsys.readouterr().out


def test_the_command_passes_the_options_of_second_moments_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert lintra("--mechanism", "second_moment", "--intercept", "0.5", "--trace", "--json") == 0
    plan = json.loads(capsys.readouterr().out)["second_moment"]
    assert plan["mechanism"]["intercept"] == "0.5"
    assert plan["mechanism"]["trace"] is True
    assert plan["deviations"].keys() == {"product", "square", "sum", "mean", "clipped rows"}


def test_a_wish_that_a_mechanism_cannot_be_measured_by_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert lintra("--solve", "clients", "--error", "0.1", "--mechanism", "sum") == 1
    assert "which sum does not release" in capsys.readouterr().err
    assert lintra("--mechanism", "luck") == 1
    assert "there is no mechanism" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["range_finder, all", "ron_gauss, number", "ron_gauss_centred", "newton_step"])
def test_without_a_word_about_noise_servers_add_a_floor_and_the_expected_errors_count_it(name: str) -> None:
    kind, changes = OPTIONS[name]
    asked = question(**changes)
    assert asked.context(kind).noise == "both"
    both, one = asked.planned(kind), replace(asked, noise="clients").planned(kind)
    assert both.mechanism.floor > 0
    assert both.alone is not None
    assert 0.99 < both.alone.epsilon / 6 <= 1
    # Three servers: what section "What it costs" of docs/proofs/servers.md says, 12.9 % at epsilon 2.
    for part, deviation in both.deviations.items():
        assert 1.1 < deviation / one.deviations[part] < 1.14, part


def test_a_plan_of_a_wide_task_or_a_small_epsilon_is_verified_or_says_why_not() -> None:
    wide = question(columns=1000, clients=1000).planned("range_finder")
    assert wide.verified is not None
    assert "more than a megabyte" in wide.not_verified
    assert "'seeded' shares take" in wide.not_verified
    small = question(columns=100, clients=100_000, epsilon="0.01", corrupt=5000).planned("second_moment")
    assert small.verified is not None
    assert small.not_verified == ""
