"""Whole rounds: whatever the rows and parties, the release is the sum of what clients noised, bit for bit."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lintra_protocol.cohort.report_ids import ReportIds, intersection
from lintra_protocol.crypto.randomness import RandomBytes, derive_seed, expand
from lintra_protocol.crypto.ring import FloatArray, from_ring
from lintra_protocol.crypto.sharing import combine
from lintra_protocol.ideal import client_report, run, server_sketch_share
from lintra_protocol.rules.release import check_cohort, draw_matrix, verify_cohorts, verify_inventories
from lintra_protocol.task import Task
from support import SEED, few, make_task, nonce, signed_cohorts, signed_inventories
from support.measured import measurement_of

TASKS = [
    make_task(kind, num_servers=servers, share_form=form, columns=2, min_clients=4, max_missing="0.5")
    for kind in ("sum", "osnap", "second_moment")
    for servers, form in ((2, "uniform"), (4, "seeded"))
]
tasks = st.sampled_from(TASKS)
rows = st.integers(4, 12).flatmap(lambda n: arrays(np.float64, (n, 2), elements=st.floats(-1e6, 1e6)))


def source(index: int) -> RandomBytes:
    return expand(derive_seed(SEED, "client", index.to_bytes(4, "big")), "round")


def nonces(task: Task) -> list[bytes]:
    return [nonce(server) for server in range(task.num_servers)]


@few
@given(tasks, rows)
def test_the_release_is_the_matrix_times_the_noised_rows(task: Task, block: FloatArray) -> None:
    release = run(task, [(list(row), source(index)) for index, row in enumerate(block)], nonces(task))
    found = sorted(
        (client_report(task, list(row), task.not_before, source(index)).report_id, index)
        for index, row in enumerate(block)
    )
    noised = [task.encode(block[index : index + 1], source(index))[0] for _, index in found]
    row_numbers, signs = task.mechanism.public_matrix(len(block), release.seed).entries(np.arange(len(block)))
    expected = np.zeros((task.mechanism.num_rows, task.num_words), np.int64)
    for row_number, sign, row in zip(row_numbers[:, 0], signs[:, 0], noised, strict=True):
        expected[row_number] += sign * row
    np.testing.assert_array_equal(release.values, measurement_of(task, task.num_columns).decode(expected))


@few
@given(tasks, rows, st.data())
def test_reports_that_one_server_lost_are_in_nobodys_sum(task: Task, block: FloatArray, data: st.DataObject) -> None:
    reports = [client_report(task, list(row), task.not_before, source(index)) for index, row in enumerate(block)]
    by_id = {report.report_id: report for report in reports}
    lost = data.draw(st.sets(st.sampled_from(sorted(by_id)), max_size=(len(block) - 4) // 2))
    lists = [sorted(set(by_id) - (lost if server == 0 else set())) for server in range(task.num_servers)]

    inventories = signed_inventories(task, lists)
    verify_inventories(task, 0, inventories)
    agreed = verify_cohorts(task, 0, signed_cohorts(task, lists, inventories), inventories)
    common = intersection([ReportIds.of(held) for held in lists])
    assert agreed.count == len(common) == len(block) - len(lost)

    statement = check_cohort(task, len(common), len(lists[1]))
    drawn = draw_matrix(task, 0, common.root, nonces(task), len(common))
    assert drawn.privacy == statement
    cohort = [by_id[report_id] for report_id in common]
    sketch = combine(np.stack([server_sketch_share(task, j, cohort, drawn.matrix) for j in range(task.num_servers)]))
    kept = [index for index, report in enumerate(reports) if report.report_id not in lost]
    alone = run(task, [(list(block[index]), source(index)) for index in kept], nonces(task))
    assert alone.seed == drawn.seed
    np.testing.assert_array_equal(measurement_of(task, task.num_columns).decode(from_ring(sketch)), alone.values)


@few
@given(tasks, rows, st.integers(0, 3))
def test_all_shares_but_one_say_nothing_about_the_rows(task: Task, block: FloatArray, missing: int) -> None:
    """In the uniform form the shares of servers 0 to N-2 are the client's random words, whatever its row is."""
    if task.share_form == "seeded":
        return
    other = np.zeros_like(block)
    for index in range(len(block)):
        first = client_report(task, list(block[index]), task.not_before, source(index))
        second = client_report(task, list(other[index]), task.not_before, source(index))
        server = missing % (task.num_servers - 1)
        assert first.shares[server] == second.shares[server]
