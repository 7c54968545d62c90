"""Sending rows: what arrives is what the protocol says, and a row that does not fit never leaves."""

import logging
import pickle
from collections.abc import Callable, Iterator

import httpx2
import numpy as np
import pytest

from lintra_client import Client, Parcel, SendReceipt
from lintra_client.sending.sealed_reports import block_size
from lintra_protocol.crypto.ring import from_ring
from lintra_protocol.crypto.sharing import combine
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import (
    BatchClosedError,
    InvalidRowError,
    LintraError,
    TaskEndedError,
    TaskNotStartedError,
    UnavailableError,
)
from lintra_protocol.fields.schema import Row
from lintra_protocol.ideal import client_report
from lintra_protocol.mechanisms import SecondMoment
from lintra_protocol.report.report import share_words
from lintra_protocol.report.wire import BLIND_BYTES
from lintra_protocol.task import Task
from support import make_task, source
from support.fake_servers import NOW, Around, Network
from support.measured import calibrated_for, measurement_of

ROW = [0.5, -0.25, 0.125]


def received(network: Network) -> dict[bytes, list[bytes]]:
    """Return for each report the payloads that the servers hold, and require that all hold the same reports."""
    first, *others = (server.payloads for server in network.servers)
    assert all(other.keys() == first.keys() for other in others)
    return {known: [server.payloads[known] for server in network.servers] for known in first}


def ideal_payloads(task: Task, row: Row, label: str) -> tuple[bytes, list[bytes]]:
    report = client_report(task, row, NOW // task.time_precision, source(label))
    return report.report_id, [share[BLIND_BYTES + 1 :] for share in report.shares]


# --- one row --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share_form", ["uniform", "seeded", "spread"])
@pytest.mark.parametrize("mechanism", ["sum", "osnap", "second_moment"])
async def test_a_sent_row_is_at_every_server_bit_for_bit_as_in_the_ideal_run(mechanism: str, share_form: str) -> None:
    network = Network(make_task(mechanism, share_form=share_form))
    async with network.client() as client:
        receipt = await client.send(ROW, random_bytes=source("client"))
    known, payloads = ideal_payloads(network.task, ROW, "client")
    assert received(network) == {known: payloads}
    assert receipt.report_id == base64url(known)
    assert set(network.servers[0].times.values()) == {NOW // network.task.time_precision}


async def test_the_hybrid_suite_seals_to_the_hybrid_keys() -> None:
    network = Network(make_task(suite="mlkem768-x25519"))
    async with network.client() as client:
        await client.send(ROW)
    assert len(received(network)) == 1


async def test_system_randomness_is_fresh_for_every_report_and_the_shares_sum_to_a_row_near_the_one_sent() -> None:
    network = Network(make_task())
    async with network.client() as client:
        receipts = [await client.send(ROW) for _ in range(2)]
    assert len({receipt.report_id for receipt in receipts}) == 2
    for payloads in received(network).values():
        words = combine(np.stack([share_words(network.task, index, each) for index, each in enumerate(payloads)]))
        steps = np.array(ROW) * 2.0**network.task.mechanism.fraction_bits
        assert np.abs(from_ring(words) - steps).max() < 12 * network.task.mechanism.sigma


async def test_a_row_may_come_by_name_as_a_sequence_or_as_an_array() -> None:
    network = Network(make_task())
    async with network.client() as client:
        for row in (dict(zip("cba", reversed(ROW), strict=True)), tuple(ROW), np.array(ROW)):
            await client.send(row, random_bytes=source("client"))
    assert len(received(network)) == 1


async def test_the_receipt_names_the_servers_and_keeps_their_signed_word() -> None:
    network = Network(make_task())
    async with network.client(list(reversed(network.urls))) as client:
        receipt = await client.send(ROW)
    assert receipt.servers == tuple(network.urls)
    for entry, signed in zip(network.task.servers, receipt.signed, strict=True):
        assert signed.verified(entry.identity_key).count == 1


@pytest.mark.parametrize(
    ("row", "clipped"), [(ROW, False), ([2.0, 0, 0], True), ([0.9, 0.9, 0], True), ([1, 0, 0], False)]
)
async def test_the_receipt_says_whether_a_bound_moved_the_row(row: list[float], clipped: bool) -> None:
    network = Network(make_task())
    async with network.client() as client:
        assert (await client.send(row)).clipped is clipped


INCOMPLETE_ROWS: list[tuple[object, str]] = [
    ([0.5, float("nan"), 0], "'b'"),
    ([None, 0, 0], "'a'"),
    ({"a": 1, "b": 1, "c": None}, "'c'"),
]
BAD_ROWS: list[tuple[object, str]] = [
    ([0.5, 0], "a, b, c"),
    ([0.5, 0, 0, 0], "a, b, c"),
    ([0.5, 0, float("inf")], "column 'c': not a finite number"),
    ([0.5, 0, float("-inf")], "'c'"),
    ({"a": 1, "b": 1}, "column 'c': it is absent from the row"),
    ({"a": 1, "b": 1, "c": 1, "d": 1}, "'d'"),
    ({"a": 1, "b": 1, "C": 1}, "'C'"),
    ({"a": "1", "b": 1, "c": 1}, "column 'a': expected a number, got str"),
    (["yes", 0, 0], "'a'"),
    ([0, "53%", 0], "'b'"),
    ([True, 0, 0], "'a'"),
    ([0, 0, 10**400], "'c'"),
    ("abc", "str"),
    (b"abc", "bytes"),
    (5, "int"),
    (None, "NoneType"),
]


@pytest.mark.parametrize(("row", "named"), BAD_ROWS, ids=repr)
async def test_a_row_that_does_not_fit_is_refused_by_column_before_anything_leaves(row: Row, named: str) -> None:
    network = Network(make_task())
    async with network.client() as client:
        with pytest.raises(InvalidRowError, match=named):
            await client.send(row)
    assert network.nothing_left()


@pytest.mark.parametrize(("row", "named"), INCOMPLETE_ROWS, ids=repr)
async def test_a_missing_value_is_sent_as_the_task_says_and_with_strict_refused_by_column(row: Row, named: str) -> None:
    network = Network(make_task())
    async with network.client(strict=True) as client:
        with pytest.raises(InvalidRowError, match=named):
            await client.send(row)
    assert network.nothing_left()
    async with network.client() as client:
        receipt = await client.send(row)
        whole = await client.send(ROW)
    assert (receipt.incomplete, whole.incomplete) == (True, False)
    # Nobody sees which of the two lacked a value: same servers, same number of messages of the same length.
    assert [len(server.payloads) for server in network.servers] == [2, 2, 2]
    assert all(len(set(map(len, server.payloads.values()))) == 1 for server in network.servers)


async def test_under_a_noisy_count_a_missing_value_makes_the_null_row() -> None:
    mechanism = SecondMoment(row_bound="1", fraction_bits=0, sigma=4, intercept="0.5", count="noisy")
    task = make_task(calibrated_for(mechanism, 3, make_task().claim, 1000))
    network = Network(task)
    async with network.client() as client:
        await client.send({"a": 9, "b": 0.5, "c": None}, source("lacking"))
    expected = measurement_of(task, 3).noise(1, source("lacking"))[0]
    assert expected.any()
    [payloads] = received(network).values()
    shares = np.stack([share_words(task, server, payload) for server, payload in enumerate(payloads)])
    assert from_ring(combine(shares)).tolist() == expected.tolist()


async def test_a_report_outside_the_tasks_window_is_refused_before_anything_leaves() -> None:
    task = make_task(not_before=100_000, not_after=100_010)
    network = Network(task)
    for now, error in [(100_000 * 60 - 1, TaskNotStartedError), (100_010 * 60, TaskEndedError)]:
        async with network.client(now=now) as client:
            with pytest.raises(error):
                await client.send(ROW)
            summary = await client.send_many([ROW, ROW])
            assert isinstance(summary.stopped, error)
            assert [failed.index for failed in summary.failed] == [0, 1]
    assert network.nothing_left()


async def test_a_prepared_report_can_be_delivered_again_after_a_failure_and_counts_once() -> None:
    network = Network(make_task())
    async with network.client() as client:
        parcel = client.prepare(ROW)
        network.servers[1].refuse = lambda known: UnavailableError()
        with pytest.raises(UnavailableError):
            await client.deliver(parcel)
        network.servers[1].refuse = lambda known: None
        receipt = await client.deliver(parcel)
    assert list(received(network)) == [parcel.report_ids[0]]
    assert receipt.report_id == base64url(parcel.report_ids[0])


async def test_opening_twice_checks_once() -> None:
    network = Network(make_task())
    async with network.client() as client:
        await client.open()
    assert network.servers[0].requests.count("GET /v1/keys") == 1


async def test_a_client_that_is_not_open_says_so() -> None:
    network = Network(make_task())
    client = network.client()
    with pytest.raises(ValueError, match="not open"):
        await client.send(ROW)
    async with client:
        parcel = client.prepare(ROW)
    with pytest.raises(ValueError, match="closed"):
        await client.deliver(parcel)


@pytest.mark.parametrize(
    ("task_id", "servers"),
    [
        ("short", ["https://a.test", "https://b.test"]),
        ("A" * 43, ["https://a.test"]),
        ("A" * 43, ["https://a.test", "https://a.test/"]),
        ("A" * 43, ["https://a.test", "ftp://b.test"]),
        ("A" * 43, "https://a.test"),
    ],
)
def test_arguments_that_cannot_be_right_are_the_callers_mistake(task_id: str, servers: list[str]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        Client(task_id, servers)


# --- many rows ------------------------------------------------------------------------------------------------


def random_rows(count: int, columns: int = 3) -> np.ndarray:
    return np.random.default_rng(7).uniform(-0.5, 0.5, (count, columns))


@pytest.mark.parametrize("as_array", [True, False])
@pytest.mark.grid(2)
async def test_bulk_with_a_source_per_row_is_bit_for_bit_the_ideal_run(as_array: bool) -> None:
    network = Network(make_task("osnap", share_form="seeded"))
    rows = random_rows(600)
    async with network.client() as client:
        summary = await client.send_many(
            rows if as_array else iter(rows.tolist()), random_bytes_for=lambda index: source(f"client {index}")
        )
    assert (summary.sent, summary.failed, summary.stopped) == (600, (), None)
    assert received(network) == dict(ideal_payloads(network.task, row, f"client {i}") for i, row in enumerate(rows))


async def test_bulk_with_system_randomness_delivers_every_row() -> None:
    network = Network(make_task())
    rows = np.zeros((600, 3))
    rows[::2] = 3.0
    async with network.client() as client:
        summary = await client.send_many(rows)
    summary.require_complete()
    assert (summary.sent, summary.clipped) == (600, 300)
    reports = received(network)
    assert len(reports) == 600
    total = sum(
        from_ring(combine(np.stack([share_words(network.task, j, each) for j, each in enumerate(payloads)])))
        for payloads in reports.values()
    )
    steps = 300 / 3**0.5 * 2.0**network.task.mechanism.fraction_bits
    # Six standard deviations of the noise of 600 reports, three words: false alarm below 1e-8.
    assert np.abs(total - steps).max() < 6 * 600**0.5 * network.task.mechanism.sigma


async def test_an_upload_holds_at_most_256_reports() -> None:
    network = Network(make_task())
    async with network.client() as client:
        await client.send_many(random_rows(600))
    assert [len(server.uploads) for server in network.servers] == [3, 3, 3]


def test_blocks_of_long_reports_are_smaller() -> None:
    task = make_task("second_moment", columns=26, check=False)
    assert block_size(task) == 256
    wide = task.model_copy(update={"columns": tuple(task.columns[0] for _ in range(300))})
    assert 1 <= block_size(wide) < 16


async def test_a_bad_row_in_an_array_refuses_the_whole_call_before_anything_leaves() -> None:
    network = Network(make_task())
    rows = random_rows(1000)
    rows[777, 1] = np.nan
    async with network.client(strict=True) as client:
        for bad in (rows, rows[:, :2], rows[0], rows.astype(str)):
            with pytest.raises(InvalidRowError):
                await client.send_many(bad)
        with pytest.raises(InvalidRowError, match=r"row 777, column 'b'"):
            await client.send_many(rows)
    assert network.nothing_left()


async def test_a_bad_row_in_an_iterable_is_reported_and_the_others_are_sent() -> None:
    network = Network(make_task())
    rows: list[Row] = random_rows(300).tolist()
    rows[5], rows[299] = [0, float("nan"), 0], {"a": 1, "b": 1, "c": None}
    async with network.client(strict=True) as client:
        summary = await client.send_many(rows)
    assert (summary.sent, summary.incomplete) == (298, 0)
    assert [(failed.index, type(failed.error)) for failed in summary.failed] == [
        (5, InvalidRowError),
        (299, InvalidRowError),
    ]
    assert "'b'" in str(summary.failed[0].error)
    with pytest.raises(InvalidRowError):
        summary.require_complete()
    assert len(received(network)) == 298
    async with network.client() as client:
        lenient = await client.send_many(rows)
    assert (lenient.sent, lenient.incomplete, lenient.failed) == (300, 2, ())


async def test_only_bad_rows_or_no_rows_at_all_send_nothing() -> None:
    network = Network(make_task())
    async with network.client() as client:
        assert (await client.send_many([[0.0]] * 600)).sent == 0
        assert (await client.send_many([])).sent == 0
        assert (await client.send_many(np.empty((0, 3)))).sent == 0
    assert network.nothing_left()


async def test_a_row_refused_by_one_server_is_in_the_summary_with_its_index() -> None:
    network = Network(make_task())
    rows = random_rows(300)
    unwanted = ideal_payloads(network.task, rows[123], "client 123")[0]
    network.servers[2].refuse = lambda known: BatchClosedError("late") if known == unwanted else None
    async with network.client() as client:
        summary = await client.send_many(rows, random_bytes_for=lambda index: source(f"client {index}"))
    (failed,) = summary.failed
    assert (failed.index, failed.report_id, failed.parcel) == (123, base64url(unwanted), None)
    assert isinstance(failed.error, BatchClosedError)
    assert (summary.sent, summary.stopped) == (299, None)


async def test_reports_that_an_unreachable_server_missed_can_be_delivered_later_without_counting_twice() -> None:
    network = Network(make_task())
    network.servers[1].refuse = lambda known: UnavailableError()
    async with network.client() as client:
        summary = await client.send_many(random_rows(20))
        assert len(summary.failed) == 20
        network.servers[1].refuse = lambda known: None
        for failed in summary.failed:
            assert failed.parcel is not None
            await client.deliver(failed.parcel)
    assert len(received(network)) == 20


async def test_rows_before_a_failure_of_the_callers_iterable_are_sent_and_the_failure_is_raised() -> None:
    network = Network(make_task())

    def rows() -> Iterator[list[float]]:
        for _ in range(300):
            yield ROW
        raise OSError("disk")

    async with network.client() as client:
        with pytest.raises(OSError, match="disk") as caught:
            await client.send_many(rows())
    assert len(received(network)) == 300
    assert caught.value.__notes__ == ["300 rows were sent before this"]


async def test_progress_ends_at_the_number_of_rows() -> None:
    network = Network(make_task())
    told: list[int] = []
    async with network.client() as client:
        await client.send_many([*random_rows(700).tolist(), [0.0]], progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 701


# --- what is kept quiet ---------------------------------------------------------------------------------------


async def test_no_repr_shows_a_row_or_a_share(caplog: pytest.LogCaptureFixture) -> None:
    network = Network(make_task())
    secret = 0.123456789
    network.servers[0].around = lost_first_answer()
    with caplog.at_level(logging.DEBUG):
        async with network.client() as client:
            parcel: Parcel = client.prepare([secret, 0, 0])
            receipt: SendReceipt = await client.deliver(parcel)
            summary = await client.send_many([[secret, 0, 0], [secret]])
    shown = repr([client, parcel, receipt, summary, *parcel.reports]) + caplog.text
    assert "12345678" not in shown
    for share in parcel.reports[0].shares:
        assert repr(share[:8])[2:-1] not in shown


def lost_first_answer() -> Around:
    lost: list[httpx2.Request] = []

    def around(request: httpx2.Request, answer: Callable[[], httpx2.Response]) -> httpx2.Response:
        result = answer()
        if not lost:
            lost.append(request)
            raise httpx2.ReadError("lost")
        return result

    return around


def test_a_refusal_travels_between_processes() -> None:
    error: LintraError = pickle.loads(pickle.dumps(InvalidRowError("column 'a'")))
    assert (type(error), error.detail) == (InvalidRowError, "column 'a'")
