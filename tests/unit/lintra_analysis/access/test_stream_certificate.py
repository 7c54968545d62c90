"""The certificate of a stream: what the certificates of its windows say together."""

import pytest

from lintra_analysis.access.stream import WindowNumbers, WindowStream
from lintra_protocol.errors import InvalidMessageError
from unit.lintra_analysis.access.test_stream import GAP, a_task, released


def test_the_certificate_of_a_stream_has_the_promise_gaps_and_what_was_lost() -> None:
    windows = released(task := a_task(), "certificate")
    found = WindowStream(task, windows).certificate()
    assert (found.windows, found.gaps, found.privacy) == ((0, 1, 3, 4, 5), (GAP,), task.worst_together())
    assert found.lacking == {(3, 1): (0, 1), (4, 1): (0, 1), (5, 1): (0, 1)}
    assert task.stream is not None
    assert found.price == pytest.approx(float(task.stream.squared_norm) ** 0.5)
    (promise, _, which, noise, *lost) = found.lines()
    assert f"all 2 reports that one source may send: epsilon {task.worst_together().epsilon:.6g}" in promise
    assert "released: 0-1, 3-5; never: 2" in which
    assert f"{found.total_noise:.4g}" in noise
    assert lost[0].startswith("window 3, server 1: it took back nothing of windows 0-1")
    # Nobody could take back what came later: such a certificate would state a promise that does not hold.
    odd = WindowNumbers(((4,), (), ()), windows[3].sketch, windows[3].row_counts)
    with pytest.raises(InvalidMessageError, match="cannot have entered window 3"):
        WindowStream(task, windows | {3: odd}).certificate()
