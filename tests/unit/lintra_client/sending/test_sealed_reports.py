"""What a client says of the rows that it made reports of."""

import numpy as np
import pytest

from lintra_client.sending.sealed_reports import encode_apart, encode_together
from lintra_protocol.mechanisms import SecondMoment, Sum
from lintra_protocol.mechanisms.base import Mechanism
from support import make_task, source
from support.measured import clip_steps, reports_without_noise

NAN = np.nan
ROWS = np.array([[0.1, 0.2, 0.3], [1, 1, 1], [NAN, 1, 1], [NAN, 5, 0], [NAN, 0, 0], [0, 5, 0]])
LONG = [False, True, True, True, False, True]
MISSING = [False, False, True, True, True, False]


@pytest.mark.parametrize("kind", [Sum, SecondMoment])
@pytest.mark.parametrize("count", ["noisy", "exact"])
def test_a_row_left_out_is_not_counted_as_clipped(kind: type[Sum] | type[SecondMoment], count: str) -> None:
    """A row in which a number is missing is left out under a noisy count; else what is there may be too long."""
    own = {"intercept": "1"} if kind is SecondMoment else {}
    mechanism: Mechanism = kind(row_bound="1", fraction_bits=8, sigma=100, count=count, clip_count_weight="0.5", **own)  # type: ignore[arg-type]
    task = make_task(mechanism, check=False)
    wanted = [long and not (lacks and count == "noisy") for long, lacks in zip(LONG, MISSING, strict=True)]
    for parcel in (
        encode_together(task, ROWS, task.not_before, source("together")),
        encode_apart(task, ROWS, task.not_before, [source(f"row {row}") for row in range(len(ROWS))]),
    ):
        assert list(parcel.clipped) == wanted
        assert list(parcel.incomplete) == MISSING
    # Nor does the clip counter in its report count it: the whole report is 0 but for its noise.
    schema = task.schema_arrays
    exact = reports_without_noise(mechanism, schema.normalise(ROWS), schema.outside(ROWS))
    assert (exact[:, -1] // clip_steps(mechanism)).tolist() == [int(each) for each in wanted]
    assert (not exact.any(axis=1)[2:5].any()) == (count == "noisy")
