"""`lintra audit gaussian`: its exit status, its options, and the file that it reads."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from lintra_audit.gaussian.cli import write_plot
from lintra_audit.release.cli import app
from lintra_curator.ndis import delta, pair_from_gaussians, pair_profile, rp_pair

LAWS = {"mu1": [0.3, -0.2], "S1": [[2, 0.5], [0.5, 1]], "mu2": [0, 0], "S2": [[1, 0], [0, 1.5]]}
AT_HALF = 0.1299951968769
"""Their delta at epsilon 1/2, in the worse direction."""


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [*arguments], input=stdin)


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
