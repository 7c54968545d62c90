"""White-box audits: verdicts that are certain, both directions, every neighbour, the command, a task's own releases."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from lintra_audit.exact.gaussian_release import sketch_of, worst_coalition
from lintra_audit.gaussian.output import write_plot
from lintra_audit.gaussian.verdict import audit_law, audit_pair, without_each_row
from lintra_audit.release.cli import app
from lintra_audit.task.cli import audit_matrix, audit_task
from lintra_curator.ndis import GaussianPair, delta, pair_from_gaussians, pair_profile, rp_pair, rp_pstar
from lintra_protocol.errors import RowUnderfilledError
from lintra_protocol.mechanisms import Osnap, OsnapPublished
from lintra_protocol.mechanisms.noise_law import NoisyMeasurement
from lintra_protocol.mechanisms.osnap import OsnapLaw
from lintra_protocol.mechanisms.second_moment_wishart import WishartLaw
from lintra_protocol.privacy.statement import Claim, PrivacyStatement
from lintra_protocol.task import Task
from lintra_protocol.transforms.ones import Ones
from lintra_protocol.transforms.osnap import BalancedOsnap
from support import SEED, make_task

LAWS = {"mu1": [0.3, -0.2], "S1": [[2, 0.5], [0.5, 1]], "mu2": [0, 0], "S2": [[1, 0], [0, 1.5]]}
AT_HALF = 0.1299951968769
"""Their delta at epsilon 1/2, in the worse direction."""


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [*arguments], input=stdin)


def test_a_claim_below_the_exact_delta_is_a_violation_and_one_above_is_not() -> None:
    pair = rp_pair(0.05, 30)
    exact = delta(pair, 1.0).value
    verdicts = [audit_pair(pair, [(1.0, factor * exact)], rtol=1e-6).verdict for factor in (0.99, 1.0, 1.01)]
    assert verdicts == ["VIOLATION", "UNDECIDED", "WITHIN"]


def test_a_violation_in_the_other_direction_is_found() -> None:
    pair = rp_pair(0.05, 30).reverse()
    assert delta(pair, 1.0).hi < 1e-8
    audit = audit_pair(pair, [(1.0, 1e-8)])
    assert audit.verdict == "VIOLATION"
    assert {finding.direction: finding.verdict for finding in audit.findings} == {
        "forward": "WITHIN",
        "backward": "VIOLATION",
    }
    assert audit.worst.eta == pytest.approx(rp_pair(0.05, 30).eta)


def test_every_claim_is_judged_by_itself() -> None:
    audit = audit_pair(rp_pair(0.05, 30), [(1.0, 1e-4), (0.5, 1e-4), (3.0, 1e-12)])
    assert [finding.verdict for finding in audit.worst_findings] == ["WITHIN", "VIOLATION", "WITHIN"]
    assert audit.verdict == "VIOLATION"


def test_the_epsilon_of_a_pair_is_certified() -> None:
    found = audit_pair(rp_pair(0.05, 30), [(1.0, 1e-4)]).epsilon_at(8.85509089968e-6)
    assert found.lo <= 1.0 <= found.hi
    assert found.hi - found.lo < 1e-8


def test_disjoint_laws_violate_every_claim_below_1() -> None:
    audit = audit_pair(GaussianPair([], [], [], disjoint=True), [(1e9, 0.999)])
    assert audit.verdict == "VIOLATION"


def test_a_mechanism_is_audited_on_all_neighbours_of_its_data() -> None:
    """A mean with noise for rows of norm 1, on data with one row of norm 3: only its removal violates the claim."""
    data = np.vstack([np.full((20, 2), 0.5), [[3.0, 0.0]]])

    def noisy_sum(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return rows.sum(axis=0), 16.0 * np.eye(2)

    audit = audit_law(noisy_sum, data, [(1.0, 1e-4)])
    assert audit.verdict == "VIOLATION"
    assert {f.neighbour for f in audit.findings if f.verdict == "VIOLATION"} == {"without row 20"}
    assert len(audit.findings) == 42
    assert audit_law(noisy_sum, data[:20], [(1.0, 1e-4)]).verdict == "WITHIN"


def test_the_published_noise_of_a_projection_is_within_and_a_row_beyond_the_bound_violates() -> None:
    rng = np.random.default_rng(3)
    data = rng.standard_normal((50, 3))
    data /= np.maximum(1.0, np.linalg.norm(data, axis=1, keepdims=True))
    ridge = 1 / rp_pstar(1.0, 1e-5, 40) - 1

    def columns(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(3), rows.T @ rows + ridge * np.eye(3)

    single = audit_law(columns, data, [(1.0, 1e-5)], without_each_row(data)[:5], rtol=1e-4)
    assert single.verdict == "WITHIN"
    far = np.vstack([np.zeros((4, 3)), [[40.0, 0, 0]]])
    assert audit_law(columns, far, [(1.0, 1e-5)], without_each_row(far)[-1:], rtol=1e-4).verdict == "VIOLATION"


@pytest.mark.parametrize("numbers", [(-1.0, 0.1), (math.nan, 0.1), (math.inf, 0.1), (1.0, -0.1), (1.0, 1.1)])
def test_what_is_no_claim_is_refused(numbers: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="claim"):
        audit_pair(rp_pair(0.1, 3), [numbers])


def test_an_audit_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        audit_pair(rp_pair(0.1, 3), [])
    with pytest.raises(ValueError, match="at least one"):
        audit_law(lambda rows: (rows.sum(axis=0), np.eye(2)), np.zeros((0, 2)), [(1.0, 0.1)])


# --- the command ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claimed", "code", "verdict"),
    [(0.9 * AT_HALF, 1, "VIOLATION"), (1.1 * AT_HALF, 0, "WITHIN"), (AT_HALF, 3, "UNDECIDED")],
)
@pytest.mark.slow
def test_the_exit_status_is_the_verdict(tmp_path: Path, claimed: float, code: int, verdict: str) -> None:
    file = tmp_path / "laws.json"
    file.write_text(json.dumps(LAWS | {"epsilon": 0.5, "delta": claimed}))
    result = run("gaussian", str(file), "--rtol", "1e-5")
    assert result.exit_code == code
    assert f"verdict: {verdict}" in result.stdout


@pytest.mark.slow
def test_options_override_the_file_and_json_holds_every_number() -> None:
    text = json.dumps(LAWS | {"epsilon": [9.0], "delta": 0.5})
    result = run(
        "gaussian", "-", "--epsilon", "0.5", "--epsilon", "1", "--delta", "0.1", "--rtol", "1e-6", "--json", stdin=text
    )
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["verdict"] == "VIOLATION"
    assert [finding["epsilon"] for finding in document["findings"]] == [0.5, 1.0, 0.5, 1.0]
    assert {finding["delta"] for finding in document["findings"]} == {0.1}
    first = document["findings"][0]
    assert first["delta_lo"] <= AT_HALF <= first["delta_hi"]
    (allowed,) = document["epsilon_at"]
    assert allowed["lo"] <= allowed["hi"]
    assert (
        delta(pair_from_gaussians(*(np.array(LAWS[key]) for key in ("mu1", "S1", "mu2", "S2"))), allowed["hi"]).lo
        <= 0.1
    )


def test_numbers_stand_for_one_dimension_and_disjoint_laws_have_no_epsilon() -> None:
    text = json.dumps({"mu1": 1, "S1": 0, "mu2": 0, "S2": 1, "epsilon": 1, "delta": 0.1})
    assert run("gaussian", "-", stdin=text).stdout.count("no finite epsilon") == 1
    assert json.loads(run("gaussian", "-", "--json", stdin=text).stdout)["epsilon_at"][0]["hi"] is None


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        json.dumps(LAWS),
        json.dumps(LAWS | {"epsilon": 1}),
        json.dumps(LAWS | {"epsilon": -1, "delta": 0.1}),
        json.dumps(LAWS | {"epsilon": 1, "delta": 0.1, "more": 1}),
        json.dumps(LAWS | {"epsilon": 1, "delta": 0.1, "S1": [[1, 2], [3, 4]]}),
        json.dumps(LAWS | {"epsilon": 1, "delta": 0.1, "mu1": [1, 2, 3]}),
        '{"mu1": NaN, "S1": 1, "mu2": 0, "S2": 1, "epsilon": 1, "delta": 0.1}',
        '{"mu1": [[1]], "S1": 1, "mu2": 0, "S2": 1, "epsilon": 1, "delta": 0.1}',
        '{"mu1": [1, 2], "S1": [[1], [1, 2]], "mu2": [0, 0], "S2": [[1, 0], [0, 1]], "epsilon": 1, "delta": 0.1}',
    ],
)
def test_a_file_that_is_no_audit_is_a_usage_error(text: str) -> None:
    assert run("gaussian", "-", stdin=text).exit_code == 2


def test_a_missing_file_and_a_plot_that_is_not_svg_are_usage_errors(tmp_path: Path) -> None:
    assert run("gaussian", str(tmp_path / "none.json")).exit_code == 2
    text = json.dumps(LAWS | {"epsilon": 1, "delta": 0.1})
    assert run("gaussian", "-", "--plot", str(tmp_path / "curve.png"), stdin=text).exit_code == 2
    assert not (tmp_path / "curve.png").exists()


@pytest.mark.slow
def test_the_plot_holds_the_curve_and_the_claims(tmp_path: Path) -> None:
    path = tmp_path / "curve.svg"
    text = json.dumps(LAWS | {"epsilon": [0.5, 1], "delta": 0.2})
    assert run("gaussian", "-", "--rtol", "1e-4", "--plot", str(path), stdin=text).exit_code == 0
    drawing = path.read_text()
    assert [f'id="claim-{number}"' in drawing for number in range(3)] == [True, True, False]
    curve = drawing[drawing.index('id="curve"') :].partition("</g>")[0]
    assert curve.count("L ") >= 20
    write_plot(path, pair_profile(rp_pair(0.1, 9), [0.0, 50.0], 1e-3), [])
    assert path.read_text().startswith("<?xml")


# --- a task's own release -------------------------------------------------------------------------------------

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
