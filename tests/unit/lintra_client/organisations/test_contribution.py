"""An organisation's contribution: what it says before it leaves, whom the ledger charges, and that it is sent once."""

import json
from pathlib import Path

import numpy as np
import pandas
import pytest
from numpy.testing import assert_array_equal
from typer.testing import CliRunner

from lintra_client import Client, Contribution, Ledger
from lintra_client.commands.client import app
from lintra_client.commands.contribute import lines_of
from lintra_client.ledger.prices import price_of
from lintra_client.organisations.sent_table import read_table
from lintra_client.organisations.table import persons_of, values_of
from lintra_protocol import ideal
from lintra_protocol.crypto.ring import to_ring
from lintra_protocol.crypto.sharing import combine
from lintra_protocol.errors import InvalidRowError, LedgerRefusedError, UnavailableError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.fields.schema import OTHER, Column
from lintra_protocol.mechanisms import SecondMoment
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task
from support import columns_of, make_task, source
from support.fake_servers import IMPATIENT, NOW, Network, problem
from support.measured import calibrated_for, layout_of, measurement_of, with_contributors

LEVELS = ("A", "B", OTHER)


def task_of(
    rows: int = 2,
    count: str = "noisy",
    epsilon: str = "1",
    neighbours: str = "replace-one",
    levels: tuple[str, ...] = LEVELS,
) -> Task:
    """Return a task of five organisations with columns a, b and a category."""
    town = Column(name="town", lower="0", upper="2", kind="category", levels=levels)
    held = Contributors(rows_per_person=rows, organisations_per_person=1, max_rows=1000, count=count)
    claim = Claim(epsilon=epsilon, delta="0.000001", neighbours=neighbours, min_clients=5, max_corrupt_clients=4)
    mechanism = with_contributors(SecondMoment(row_bound="2", fraction_bits=0, sigma=4, intercept="1"), held)
    return make_task(
        calibrated_for(mechanism, 4, claim, 5),
        columns=(*columns_of("ab"), town),
        claim=claim,
        max_clients=5,
        max_missing="0",
        contributors=held,
    )


FRAME = pandas.DataFrame(
    {
        "b": [0.5, 3.0, -0.25, np.nan, 1.0],
        "who": [" Ann", "Bob", "Ann", "Cid", "Cid"],
        "a": [1.0, 0.0, 0.5, 0.25, 1.0],
        "town": ["A", "B", OTHER, None, "B"],
    }
)


def client(network: Network, folder: Path, ceiling: float = 3.0) -> Client:
    """Return a client with a ledger of its own."""
    ledger = Ledger(folder / "ledger.sqlite", max_epsilon=ceiling)
    return Client(
        network.task.task_id, network.urls, ledger=ledger, retries=IMPATIENT, now=lambda: NOW, transport=network
    )


def connected(monkeypatch: pytest.MonkeyPatch, task: Task) -> Network:
    """Let every client reach fake servers of a task."""
    network, made = Network(task), Client.__init__

    def reaching(self: Client, *given: object, **options: object) -> None:
        made(self, *given, **options | {"transport": network, "now": lambda: NOW, "retries": IMPATIENT})  # type: ignore[arg-type]

    monkeypatch.setattr(Client, "__init__", reaching)
    return network


async def test_a_contribution_is_bit_for_bit_that_of_the_whole_protocol_on_one_page(tmp_path: Path) -> None:
    network = Network(task_of())
    values = values_of(network.task, FRAME, "who", strict=False)[0]
    persons, names, joined = persons_of(FRAME, "who", len(FRAME))
    assert (names, joined) == (["ann", "bob", "cid"], 1)
    assert_array_equal(persons, [0, 1, 0, 2, 2])
    async with client(network, tmp_path) as one:
        made = one.contribution(FRAME, person="who")
        parcel = made.parcel(network.task, network.task.not_before, source("organisation"), ())
        receipt = await one.send_contribution(made)
    expected = ideal.organisation_report(network.task, values, persons, network.task.not_before, source("organisation"))
    assert parcel.reports[0] == expected
    assert not receipt.repeated
    assert [len(server.payloads) for server in network.servers] == [1, 1, 1]


async def test_it_says_what_is_in_it_before_anything_leaves(tmp_path: Path) -> None:
    network = Network(task_of())
    async with client(network, tmp_path) as one:
        made = one.contribution(FRAME, person="who")
    account = made.account
    assert (account.rows, account.persons, account.most_rows) == (5, 3, 2)
    assert account.moved == {"a": 0, "b": 1, "town": 0}
    assert account.missing == {"a": 0, "b": 1, "town": 0}
    assert account.others == {"town": 2}
    assert account.left_out_rows == 1
    assert account.shrunk == 0
    assert "persons, each with at most 2 rows in at most 1 organisation" in account.promise
    assert list(account.colluding) == [0, 20, 40, 60, 80]
    assert account.colluding[80] == pytest.approx(1, abs=1e-6)
    assert account.noise > 1
    assert repr(made) == "Contribution(5 rows of 3 persons)"
    assert network.nothing_left()


async def test_where_rows_are_weighted_nobody_is_shrunk_and_only_the_targets_bound_moves_values(tmp_path: Path) -> None:
    plain = task_of()
    weights = {"row_weights": "features", "target": 0, "target_bound": "0.5", "row_bound": "1", "intercept": "0.5"}
    weighted = plain.mechanism.model_copy(update=weights | {"rounding": "dithered", "trace": False})
    network = Network(plain.model_copy(update={"mechanism": weighted}))
    async with client(network, tmp_path) as one:
        account = one.contribution(FRAME, person="who").account
    # 1.0 twice beyond the target's .5, of rows that count; the last row's b of 3.0 lies beyond its column's bound.
    assert (account.shrunk, account.shrunk_to, account.moved) == (0, 1.0, {"a": 2, "b": 1, "town": 0})
    assert not any("shrunk" in line for line in lines_of(account, network.task))


async def test_a_person_who_is_too_long_is_shrunk_with_all_of_her_rows(tmp_path: Path) -> None:
    network = Network(task_of(rows=1, count="exact"))
    narrow = network.task.mechanism.model_copy(update={"row_bound": "1", "intercept": "0.5"})
    network = Network(network.task.model_copy(update={"mechanism": narrow}))
    rows = {"a": [1.0, 0.1], "b": [1.0, 0.1], "town": ["B", "A"]}
    async with client(network, tmp_path) as one:
        account = one.contribution(rows).account
    assert account.shrunk == 1
    assert account.shrunk_to == pytest.approx(3**-0.5, rel=1e-3)


@pytest.mark.parametrize("count", ["noisy", "exact"])
async def test_a_row_left_out_is_not_counted_as_clipped(tmp_path: Path, count: str) -> None:
    network = Network(task_of(rows=1, count=count))
    rows = {"a": [np.nan, 0.1], "b": [5.0, 0.1], "town": ["B", "A"]}
    async with client(network, tmp_path) as one:
        made = one.contribution(rows)
    parcel = made.parcel(network.task, network.task.not_before, source("organisation"), ())
    is_left_out = count == "noisy"
    assert made.account.left_out_rows == is_left_out
    assert made.account.moved == {"a": 0, "b": not is_left_out, "town": 0}
    assert parcel.clipped == (not is_left_out,)


async def test_the_ledger_charges_every_person_of_the_file_and_not_the_organisation(tmp_path: Path) -> None:
    network = Network(task_of())
    async with client(network, tmp_path) as one:
        await one.contribute(FRAME, person="who")
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        entries = ledger.entries()
        assert {entry.source for entry in entries} == set(map(ledger.pseudonym, ("Ann", "Bob", "Cid")))
        assert {entry.spent.mu_squared for entry in entries} == {price_of(network.task).mu_squared}
        assert ledger.spent("organisation").epsilon == 0
        assert 0.99 < ledger.spent("Ann").epsilon <= 1


@pytest.mark.parametrize(("neighbours", "times"), [("add-remove", 2**0.5), ("zero-out", 2**0.5)])
def test_a_ledger_counts_replaced_persons_whatever_the_task_promises(neighbours: str, times: float) -> None:
    task = task_of(neighbours=neighbours)
    assert price_of(task).mu == pytest.approx(times * task.worst_privacy().mu, rel=1e-6)
    plain = task_of()
    assert price_of(plain).mu == pytest.approx(plain.worst_privacy().mu, rel=1e-9)


async def test_a_file_with_somebody_who_has_no_privacy_left_is_refused_as_a_whole_or_without_her(
    tmp_path: Path,
) -> None:
    first, second = Network(task_of()), Network(task_of(epsilon="1.1"))
    async with client(first, tmp_path, ceiling=1.2) as one:
        await one.contribute(FRAME[FRAME["who"] == "Bob"], person="who")
    async with client(second, tmp_path, ceiling=1.2) as one:
        with pytest.raises(LedgerRefusedError, match="1 of 3 persons have no privacy left"):
            await one.contribute(FRAME, person="who")
        assert second.nothing_left()
        made = one.contribution(FRAME, person="who", leave_out=True)
        assert (made.account.left_out, made.account.rows, made.account.persons) == (1, 4, 2)
        await one.send_contribution(made)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert {entry.source for entry in ledger.entries()} == set(map(ledger.pseudonym, ("Ann", "Bob", "Cid")))


def test_persons_are_charged_all_or_none(tmp_path: Path) -> None:
    task, other = task_of(), task_of(epsilon="1.1")
    with Ledger(tmp_path / "ledger.sqlite", max_epsilon=1.2) as ledger:
        ledger.charge_contribution(task, b"1" * 32, ["Bob"])
        with pytest.raises(LedgerRefusedError, match="1 of 2 persons"):
            ledger.charge_contribution(other, b"2" * 32, ["Ann", "Bob"])
        assert [entry.source for entry in ledger.entries()] == [ledger.pseudonym("Bob")]
        assert ledger.unaffordable(other, ["Ann", "Bob"]) == ["Bob"]
        assert ledger.is_charged(task, b"1" * 32)
        ledger.charge_contribution(task, b"1" * 32, ["Bob"])
        assert len(ledger.entries()) == 1


async def test_a_second_report_of_an_organisation_is_the_first_one_again(tmp_path: Path) -> None:
    network = Network(task_of())
    network.servers[1].around = lambda request, answer: (
        problem(UnavailableError()) if request.method == "POST" else answer()  # type: ignore[operator]
    )
    async with client(network, tmp_path) as one:
        with pytest.raises(UnavailableError):
            await one.contribute(FRAME, person="who")
    network.servers[1].around = lambda request, answer: answer()  # type: ignore[operator]
    async with client(network, tmp_path) as one:
        receipt = await one.contribute(FRAME, person="who")
        assert receipt.repeated
        # What else is given now is not looked at, and nobody else is charged.
        assert (await one.contribute(FRAME.assign(who=list("vwxyz")), person="who")).report_id == receipt.report_id
    assert [len(server.payloads) for server in network.servers] == [1, 1, 1]
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert len(ledger.entries()) == 3


async def test_more_rows_of_a_person_than_allowed_are_refused_or_the_first_ones_kept(tmp_path: Path) -> None:
    network = Network(task_of(rows=1))
    async with client(network, tmp_path) as one:
        with pytest.raises(InvalidRowError, match="a person has 2 rows"):
            one.contribution(FRAME, person="who")
        made = one.contribution(FRAME, person="who", keep=1)
        assert (made.account.rows, made.account.dropped_rows) == (3, 2)
        first = one.contribution(FRAME.iloc[[0, 1, 3]], person="who")
        assert_array_equal(made.normalised, first.normalised)
        with pytest.raises(InvalidRowError, match="keep: the task allows 1 to 1"):
            one.contribution(FRAME, person="who", keep=2)


async def test_without_persons_somebody_vouches_and_only_for_one_row_of_each(tmp_path: Path) -> None:
    async with client(Network(task_of(rows=2)), tmp_path) as one:
        with pytest.raises(InvalidRowError, match="say whose row each is"):
            one.contribution(FRAME.drop(columns="who"))
    network = Network(task_of(rows=1, count="exact"))
    async with client(network, tmp_path) as one:
        await one.contribute(np.array([[0.5, 0.5, 1.0], [0.1, np.nan, 0.0]]))
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert [entry.source for entry in ledger.entries()] == [None]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"columns": {"b": "c"}}, "the file has columns c, who, a, town"),
        ({"person": "nobody"}, "the file has columns"),
        ({"person": "town"}, "belongs to the task"),
        ({"who": ["Ann", "", "Ann", "Cid", "Cid"]}, "row 2, column 'who': nobody is named here"),
    ],
)
async def test_a_file_that_does_not_fit_is_refused_in_words(
    change: dict[str, object], words: str, tmp_path: Path
) -> None:
    frame = FRAME.rename(columns=change.get("columns", {})) if "columns" in change else FRAME
    frame = frame.assign(who=change["who"]) if "who" in change else frame
    async with client(Network(task_of()), tmp_path) as one:
        with pytest.raises(InvalidRowError, match=words):
            one.contribution(frame, person=str(change.get("person", "who")))


def test_csv_parquet_and_a_frame_give_the_same_rows(tmp_path: Path) -> None:
    task = task_of()
    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    FRAME.to_parquet(tmp_path / "rows.parquet")
    expected = values_of(task, FRAME, "who", strict=False)[0]
    assert_array_equal(expected[:, 2], [0, 1, 2, 2, 1])
    for name in ("rows.csv", "rows.parquet"):
        table = read_table(tmp_path / name)
        assert_array_equal(values_of(task, table, "who", strict=False)[0], expected)
        assert persons_of(table, "who", 5)[1] == ["ann", "bob", "cid"]
    (tmp_path / "short.csv").write_text("a,b\n1\n")
    with pytest.raises(InvalidRowError, match="row 1 has 1 cells"):
        read_table(tmp_path / "short.csv")


def test_dates_and_truths_are_read_as_they_are_where_single_rows_are_sent() -> None:
    columns = (
        Column(name="day", lower="0", upper="20000", unit="days since 1970-01-01"),
        Column(name="ill", lower="0", upper="1", kind="boolean"),
    )
    task = make_task("sum", columns=columns)
    texts = {"day": ["1970-01-03", "NA", "4"], "ill": ["true", "0", " "]}
    expected = [[2, 1], [np.nan, 0], [4, np.nan]]
    assert_array_equal(values_of(task, texts, None, strict=False)[0], expected)
    frame = pandas.DataFrame(
        {"day": pandas.to_datetime(["1970-01-03", None, "1970-01-05"]), "ill": [True, False, None]}
    )
    assert_array_equal(values_of(task, frame, None, strict=False)[0], expected)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"b": ["0", "1", "53%", "0", "0"]}, "row 3, column 'b': expected a number, got str"),
        ({"b": [0, 1, "yes", 0, 0]}, "row 3, column 'b': expected a number, got str"),
        ({"b": pandas.Categorical(["0", "n/a?", "0", "0", "0"])}, "row 2, column 'b': expected a number, got str"),
        ({"town": ["A", "B", "a", "A", "A"]}, "row 3, column 'town': expected one of its 3 levels, A, B, C, got str"),
        ({"town": ["A", "none", "A", "A", "A"]}, "row 2, column 'town': expected one of its 3 levels"),
        ({"town": [1.0, 2.0, 1.0, 1.0, 1.0]}, "row 1, column 'town': expected one of its 3 levels, A, B, C, got float"),
    ],
)
async def test_a_cell_that_is_neither_missing_nor_of_its_kind_is_never_sent_as_missing(
    change: dict[str, object], complaint: str, tmp_path: Path
) -> None:
    network = Network(task_of(levels=("A", "B", "C")))
    async with client(network, tmp_path) as one:
        with pytest.raises(InvalidRowError, match=complaint) as refusal:
            await one.contribute(FRAME.assign(**change), person="who")
    assert all(word not in str(refusal.value) for word in ("53%", "yes", "n/a?", "none"))
    assert network.nothing_left()


def test_a_missing_level_is_missing_or_the_reserved_level() -> None:
    towns = FRAME.assign(town=["A", None, "", "NA", pandas.NA])
    for levels, missing in ((("A", "B", "C"), np.nan), (("A", "B", OTHER), 2)):
        found = values_of(task_of(levels=levels), towns, "who", strict=False)[0]
        assert_array_equal(found[:, 2], [0, *[missing] * 4])


@pytest.mark.parametrize(
    ("column", "cell", "complaint"),
    [
        ("b", "53%", "row 2, column 'b': expected a number, got str. The cell holds '53%': write a number"),
        ("town", "a", "row 2, column 'town': expected one of its 3 levels, A, B, C, got str. The cell holds 'a'"),
    ],
)
def test_the_command_shows_the_cell_that_cannot_be_sent_and_says_what_may_stand_there(
    column: str, cell: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = connected(monkeypatch, task_of(levels=("A", "B", "C")))
    file = tmp_path / "rows.csv"
    FRAME.assign(**{column: ["0" if column == "b" else "A", cell, *FRAME[column][2:]]}).to_csv(file, index=False)
    servers = [word for url in network.urls for word in ("--server", url)]
    words = ["contribute", str(file), network.task.task_id, *servers, "--person", "who", "--no-ledger", "--yes"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert complaint in result.output
    assert network.nothing_left()


def test_the_command_shows_everything_and_sends_nothing_without_a_yes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = connected(monkeypatch, task_of())
    file = tmp_path / "rows.csv"
    FRAME.to_csv(file, index=False)
    servers = [word for url in network.urls for word in ("--server", url)]
    words = ["contribute", str(file), network.task.task_id, *servers, "--person", "who", "--ledger"]
    words.append(str(tmp_path / "ledger.sqlite"))
    no = CliRunner().invoke(app, words, input="n\n")
    assert no.exit_code == 1
    assert "5 rows of 3 persons; one person has 2 at most" in no.output
    assert "b: 1 values beyond a bound are moved to it, 1 are missing" in no.output
    assert "town: 2 count as (other)" in no.output
    assert "1 if 4 do" in no.output
    dry = CliRunner().invoke(app, [*words, "--dry-run", "--json"])
    assert json.loads(dry.output)["sent"] is None
    assert network.nothing_left()
    assert CliRunner().invoke(app, [*words, "--json"]).exit_code == 1
    yes = CliRunner().invoke(app, [*words, "--yes", "--json"])
    assert json.loads(yes.output)["account"]["persons"] == 3
    assert [len(server.payloads) for server in network.servers] == [1, 1, 1]
    again = CliRunner().invoke(app, words)
    assert "was begun before and is complete now" in again.output


async def test_spellings_of_one_person_are_clipped_and_charged_as_one_and_counted(tmp_path: Path) -> None:
    spelled = ["17", "17.0", "017", "\uff11\uff17", "18"]
    async with client(Network(task_of()), tmp_path) as one:
        # As five persons each would be clipped by herself: four rows of one at a promise for two.
        words = r"a person has 4 rows \(3 spellings of names were joined\), and the task allows 2"
        with pytest.raises(InvalidRowError, match=words):
            one.contribution(FRAME.assign(who=spelled), person="who")
        made = one.contribution(FRAME.assign(who=spelled), person="who", keep=2)
        assert (made.account.persons, made.account.joined, made.account.dropped_rows) == (2, 3, 2)
        assert "3 spellings of names were joined with others" in "\n".join(lines_of(made.account, one.task))
        await one.send_contribution(made)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert {entry.source for entry in ledger.entries()} == {ledger.pseudonym(17), ledger.pseudonym(18)}


def test_what_is_sent_is_the_sum_of_the_rows_and_the_noise_of_one_report(tmp_path: Path) -> None:
    task = task_of()
    values, (persons, *_) = values_of(task, FRAME, "who", strict=False)[0], persons_of(FRAME, "who", 5)
    exact = measurement_of(task, task.schema_arrays.normalise(values).shape[1]).exact_contribution(
        task.schema_arrays.normalise(values), persons
    )
    noised = task.encode_contribution(values, persons, source("x"))
    noise = noised - exact
    assert 0 < np.abs(noise / layout_of(task, 4).sigmas).max() < 5
    assert combine(to_ring(noised)[np.newaxis]).shape == noised.shape
    assert isinstance(Contribution.__dataclass_fields__["normalised"].repr, bool)
    assert not Contribution.__dataclass_fields__["normalised"].repr


def test_persons_with_whole_numbers_are_those_of_the_same_numbers_as_texts() -> None:
    numbered = np.array([7, 3, 7, -1, 3], np.int64)
    fast, fast_names, _ = persons_of({"who": numbered}, "who", 5)
    slow, slow_names, _ = persons_of({"who": [str(value) for value in numbered]}, "who", 5)
    assert [fast_names[number] for number in fast] == [slow_names[number] for number in slow]
    assert sorted(fast_names) == sorted(slow_names) == ["-1", "3", "7"]


def test_a_column_of_whole_numbers_that_became_fractions_names_the_same_persons() -> None:
    # pandas makes fractions of them as soon as one cell of the column is empty, in another month's file perhaps.
    whole, fractions = np.array([7, 3, -1, 10**6]), [7.0, np.float32(3.0), -1.0, 1e6]
    assert sorted(persons_of({"who": whole}, "who", 4)[1]) == sorted(persons_of({"who": fractions}, "who", 4)[1])
