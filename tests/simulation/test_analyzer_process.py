"""The analyzer as a process that is killed at any moment of a collection with windows, and releases each of them once.

.venv/bin/python -m pytest -n 0 -m slow tests/simulation/test_analyzer_process.py --seed 1234
"""

from collections.abc import Callable

import pytest

from simulation.analyzer_process import simulate_analyzer
from simulation.books import ViolationError

Record = Callable[[str, object], None]

pytestmark = pytest.mark.slow  # its windows last as long as they last: one to two minutes each


@pytest.mark.parametrize("seed", range(1, 4))
async def test_an_analyzer_that_is_killed_at_any_moment_releases_every_window_once(
    seed: int, record_property: Record, pytestconfig: pytest.Config
) -> None:
    chosen = pytestconfig.getoption("--seed", default=None)
    known = await simulate_analyzer(seed if chosen is None else chosen)
    assert known.counts["window released"] >= 2
    assert known.counts["SIGKILL of the analyzer"] >= 5
    assert known.counts["killed in the middle of a step"] >= 1
    for kind, count in known.counts.items():
        record_property(kind, count)


async def test_an_analyzer_that_forgets_what_it_released_is_found() -> None:
    with pytest.raises(ViolationError, match="a window has another release than before"):
        await simulate_analyzer(1, forgetful=True)
