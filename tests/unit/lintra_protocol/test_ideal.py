"""The whole protocol in one process."""

import numpy as np
import pytest

from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.errors import CohortTooSmallError, FalseClaimError, InvalidRowError, TooManyRejectedError
from lintra_protocol.ideal import client_report, release, run
from lintra_protocol.report.report import Report
from lintra_protocol.report.wire import commitments_to, encode_header, report_id
from lintra_protocol.rules.release import late_seed
from lintra_protocol.task import Task
from lintra_protocol.verification.parameters import Parameters
from lintra_protocol.verification.proof import prove
from lintra_protocol.verification.shares import split_proven
from support import make_task, nonce, source

NONCES = [nonce(server) for server in range(3)]
ROWS = [[0.1 * (index % 5), -0.2, 0.3] for index in range(12)]


def clients(label: str = "client") -> list[tuple[list[float], object]]:
    return [(row, source(f"{label} {index}")) for index, row in enumerate(ROWS)]


@pytest.mark.parametrize("share_form", ["uniform", "seeded", "spread"])
@pytest.mark.parametrize("num_servers", [2, 3, 5])
def test_the_sum_is_right_up_to_its_stated_noise(share_form: str, num_servers: int) -> None:
    task = make_task(epsilon=1000, share_form=share_form, num_servers=num_servers, row_bound=1)
    released = run(task, clients(), [nonce(server) for server in range(num_servers)])  # type: ignore[arg-type]
    deviation = task.mechanism.sigma * 2.0**-task.mechanism.fraction_bits * len(ROWS) ** 0.5
    # Seven deviations: a false alarm once in 10^11 draws, were the seeds not fixed.
    assert np.all(np.abs(released.values - np.sum(ROWS, axis=0)) < 7 * deviation)
    assert np.any(released.values != np.sum(ROWS, axis=0))


@pytest.mark.parametrize("kind", ["sum", "osnap", "second_moment"])
def test_how_shares_are_formed_does_not_change_a_sum(kind: str) -> None:
    # One source draws noise first and shares later, so the noise is the same in both forms.
    values = [
        run(make_task(kind, share_form=form), clients(), NONCES).values  # type: ignore[arg-type]
        for form in ("uniform", "seeded", "spread")
    ]
    if kind != "osnap":  # another form means other identifiers, hence another deal
        np.testing.assert_array_equal(values[0], values[1])
        np.testing.assert_array_equal(values[0], values[2])
    assert values[0].shape == values[1].shape == {"sum": (3,), "osnap": (2, 3), "second_moment": (3, 3)}[kind]


def test_the_order_of_the_clients_does_not_matter() -> None:
    task = make_task("osnap")
    first, second = run(task, clients(), NONCES), run(task, clients()[::-1], NONCES)  # type: ignore[arg-type]
    assert first.seed == second.seed
    np.testing.assert_array_equal(first.values, second.values)


def test_the_release_carries_its_privacy_and_its_seed() -> None:
    task = make_task()
    released = run(task, clients(), NONCES)  # type: ignore[arg-type]
    assert released.privacy == task.privacy(12)
    assert len(released.seed) == 32
    assert released.seed != late_seed(task, 0, bytes(32), NONCES)


def test_second_moments_come_out_symmetric() -> None:
    values = run(make_task("second_moment"), clients(), NONCES).values  # type: ignore[arg-type]
    np.testing.assert_array_equal(values, values.T)


def test_too_few_clients_give_nothing() -> None:
    with pytest.raises(CohortTooSmallError, match="7 of at least 8"):
        run(make_task(min_clients=8), clients()[:7], NONCES)  # type: ignore[arg-type]


def test_a_bad_row_stops_before_anything_is_shared() -> None:
    with pytest.raises(InvalidRowError):
        run(make_task(), [*clients(), ([0, 0], source("x"))], NONCES)  # type: ignore[list-item]


def test_a_false_task_is_never_run() -> None:
    task = make_task()
    weak = make_task(task.mechanism.model_copy(update={"sigma": 4}), check=False)
    with pytest.raises(FalseClaimError):
        run(weak, clients(), NONCES)  # type: ignore[arg-type]


def test_smoothing_noise_comes_from_the_servers_own_sources_alone() -> None:
    task = make_task("osnap", rows=4, sparsity=2, min_clients=12)
    first, again, other = (
        run(task, clients(), NONCES, smoothing=[source(f"{label} {server}") for server in range(3)])  # type: ignore[arg-type]
        for label in ("server", "server", "another")
    )
    np.testing.assert_array_equal(first.values, again.values)
    step = 2.0**-task.mechanism.fraction_bits / 2**0.5
    difference = (other.values - first.values) / step
    np.testing.assert_allclose(difference, np.round(difference), atol=1e-3)
    # Six draws of parameter 3 in every entry: deviation 7.3; nine of them are a false alarm below 1e-15.
    assert 0 < np.abs(difference).max() < 66


@pytest.mark.parametrize("sources", [None, [source("one")]])
def test_without_a_source_for_every_server_nothing_is_smoothed_and_nothing_released(sources: object) -> None:
    task = make_task("osnap", rows=4, sparsity=2, min_clients=12)
    with pytest.raises(ValueError, match="each of the 3 servers needs a source"):
        run(task, clients(), NONCES, smoothing=sources)  # type: ignore[arg-type]


SECOND_NONCES = [nonce(server) for server in range(3, 6)]


def hostile(task: Task, number: int) -> Report:
    """The report of a client that adds 2^30 to each of its words, and proves that this is below a larger bound."""
    assert task.verified is not None
    generous = Parameters(task.verified.num_words, task.verified.num_servers, 2**62 - 1)
    words = task.encode(np.array([ROWS[number % len(ROWS)]]), source(f"hostile {number}")) + 2**30
    proven = prove(generous, words, source(f"proof {number}"))
    shares = split_proven(task.verified, proven, source(f"shares {number}"))
    texts = [b"\x07" * 32 + b"\x02" + share[0].tobytes() for share in shares]
    committed = [
        commitments_to(task.id_bytes, server, np.frombuffer(text, np.uint8)[np.newaxis])[0]
        for server, text in enumerate(texts)
    ]
    header = encode_header(task.id_bytes, 1, committed)
    return Report(report_id(header), header, tuple(texts))


@pytest.mark.parametrize("kind", ["sum", "osnap"])
def test_of_verified_reports_exactly_those_are_left_out_that_are_too_long(kind: str) -> None:
    task = make_task(kind, min_clients=18, verification="norm", max_rejected="0.1")
    honest = [client_report(task, ROWS[index % 12], 1, source(f"client {index}")) for index in range(22)]
    liars = [hostile(task, number) for number in range(2)]
    found = release(task, [*honest, *liars], NONCES, matrix_nonces=SECOND_NONCES)
    assert set(found.rejected) == {liar.report_id for liar in liars}
    # What is released is what the others alone would give under that seed.
    alone = release(task, honest, NONCES, matrix_nonces=SECOND_NONCES)
    assert alone.rejected == ()
    # The matrix follows from the accepted reports and from nonces that were not known at the verdict.
    accepted = sorted(report.report_id for report in honest)
    assert found.seed == late_seed(task, 0, ReportIds.of(accepted).root, SECOND_NONCES)
    np.testing.assert_array_equal(found.sketch, alone.sketch)
    assert found.privacy == task.release_privacy(task.mechanism.public_matrix(22, found.seed))
    with pytest.raises(TooManyRejectedError, match="3 of 25 reports failed"):
        release(task, [*honest, *liars, hostile(task, 2)], NONCES, matrix_nonces=SECOND_NONCES)
    with pytest.raises(ValueError, match="needs a second nonce"):
        release(task, honest, NONCES)


def test_a_verified_release_needs_its_minimum_beyond_all_that_may_be_rejected() -> None:
    task = make_task(min_clients=18, verification="norm", max_rejected="0.1")
    reports = [client_report(task, ROWS[index % 12], 1, source(f"client {index}")) for index in range(19)]
    assert task.least_accepted(19) == 18
    assert task.least_accepted(20) == 18
    release(task, reports, NONCES, matrix_nonces=SECOND_NONCES)
    with pytest.raises(CohortTooSmallError):
        # Ten per cent of eighteen is one, and with it the minimum would be missed.
        release(task, reports[:18], NONCES, matrix_nonces=SECOND_NONCES)
