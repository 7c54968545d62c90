"""Claims, and what is computed to hold them to."""

import json
import math
from dataclasses import replace

import pytest
from pydantic import TypeAdapter, ValidationError

from lintra_protocol.errors import FalseClaimError, RowUnderfilledError
from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.gaussian import gaussian_delta
from lintra_protocol.privacy.statement import (
    SMOOTHING,
    Claim,
    PrivacyStatement,
    Relation,
    Status,
    Threat,
    additive_statement,
)

STATEMENTS = TypeAdapter(PrivacyStatement)


def claim(**changes: object) -> Claim:
    return Claim.model_validate({"epsilon": "1", "delta": "0.000001", "min_clients": 100} | changes)


def statement(given: Claim, smallest_row: int = 100, distance: float = 100.0, slack: float = 0.0) -> PrivacyStatement:
    return additive_statement(
        given, distance=distance, sigma=50, num_clients=100, smallest_row=smallest_row, slack=slack
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": "0"}, "epsilon must be positive"),
        ({"epsilon": "-1"}, "epsilon must be positive"),
        ({"delta": "0"}, "strictly between"),
        ({"delta": "1"}, "strictly between"),
        ({"delta_coalition": "0.000001"}, "delta_coalition must lie in"),
        ({"delta_coalition": "-0.1"}, "delta_coalition must lie in"),
        ({"max_corrupt_clients": 100}, "leave nobody"),
        ({"max_corrupt_clients": -1}, "greater than or equal to 0"),
        ({"min_clients": 1}, "greater than or equal to 2"),
        ({"neighbours": "add-one"}, "replace-one"),
    ],
)
def test_a_claim_out_of_range_is_no_claim(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        claim(**changes)


def test_mu_is_distance_over_the_deviation_left_after_smoothing() -> None:
    assert statement(claim()).mu == pytest.approx(100 / math.sqrt(100 * 50**2 - SMOOTHING), rel=1e-11)
    assert statement(claim()).mu > 100 / math.sqrt(100 * 50**2 - SMOOTHING)


def test_the_curve_is_the_gaussian_one() -> None:
    given = statement(claim())
    for epsilon in (0.0, 0.5, 1.0, 3.0):
        assert given.delta_at(epsilon) == pytest.approx(gaussian_delta(epsilon, given.mu), rel=1e-9)
        assert given.epsilon_at(given.delta_at(epsilon) * 1.0001) <= epsilon


def test_epsilon_at_the_claims_delta_is_the_stated_epsilon() -> None:
    given = statement(claim(), distance=500.0)
    assert given.epsilon_at(1e-6) == pytest.approx(given.epsilon, rel=1e-12)
    assert given.delta_at(given.epsilon) <= 1e-6


def test_a_coalitions_delta_is_paid_in_full() -> None:
    shared = claim(delta_coalition="0.0000005")
    assert shared.noise_delta == pytest.approx(5e-7, rel=1e-12)
    assert shared.noise_delta <= 5e-7
    assert statement(shared).epsilon > statement(claim()).epsilon
    assert statement(shared).delta_at(100.0) == pytest.approx(5e-7, rel=1e-9)
    assert statement(shared).epsilon_at(5e-7) == math.inf


def test_the_curve_never_exceeds_one() -> None:
    assert statement(claim(), distance=1e9).delta_at(0.0) == 1.0


@pytest.mark.parametrize("smallest_row", [0, -5])
def test_without_honest_clients_nothing_is_stated(smallest_row: int) -> None:
    with pytest.raises(RowUnderfilledError, match=f"a row holds {smallest_row} honest clients"):
        statement(claim(), smallest_row=smallest_row)


def test_a_kept_promise_passes_and_a_broken_one_names_both_numbers() -> None:
    kept = statement(claim(epsilon="11"), distance=1000.0)
    kept.require(claim(epsilon="11"))
    with pytest.raises(FalseClaimError, match=rf"promised epsilon 0\.5 .* epsilon {kept.epsilon!r} \(100 honest"):
        kept.require(claim(epsilon="0.5"))


def test_a_smaller_delta_than_stated_is_a_broken_promise() -> None:
    kept = statement(claim(epsilon="11"), distance=1000.0)
    with pytest.raises(FalseClaimError):
        kept.require(claim(epsilon="11", delta="0.0000000000001"))


@pytest.mark.parametrize("slack", [1e-11, 1.0])
def test_noise_that_is_too_coarse_for_integers_is_refused(slack: float) -> None:
    given = statement(claim(epsilon="3"), distance=100.0)
    coarse = PrivacyStatement(**{**vars(given), "slack": slack})
    with pytest.raises(FalseClaimError, match="too coarse for integers"):
        coarse.require(claim(epsilon="3"))


@pytest.mark.parametrize(
    ("changes", "rows", "quota"),
    [
        ({}, 8, 0),
        ({"max_corrupt_clients": 10}, 1, 10),
        ({"max_corrupt_clients": 10}, 8, 10),
        ({"max_corrupt_clients": 10, "threat": "adaptive", "delta_coalition": "0.0000001"}, 8, 10),
    ],
)
def test_without_a_coalitions_allowance_all_corrupt_clients_may_share_a_row(
    changes: dict[str, object], rows: int, quota: int
) -> None:
    assert claim(**changes).quota(rows) == quota


def test_with_an_allowance_a_row_holds_little_more_than_its_share() -> None:
    spread = claim(max_corrupt_clients=8000, min_clients=80_000, delta_coalition="0.0000001")
    assert 1000 < spread.quota(8) < 1400


def test_a_statement_without_a_gaussian_curve_knows_its_point_and_nothing_else() -> None:
    point = PrivacyStatement("zero-out", 1.0, 1e-6, status="numerical supremum", note="searched for")
    assert [point.delta_at(epsilon) for epsilon in (0.999, 1.0, 2.0)] == [1.0, 1e-6, 1e-6]
    assert [point.epsilon_at(delta) for delta in (9e-7, 1e-6, 0.5)] == [math.inf, 1.0, 1.0]
    assert str(point) == "epsilon 1 at delta 1e-06 (zero-out)"
    with pytest.raises(ValueError, match="finite"):
        Spending.of(point)


@pytest.mark.parametrize(
    ("computed", "promised", "kept"),
    [
        ((2, "static"), (2, "static"), True),
        ((1, "static"), (2, "static"), False),
        ((3, "static"), (2, "static"), True),
        ((2, "static"), (2, "adaptive"), False),
        ((2, "adaptive"), (2, "static"), True),
        ((1, "adaptive"), (2, "static"), False),
        ((0, "static"), (0, "adaptive"), True),
    ],
)
def test_a_promise_is_kept_only_against_the_coalition_that_was_reckoned_with(
    computed: tuple[int, Threat], promised: tuple[int, Threat], kept: bool
) -> None:
    given = replace(statement(claim(epsilon="11")), max_corrupt_clients=computed[0], threat=computed[1])
    promise = claim(epsilon="11", max_corrupt_clients=promised[0], threat=promised[1])
    if kept:
        given.require(promise)
        return
    with pytest.raises(FalseClaimError, match=f"against {promised[0]} corrupt clients"):
        given.require(promise)


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out", "replace-one within its class"])
def test_a_promise_is_not_kept_by_a_statement_about_other_neighbours(neighbours: Relation) -> None:
    given = replace(statement(claim(epsilon="11")), neighbours=neighbours)
    for claimed in ("replace-one", "zero-out"):
        promise = claim(epsilon="11", neighbours=claimed)
        if neighbours == claimed:
            given.require(promise)
            continue
        with pytest.raises(
            FalseClaimError, match=f"neighbours '{claimed}', and what was computed about '{neighbours}'"
        ):
            given.require(promise)


@pytest.mark.parametrize("status", ["numerical supremum", "asymptotic, heuristic"])
def test_a_promise_is_not_kept_by_what_is_not_proved_also_after_it_was_written_down(status: Status) -> None:
    given = replace(statement(claim(epsilon="11")), status=status, note="searched for")
    for each in (given, STATEMENTS.validate_json(STATEMENTS.dump_json(given))):
        with pytest.raises(FalseClaimError, match=f"a {status}: searched for"):
            each.require(claim(epsilon="11"))


@pytest.mark.parametrize("name", ["epsilon", "delta", "mu", "slack", "delta_coalition", "leverage"])
def test_a_statement_has_no_number_that_no_release_has(name: str) -> None:
    given = statement(claim())
    text = STATEMENTS.dump_json(given).decode()
    values = [-1e-300, math.nan] + [math.inf] * (name not in ("epsilon", "mu")) + [1.5] * name.startswith("delta")
    for value in values:
        with pytest.raises(ValueError, match=f"{name} of a statement"):
            replace(given, **{name: value})  # type: ignore[arg-type]
    spelled = json.loads(text)
    with pytest.raises(ValidationError, match=f"{name} of a statement"):
        STATEMENTS.validate_json(json.dumps(spelled | {name: "-0.5"}))
    assert STATEMENTS.validate_json(json.dumps(spelled | {name: "0"})) == replace(given, **{name: 0.0})  # type: ignore[arg-type]


@pytest.mark.parametrize("changes", [{"num_clients": 0}, {"honest_clients": 0}, {"max_corrupt_clients": -1}])
def test_a_statement_is_about_somebody(changes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least one honest client"):
        replace(statement(claim()), **changes)  # type: ignore[arg-type]


def test_documents_say_status_and_note_where_there_is_more_to_say_than_proved() -> None:
    given = statement(claim())
    assert not {"status", "note", "mechanism"} & json.loads(STATEMENTS.dump_json(given)).keys()
    point = PrivacyStatement("zero-out", math.inf, 1e-6, status="asymptotic, heuristic", note="for many rows")
    said = json.loads(STATEMENTS.dump_json(point))
    assert (said["status"], said["note"]) == ("asymptotic, heuristic", "for many rows")
    assert (said["mu"], said["epsilon"]) == (None, None)
    assert STATEMENTS.validate_json(json.dumps(said)) == point


def test_a_claim_gives_its_numbers_as_floats_and_says_itself_in_words() -> None:
    assert (claim(epsilon="0.1").float_epsilon, claim(delta="0.25").float_delta) == (0.1, 0.25)
    assert str(claim()) == "epsilon 1 at delta 0.000001 (replace-one)"
