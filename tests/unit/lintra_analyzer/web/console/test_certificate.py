"""A certificate on its page, in words."""

from pathlib import Path

import numpy as np
import pytest

from lintra_analysis.certificate.certificate import ALL_SERVERS, NOT_PROMISED, TRUSTED_SERVER
from lintra_analysis.kinds.decode import read
from lintra_analyzer.web.console.certificate import sentences
from lintra_protocol.crypto.ring import IntArray, from_ring, to_ring
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.ideal import client_report
from lintra_protocol.task import Task
from support.analyzer_world import CLIENTS, clients, living
from support.measured import measurement_of, noise_sigmas, reports_without_noise


def without_noise(task: Task, seed: bytes) -> IntArray:
    """Return what the release of the usual clients would be without noise."""
    made = [(client_report(task, row, task.not_before, random_bytes), row) for row, random_bytes in clients(CLIENTS)]
    rows = np.stack([row for _, row in sorted(made, key=lambda pair: pair[0].report_id)])
    words = to_ring(reports_without_noise(task, task.schema_arrays.normalise(rows)))
    matrix = task.mechanism.public_matrix(CLIENTS, seed)
    sums = np.zeros((matrix.rows, task.sketch_words), np.uint64)
    matrix.add_reports(sums, np.arange(CLIENTS), words)
    return from_ring(sums)


@pytest.mark.parametrize(
    ("kind", "verification"),
    [
        ("sum", "none"),
        pytest.param("osnap", "norm", marks=pytest.mark.slow),
        pytest.param("second_moment", "norm", marks=pytest.mark.slow),
    ],
)
async def test_a_certificate_says_whose_noise_it_is_and_what_all_servers_together_see(
    tmp_path: Path, kind: str, verification: str
) -> None:
    async with living(tmp_path) as life:
        task = await life.create(kind, noise="servers", verification=verification)
        await life.upload(task, CLIENTS)
        record = life.service.record(await life.release(task)).record
        privacy, noise = record.privacy, record.noise
        assert (privacy.noise, privacy.threat, privacy.max_corrupt_clients) == ("servers", "adaptive", CLIENTS - 1)
        assert privacy.trusted == TRUSTED_SERVER
        assert ALL_SERVERS in privacy.not_promised
        assert NOT_PROMISED[1] not in privacy.not_promised
        assert len({one.epsilon for one in privacy.if_colluding}) == 1
        assert noise.servers == 3
        sd = 3**0.5 * task.mechanism.sigma * 2.0**-task.mechanism.sigma_bits
        assert float(noise.smallest_sd) == float(noise.largest_sd) == pytest.approx(sd)
        said = " ".join(sentences(record, task))
        assert "If all servers collude they see the rows" in said
        assert "Anybody who reaches the servers can take a place" in said
        assert ("Not verified: the author of the task did not ask for it." in said) == (verification == "none")
        if verification == "norm":
            assert record.verification is not None
            assert int(record.verification.squared_bound) == measurement_of(task).squared_length
        # The release lies within its noise of the rows, and is theirs in no word.
        sketch, counts = life.service.archive.read(record)
        exact = without_noise(task, parse_base64url(record.seed))
        off = (sketch - exact) / noise_sigmas(task, task.num_columns)
        assert np.abs(off).min() > 0
        assert np.abs(off).max() < 8 * 3**0.5
        assert read(task, sketch, counts).num_clients == CLIENTS
