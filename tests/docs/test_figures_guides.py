"""The small figures of guides, tutorials and references: each is computed here, as the pages say it."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lintra_analysis.commands.plan import app
from lintra_analysis.kinds.coalition import usual_claim
from lintra_analysis.plan.flags import PlanFlags
from lintra_analysis.spec.verification import USUAL_MAX_REJECTED
from lintra_analysis.trial.pilot import SHARE
from lintra_protocol.crypto.sealing import HYBRID, OVERHEAD_BYTES
from lintra_protocol.encoding.canonical import HASH_BYTES
from lintra_protocol.fields.missing_reports import least_max_missing
from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.verification.parameters import Parameters
from support.pages import pages

BOUND = 2**48


def specification(page: str, name: str) -> dict[str, Any]:
    """Return the specification that a page has its reader write into a file."""
    found = re.search(rf"^cat > {re.escape(name)} <<END\n(.*?)^END$", pages()[page], re.DOTALL | re.MULTILINE)
    assert found
    return dict(json.loads(found[1]))


def planned(asked: dict[str, Any], folder: Path, *options: str) -> dict[str, Any]:
    """Return what `lintra plan` says of a specification."""
    path = folder / "asked.json"
    path.write_text(json.dumps(asked))
    answer = CliRunner().invoke(app, [str(path), *options])
    assert answer.exit_code == 0, answer.output
    return dict(json.loads(answer.stdout))


def influence(kind: str, clients: int) -> float:
    """Return how many of the longest honest reports one hostile client counts as: 12 columns, epsilon 1."""
    verified = PlanFlags(columns=12, clients=clients, delta="0.000001", noise="clients").planned(kind).verified
    assert verified
    return verified.influence


def test_a_hostile_client_counts_as_much_as_the_page_says() -> None:
    assert influence("second_moment", 10_000) == pytest.approx(1.7, abs=0.05)
    assert influence("osnap", 1000) == pytest.approx(10.2, abs=0.05)
    assert influence("osnap", 10_000) == pytest.approx(3.6, abs=0.05)
    assert influence("osnap", 1_000_000) == pytest.approx(1.25, abs=0.005)


def check_bytes(words: int, servers: int = 3) -> int:
    return Parameters(words, servers, BOUND).check_bytes


def test_bodies_of_check_shares_take_as_much_room_as_said() -> None:
    assert [check_bytes(words) for words in (12, 78, 1326, 5151)] == [160, 224, 672, 1184]
    assert check_bytes(78) * 10**6 / 1e6 == 224  # MB, of one server and a million reports
    assert 3 * check_bytes(78) * 10**6 / 1e6 == 672
    assert 3 * check_bytes(12) * 10**6 / 1e6 == 480
    assert HASH_BYTES == 32


@pytest.mark.parametrize(
    ("words", "padded", "columns", "rows", "plain", "stored"),
    [
        (12, 19, 2, 10, 96, 734),
        (78, 85, 3, 29, 624, 2066),
        (1326, 1333, 10, 134, 10_608, 18_354),
        (5151, 5158, 18, 287, 41_208, 62_012),
    ],
)
def test_the_page_has_the_bytes_of_verified_reports(
    words: int, padded: int, columns: int, rows: int, plain: int, stored: int
) -> None:
    two, three = (Parameters(words, servers, BOUND) for servers in (2, 3))
    seeded = [one.payload_bytes + (one.num_servers - 1) * 32 for one in (two, three)]
    assert (two.padded, two.columns, two.powers) == (padded, columns, rows)
    assert (8 * words, two.payload_bytes) == (plain, stored)
    line = f"| {words} | {padded}, {columns}, {rows} | {plain:,} | {stored:,} | {seeded[0]:,} / {seeded[1]:,} | "
    assert line + f"{two.check_bytes:,} |" in pages()["docs/explanation/verified.md"]


@pytest.mark.parametrize(("words", "hidden", "outside", "cheat"), [(78, 51.8, 27.7, 108), (5151, 48.8, 21.7, 101)])
def test_the_page_has_what_shares_of_integers_show_and_how_seldom_a_lie_passes(
    words: int, hidden: float, outside: float, cheat: int
) -> None:
    sizes = Parameters(words, 2, BOUND)
    radius, values = math.isqrt(BOUND), 2.0**sizes.word_bits
    assert -math.log2(math.sqrt(sizes.padded) * radius / values) == pytest.approx(hidden, abs=0.05)
    assert -math.log2(10**6 * 2 * sizes.padded * radius / values) == pytest.approx(outside, abs=0.05)
    assert math.floor(-2 * math.log2((2 * sizes.powers + 6) / 2.0**60)) == cheat


def test_what_a_specification_leaves_out_is_as_said() -> None:
    few = usual_claim(epsilon="1", delta="0.000001", min_clients=100, is_sketch=False)
    assert few.max_corrupt_clients == 5  # %
    assert least_max_missing(few) == 0.25
    assert float(USUAL_MAX_REJECTED) == 0.1


def test_a_year_of_hours_takes_as_many_bytes_as_said() -> None:
    identifiers = 365 * 24 * 10**5
    assert identifiers * HASH_BYTES / 1e9 == pytest.approx(28, abs=0.05)  # GB


def test_the_weekly_task_promises_what_its_page_says(tmp_path: Path) -> None:
    asked = specification("docs/how-to/collect-weekly.md", "weekly.json")
    windows = planned(asked, tmp_path, "--json")["windows"]
    assert windows["epsilon_of_one"] == windows["epsilon_of_all"] == pytest.approx(1, abs=0.0005)
    said = CliRunner().invoke(app, [str(tmp_path / "asked.json")]).stdout
    page = pages()["docs/how-to/collect-weekly.md"]
    table = re.search(r"^a source answers .*?(?=^```)", page, re.DOTALL | re.MULTILINE)
    assert table
    for line in table[0].splitlines():
        assert line.rstrip() in said
    assert "0.63 times the noise, and a single week 1.22 times" in " ".join(page.split())


def test_the_tutorials_coefficient_is_as_wrong_as_it_says(tmp_path: Path) -> None:
    asked = specification("docs/tutorial/three-servers.md", "SPEC.json")
    proposed = planned(asked, tmp_path, "--propose")
    coefficients = planned(proposed, tmp_path, "--target", "systolic", "--json")["coefficients"]
    (age,) = [one for one in coefficients if one["name"] == "age"]
    assert age["standard_error"] == pytest.approx(0.0163, abs=0.0005)


def test_a_pilot_costs_the_main_task_what_the_page_says() -> None:
    left = float(1 - SHARE)
    assert 100 * (left**-0.5 - 1) == pytest.approx(5.4, abs=0.05)  # % more noise, of a tenth of mu^2
    assert 100 * (1 / left - 1) == pytest.approx(11, abs=0.5)  # % more of it in a sum, of a tenth of the clients


def test_a_seal_takes_as_many_bytes_as_the_page_says() -> None:
    assert OVERHEAD_BYTES[HYBRID] / 1000 == pytest.approx(1.1, abs=0.05)  # kB


@pytest.mark.parametrize(("epsilon", "sure"), [(0.1, 52.5), (0.5, 62.2), (1, 73.1), (2, 88.1), (4, 98.2)])
def test_an_observer_is_at_most_as_sure_as_said(epsilon: float, sure: float) -> None:
    assert 100 / (1 + math.exp(-epsilon)) == pytest.approx(sure, abs=0.05)


def test_ten_tasks_cost_what_the_page_of_the_ledger_says() -> None:
    one = Spending.gaussian(gaussian_mu(0.5, 1e-6))
    ten = one
    for _ in range(9):
        ten += one
    assert ten.epsilon_at(1e-6) == pytest.approx(1.73, abs=0.005)
