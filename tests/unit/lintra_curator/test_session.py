"""A session charges before it draws, adds up exactly, and refuses what its budget does not cover."""

import math

import numpy as np
import pytest

from lintra_analysis import linear_score, regression
from lintra_analysis.kinds.joint_question import JointQuestion
from lintra_curator import BudgetExceededError, BudgetSession, CalibrationError
from lintra_protocol.crypto.randomness import RandomBytes, expand
from lintra_protocol.errors import InvalidRowError, InvalidTaskError
from lintra_protocol.privacy.composition import Spending

GENERATOR = np.random.default_rng(3)
HOURS = GENERATOR.uniform(0, 10, 3000)
FRAME = {
    "hours": HOURS,
    "grade": 1 + 0.4 * HOURS + GENERATOR.normal(0, 0.3, 3000),
    "course": np.where(HOURS > 4, "evening", "day"),
}
BOUNDS = {"hours": (0.0, 10.0), "grade": (0.0, 6.0)}
LEVELS = {"course": ("day", "evening")}


def session(epsilon: float = 1.0, random_bytes: RandomBytes | None = None, **changes: object) -> BudgetSession:
    given = {"bounds": BOUNDS, "levels": LEVELS} | changes
    return BudgetSession(
        FRAME, epsilon=epsilon, delta=1e-6, random_bytes=random_bytes or expand(bytes(32), "own"), **given
    )


def test_what_is_spent_is_the_exact_composition_of_what_each_release_states() -> None:
    own = session(2.0)
    first = own.second_moment(["hours", "grade"], epsilon=0.5)
    second = own.second_moment(["grade"], epsilon=0.7)
    rows = own.ron_gauss(["hours", "course"], epsilon=0.9)
    mus = [first.noise.mu, second.noise.mu, rows.promise.mu]
    assert own.spent.mu == pytest.approx(math.hypot(*mus), rel=1e-12)
    assert own.spent.mu >= math.hypot(*mus) * (1 - 1e-15)
    # Far less than adding up epsilons, and never less than the largest.
    assert 0.9 < own.epsilon_spent < 1.6


def test_one_release_may_take_the_whole_budget_and_then_nothing_is_left() -> None:
    own = session()
    own.second_moment(["hours", "grade"], epsilon=1.0)
    spent = own.spent
    with pytest.raises(BudgetExceededError, match="budget of epsilon 1"):
        own.second_moment(["hours"], epsilon=0.05)
    assert own.spent == spent


@pytest.mark.parametrize("kind", ["second_moment", "ron_gauss"])
def test_a_refused_release_draws_nothing_and_a_drawn_one_was_charged_before(kind: str) -> None:
    drawn: list[Spending] = []

    def watched(count: int) -> bytes:
        drawn.append(own.spent)
        return expand(bytes(32), "watched")(count)

    own = session(1.0, watched)
    with pytest.raises(BudgetExceededError):
        getattr(own, kind)(["hours", "grade"], epsilon=1.1)
    # The public seed of a frame is drawn while planning; no noise is.
    assert len(drawn) <= (kind == "ron_gauss")
    drawn.clear()
    getattr(own, kind)(["hours", "grade"], epsilon=0.5)
    assert drawn[-1] == own.spent != Spending.zero()


def test_a_release_that_fails_while_it_is_drawn_has_been_paid_for() -> None:
    def broken(count: int) -> bytes:
        raise OSError("no randomness")

    own = session(1.0, broken)
    with pytest.raises(OSError, match="no randomness"):
        own.second_moment(["hours", "grade"], epsilon=0.5)
    assert own.epsilon_spent == pytest.approx(0.5, rel=1e-5)


def test_a_release_is_in_the_units_of_the_table() -> None:
    release = session().second_moment(["hours", "grade"], epsilon=1.0)
    slope = regression(release, "grade", ["hours"]).coefficients[0]
    low, high = slope.interval
    assert low < 0.4 < high
    assert high - low < 0.3


def test_a_category_is_released_as_indicators_and_explains_or_is_ranked_like_any_column() -> None:
    release = session(epsilon=4.0).second_moment(["grade", "course"], epsilon=4.0)
    assert [column.name for column in release.columns] == ["(intercept)", "grade", "course[evening]"]
    assert release.row_bound == pytest.approx(math.sqrt(3))
    gap = regression(release, "grade ~ C(course)", of="cohort").coefficients[0]
    evening = FRAME["course"] == "evening"
    true = FRAME["grade"][evening].mean() - FRAME["grade"][~evening].mean()
    assert gap.interval is not None
    assert gap.interval[0] < true < gap.interval[1]
    assert gap.interval[1] - gap.interval[0] < 1
    score = linear_score(release, "course[evening]")
    assert score.score({"grade": [1.0, 5.0]}).argmax() == 1


def test_a_value_beyond_its_bounds_counts_as_the_bound() -> None:
    frames = [{"x": np.array([0.2, 5.0, -3.0])}, {"x": np.array([0.2, 1.0, 0.0])}]
    released = [
        BudgetSession(
            f, epsilon=1.0, delta=1e-6, bounds={"x": (0, 1)}, random_bytes=expand(bytes(32), "same")
        ).second_moment(["x"], epsilon=1.0)
        for f in frames
    ]
    assert np.array_equal(released[0].values, released[1].values)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"bounds": {}, "levels": {}}, "needs the public bounds"),
        ({"bounds": {"age": (0, 1)}}, "no columns"),
        ({"bounds": {"course": (0, 1)}, "levels": {}}, "no number"),
        ({"bounds": {"course": (0, 1)}}, "not both"),
        ({"levels": {"course": ("day", "night")}}, "none of its levels"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"neighbours": "add"}, "neighbours"),
    ],
)
def test_a_session_that_cannot_be_is_refused(changes: dict, reason: str) -> None:
    with pytest.raises((ValueError, InvalidRowError), match=reason):
        session(**changes)


def test_a_table_with_missing_or_ragged_columns_is_refused() -> None:
    for frame, reason in (({"x": [1.0, math.nan]}, "fill"), ({"x": [1.0, 2.0], "y": [1.0]}, "length")):
        with pytest.raises(InvalidRowError, match=reason):
            BudgetSession(frame, epsilon=1.0, delta=1e-6, bounds=dict.fromkeys(frame, (0, 1)))


def test_releases_that_cannot_be_cost_nothing() -> None:
    own = session()
    with pytest.raises(ValueError, match="no column 'age'"):
        own.second_moment(["age"], epsilon=0.5)
    with pytest.raises(CalibrationError):
        own.second_moment(["hours"], epsilon=-1.0)
    for names in ([], ["hours", "hours"]):
        with pytest.raises(ValueError, match="columns that differ"):
            own.ron_gauss(names, epsilon=0.5)
    with pytest.raises(InvalidTaskError):
        own.ron_gauss(["hours"], epsilon=0.5, question=JointQuestion(label="age"))
    assert own.epsilon_spent == 0


def test_a_session_shows_no_rows() -> None:
    shown = repr(session())
    assert "hours" in shown
    assert "3000" in shown
    assert str(HOURS[0])[:6] not in shown


def test_a_session_refuses_a_privacy_statement_whose_delta_is_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    own = session()
    price = Spending.gaussian(0.1)
    for wrong in (math.nan, math.inf, 1.0):
        with monkeypatch.context() as patched:
            patched.setattr(Spending, "delta_at", lambda _self, _epsilon, wrong=wrong: wrong)
            with pytest.raises(BudgetExceededError):
                own._charge(price)
        assert own.spent == Spending.zero()
    own._charge(price)
    assert own.spent == price


@pytest.mark.parametrize("part", ["mu", "slack", "failure", "shift"])
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -0.1])
def test_what_is_spent_is_a_number_in_every_part(part: str, wrong: float) -> None:
    if (part, wrong) == ("mu", -0.1):
        return  # only its square counts
    with pytest.raises((ValueError, ArithmeticError)):
        Spending.gaussian(**({"mu": 0.1} | {part: wrong}))
