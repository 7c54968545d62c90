"""The page on synthetic rows: its session runs, and finds what was put in."""

import re
from pathlib import Path

import numpy as np
import pytest

from lintra_analysis.synthetic.bootstrap import BootstrapEstimate
from lintra_analysis.synthetic.comparison import Comparison
from lintra_analysis.synthetic.rows import SyntheticRows

PAGE = Path(__file__).resolve().parents[4] / "docs/synthetic.md"


def test_the_session_of_the_page_runs_and_finds_what_was_put_in(capsys: pytest.CaptureFixture[str]) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    made: dict[str, object] = {}
    exec(source, made)
    printed = capsys.readouterr().out
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
