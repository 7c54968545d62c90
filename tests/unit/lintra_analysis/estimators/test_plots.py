"""What every estimate draws: the numbers of the estimate, where a reader would look for them."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.estimators.correlation import correlation
from lintra_analysis.estimators.histogram import histogram
from lintra_analysis.estimators.linear_score import linear_score
from lintra_analysis.estimators.means import means
from lintra_analysis.estimators.path import regression_path
from lintra_analysis.estimators.pca import pca
from lintra_analysis.estimators.power_sums import power_sums
from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.trend import trend
from lintra_analysis.releases.cell_counts import CellCounts
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.release import Release
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import columns, mixed_columns, regression_rows, second_moment, with_constant

if TYPE_CHECKING:  # every process that collects tests would wait for matplotlib
    from matplotlib.axes import Axes

ROWS, NAMED = with_constant(regression_rows(4096, np.random.default_rng(1)), mixed_columns())
RELEASE = second_moment(ROWS, 20.0, np.random.default_rng(2), NAMED)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def points(axes: "Axes") -> dict[str, float]:
    """Return the drawn points by the label of their line."""
    names = [label.get_text() for label in axes.get_yticklabels()]
    marks = [line for line in axes.lines if line.get_marker() == "o"]
    return {names[int(line.get_ydata()[0])]: float(line.get_xdata()[0]) for line in marks}


def reaches(axes: "Axes") -> list[tuple[float, float]]:
    """Return the drawn intervals from top to bottom."""
    return [
        tuple(line.get_xdata()) for line in axes.lines if len(set(line.get_ydata())) == 1 and len(line.get_xdata()) == 2
    ]


def test_a_regression_draws_each_coefficient_in_the_unit_of_the_target() -> None:
    estimate = regression(RELEASE, "c4", ["c2", "c0"])
    drawn = estimate.plot()
    scales = [column.scale for column in mixed_columns()]
    expected = [estimate.params["c2"] * scales[2], estimate.params["c0"] * scales[0]]
    assert_allclose(list(points(drawn).values()), expected)
    assert list(points(drawn)) == ["c2 (x 4.5)", "c0 (x 0.5)"]
    low, high = estimate.conf_int()["c2"]
    assert_allclose(reaches(drawn)[0], (low * 4.5, high * 4.5))
    assert drawn.get_xlabel() == "change of c4 in e for one scale of a feature"


def test_a_picture_can_be_drawn_on_the_axes_of_somebody_else() -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2)
    assert regression(RELEASE, "c4").plot(axes[1]) is axes[1]
    assert pyplot.get_fignums() == [figure.number]
    assert not axes[0].lines


def test_where_nothing_can_be_told_the_point_is_drawn_without_an_interval() -> None:
    generator = np.random.default_rng(3)
    copied = np.column_stack([ROWS[:, :4], ROWS[:, 2] + 1e-3 * generator.normal(size=len(ROWS)), ROWS[:, 5]])
    estimate = regression(second_moment(copied, 20.0, generator, with_constant(copied[:1, 1:], columns(5))[1]), "c4")
    assert estimate.penalised is not None
    drawn = estimate.plot()
    assert "the noise bounds none" in drawn.get_title(loc="left")
    assert_allclose(list(points(drawn).values()), list(estimate.coef_))
    assert reaches(drawn) == []


def test_components_are_drawn_by_their_variance() -> None:
    estimate = pca(RELEASE, 2)
    drawn = estimate.plot()
    assert_allclose(list(points(drawn).values()), estimate.explained_variance_)
    assert [label.get_text()[:11] for label in drawn.get_yticklabels()] == ["component 1", "component 2"]
    assert list(estimate.conf_int().values()) == [one.interval for one in estimate.explained_variance]


def test_a_correlation_that_may_be_zero_is_drawn_in_brackets() -> None:
    estimate = correlation(RELEASE)
    texts = [text.get_text() for text in estimate.plot().texts]
    assert len(texts) == 25
    for (first, second), (low, high) in estimate.conf_int().items():
        i, j = estimate.columns.index(first), estimate.columns.index(second)
        assert texts[5 * i + j].startswith("(") == (low <= 0 <= high)
        assert float(texts[5 * j + i].strip("()")) == pytest.approx(estimate.matrix[i, j], abs=0.006)
    assert {"(", "0", "-"} >= {text[0] for text in texts if not text.startswith("1.00")}


def test_means_are_drawn_in_scales_from_the_centers() -> None:
    estimate = means(RELEASE)
    expected = [(estimate.params[c.name] - c.center) / c.scale for c in mixed_columns()]
    assert_allclose(list(points(estimate.plot()).values()), expected)
    assert list(estimate.bse) == list(estimate.conf_int()) == list(estimate.columns)
    low, high = estimate.conf_int()["c1"]
    assert high - low == pytest.approx(2 * 1.96 * estimate.bse["c1"], rel=1e-3)


def test_a_path_draws_a_curve_for_every_feature_and_the_best_penalty() -> None:
    path = regression_path(RELEASE, "c4", regularizations=[0.0, 1.0, 10.0])
    drawn = path.plot()
    scales = [column.scale for column in mixed_columns()]
    for line, coefficients, scale in zip(drawn.lines, path.coefficients.T, scales, strict=False):
        assert_allclose(line.get_ydata(), coefficients * scale)
    assert len(drawn.lines) == 5
    assert (drawn.lines[0].get_xdata() > 0).all()


def test_a_path_speaks_as_a_regression_does() -> None:
    path = regression_path(RELEASE, "c4", ["c1", "c3"])
    single = regression(RELEASE, "c4", ["c1", "c3"], path.alpha_)
    assert path.params == pytest.approx(single.params)
    rows = {"c3": np.array([1.0, 2.0]), "c1": np.array([0.5, -3.0]), "beside": np.zeros(2)}
    assert_allclose(path.predict(rows), single.predict(rows))
    assert_allclose(path.to_frame()["c3"].to_numpy(), path.coefficients[:, 1])
    assert path.to_frame().index[path.best] == path.alpha_
    assert path.feature_names_in_ == ("c1", "c3")
    assert "<table>" in path._repr_html_()
    with pytest.raises(ValueError, match="the rows lack the columns c1"):
        path.predict({"c3": np.zeros(1)})


def test_a_histogram_draws_a_bar_for_each_cell() -> None:
    edges, counts = np.array([0.0, 2.0, 3.0, 7.0]), np.array([30.0, 50.0, 20.0])
    named = (ScaledColumn("age", 0, 1, 0, 7, "years"), ScaledColumn("smoker", 0, 1, 0, 1, "", "boolean"))
    levels = ((), ("0", "1"))
    cells = CellCounts(named, (edges, np.array([])), levels, (counts, np.array([70.0, 30.0])), np.zeros(2), 0.0, 100)
    held = Release(cells=cells)
    drawn, other = histogram(held).plot(), histogram(held).plot(column="smoker")
    assert_allclose([bar.get_height() for bar in drawn.patches], counts / 100)  # type: ignore[attr-defined]
    assert_allclose([bar.get_x() for bar in drawn.patches], edges[:-1])  # type: ignore[attr-defined]
    assert_allclose([bar.get_width() for bar in drawn.patches], np.diff(edges))  # type: ignore[attr-defined]
    assert drawn.get_xlabel() == "age in years"
    assert [label.get_text() for label in other.get_xticklabels()] == ["0", "1"]


def test_without_matplotlib_the_refusal_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InvalidAnalysisError, match=r"type pip install '\.\[plot\]'$"):
        means(RELEASE).plot()


def test_names_are_drawn_as_they_are() -> None:
    named = (*NAMED[:-1], ScaledColumn("cost in $^2$", 0, 1, -9, 9, "$"))
    drawn = means(replace(RELEASE, columns=named)).plot()
    drawn.figure.canvas.draw()
    assert any("$^2$" in name for name in points(drawn))


def test_power_sums_draw_each_sum_over_the_most_that_it_may_be() -> None:
    age, edges = ScaledColumn("age", 0, 1, 0, 100), np.linspace(0, 100, 11)
    release = Release(cells=CellCounts((age,), (edges,), ((),), (np.full(10, 100.0),), np.zeros(1), 5.0, 1000))
    estimate = power_sums(release, [1, 2])
    for power in (1, 2):
        one = estimate["age"].sums[power - 1]
        low, high = one.interval
        drawn = estimate.plot(power=power)
        assert_allclose(list(points(drawn).values()), [one.value / high])
        assert_allclose(reaches(drawn), [(low / high, 1)])
        assert drawn.get_title(loc="left") == f"Sums of |x|^{power}: 95 % for the cohort"
    assert estimate.plot().get_title(loc="left").startswith("Sums of |x|^1")
    with pytest.raises(InvalidAnalysisError, match="there are 1, 2"):
        estimate.plot(power=3)


def test_a_linear_score_draws_its_weights_and_those_that_may_be_nothing_are_hollow() -> None:
    generator = np.random.default_rng(4)
    features = 0.2 * generator.normal(size=(4000, 3))
    ill = (features[:, 0] + 0.1 * generator.normal(size=4000) > 0) * 2.0 - 1
    target = ScaledColumn("ill", 0.5, 0.5, 0.0, 1.0, kind="boolean")
    rows, named = with_constant(np.column_stack([features, ill]), (*columns(3), target))
    score = linear_score(second_moment(rows, 1.0, generator, named), "ill")
    drawn = score.plot()
    from matplotlib.patches import Rectangle

    bars = [bar for bar in drawn.patches if isinstance(bar, Rectangle)]
    assert_allclose([bar.get_width() for bar in bars], list(score.params.values()))
    assert [label.get_text() for label in drawn.get_yticklabels()] == list(score.params)
    assert [bar.get_fill() and bar.get_facecolor()[3] == 1 for bar in bars] == [True, False, False]


def test_windows_are_drawn_each_at_its_number_with_a_line_at_the_mean_of_all() -> None:
    estimate = trend({2: RELEASE, 5: RELEASE}, "c0")
    drawn = estimate.plot()
    assert [line.get_xdata()[0] for line in drawn.lines if line.get_marker() == "o"] == [2, 5]
    assert_allclose(drawn.lines[-1].get_ydata(), estimate.combined.value)
