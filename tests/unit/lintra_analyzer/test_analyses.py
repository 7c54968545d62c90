"""Analyses over REST: every kind, its refusals, and what each answer repeats of the certificate."""

from pathlib import Path

import pytest

from lintra_analyzer.analyses import parse_request, summary
from lintra_analyzer.certificate import Plausibility
from lintra_analyzer.estimators import ridge
from lintra_analyzer.reconstruct import as_release
from lintra_protocol.errors import InvalidAnalysisError, InvalidReleaseError
from unit.lintra_analyzer.life import CLIENTS, Life, living


async def released(life: Life, kind: str, count: int = CLIENTS) -> str:
    task = await life.create(kind)
    await life.upload(task, count)
    return await life.release(task)


@pytest.mark.parametrize(
    ("kind", "request_body", "expected"),
    [
        ("second_moment", {"kind": "ridge", "target": "a"}, {"features": ["b", "c"]}),
        ("osnap", {"kind": "ridge", "target": "a", "features": ["c"], "regularization": 0.5}, {"features": ["c"]}),
        ("second_moment", {"kind": "low-rank", "rank": 2}, {"rank": 2}),
        ("osnap", {"kind": "low-rank", "rank": 1, "columns": ["b", "c"]}, {"columns": ["b", "c"]}),
        ("sum", {"kind": "moments", "confidence": 0.9}, {"columns": ["a", "b", "c"], "confidence": 0.9}),
        ("second_moment", {"kind": "moments", "columns": ["c"]}, {"columns": ["c"]}),
    ],
)
async def test_every_analysis_answers_and_spends_nothing(
    tmp_path: Path, kind: str, request_body: dict[str, object], expected: dict[str, object]
) -> None:
    async with living(tmp_path) as life, life.rest() as rest:
        release_id = await released(life, kind)
        answer = await rest.post(f"/v1/releases/{release_id}/analyses", json=request_body)
        assert answer.status_code == 200, answer.text
        document = answer.json()
        assert {name: document["result"][name] for name in expected} == expected
        assert document["kind"] == request_body["kind"]
        assert document["certificate"]["privacy_spent"].startswith("nothing more")
        assert document["certificate"]["num_clients"] == CLIENTS


async def test_an_analysis_is_that_of_the_estimator(tmp_path: Path) -> None:
    async with living(tmp_path) as life, life.rest() as rest:
        release_id = await released(life, "second_moment")
        answer = await rest.post(f"/v1/releases/{release_id}/analyses", json={"kind": "ridge", "target": "b"})
        record = life.service.record(release_id).record
        release = as_release(life.service.task(record.task_id), *life.service.archive.read(record))
        assert answer.json()["result"] == ridge(release, "b").to_dict()


MISFITS: dict[str, list[tuple[dict[str, object], str]]] = {
    "sum": [
        ({}, "kind: expected one of ridge, low-rank, moments"),
        ({"kind": "magic"}, "kind: expected one of ridge, low-rank, moments"),
        ({"kind": "ridge", "target": "a"}, "a sum of rows holds no second moments"),
    ],
    "second_moment": [
        ({"kind": "ridge"}, "target: Field required"),
        ({"kind": "ridge", "target": "z"}, "unknown columns: z; known are: a, b, c"),
        ({"kind": "ridge", "target": "a", "features": ["a"]}, "cannot be one of its own features"),
        ({"kind": "ridge", "target": "a", "regularization": -1}, "regularization"),
        ({"kind": "low-rank", "rank": 4}, "from 1 to the 3 columns"),
        ({"kind": "low-rank", "rank": 1.5}, "rank"),
        ({"kind": "moments", "confidence": 1}, "confidence"),
        ({"kind": "moments", "surprise": 1}, "surprise"),
        ({"kind": "moments", "columns": []}, "at least one column"),
    ],
}


@pytest.mark.parametrize("kind", MISFITS)
async def test_an_analysis_that_does_not_fit_is_refused_in_words(tmp_path: Path, kind: str) -> None:
    async with living(tmp_path) as life, life.rest() as rest:
        release_id = await released(life, kind)
        for request_body, complaint in MISFITS[kind]:
            answer = await rest.post(f"/v1/releases/{release_id}/analyses", json=request_body)
            assert (answer.status_code, answer.json()["type"]) == (400, "urn:lintra:problem:invalid_analysis")
            assert complaint in answer.json()["detail"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b"\xff"])
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidAnalysisError):
        parse_request(body)


async def test_numbers_that_changed_on_the_disk_are_not_analysed(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        record = life.service.record(await released(life, "sum")).record
        file = life.folder / "analyzer" / "releases" / f"{record.release_id}.npz"
        whole = file.read_bytes()
        other = life.service.record(await released(life, "sum", CLIENTS - 1)).record
        for changed in (whole[: len(whole) // 2], b"", file.with_name(f"{other.release_id}.npz").read_bytes()):
            file.write_bytes(changed)
            with pytest.raises(InvalidReleaseError):
                life.service.archive.read(record)
        file.unlink()
        with pytest.raises(InvalidReleaseError):
            life.service.archive.read(record)


async def test_flagged_rows_are_mentioned_with_every_answer(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        record = life.service.record(await released(life, "sum")).record
        flagged = Plausibility(deviations="6", false_alarm="0.1", flagged_rows=(0,))
        assert summary(record)["warnings"] == []
        assert "1 rows" in str(summary(record.model_copy(update={"plausibility": flagged}))["warnings"])
