"""A task's own release, recomputed from its matrix by another route; and `lintra audit task`."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from lintra_audit.exact.gaussian_release import sketch_of, worst_coalition
from lintra_audit.release.cli import app
from lintra_audit.task.cli import audit_matrix, audit_task
from lintra_protocol.errors import RowUnderfilledError
from lintra_protocol.mechanisms import Osnap, OsnapPublished
from lintra_protocol.mechanisms.noise_law import NoisyMeasurement
from lintra_protocol.mechanisms.osnap import OsnapLaw
from lintra_protocol.mechanisms.second_moment_wishart import WishartLaw
from lintra_protocol.privacy.statement import Claim, PrivacyStatement
from lintra_protocol.task import Task
from lintra_protocol.transforms.base import Ones
from lintra_protocol.transforms.osnap import BalancedOsnap
from support import SEED, make_task


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [*arguments], input=stdin)


TASKS = [
    make_task("sum"),
    make_task("second_moment", min_clients=12, max_corrupt_clients=2),
    make_task("osnap", rows=2, min_clients=20, max_corrupt_clients=3),
    make_task("osnap", rows=4, sparsity=2, min_clients=40),
    make_task("histogram", min_clients=12, max_corrupt_clients=2),
    make_task("ron_gauss", min_clients=60, max_corrupt_clients=1),
    make_task("ron_gauss_centred", min_clients=60, max_corrupt_clients=1),
    make_task("osnap_published", rows=2, sparsity=1, min_clients=400, columns=2),
]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.mechanism.kind}-{task.mechanism.num_rows}")
@pytest.mark.parametrize("more", [0, 7])
def test_a_release_recomputed_from_its_matrix_has_the_stated_privacy(task: Task, more: int) -> None:
    audit = audit_task(task, task.claim.min_clients + more, SEED)
    assert audit.passed
    assert audit.mu == pytest.approx(audit.stated.mu, rel=1e-8, abs=0)
    assert audit.recomputed.leverage == pytest.approx(audit.stated.leverage, rel=1e-8, abs=0)
    assert 0 < audit.absence.lo <= audit.absence.hi < 1


def test_copies_with_noise_of_their_own_are_accounted_for_block_by_block() -> None:
    task = make_task("osnap_published", rows=4, sparsity=2, min_clients=2000, max_clients=5000, columns=2)
    audit = audit_task(task, 2001, SEED)
    assert audit.recomputed.layout == "block"
    assert audit.mu == pytest.approx(audit.stated.mu, rel=1e-8, abs=0)
    assert audit.passed


def test_against_a_coalition_the_stated_bound_is_above_what_one_really_reaches_and_not_far() -> None:
    task = make_task("osnap", rows=4, sparsity=2, min_clients=60, max_corrupt_clients=2)
    audit = audit_task(task, 60, SEED)
    assert audit.passed
    assert audit.corrupt == 2
    assert 0.98 * audit.stated.mu < audit.mu <= audit.stated.mu


def test_the_coalition_that_is_found_is_the_worst_of_all_pairs() -> None:
    sketch = sketch_of(BalancedOsnap(4, 24, SEED, 2))
    found = sketch.without(worst_coalition(sketch, 2)).leverages().max()
    victim = int(np.argmax(sketch.leverages()))
    others = [i for i in range(24) if i != victim]
    alone = np.zeros((4, 24))
    np.put_along_axis(alone.T, sketch.row_numbers, sketch.signs.astype(float), axis=1)
    every = []
    for i in others:
        for j in others:
            if i < j:
                kept = np.delete(alone, [i, j], axis=1)
                every.append(alone[:, victim] @ np.linalg.pinv(kept @ kept.T) @ alone[:, victim])
    assert found >= max(every) * (1 - 1e-9)


def test_a_matrix_that_leaks_more_than_the_task_says_is_noticed() -> None:
    """The claim is set against a matrix with emptier rows: the statement is consistent and the claim refuted."""
    task = make_task("osnap", rows=2, min_clients=20)
    audit = audit_matrix(task, BalancedOsnap(2, 10, SEED))
    assert audit.consistent
    assert audit.claim.verdict == "VIOLATION"
    assert not audit.passed


def test_less_noise_than_stated_is_noticed() -> None:
    task = make_task("osnap", rows=2, min_clients=20)
    weaker = task.mechanism.model_copy(update={"sigma": int(task.mechanism.sigma * 0.98)})
    audit = audit_matrix(task.model_copy(update={"mechanism": weaker}), BalancedOsnap(2, 20, SEED))
    assert audit.claim.verdict == "VIOLATION"


class Forgetful(Osnap):
    """A mechanism that states the leverage of twice as many clients."""

    @property
    def noise_law(self) -> OsnapLaw:
        return _ForgetfulLaw(self.sigma, self)


class _ForgetfulLaw(OsnapLaw):
    def release_privacy(self, measured, matrix, *, as_planned):  # type: ignore[no-untyped-def]
        twice = BalancedOsnap(matrix.rows, 2 * matrix.num_clients, SEED)
        return super().release_privacy(measured, twice, as_planned=as_planned)


def test_a_statement_below_the_recomputed_mu_is_inconsistent() -> None:
    task = make_task("osnap", rows=2, min_clients=20)
    forgetful = Forgetful.model_validate(task.mechanism.model_dump())
    audit = audit_matrix(task.model_copy(update={"mechanism": forgetful}), BalancedOsnap(2, 20, SEED))
    assert not audit.consistent
    assert not audit.passed


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
@pytest.mark.grid(2)
@pytest.mark.slow
def test_wishart_noise_is_audited_by_its_own_curve(neighbours: str) -> None:
    claim = Claim(epsilon="1", delta="0.000001", neighbours=neighbours, min_clients=60, max_corrupt_clients=2)
    task = make_task("second_moment_wishart", claim=claim)
    audit = audit_task(task, 60, SEED)
    assert audit.passed
    assert audit.corrupt == 2
    # The statement lies above the whole curve and pays for the grid, so it is a little larger.
    assert 0.97 * audit.stated.mu < audit.mu <= audit.stated.mu
    assert audit.absence is None
    (finding,) = audit.findings
    assert 0.4e-6 < finding.found.hi < 1e-6


@pytest.mark.slow
def test_smaller_examples_than_stated_are_noticed() -> None:
    task = make_task("second_moment_wishart", min_clients=60)
    weaker = task.mechanism.model_copy(update={"sigma": int(task.mechanism.sigma * 0.9)})
    audit = audit_matrix(task.model_copy(update={"mechanism": weaker}), Ones(60))
    assert audit.claim.verdict == "VIOLATION"
    assert not audit.passed


@pytest.mark.slow
def test_a_wishart_statement_below_the_curve_is_inconsistent(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = WishartLaw.release_privacy

    def optimistic(law: WishartLaw, measured: NoisyMeasurement, matrix: Ones, *, as_planned: bool) -> PrivacyStatement:
        return honest(law, measured, Ones(matrix.num_clients * 21 // 20), as_planned=as_planned)

    monkeypatch.setattr(WishartLaw, "release_privacy", optimistic)
    audit = audit_matrix(make_task("second_moment_wishart", min_clients=60), Ones(60))
    assert not audit.consistent


@pytest.mark.slow
def test_an_audit_without_the_absent_client_is_told_in_words(tmp_path: Path) -> None:
    file = tmp_path / "task.json"
    file.write_bytes(make_task("second_moment_wishart", min_clients=60).canonical())
    result = run("task", str(file))
    assert result.exit_code == 0
    assert "not known for this noise" in " ".join(result.stdout.split())
    assert json.loads(run("task", str(file), "--json").stdout)["absence_delta_hi"] is None


def test_the_task_command_recomputes_and_says_pass(tmp_path: Path) -> None:
    file = tmp_path / "task.json"
    file.write_bytes(make_task("osnap", rows=2, min_clients=20).canonical())
    result = run("task", str(file), "--clients", "25", "--seed", SEED.hex())
    assert result.exit_code == 0
    assert "verdict: pass" in result.stdout
    document = json.loads(run("task", str(file), "--seed", SEED.hex(), "--json").stdout)
    assert document["clients"] == 20
    assert document["mu"] == pytest.approx(document["mu_stated"], rel=1e-8)
    assert run("task", str(file), "--seed", "00").exit_code == 2
    assert isinstance(run("task", str(file), "--clients", "5").exception, Exception)


def test_a_cohort_without_honest_clients_in_a_row_is_refused() -> None:
    task = make_task("osnap", rows=2, min_clients=20, max_corrupt_clients=3)
    with pytest.raises(RowUnderfilledError):
        audit_matrix(task, BalancedOsnap(2, 6, SEED))
    assert isinstance(TASKS[-1].mechanism, OsnapPublished)
