"""The record of a release: signed, named by its hash, and in agreement with everything it rests on."""

import hashlib
import json
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from lintra_analysis.certificate.certificate import SignedRecord, require_values, stated
from lintra_analyzer.web.analyses import summary
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.encoding.documents import Frozen, Real, float_of, rounded_up
from lintra_protocol.errors import InvalidMessageError, InvalidReleaseError, UnauthorizedError
from lintra_protocol.mechanisms.collusion import released_epsilons_if_colluding
from lintra_protocol.privacy.leverage import LeverageBounds
from lintra_protocol.privacy.statement import IfColluding, PrivacyStatement
from support import make_task
from support.analyzer_world import CLIENTS, KEYS, NOW, living, seeded
from support.measured import measurement_of


class Holder(Frozen):
    value: Real


@given(st.floats(min_value=0, max_value=1e17, allow_nan=False))
def test_every_number_has_a_spelling_that_is_not_below_it(value: float) -> None:
    text = Holder(value=rounded_up(value)).value
    assert Fraction(text) >= Fraction(Decimal(repr(value)))
    assert math.isclose(float(text), value, rel_tol=1e-12, abs_tol=1e-39)


@given(st.floats(min_value=0, max_value=1e17) | st.floats(min_value=1e-26, max_value=1e-22))
def test_a_spelling_is_read_as_a_number_with_that_spelling(value: float) -> None:
    text = rounded_up(value)
    assert rounded_up(float_of(text)) == text
    assert float_of(text) >= value or math.isclose(float_of(text), value, rel_tol=1e-15)


@pytest.mark.parametrize("text", ["0.12345678901234567891", "1e-3", "01", "", "nan"])
def test_what_no_number_is_spelled_like_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"real|float"):
        float_of(text)


OLD = json.loads((Path(__file__).parents[3] / "support" / "records_before_statements.json").read_text())
"""Signed records written before a record held a `PrivacyStatement`, and the key that signed them."""


@pytest.mark.parametrize("kind", ["osnap", "ron_gauss"])
def test_records_written_before_are_read_and_their_signature_holds(kind: str) -> None:
    data = OLD[kind].encode()
    signed = SignedRecord.from_canonical(data)
    assert signed.canonical() == data
    privacy = signed.verified(OLD["identity_key"]).privacy
    given = json.loads(data)["record"]["privacy"]
    assert rounded_up(privacy.mu) == given["mu"]
    assert rounded_up(privacy.slack) == given["slack"]
    assert privacy.delta_at(privacy.epsilon) <= privacy.delta
    assert privacy.not_promised == tuple(given["not_promised"])


def test_an_epsilon_left_empty_is_infinite_and_is_left_empty_again() -> None:
    document = json.loads(OLD["osnap"])
    document["record"]["privacy"]["if_colluding"][3]["epsilon"] = None
    data = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    signed = SignedRecord.from_canonical(data)
    assert signed.record.privacy.if_colluding[3] == IfColluding(20, math.inf)
    assert signed.canonical() == data


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"mu": 1}, "privacy.mu"),
        ({"status": "proved"}, "defaults|left out"),
        ({"more": "1"}, "privacy.more"),
        ({"slack": "0.12345678901234567891"}, "privacy.slack"),
        ({"num_clients": "12"}, "privacy.num_clients"),
    ],
)
def test_a_record_with_another_statement_is_refused(change: dict[str, object], complaint: str) -> None:
    document = json.loads(OLD["osnap"])
    document["record"]["privacy"] |= change
    with pytest.raises(InvalidMessageError, match=complaint):
        SignedRecord.from_canonical(json.dumps(document, sort_keys=True, separators=(",", ":")).encode())


@pytest.mark.parametrize("kind", ["osnap", "sum", "second_moment"])
@pytest.mark.grid(4)
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
        assert record.privacy.epsilon == ideal.privacy.epsilon
        assert record.privacy.mu == ideal.privacy.mu
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


@pytest.mark.slow
async def test_a_sketch_whose_rows_overlap_is_released_with_its_leverages_privacy_and_its_smoothing(
    tmp_path: Path,
) -> None:
    async with living(tmp_path) as life:
        task = await life.create("overlapping")
        await life.upload(task)
        record = life.service.record(await life.release(task)).record
        assert record.noise.smoothing == measurement_of(task).smoothing == 3
        assert record.noise.fewest_reports == record.noise.most_reports == CLIENTS // 2
        variance = CLIENTS // 2 * task.mechanism.sigma**2 + 3 * 9
        assert float(record.noise.largest_sd) == pytest.approx((variance / 2) ** 0.5 / 2**task.mechanism.fraction_bits)
        seed = parse_base64url(record.seed)
        matrix = task.mechanism.public_matrix(CLIENTS, seed)
        exact = measurement_of(task, task.num_columns, task.claim).release_privacy(matrix)
        found = released_epsilons_if_colluding(measurement_of(task, task.num_columns), task.claim, matrix)
        assert record.privacy == stated(exact, "", found)
        numbers, signs = matrix.entries(np.arange(CLIENTS))
        assert record.privacy.leverage == LeverageBounds.of(4, numbers, signs).against(0, 0)
        assert record.privacy.epsilon < float(task.claim.epsilon)


@pytest.mark.slow
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
        assert (record.rows, record.words, task.num_words) == (2, 4, 7)
        assert record.privacy.remark.startswith("published calibration, for comparison: claimed epsilon 4 by Theorem")
        assert record.clipped is not None
        assert summary(record)["warnings"] == [record.privacy.remark, record.clipped.words]
        assert record.noise.fewest_reports == record.noise.most_reports == 60
        deviation = (60 / 2) ** 0.5 * task.mechanism.sigma / 2**task.mechanism.fraction_bits
        assert float(record.noise.largest_sd) == pytest.approx(deviation)
        assert record.privacy.leverage == pytest.approx(1 / 60 + 1 / 60)
        ideal = life.ideal(task, 60)
        matrix = task.mechanism.public_matrix(60, ideal.seed)
        found = released_epsilons_if_colluding(measurement_of(task, task.num_columns), task.claim, matrix)
        assert record.privacy == stated(ideal.privacy, task.mechanism.remark(ideal.privacy), found)
        sketch, _ = life.service.archive.read(record)
        np.testing.assert_array_equal(measurement_of(task, 3).decode(sketch), ideal.values)


def test_what_shares_of_verified_reports_show_is_recorded_as_it_is_read() -> None:
    privacy = replace(
        make_task(verification="norm", max_rejected="0.1").privacy(12), delta_shares=1.2345678901234567e-26
    )
    recorded = stated(privacy, "", {}, verified=True)
    adapter = TypeAdapter(PrivacyStatement)
    assert adapter.validate_json(adapter.dump_json(recorded)) == recorded
    assert privacy.delta_shares <= recorded.delta_shares < privacy.delta_shares * (1 + 1e-13)
