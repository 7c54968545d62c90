"""`lintra audit release`: what it prints, and that its exit status is its verdict."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lintra_analysis.kinds.joint_question import JointQuestion, plan_ron_gauss
from lintra_audit.release.cases import MAX_NUMBERS, cases_of_task, planted_faults, seams_of
from lintra_audit.release.cli import app
from lintra_audit.release.run import audit_case
from lintra_protocol.errors import FalseClaimError
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms import Osnap
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task
from support import SEED, make_task
from support.measured import calibrated_for

FEW = ["--trials", "2000", "--seed", SEED.hex()]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["release", *FEW, *arguments])


def file_of(task: Task, folder: Path) -> str:
    path = folder / "task.json"
    path.write_bytes(task.canonical() + b"\n")
    return str(path)


def test_a_clean_audit_ends_with_status_0_and_says_so() -> None:
    result = run("--case", "pair", "--case", "thin-row")
    assert result.exit_code == 0
    assert "verdict: pass" in result.stdout
    assert "refused" in result.stdout
    assert SEED.hex()[:20] in result.stdout


def test_an_audit_of_a_fault_ends_with_status_1_and_says_what_it_found() -> None:
    result = run("--case", "pair", "--fault", "missing-noise")
    assert result.exit_code == 1
    assert "verdict: fail" in result.stdout
    assert "pair: optimal test: mu is at least" in result.stdout
    assert "planted fault: missing-noise" in result.stdout


def test_json_holds_every_number_of_the_table() -> None:
    document = json.loads(run("--case", "pair", "--json").stdout)
    assert document["verdict"] == "pass"
    assert document["seed"] == SEED.hex()
    (case,) = document["cases"]
    assert case["epsilon_lower"] < case["epsilon"] <= float(case["epsilon_of_task"])
    assert case["optimal"]["mu_lower"] < case["optimal"]["mu"]
    assert {check["name"] for check in case["checks"]} == {
        "optimal test", "black box", "encoder", "lattice", "noise law",
    }  # fmt: skip


@pytest.mark.slow
def test_an_audit_of_the_published_calibration_prints_both_epsilons_and_what_the_runs_say() -> None:
    result = run("--case", "published")
    assert result.exit_code == 0
    assert "claimed epsilon 1 by Theorem 3.4, exactly 1.1150" in " ".join(result.stdout.split())
    assert "not refuted by so few runs" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    "arguments", [["--case", "none"], ["--fault", "none"], ["--trials", "10"], ["--seed", "00"], ["--seed", "x" * 64]]
)
@pytest.mark.grid(2)
def test_a_wrong_option_is_refused_with_status_2(arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


def test_a_small_task_is_audited_as_it_is(tmp_path: Path) -> None:
    task = make_task("sum", columns=2, min_clients=8, epsilon=4, delta=1e-5)
    document = json.loads(run("--task", file_of(task, tmp_path), "--json").stdout)
    assert document["subject"] == "the task itself"
    assert document["cases"][0]["mu"] == pytest.approx(task.privacy(8).mu)
    assert run("--task", file_of(task, tmp_path), "--case", "pair").exit_code == 2


@pytest.mark.parametrize("kind", ["sum", "osnap", "second_moment"])
@pytest.mark.slow
def test_a_large_task_is_audited_through_a_twin_with_its_mu(kind: str) -> None:
    task = make_task(kind, columns=6, rows=5, min_clients=1000, max_corrupt_clients=3, epsilon=2)
    (case, *_), said = cases_of_task(task)
    assert "twin" in said
    assert "1000 clients" in said
    assert case.num_clients * case.task.num_words <= MAX_NUMBERS
    assert case.task.mechanism.kind == kind
    assert case.task.privacy(case.num_clients).mu == pytest.approx(task.privacy(1000).mu, rel=1e-4)
    assert audit_case(case, 2000, SEED).passed


TWINS = {
    "sum": {},
    "osnap": {"rows": 5},
    "second_moment": {},
    "osnap_published": {"rows": 4, "sparsity": 2},
    "histogram": {},
    "ron_gauss": {},
    "ron_gauss_centred": {},
}


@pytest.mark.parametrize("kind", TWINS)
@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
@pytest.mark.grid(3)
@pytest.mark.slow
def test_the_twin_of_every_gaussian_mechanism_has_the_tasks_mu_and_passes(kind: str, neighbours: str) -> None:
    claim = Claim(epsilon="2", delta="0.001", neighbours=neighbours, min_clients=1000, max_corrupt_clients=3)
    task = make_task(kind, columns=4, claim=claim, **TWINS[kind])
    (case, *_), said = cases_of_task(task)
    assert "twin" in said
    assert case.task.mechanism.kind == kind
    assert case.task.claim.neighbours == neighbours
    assert case.task.privacy(case.num_clients).mu == pytest.approx(task.privacy(1000).mu, rel=2e-3)
    assert audit_case(case, 2000, SEED).passed


@pytest.mark.slow
def test_the_twin_of_a_task_with_wishart_noise_keeps_its_claim() -> None:
    task = make_task("second_moment_wishart", columns=4, min_clients=1000, max_corrupt_clients=3)
    (case, *_), said = cases_of_task(task)
    assert "with the task's claim" in said
    assert case.task.claim.epsilon == task.claim.epsilon
    assert audit_case(case, 2000, SEED).passed


def joint_task(**changes: object) -> Task:
    columns = (
        *(Column(name=f"x{number}", lower="-1", upper="1") for number in range(4)),
        Column(name="colour", lower="0", upper="2", kind="category", levels=("red", "green", "blue")),
        Column(name="kind", lower="0", upper="2", kind="category", levels=("a", "b", "c")),
    )
    claim = Claim(epsilon="2", delta="0.00001", min_clients=500)
    question = JointQuestion(**{"label": "kind", "dimension": 3} | changes)  # type: ignore[arg-type]
    asked = plan_ron_gauss(claim, columns, question, bytes(32))
    return make_task(calibrated_for(asked, len(columns), claim, 1000), columns=columns, claim=claim)


@pytest.mark.parametrize(
    "changes",
    [{}, {"covariance": "per_class"}, {"label": "x0", "bins": 0}, {"label": None}, {"dimension": 7, "bins": 0}],
)
@pytest.mark.grid(3)
@pytest.mark.slow
def test_the_twin_of_joint_sums_keeps_every_option(changes: dict[str, object]) -> None:
    task = joint_task(**changes)
    (case, *_), _ = cases_of_task(task)
    own, twin = task.mechanism.model_dump(), case.task.mechanism.model_dump()
    assert bool(own["frame_seed"]) == bool(twin["frame_seed"])
    assert own["covariance"] == twin["covariance"]
    assert any(own["bins"]) == any(twin["bins"])
    assert (own["label"] >= 0) == (twin["label"] >= 0)
    assert case.task.privacy(case.num_clients).mu == pytest.approx(task.privacy(500).mu, rel=2e-3)
    assert audit_case(case, 2000, SEED).passed


@pytest.mark.slow
def test_every_planted_fault_is_an_option_of_the_command() -> None:
    for name in planted_faults():
        assert seams_of(name) is planted_faults()[name].seams
    result = run("--case", "ron-gauss", "--fault", "bare-counts")
    assert result.exit_code == 1
    assert "ron-gauss: noise law" in " ".join(result.stdout.split())


def test_the_twin_of_a_task_with_very_much_noise_still_has_its_mu() -> None:
    task = make_task("sum", columns=9, min_clients=100_000, max_clients=100_000, epsilon=0.02)
    (case, *_), _ = cases_of_task(task)
    assert case.task.mechanism.fraction_bits < task.mechanism.fraction_bits
    assert case.task.privacy(case.num_clients).mu == pytest.approx(task.privacy(100_000).mu, rel=1e-4)


@pytest.mark.slow
def test_the_twin_of_a_sketch_with_several_entries_per_column_keeps_the_claim() -> None:
    claim = Claim(epsilon="1", delta="0.000001", min_clients=400)
    sketch = calibrated_for(Osnap(row_bound="1", fraction_bits=0, sigma=64, rows=9, sparsity=3), 3, claim, 1000)
    task = make_task(sketch, claim=claim)
    (case, *_), said = cases_of_task(task)
    assert "with the task's claim" in said
    assert case.task.claim.epsilon == task.claim.epsilon
    assert audit_case(case, 2000, SEED).passed


def test_a_task_with_a_false_promise_is_refused_before_any_run() -> None:
    task = make_task("sum", epsilon=1)
    boast = task.claim.model_copy(update={"epsilon": "0.5"})
    with pytest.raises(FalseClaimError):
        cases_of_task(task.model_copy(update={"claim": boast}))
