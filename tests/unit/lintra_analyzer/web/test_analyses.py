"""Analyses over REST: every kind, its refusals, and what each answer repeats of the certificate.

Questions change nothing, so all of them are put to one analyzer that holds one release of each kind.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import httpx2
import numpy as np
import pytest
import pytest_asyncio

from lintra_analysis.certificate.certificate import Plausibility
from lintra_analysis.estimators.regression import regression
from lintra_analysis.kinds.decode import read
from lintra_analyzer.web.analyses import ANALYSES, parse_request, summary
from lintra_protocol.errors import InvalidAnalysisError, InvalidReleaseError
from support.analyzer_world import CLIENTS, Life, living, seeded

pytestmark = pytest.mark.asyncio(loop_scope="module")

# So few clients have variances that stand out of the noise only if there is little of it.
LITTLE_NOISE = {"epsilon": 10, "row_bound": 0.6}


@dataclass
class Holder:
    """An analyzer with its releases, each made when it is first asked for."""

    life: Life
    rest: httpx2.AsyncClient
    made: dict[str, str] = field(default_factory=dict)

    async def release(self, kind: str, count: int = CLIENTS, **changes: object) -> str:
        """Return the identifier of a release of so many clients' rows."""
        asked = repr((kind, count, changes))
        if asked not in self.made:
            task = await self.life.create(kind, **changes)
            await self.life.upload(task, count)
            self.made[asked] = await self.life.release(task)
        return self.made[asked]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def holder(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Holder]:
    async with living(tmp_path_factory.mktemp("analyses")) as life, life.rest() as rest:
        yield Holder(life, rest)


@pytest.mark.parametrize(
    ("kind", "request_body", "expected"),
    [
        ("osnap", {"kind": "regression", "target": "a", "features": ["c"], "regularization": 0.5}, {"features": ["c"]}),
        ("second_moment", {"kind": "pca", "components": 2, "about": "centers"}, {"about_means": False}),
        ("osnap", {"kind": "pca", "components": 1, "columns": ["b", "c"]}, {"columns": ["b", "c"]}),
        ("sum", {"kind": "means", "confidence": 0.9}, {"columns": ["a", "b", "c"], "confidence": 0.9}),
        ("second_moment", {"kind": "means", "columns": ["c"], "of": "cohort"}, {"columns": ["c"], "means": None}),
        ("second_moment", {"kind": "regression", "target": "a", "of": "cohort"}, {"of": "cohort", "bounded": True}),
        ("second_moment", {"kind": "regression", "target": "a", "simultaneous": True}, {"features": ["b", "c"]}),
        ("osnap", {"kind": "regression", "target": "a", "intercept": False}, {"intercept_fitted": False}),
        ("second_moment", {"kind": "regression-path", "target": "a", "regularizations": [1, 2]}, {"target": "a"}),
        ("second_moment", {"kind": "pca", "components": 2, "columns": ["a", "c"]}, {"columns": ["a", "c"]}),
        ("second_moment", {"kind": "correlation"}, {"columns": ["a", "b", "c"]}),
        ("sum", {"kind": "means", "columns": ["c", "a"]}, {"columns": ["c", "a"]}),
    ],
)
@pytest.mark.grid(2)
async def test_every_analysis_answers_and_spends_nothing(
    holder: Holder, kind: str, request_body: dict[str, object], expected: dict[str, object]
) -> None:
    release_id = await holder.release(kind, **LITTLE_NOISE)
    answer = await holder.rest.post(f"/v1/releases/{release_id}/analyses", json=request_body)
    assert answer.status_code == 200, answer.text
    document = answer.json()
    assert {name: document["result"][name] for name in expected} == expected
    assert document["kind"] == request_body["kind"]
    assert document["certificate"]["privacy_spent"].startswith("nothing more")
    assert document["certificate"]["num_clients"] == CLIENTS


async def test_an_analysis_is_that_of_the_estimator(holder: Holder) -> None:
    release_id = await holder.release("second_moment")
    answer = await holder.rest.post(f"/v1/releases/{release_id}/analyses", json={"kind": "regression", "target": "b"})
    record = holder.life.service.record(release_id).record
    release = read(holder.life.service.task(record.task_id), *holder.life.service.archive.read(record))
    assert answer.json()["result"] == regression(release, "b").to_dict()


@pytest.mark.slow
async def test_a_boolean_is_ranked_by_a_linear_score_and_anything_else_is_refused(holder: Holder) -> None:
    columns = [{"name": "age", "lower": 0, "upper": 2}, {"name": "ill", "kind": "boolean"}]
    mechanism = {"kind": "second_moment", "intercept": 1}
    task = await holder.life.create("second_moment", columns=columns, mechanism=mechanism, row_bound=1.5)
    people = [(np.array([1 + (number % 2) / 2, number % 2]), seeded(f"person {number}")) for number in range(CLIENTS)]
    await holder.life.upload(task, rows=people)
    path = f"/v1/releases/{await holder.life.release(task)}/analyses"
    result = (await holder.rest.post(path, json={"kind": "linear-score", "target": "ill"})).json()["result"]
    assert [one["name"] for one in result["weights"]] == ["age"]
    assert abs(result["weights"][0]["value"]) == 1
    refused = await holder.rest.post(path, json={"kind": "linear-score", "target": "age"})
    assert refused.status_code == 400
    assert "a linear score is of a column of zeros and ones" in refused.json()["detail"]


@pytest.mark.slow
async def test_an_intercept_in_the_release_is_fitted_and_the_means_are_known(holder: Holder) -> None:
    task = await holder.life.create("second_moment", mechanism={"kind": "second_moment", "intercept": 1, "trace": True})
    await holder.life.upload(task)
    path = f"/v1/releases/{await holder.life.release(task)}/analyses"
    result = (await holder.rest.post(path, json={"kind": "regression", "target": "a"})).json()["result"]
    assert result["intercept_fitted"]
    assert result["features"] == ["b", "c"]
    by_formula = (await holder.rest.post(path, json={"kind": "regression", "target": "a ~ b + c"})).json()["result"]
    assert by_formula == result
    refused = await holder.rest.post(path, json={"kind": "regression", "target": "a ~ b:c"})
    assert refused.status_code == 400
    assert "declare the product as a column" in refused.json()["detail"]
    assert (await holder.rest.post(path, json={"kind": "pca"})).json()["result"]["about_means"]
    found = (await holder.rest.post(path, json={"kind": "means"})).json()["result"]
    assert found["columns"] == ["a", "b", "c"]


@pytest.mark.slow
async def test_bounds_that_rest_on_gaussian_noise_are_refused_for_random_examples(holder: Holder) -> None:
    wishart = {"mechanism": {"kind": "second_moment_wishart"}, "min_clients": CLIENTS, "neighbours": "zero-out"}
    path = f"/v1/releases/{await holder.release('second_moment', **wishart)}/analyses"
    asked = {"kind": "regression", "target": "a"}
    assert (await holder.rest.post(path, json=asked)).status_code == 200
    answer = await holder.rest.post(path, json=asked | {"simultaneous": True})
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:lintra:problem:invalid_analysis")
    assert "Gaussian" in answer.json()["detail"]


@pytest.mark.slow
async def test_the_accept_header_chooses_between_json_csv_and_text(holder: Holder) -> None:
    path = f"/v1/releases/{await holder.release('second_moment', **LITTLE_NOISE)}/analyses"
    needed: dict[str, dict[str, object]] = {kind: {"target": "a"} for kind in ("regression", "regression-path")}
    for kind in ("regression", "regression-path", "pca", "correlation", "means"):
        asked = {"kind": kind, **needed.get(kind, {})}
        table = await holder.rest.post(path, json=asked, headers={"accept": "text/csv"})
        assert table.headers["content-type"] == "text/csv; charset=utf-8"
        header, *lines = table.text.splitlines()
        assert lines
        assert {line.count(",") for line in lines} == {header.count(",")}
        text = await holder.rest.post(path, json=asked, headers={"accept": "text/plain, application/json"})
        assert text.headers["content-type"] == "text/plain; charset=utf-8"
        assert "spent nothing more" in " ".join(text.text.split())
        for accept in ("*/*", "application/json, text/csv", "image/png"):
            answer = await holder.rest.post(path, json=asked, headers={"accept": accept})
            assert answer.json()["kind"] == kind


async def test_the_interface_description_knows_every_kind_and_form(holder: Holder) -> None:
    document = (await holder.rest.get("/v1/openapi.json")).json()
    operation = document["paths"]["/v1/releases/{release_id}/analyses"]["post"]
    kinds = operation["requestBody"]["content"]["application/json"]["schema"]["oneOf"]
    assert [kind["properties"]["kind"]["const"] for kind in kinds] == list(ANALYSES)
    assert set(operation["responses"]["200"]["content"]) == {
        "application/json",
        "application/octet-stream",
        "text/csv",
        "text/plain",
    }


MISFITS: dict[str, list[tuple[dict[str, object], str]]] = {
    "sum": [
        ({}, "kind: expected one of regression, difference, anova, f-test, iv"),
        (
            {"kind": "ridge"},
            "kind: expected one of regression, difference, anova, f-test, iv",
        ),
        ({"kind": "logistic"}, "fit lintra_curator's logistic_regression where the rows are"),
        ({"kind": "logistic-regression", "target": "a"}, "cannot be had from second moments"),
        ({"kind": "regression", "target": "a"}, "a sum of rows holds no second moments"),
    ],
    "second_moment": [
        ({"kind": "regression"}, "target: Field required"),
        ({"kind": "regression", "target": "z"}, "unknown columns: z; known are: a, b, c"),
        ({"kind": "regression", "target": "a", "features": ["a"]}, "cannot be one of its own features"),
        ({"kind": "regression", "target": "a", "regularization": -1}, "regularization"),
        ({"kind": "pca", "components": 1.5}, "components"),
        ({"kind": "means", "confidence": 1}, "confidence"),
        ({"kind": "means", "surprise": 1}, "means has no argument 'surprise'; it has: confidence, of, columns"),
        ({"kind": "regression", "target": "a", "regularization": True}, "expected a number, got true or false"),
        ({"kind": "regression", "target": "a", "confidence": 1 - 2**-53}, "doubt of at least 1e-12"),
        ({"kind": "regression", "target": "a", "regularization": 1e300}, "at most 1e+60"),
        ({"kind": "means", "columns": []}, "at least one column"),
        ({"kind": "regression", "target": "a", "features": []}, "no column besides the target"),
        ({"kind": "regression", "target": "a", "features": ["b", "b"]}, "once"),
        ({"kind": "regression", "target": "a", "intercept": True}, "holds no constant column"),
        ({"kind": "regression", "target": "a", "regularization": "inf"}, "regularization"),
        ({"kind": "regression", "target": "a", "rank": 1}, "rank"),
        ({"kind": "regression-path", "target": "a", "regularizations": []}, "1 to 200 penalties"),
        ({"kind": "regression-path", "target": "a", "regularizations": [-1]}, "regularizations"),
        ({"kind": "pca", "components": 4}, "from 1 to the 3 columns"),
        ({"kind": "pca", "components": 0}, "components"),
        ({"kind": "correlation", "columns": ["a"]}, "at least 2 columns"),
    ],
}


@pytest.mark.parametrize("kind", MISFITS)
async def test_an_analysis_that_does_not_fit_is_refused_in_words(holder: Holder, kind: str) -> None:
    release_id = await holder.release(kind)
    for request_body, complaint in MISFITS[kind]:
        answer = await holder.rest.post(f"/v1/releases/{release_id}/analyses", json=request_body)
        assert (answer.status_code, answer.json()["type"]) == (400, "urn:lintra:problem:invalid_analysis")
        assert complaint in answer.json()["detail"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b"\xff"])
async def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidAnalysisError):
        parse_request(body)


async def test_numbers_that_changed_on_the_disk_are_not_analysed(holder: Holder) -> None:
    record = holder.life.service.record(await holder.release("sum", purpose="will be damaged")).record
    file = holder.life.folder / "analyzer" / "releases" / f"{record.release_id}.npz"
    whole = file.read_bytes()
    other = holder.life.service.record(await holder.release("sum", CLIENTS - 1, purpose="lies beside it")).record
    for changed in (whole[: len(whole) // 2], b"", file.with_name(f"{other.release_id}.npz").read_bytes()):
        file.write_bytes(changed)
        with pytest.raises(InvalidReleaseError):
            holder.life.service.archive.read(record)
    file.unlink()
    with pytest.raises(InvalidReleaseError):
        holder.life.service.archive.read(record)


async def test_flagged_rows_are_mentioned_with_every_answer(holder: Holder) -> None:
    record = holder.life.service.record(await holder.release("sum")).record
    flagged = Plausibility(deviations="6", false_alarm="0.1", flagged_rows=(0,))
    before = summary(record)["warnings"]
    after = summary(record.model_copy(update={"plausibility": flagged}))["warnings"]
    assert isinstance(before, list)
    assert isinstance(after, list)
    # So small a cohort has a warning about clipped rows, which noise alone may have caused.
    assert len(after) == len(before) + 1
    assert "1 rows" in str(after)
    assert "implausible" not in str(before)
