"""A trial of a data frame: columns are chosen by name, and the answer shows itself."""

import numpy as np
import pandas as pd
import pytest

import lintra_analysis
from lintra_analysis.trial.frame import trial
from lintra_protocol.errors import InvalidTableError


def frame() -> pd.DataFrame:
    draw = np.random.default_rng(7)
    rows = pd.DataFrame({"age": draw.uniform(20, 80, 600).round(), "site": draw.choice(["A", "B"], 600)})
    rows["systolic"] = 90 + 0.5 * rows["age"] + draw.normal(0, 8, 600)
    return rows


def test_a_frame_is_tried_with_the_columns_that_are_named_and_shows_itself() -> None:
    found = trial(frame(), "systolic", columns=["age"], epsilon=50, draws=20)
    assert found.verdict == "good"
    assert list(found.to_frame().index) == ["age"]
    assert "<td>age</td>" in found._repr_html_()
    assert found.summary().startswith("systolic by 1 numbers")
    assert callable(lintra_analysis.trial)


def test_what_is_open_or_unknown_is_said_before_anything_is_tried() -> None:
    with pytest.raises(InvalidTableError, match="no column 'weight'"):
        trial(frame(), "systolic", columns=["weight"])
    with pytest.raises(InvalidTableError, match="site"):
        trial(frame().drop(columns="age"), "site")
