"""The record of a release: signed, named by its hash, and in agreement with everything it rests on."""

import hashlib
import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lintra_analysis.record import SignedRecord, require_values, rounded_up, stated
from lintra_analyzer.web.analyses import summary
from lintra_protocol.canonical import base64url, parse_base64url
from lintra_protocol.documents import Frozen, Real
from lintra_protocol.errors import InvalidReleaseError, UnauthorizedError
from lintra_protocol.mechanisms.collusion import released_epsilons_if_colluding
from lintra_protocol.privacy.leverage import worst_leverage
from lintra_protocol.signing import SigningKey
from support.analyzer_world import CLIENTS, KEYS, NOW, living, seeded


class Holder(Frozen):
    value: Real


@given(st.floats(min_value=0, max_value=1e17, allow_nan=False))
def test_every_number_has_a_spelling_that_is_not_below_it(value: float) -> None:
    text = Holder(value=rounded_up(value)).value
    assert Fraction(text) >= Fraction(Decimal(repr(value)))
    assert math.isclose(float(text), value, rel_tol=1e-12, abs_tol=1e-39)


@pytest.mark.parametrize("kind", ["osnap", "sum", "second_moment"])
async def test_the_record_says_what_happened(tmp_path: Path, kind: str) -> None:
    async with living(tmp_path) as life:
        task = await life.create(kind)
        await life.upload(task)
        release_id = await life.release(task)
        signed = life.service.record(release_id)
        record = signed.verified(KEYS.identity.public_key)
        ideal = life.ideal(task)
        assert record.release_id == release_id
        assert record.task_id == task.task_id
        assert record.definition == base64url(hashlib.sha256(task.canonical()).digest())
        assert record.seed == base64url(ideal.seed)
        assert float(record.privacy.epsilon) == ideal.privacy.epsilon
        assert float(record.privacy.mu) == ideal.privacy.mu
        assert record.privacy.honest_clients == ideal.privacy.honest_clients
        assert record.privacy.not_promised
        assert record.num_clients == CLIENTS
        assert record.plausibility.flagged_rows == ()
        assert record.noise.sigma == task.mechanism.sigma
        assert Fraction(record.noise.step) == Fraction(1, 2**record.noise.step_bits)
        assert record.released_at == NOW
        beside = (life.folder / "analyzer" / "releases" / f"{release_id}.json").read_bytes()
        assert beside == signed.canonical()


async def test_a_changed_record_has_another_name_and_no_signature(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        task = await life.create("sum")
        await life.upload(task)
        signed = life.service.record(await life.release(task))
        document = json.loads(signed.canonical())
        document["record"]["privacy"]["epsilon"] = "0.1"
        forged = SignedRecord.from_value(document)
        assert forged.record.release_id != signed.record.release_id
        with pytest.raises(UnauthorizedError):
            forged.verified(KEYS.identity.public_key)
        with pytest.raises(UnauthorizedError):
            signed.verified(SigningKey.generate(seeded("stranger")).public_key)


async def test_a_record_fits_its_own_numbers_only(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        task = await life.create("osnap")
        await life.upload(task)
        record = life.service.record(await life.release(task)).record
        sketch, _ = life.service.archive.read(record)
        require_values(record, sketch)
        other = sketch.copy()
        other[0, 0] += 1
        for wrong in (other, sketch.T, sketch[:2], np.vstack([sketch, sketch])):
            with pytest.raises(InvalidReleaseError):
                require_values(record, wrong)


async def test_a_sketch_whose_rows_overlap_is_released_with_its_leverages_privacy_and_its_smoothing(
    tmp_path: Path,
) -> None:
    async with living(tmp_path) as life:
        task = await life.create("overlapping")
        await life.upload(task)
        record = life.service.record(await life.release(task)).record
        assert record.noise.smoothing == task.mechanism.smoothing == 3
        assert record.noise.fewest_reports == record.noise.most_reports == CLIENTS // 2
        variance = CLIENTS // 2 * task.mechanism.sigma**2 + 3 * 9
        assert float(record.noise.largest_sd) == pytest.approx((variance / 2) ** 0.5 / 2**task.mechanism.fraction_bits)
        seed = parse_base64url(record.seed)
        matrix = task.mechanism.public_matrix(CLIENTS, seed)
        exact = task.mechanism.release_privacy(task.claim, task.num_columns, matrix)
        found = released_epsilons_if_colluding(task.mechanism, task.claim, task.num_columns, matrix)
        assert record.privacy == stated(exact, "", found)
        numbers, signs = matrix.entries(np.arange(CLIENTS))
        assert float(record.privacy.leverage) == worst_leverage(4, numbers, signs, 0, 0)
        assert float(record.privacy.epsilon) < float(task.claim.epsilon)


async def test_the_published_calibration_goes_through_all_services_and_its_certificate_says_what_it_is(
    tmp_path: Path,
) -> None:
    # Equation (4) needs many clients or a large delta; 60 are quick.
    mechanism = {"kind": "osnap_published", "rows": 2, "sparsity": 2, "entry_bound": 0.5}
    async with living(tmp_path, {"max_delta": "0.99", "delta": "0.9"}) as life:
        changes = {"delta": 0.9, "min_clients": 60, "max_corrupt_clients": 0}
        task = await life.create(mechanism=mechanism, row_bound=None, **changes)
        await life.upload(task, 60)
        record = life.service.record(await life.release(task)).record
        assert (record.rows, record.words, task.num_words) == (2, 3, 6)
        assert record.privacy.remark.startswith("published calibration, for comparison: claimed epsilon 4 by Theorem")
        assert summary(record)["warnings"] == [record.privacy.remark]
        assert record.noise.fewest_reports == record.noise.most_reports == 60
        deviation = (60 / 2) ** 0.5 * task.mechanism.sigma / 2**task.mechanism.fraction_bits
        assert float(record.noise.largest_sd) == pytest.approx(deviation)
        assert float(record.privacy.leverage) == pytest.approx(1 / 60 + 1 / 60)
        ideal = life.ideal(task, 60)
        matrix = task.mechanism.public_matrix(60, ideal.seed)
        found = released_epsilons_if_colluding(task.mechanism, task.claim, task.num_columns, matrix)
        assert record.privacy == stated(ideal.privacy, task.mechanism.remark(ideal.privacy), found)
        sketch, _ = life.service.archive.read(record)
        np.testing.assert_array_equal(task.mechanism.decode(sketch, 3), ideal.values)
