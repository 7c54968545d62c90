"""The command `lintra plan`: one document, two inverse questions, and a table for people."""

import json
import math

import pytest

from lintra_protocol import command
from lintra_protocol.privacy.statement import Claim


def lintra(*arguments: str) -> int:
    try:
        command.main(["plan", *arguments])
    except SystemExit as exit_:
        return int(exit_.code or 0)
    return 0


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert lintra(*arguments, "--json") == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


STANDARD = (
    "--columns", "10", "--clients", "1000000", "--epsilon", "1", "--delta", "1e-6", "--rows", "1024",
    "--sparsity", "1", "--bound", "1", "--corrupt", "0",
)  # fmt: skip
ONE_LAYER = (*STANDARD, "--noise", "clients")


def test_the_plan_has_the_numbers_of_the_theory(capsys: pytest.CaptureFixture[str]) -> None:
    plan = document(capsys, *ONE_LAYER, "--clip-count-weight", "0")
    assert plan["mu"] == pytest.approx(0.236704380663, abs=1e-11)
    assert plan["leverage"] == pytest.approx(1 / 976)
    theory = 2 / math.sqrt(976) / 0.236704380663
    assert theory <= plan["sigma"] <= 1.001 * theory  # type: ignore[operator]
    calibrations = plan["calibrations"]
    assert isinstance(calibrations, dict)
    assert calibrations["local"] == pytest.approx(8.449, abs=5e-4)
    assert calibrations["central"] == pytest.approx(8.449 * math.sqrt(1024 / 1e6), rel=1e-4)
    assert calibrations["published"] == pytest.approx(3.02 * plan["sigma"], rel=0.01)  # type: ignore[operator]
    predicted = plan["predicted"]
    assert isinstance(predicted, dict)
    assert predicted["best_rows"] == pytest.approx(1400.724, abs=5e-4)
    assert predicted["ratio_at_best_rows"] == pytest.approx(1.6e6, rel=0.01)
    assert plan["recommendation"] == "second_moment"
    assert plan["notes"] == []
    assert {"uniform_bytes", "seeded_bytes", "headroom_bits", "max_clients", "why", "second_moment"} < plan.keys()


def test_the_plan_of_the_page_is_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    plan = document(capsys, *STANDARD[: STANDARD.index("--corrupt")], "--noise", "clients")
    second = plan["second_moment"]
    predicted = plan["predicted"]
    assert isinstance(second, dict)
    assert isinstance(predicted, dict)
    assert plan["sigma"] == pytest.approx(0.30103, abs=5e-6)
    assert predicted["sketch"]["relative_error"] == pytest.approx(0.0625, abs=5e-5)
    assert second["predicted"]["relative_error"] == pytest.approx(4.6e-5, abs=5e-7)
    assert (second["seeded_bytes"], plan["seeded_bytes"]) == (4466, 4106)
    assert predicted["ratio"] == pytest.approx(1.82e6, rel=3e-3)
    # 16 n/d, but for the noise of the coalition and of the counter.
    assert predicted["ratio_at_best_rows"] == pytest.approx(1.56e6, rel=3e-3)


def test_the_clip_counter_costs_two_per_cent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plans = [document(capsys, *ONE_LAYER, "--clip-count-weight", weight) for weight in ("0", "0.2", "0.1")]
    plans.append(document(capsys, *ONE_LAYER))
    bare, usual, half, unsaid = (float(str(plan["sigma"])) for plan in plans)
    assert usual / bare - 1 == pytest.approx(0.02, abs=5e-4)
    # Sigma is a whole number of steps, at least a thousand of them.
    assert half / bare - 1 == pytest.approx(0.005, abs=1e-3)
    assert unsaid == usual
    counters = [plan["deviations"] for plan in plans[1:3]]
    assert isinstance(counters[0], dict)
    assert isinstance(counters[1], dict)
    assert counters[1]["clipped rows"] / counters[0]["clipped rows"] == pytest.approx(2, rel=0.02)


def test_a_calibration_that_is_not_defined_is_null_and_the_notes_say_why(capsys: pytest.CaptureFixture[str]) -> None:
    plan = document(capsys, "--clients", "1000", "--rows", "64")
    assert plan["calibrations"]["published"] is None  # type: ignore[index]
    assert plan["published_epsilon"] is None
    text = " ".join(plan["notes"])  # type: ignore[arg-type]
    assert "undefined" in text
    assert "fewer than 30 clients a row" in text
    assert "a sketch says little here" in text


def test_a_published_calibration_that_breaks_the_promise_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    # One column, one copy; or a coalition that can isolate somebody.
    words = "the published calibration does not keep this promise"
    alone = document(capsys, "--columns", "1", "--clients", "1000000", "--rows", "1024", "--corrupt", "0")
    assert words in alone["notes"]  # type: ignore[operator]
    assert alone["published_epsilon"] > 1  # type: ignore[operator]
    isolated = document(capsys, *STANDARD[:-2], "--corrupt", "975", "--threat", "adaptive")
    assert words in isolated["notes"]  # type: ignore[operator]
    assert isolated["published_epsilon"] > 10  # type: ignore[operator]
    assert words not in document(capsys, *STANDARD)["notes"]  # type: ignore[operator]


def test_every_option_reaches_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    plan = document(
        capsys, "--columns", "20", "--clients", "50000", "--epsilon", "2", "--delta", "1e-7", "--bound", "3",
        "--row-norm", "2", "--servers", "4", "--corrupt", "500", "--threat", "static", "--delta-coalition", "1e-9",
        "--neighbours", "zero-out", "--features", "7", "--rank", "3", "--max-clients", "60000",
    )  # fmt: skip
    question = plan["question"]
    assert isinstance(question, dict)
    expected = {
        "columns": 20, "sparsity": 1, "row_bound": "3", "row_norm": 2.0, "num_servers": 4, "features": 7, "rank": 3,
        "max_clients": 60000,
    }  # fmt: skip
    assert expected.items() <= question.items()
    assert question["claim"] == Claim(
        epsilon="2", delta="0.0000001", neighbours="zero-out", min_clients=50000, max_corrupt_clients=500,
        threat="static", delta_coalition="0.000000001", epsilon_alone="6",
    ).model_dump()  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "recommended", "said"),
    [
        (499, "second_moment", "MB a report"),
        (600, "second_moment", "A range finder would take 311 kB; a direction has 2.3 times"),
        (1447, "second_moment", "A range finder would take"),
        (1448, "range_finder", "All second moments are too many; it takes 745 kB a report and sees components"),
        (20_000, "range_finder", "5.12 MB"),
        (33_000, "osnap", "Second moments are not possible"),
    ],
)
@pytest.mark.slow
def test_all_products_are_taken_while_they_fit_a_report_then_the_range_finder_then_a_sketch(
    capsys: pytest.CaptureFixture[str], columns: int, recommended: str, said: str
) -> None:
    plan = document(capsys, "--columns", str(columns), "--clients", "1000000", "--epsilon", "4", "--rank", "1")
    assert plan["recommendation"] == recommended
    assert said in plan["why"]  # type: ignore[operator]
    assert (plan["range_finder"] is None) == (columns < 500 or columns > 32_768)
    assert (plan["second_moment"] is None) == (columns > 1447)


@pytest.mark.slow
def test_the_smallest_epsilon_and_the_smallest_cohort_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    plan = document(capsys, *STANDARD, "--solve", "epsilon", "--sigma", "0.3")
    assert 0.299 < plan["sigma"] <= 0.3  # type: ignore[operator]
    plan = document(capsys, "--rows", "100", "--solve", "clients", "--sigma", "0.5")
    assert plan["sigma"] <= 0.5  # type: ignore[operator]
    smaller = document(capsys, "--rows", "100", "--clients", str(plan["question"]["claim"]["min_clients"] - 100))  # type: ignore[index]
    assert smaller["sigma"] > 0.5  # type: ignore[operator]
    plan = document(capsys, "--solve", "clients", "--error", "0.01", "--mechanism", "second_moment")
    assert plan["predicted"]["second_moment"]["relative_error"] == pytest.approx(0.01, rel=1e-3)  # type: ignore[index]


def test_an_incomplete_inverse_question_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ("--sigma", "1"),
        ("--solve", "epsilon"),
        ("--solve", "epsilon", "--sigma", "1", "--error", "1"),
        ("--solve", "clients"),
        ("--solve", "clients", "--sigma", "1", "--error", "1"),
    ):
        assert lintra(*arguments) == 1
        assert "--s" in capsys.readouterr().err


def test_numbers_that_no_task_can_have_are_refused_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, word in (
        (("--epsilon", "-1"), "epsilon"),
        (("--delta", "2"), "delta"),
        (("--clients", "100", "--corrupt", "100"), "corrupt"),
        (("--bound", "1e-300"), "real"),
        (("--bound", "0"), "row"),
        (("--clients", "100", "--rows", "1000"), "need at least as many clients"),
    ):
        assert lintra(*arguments) == 1
        assert word in capsys.readouterr().err


def test_without_json_people_get_tables_and_a_recommendation(capsys: pytest.CaptureFixture[str]) -> None:
    assert lintra(*STANDARD) == 0
    text = capsys.readouterr().out
    for words in ("ours: exact", "published, each copy (really epsilon 0.305", "central", "local", "ridge", "bytes"):
        assert words in text
    assert "Recommended: second_moment." in text


def test_sparsity_is_planned_for_and_its_price_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    plan = document(capsys, "--clients", "10000", "--rows", "64", "--sparsity", "4")
    mechanism = plan["mechanism"]
    assert isinstance(mechanism, dict)
    assert mechanism["sparsity"] == 4
    assert isinstance(plan["leverage"], float)
    assert float(mechanism["leverage"]) == plan["leverage"] > 64 / 10_000
    assert any("smoothing noise" in note for note in plan["notes"])  # type: ignore[attr-defined]


def test_a_family_is_planned_by_simulated_rounds_and_refuses_what_it_does_not_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = document(capsys, "--family", "logistic", "--columns", "4", "--clients", "5000")
    chain = plan["chain"]
    assert isinstance(chain, dict)
    # 4 numbers and their 10 products, and the clip counter.
    assert (plan["mechanism"], plan["words"], chain["rounds"]) == ("newton_step", 15, 3)
    reach = [slope["seen_from"] for slope in chain["slopes"]]
    louder = document(capsys, "--family", "logistic", "--columns", "4", "--clients", "5000", "--epsilon", ".7")["chain"]
    assert isinstance(louder, dict)
    # The noise is in inverse proportion to mu, which is nearly that to epsilon.
    for usual, wide in zip(reach, (slope["seen_from"] for slope in louder["slopes"]), strict=True):
        assert 1.2 < wide / usual < 1.8
    for options in (("--rank", "2"), ("--mechanism", "sum"), ("--solve", "epsilon", "--sigma", "1")):
        assert lintra("--family", "logistic", *options) == 1
        assert "--family is planned for --columns" in capsys.readouterr().err
    assert lintra("--family", "logistic", "--columns", "1") == 1
