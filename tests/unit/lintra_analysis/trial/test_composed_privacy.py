"""A plan of a task with windows: both epsilons, and what the same promise for all reports of a source costs."""

import pytest

from lintra_analysis.trial.error_forecast import ErrorForecast, foresee
from lintra_analysis.trial.plan_text import document, show
from support import source

WINDOWS = {"window_seconds": 604_800, "grace_seconds": 86_400, "max_windows": 52}
CLAIMS = [(0.5, 12, "0"), (2, 3, "0"), (0.5, 12, "0.00000004"), (8, 52, "0.00000001")]


def planned(**changes: object) -> ErrorForecast:
    asked = {
        "purpose": "a test",
        "columns": [{"name": "sleep", "lower": 0, "upper": 14}, {"name": "mood", "lower": 1, "upper": 10}],
        "mechanism": {"kind": "sum", "clip_count_weight": 0},
        "row_bound": 1.4,
        "epsilon": 0.5,
        "delta": "0.000001",
        "delta_coalition": "0",
        "min_clients": 2000,
        "max_corrupt_clients": 0,
        "windows": WINDOWS,
        "reports_per_source": 12,
        "noise": "clients",
    }
    return foresee({**asked, **changes}, None, None, 10**9, source("together"))


def sigma(found: ErrorForecast) -> float:
    return found.task.mechanism.sigma * 2.0**-found.task.mechanism.sigma_bits


@pytest.mark.parametrize(("epsilon", "reports", "coalition"), CLAIMS)
def test_who_asks_for_the_epsilon_shown_promises_it_for_all_reports_and_pays_the_noise_shown(
    epsilon: float, reports: int, coalition: str
) -> None:
    given = {"reports_per_source": reports, "delta_coalition": coalition}
    found = planned(epsilon=epsilon, **given)
    both = found.together
    assert both is not None
    again = planned(epsilon=both.epsilon_to_ask, **given)
    assert again.together is not None
    # sigma is a whole number of steps, at most a thousandth above what is needed
    assert 0.995 * epsilon < again.together.epsilon_of_all <= epsilon
    assert sigma(again) / sigma(found) == pytest.approx(both.noise_factor, rel=2e-3)
    assert both.epsilon_of_one == found.task.worst_privacy().epsilon <= epsilon < both.epsilon_of_all
    # The root of k, and more where a part of delta is kept for a coalition in every window.
    root = reports**0.5
    assert both.noise_factor == pytest.approx(root, rel=1e-9) if coalition == "0" else both.noise_factor > 1.001 * root


def test_the_plan_of_a_task_with_windows_shows_both_epsilons_and_that_of_another_task_neither() -> None:
    found = planned()
    both = found.together
    assert both is not None
    text = show(found)
    for shown in ("each of 52 windows", "at most 12 of them", f"{both.epsilon_of_all:.6g}", both.epsilon_to_ask):
        assert shown in text
    plain = document(found)["windows"]
    assert isinstance(plain, dict)
    assert (plain["epsilon_of_all"], plain["noise_factor"]) == (both.epsilon_of_all, both.noise_factor)
    once = planned(reports_per_source=1)
    assert once.together is not None
    assert once.together.epsilon_of_all == once.together.epsilon_of_one
    assert "that promise for all" not in show(once)
    single = planned(windows=None)
    assert (single.together, document(single)["windows"]) == (None, None)
    assert "windows" not in show(single)


def test_the_plan_of_a_stream_asks_for_no_smaller_epsilon_and_has_the_table_of_its_gain() -> None:
    windows = {"window_seconds": 604800, "grace_seconds": 86400, "max_windows": 52, "stream": {}}
    found = planned(windows=windows, reports_per_source=4, noise="servers")
    both = found.together
    assert both is not None
    assert both.epsilon_of_one == both.epsilon_of_all
    assert both.noise_factor == 1
    text = show(found)
    assert "that promise for all" not in text
    assert "at most 4, as asked" in text
    assert [option["reports"] for option in document(found)["windows"]["streams"]] == [1, 2, 4, 12, 52]  # type: ignore[index, call-overload]
