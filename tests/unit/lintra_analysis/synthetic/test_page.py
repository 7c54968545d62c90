"""The HTML page of a report: whole, well formed, and safe with names that look like markup."""

from xml.etree import ElementTree

import numpy as np

from lintra_analysis.releases.features import ClassLabel, Feature
from lintra_analysis.synthetic.comparison import compare
from lintra_analysis.synthetic.fidelity import fidelity
from lintra_analysis.synthetic.generator import synthesize
from lintra_analysis.synthetic.model import GaussianModel, fit
from lintra_analysis.synthetic.page import bars, html_page
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
    assert len(root.findall(".//svg")) == 2


def test_the_longest_bar_is_the_largest_value() -> None:
    chart = ElementTree.fromstring(bars([("a", 1.0), ("b", 4.0), ("c", 0.0)]))
    lengths = [float(bar.attrib["width"]) for bar in chart.findall("rect")]
    assert lengths[1] == max(lengths)
    assert lengths[0] * 4 == lengths[1]
    assert lengths[2] == 0
    assert "svg" in bars([])
