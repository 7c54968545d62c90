"""The HTML page of a report: whole, well formed, and safe with names that look like markup."""

import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from lintra_analysis.releases.features import ClassLabel, Feature
from lintra_analysis.synthetic.comparison import compare
from lintra_analysis.synthetic.fidelity import fidelity
from lintra_analysis.synthetic.generator import synthesize
from lintra_analysis.synthetic.model import GaussianModel, fit
from lintra_analysis.synthetic.page import html_page
from lintra_analysis.synthetic.rows import WARNING
from support.made_projected_sums import isotropic, released

FEATURES = (Feature("<b>x</b>", "real", -1, 1, cells=4), Feature("y", "real", -1, 1))
LABEL = ClassLabel("kind", ("<i>", "&"))


def model() -> GaussianModel:
    rng = np.random.default_rng(1)
    rows, classes = rng.normal(0, 0.3, (300, 2)), np.arange(300) % 2
    cells = [np.full(4, 75.0), np.zeros(0)]
    return fit(released(rows, classes, features=FEATURES, label=LABEL, histograms=cells, noise=isotropic(2, 1, 1, 2)))


def parsed(page: str) -> ElementTree.Element:
    return ElementTree.fromstring(page.removeprefix("<!doctype html>").replace('<meta charset="utf-8">', ""))


@pytest.mark.slow
def test_the_page_holds_the_promise_the_warning_and_every_verdict() -> None:
    report = fidelity(model())
    text = "".join(parsed(html_page(report)).itertext())
    assert "epsilon 1 at delta 1e-06" in text
    assert WARNING in text
    assert report.model_digest in text
    for _, _, _, verdict in report.lines():
        assert verdict in text
    assert "<b>x</b>" in text
    assert "Beside reference rows" not in text


def test_the_page_shows_the_comparison_if_there_is_one() -> None:
    own = model()
    rng = np.random.default_rng(2)
    reference = {"<b>x</b>": rng.uniform(-1, 1, 60), "y": rng.uniform(-1, 1, 60), "kind": ["<i>", "&"] * 30}
    comparison = compare(own, synthesize(own, 200, 1), reference)
    root = parsed(html_page(fidelity(own), comparison))
    text = "".join(root.itertext())
    assert "accuracy" in text
    assert "not private" in text
    assert len(root.findall(".//{http://www.w3.org/2000/svg}svg")) == 2


def test_without_matplotlib_the_page_has_the_numbers_and_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    report = fidelity(model())
    root = parsed(html_page(report))
    text = "".join(root.itertext())
    assert "pip install '.[plot]'" in text
    assert f"{report.eigenvalues[0]:.3g}" in text
    assert not root.findall(".//{http://www.w3.org/2000/svg}svg")
