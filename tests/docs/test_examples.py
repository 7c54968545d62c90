"""Every block of Python on a page runs as it stands, and finds what the page says; nothing is edited on the way.

Those that need servers are run by test_services.py. Figures are ten standard errors wide where an example draws from
the operating system.
"""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lintra_analysis.access.rest_client import AnalyzerClient
from support.analyzer_world import TOKEN, living
from support.blocking import Bridge, Loop
from support.example_releases import example_releases
from support.pages import SERVED, blocks, blocks_of, every_block, pages, run_python

Names = dict[str, object]


def of_estimators(stages: list[Names], printed: str) -> None:
    from lintra_analysis.estimators.correlation import CorrelationEstimate
    from lintra_analysis.estimators.means import MeansEstimate
    from lintra_analysis.estimators.path import RegressionPath
    from lintra_analysis.estimators.pca import PcaEstimate
    from lintra_analysis.estimators.regression import RegressionEstimate

    made = stages[-1]
    (shown,) = re.findall(r"It prints\n\n```(?:text)?\n(.*?)```", pages()["docs/explanation/estimators.md"], re.DOTALL)
    assert printed.endswith(shown)
    assert "R2" in printed.removesuffix(shown)  # of the release in a file
    kinds = (RegressionEstimate, RegressionPath, PcaEstimate, CorrelationEstimate, MeansEstimate)
    names = ("estimate", "path", "directions", "pairs", "averages")
    for name, kind in zip(names, kinds, strict=True):
        assert isinstance(made[name], kind)
    estimate, expected = made["estimate"], made["expected"]
    assert isinstance(estimate, RegressionEstimate)
    for one, truth in zip((*estimate.coefficients, estimate.intercept), (3.0, -0.004, -30.0), strict=True):
        assert one.standard_error is not None
        assert abs(one.value - truth) < 4 * one.standard_error.total
    assert isinstance(expected, np.ndarray)
    assert expected[1] - expected[0] == pytest.approx(12 * estimate.coef_[0])


def of_synthetic(stages: list[Names], printed: str) -> None:
    from lintra_analysis.synthetic.bootstrap import BootstrapEstimate
    from lintra_analysis.synthetic.comparison import Comparison
    from lintra_analysis.synthetic.rows import SyntheticRows

    made = stages[-1]
    assert "covariance good" in printed
    rows, mean, found = made["made"], made["mean"], made["found"]
    assert isinstance(rows, SyntheticRows)
    assert isinstance(mean, BootstrapEstimate)
    assert isinstance(found, Comparison)
    # 45 years and 5 more for smokers, clipped at 18.
    assert abs(float(mean.value[0]) - 47.5) < 4 * float(mean.standard_error[0]) + 0.2
    assert all(one.distance < 0.1 for one in found.columns)
    pressure = np.asarray(rows.columns["pressure"], float)
    ages = np.asarray(rows.columns["age"], float)
    assert np.corrcoef(ages, pressure)[0, 1] == pytest.approx(0.66, abs=0.1)


def of_profiles(stages: list[Names], printed: str) -> None:
    from lintra_curator.ndis import CertifiedValue

    made = stages[-1]
    promise, both = made["promise"], made["both"]
    assert isinstance(promise, np.ndarray)
    assert isinstance(both, CertifiedValue)
    assert promise[0] == pytest.approx(0.1299951968769, rel=1e-8)
    assert (np.diff(promise) < 0).all()
    assert made["leverage"] == pytest.approx(0.02736713984467, rel=1e-9)
    assert 2.0 < both.lo <= both.hi < both.lo + 1e-4


def of_second_moment(stages: list[Names], printed: str) -> None:
    from lintra_analysis.estimators.regression_estimate import RegressionEstimate
    from lintra_curator import BudgetSession
    from lintra_curator.second_moment.central_second_moment import CentralSecondMoment

    made = stages[-1]
    estimate = made["estimate"]
    assert isinstance(estimate, RegressionEstimate)
    error = estimate.coefficients[0].standard_error
    assert error is not None
    assert abs(estimate.coef_[0] - 0.6) < 10 * error.total
    assert error.total < 0.03
    release, session = stages[0]["release"], made["session"]
    assert isinstance(release, CentralSecondMoment)
    assert isinstance(session, BudgetSession)
    assert release.noise.law == "discrete, exact integers"
    assert release.noise.delta_at(1.0) <= 1e-6 < release.noise.delta_at(0.99)
    assert 0.79 < session.epsilon_spent <= 0.8


def of_projection(stages: list[Names], printed: str) -> None:
    from lintra_analysis.estimators.regression import RegressionEstimate
    from lintra_curator.projection.random_projection import ProjectionRelease

    made = stages[-1]
    release, estimate = made["release"], made["estimate"]
    assert isinstance(release, ProjectionRelease)
    assert isinstance(estimate, RegressionEstimate)
    assert release.promise.status == "proved"
    assert release.promise.delta <= 1e-6
    error = estimate.coefficients[0].standard_error
    assert error is not None
    assert abs(estimate.coefficients[0].value - 0.6) < 10 * error.total
    assert error.total < 0.1


def of_least_squares(stages: list[Names], printed: str) -> None:
    from lintra_curator.least_squares.private_least_squares import LeastSquaresRelease

    made = stages[-1]
    release = made["release"]
    assert isinstance(release, LeastSquaresRelease)
    assert release.plan.promise.status == "numerical supremum"
    assert release.plan.promise.delta <= 1e-6
    # A coefficient scatters by |e| / sqrt(r) / |column|, .1 / .29 / sqrt(2000) = .008; ten of them, and the ridge.
    assert np.abs(release.coef - [0.6, -0.3]).max() < 0.1


def of_logistic_regression(stages: list[Names], printed: str) -> None:
    from lintra_curator.calibrated.logistic_regression import LogisticRelease

    made = stages[-1]
    release = made["release"]
    assert isinstance(release, LogisticRelease)
    assert release.plan.promise.delta <= 1e-6
    # Noise of .46 and a scatter of .05 in each coefficient; seven of them, and the prior's pull.
    assert np.abs(release.coef - [4.0, -2.0]).max() < 4.0
    assert 0 < release.plan.sigma < 0.5


def of_windows(stages: list[Names], printed: str) -> None:
    from lintra_analysis import TrendEstimate

    together = stages[-1]["together"]
    assert isinstance(together, TrendEstimate)
    assert together.gaps == (1,)
    assert together.slope.value == pytest.approx(0.0)
    assert "Gaps" in printed


def of_a_year_of_weeks(stages: list[Names], printed: str) -> None:
    from lintra_analysis.estimators.timeline import Span

    year = stages[-1]["year"]
    assert isinstance(year, Span)
    assert (year.first, year.last, year.num_windows) == (0, 51, 51)
    truth = 7.4 + 0.6 * np.mean([np.cos(2 * np.pi * week / 52) for week in range(52) if week != 17])
    error = year.means[0].standard_error
    assert error is not None
    assert abs(year.means[0].value - truth) < 5 * error.total + 0.02
    assert "no release of window 17" in printed
    assert "Columns over windows: moving sums" in printed


FINDS: dict[str, Callable[[list[Names], str], None]] = {
    "docs/explanation/estimators.md": of_estimators,
    "docs/how-to/synthetic.md": of_synthetic,
    "docs/explanation/ndis.md": of_profiles,
    "docs/how-to/windows.md": of_windows,
    "docs/how-to/collect-weekly.md": of_a_year_of_weeks,
    "docs/reference/mechanisms/central_second_moment.md": of_second_moment,
    "docs/reference/mechanisms/random_projection.md": of_projection,
    "docs/reference/mechanisms/private_least_squares.md": of_least_squares,
    "docs/reference/mechanisms/calibrated_gaussian.md": of_logistic_regression,
}
"""What the blocks of a page must have found; one without a line here only has to run."""


def download_examples(folder: Path) -> None:
    """Write the files of releases that three servers and an analyzer in this process made."""
    loop = Loop()
    world = living(folder / "world")
    life = loop.run(world.__aenter__())
    try:
        made = loop.run(example_releases(life))  # type: ignore[arg-type]
        with AnalyzerClient("http://analyzer.test", TOKEN, transport=Bridge(life, loop)) as client:  # type: ignore[arg-type]
            for name in ("flights", "smokers", "smoking"):
                client.download_release(made[name], folder / name)  # type: ignore[index]
    finally:
        loop.run(world.__aexit__(None, None, None))
        loop.close()


ALONE = sorted({block.page for block in every_block("python")} - SERVED)
LONG = {
    "docs/explanation/estimators.md",
    "docs/explanation/estimators-more.md",
    "docs/how-to/windows.md",
    "docs/how-to/collect-weekly.md",
}
"""Pages whose blocks compute for seconds."""


@pytest.mark.parametrize("page", [pytest.param(page, marks=[pytest.mark.slow] * (page in LONG)) for page in ALONE])
def test_every_block_of_python_on_a_page_runs_and_finds_what_the_page_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if re.search(r'open_release\("(flights|smokers|smoking).npz', pages()[page]):
        download_examples(tmp_path)
    for name, content in re.findall(r"^cat > (\S+\.json) <<END\n(.*?)^END$", pages()[page], re.DOTALL | re.MULTILINE):
        (tmp_path / name).write_text(content)
    stages = run_python([block for block in blocks(page) if block.kind == "python"], {})
    printed = capsys.readouterr().out
    FINDS.get(page, lambda stages, printed: None)(stages, printed)


def test_every_page_that_is_told_about_has_blocks_of_python() -> None:
    assert set(FINDS) <= set(ALONE)
    assert {block.page for block in every_block("python")} >= SERVED


def test_blocks_are_found_fenced_and_indented_and_nothing_else_is() -> None:
    text = (
        "Say\n\n    lintra plan --columns 3\n    lintra trial f.csv\n\nand\n\n```python\nif x:\n\n    make = 1\n```\n"
        "* a list\n\n```\nmake test\n```\n\n```text\nlintra no command\n```\n\n    a < b\n"
    )
    found = sorted(blocks_of("page", text), key=lambda block: block.line)
    assert [(block.kind, block.line) for block in found] == [
        ("shell", 3), ("python", 8), ("shell", 15), ("other", 19), ("other", 23),
    ]  # fmt: skip
    assert found[0].text == "lintra plan --columns 3\nlintra trial f.csv\n"
    assert found[1].text == "if x:\n\n    make = 1\n"
    with pytest.raises(ValueError, match="known are"):
        list(blocks_of("page", "```perl\n1\n```\n"))


def test_a_block_that_fails_fails_and_await_stands_where_it_stands_on_the_page() -> None:
    good, bad = blocks_of(
        "page", "```python\nimport asyncio\nx = await asyncio.sleep(0, 3)\n```\n\n```python\nx / 0\n```\n"
    )
    (made,) = run_python([good], {})
    assert made["x"] == 3
    with pytest.raises(ZeroDivisionError):
        run_python([bad], made)
