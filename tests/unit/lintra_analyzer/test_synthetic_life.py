"""Synthetic rows from the analyst's request through servers to a table, over REST and on the command line."""

import csv
import io
import json
from pathlib import Path

import httpx2
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_analysis.kinds.decode import read
from lintra_analysis.synthetic.rows import WARNING
from lintra_analyzer import cli
from lintra_analyzer.commands import asking
from support.analyzer_world import CLIENTS, TOKEN, Life, clients, living
from support.blocking import Bridge, Loop

NUMBER = {"mechanism": {"kind": "ron_gauss", "label": "c", "bins": 4}, "epsilon": 10}
PAIRED = {"mechanism": {"kind": "ron_gauss", "label": "c", "bins": 4, "pairs": [["c", "a"]]}, "epsilon": 10}
PROJECTED = {"mechanism": {"kind": "ron_gauss", "dimension": 2, "bins": 0}, "epsilon": 10}


async def released(life: Life, changes: dict[str, object]) -> str:
    task = await life.create(**changes)
    await life.upload(task, CLIENTS)
    return await life.release(task)


async def ask(life: Life, release_id: str, body: dict[str, object], accept: str = "*/*") -> httpx2.Response:
    async with life.rest() as rest:
        return await rest.post(f"/v1/releases/{release_id}/analyses", json=body, headers={"accept": accept})


@pytest.mark.slow
async def test_a_release_holds_the_sums_of_the_clients_rows_up_to_its_stated_noise(life: Life) -> None:
    rows = np.array([row for row, _ in clients(CLIENTS)])
    release_id = await released(life, PAIRED)
    record = life.service.record(release_id).record
    release = read(life.service.task(record.task_id), *life.service.archive.read(record)).need("joint_sums")
    assert [feature.name for feature in release.histogram_features] == ["a", "b", "c"]
    scale = release.label.scale  # type: ignore[union-attr]
    vectors = np.column_stack([rows[:, :2], rows[:, 2] * scale])
    # Six deviations and 1e-3 for a step of the grid in each of 24 rows.
    np.testing.assert_allclose(release.sums[0], vectors.sum(axis=0), atol=6 * release.noise.sum + 1e-3)
    np.testing.assert_allclose(release.products, vectors.T @ vectors, atol=6 * release.noise.diagonal + 1e-3)
    for column, cells in zip(rows.T, release.histograms, strict=True):
        exact = np.histogram(column, 4, (-1, 1))[0]
        np.testing.assert_allclose(cells, exact, atol=6 * release.noise.cell)
    (table,) = release.tables
    assert (table.first, table.second, table.cells.shape) == ("a", "c", (2, 2))
    exact = np.histogram2d(rows[:, 0], rows[:, 2], 2, ((-1, 1), (-1, 1)))[0]
    np.testing.assert_allclose(table.cells, exact, atol=6 * release.noise.table)
    assert release.noise.table < 4
    assert release.noise.sum < 4
    assert release.promise.epsilon <= 10
    assert release.num_clients == CLIENTS


async def test_rows_come_as_csv_with_their_promise_and_as_json_and_are_the_same(life: Life) -> None:
    body = {"kind": "synthetic", "num_rows": 40, "seed": 7}
    release_id = await released(life, NUMBER)
    text, plain, again = [await ask(life, release_id, body, accept) for accept in ("text/csv", "*/*", "text/csv")]
    shown = await ask(life, release_id, body, "text/plain")
    packed = await ask(life, release_id, body, "application/octet-stream, application/json")
    report = await ask(life, release_id, {"kind": "fidelity"})
    reported = [await ask(life, release_id, {"kind": "fidelity"}, accept) for accept in ("text/csv", "text/plain")]
    unpacked = await ask(life, release_id, {"kind": "fidelity"}, "application/octet-stream, text/csv")
    numbers = await ask_sketch(life, release_id)
    gram = await ask(life, release_id, {"kind": "regression", "target": "c"})
    assert text.status_code == plain.status_code == 200, text.text
    table = list(csv.DictReader(io.StringIO(text.text)))
    result = plain.json()["result"]
    assert [float(row["a"]) for row in table] == result["columns"]["a"]
    assert packed.headers["content-type"] == "application/octet-stream"
    with np.load(io.BytesIO(packed.content), allow_pickle=False) as held:
        assert held[str(held["columns"].tolist().index("a"))].tolist() == result["columns"]["a"]
        assert json.loads(str(held["provenance"])) == result["provenance"]
    # What has no such form comes as the next type that was asked for.
    assert unpacked.text == reported[0].text
    assert len(table) == 40
    assert text.content == again.content
    said = json.loads(text.headers["lintra-provenance"])
    assert said["warnings"][0] == WARNING
    assert said["seed"] == "7"
    assert said["privacy"] == result["provenance"]["privacy"]
    assert said["model_digest"] == report.json()["result"]["model_digest"]
    assert WARNING in shown.text
    assert reported[0].text.startswith("part,name,relative_error,verdict\n")
    assert "covariance" in reported[1].text
    assert len(numbers["columns"]) == len(numbers["values"][0]) == 1 + 3 + 6 + 12
    assert gram.json()["result"]["intercept_fitted"] is True


async def ask_sketch(life: Life, release_id: str) -> dict[str, list[list[float]]]:
    async with life.rest() as rest:
        answer = await rest.get(f"/v1/releases/{release_id}/sketch", headers={"accept": "application/json"})
    found: dict[str, list[list[float]]] = answer.json()
    return found


@pytest.mark.slow
async def test_what_a_release_does_not_hold_is_refused_in_words(life: Life) -> None:
    other = await released(life, {})
    own = await released(life, PROJECTED)
    wrong = await ask(life, other, {"kind": "synthetic", "num_rows": 5, "seed": 1})
    projected = await ask(life, own, {"kind": "regression", "target": "a"})
    rows = await ask(life, own, {"kind": "synthetic", "num_rows": 5, "seed": 1, "space": "projected"})
    bad = [
        await ask(life, own, {"kind": "synthetic", "num_rows": 5, "seed": 1, **change})
        for change in ({"num_rows": 0}, {"seed": -1}, {"space": "moon"}, {"confidence": 0.9}, {"num_rows": 10**9})
    ]
    assert wrong.json()["type"].endswith("invalid_analysis")
    assert "ron_gauss" in wrong.json()["detail"]
    assert "projected" in projected.json()["detail"]
    assert list(rows.json()["result"]["columns"]) == ["h1", "h2"]
    assert {answer.status_code for answer in bad} == {wrong.status_code}


@pytest.mark.slow
def test_the_command_writes_a_table_and_its_provenance_as_the_suffix_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop()
    context = living(tmp_path)
    life: Life = loop.run(context.__aenter__())  # type: ignore[assignment]
    try:
        release_id = str(loop.run(released(life, NUMBER)))
        bridge = Bridge(life, loop)
        monkeypatch.setattr(asking, "connect", lambda url, token: AnalyzerClient(url, token, transport=bridge))
        file = tmp_path / "rows.csv"
        arguments = ["synthesize", release_id, "--rows", "30", "--seed", "7", "--token", TOKEN]
        written = CliRunner().invoke(cli.app, [*arguments, "--output", str(file)])
        printed = CliRunner().invoke(cli.app, arguments)
        typed = CliRunner().invoke(cli.app, [*arguments, "--output", str(tmp_path / "rows.parquet")])
        packed = CliRunner().invoke(cli.app, [*arguments, "--output", str(tmp_path / "rows.npz")])
        answer = loop.run(ask(life, release_id, {"kind": "synthetic", "num_rows": 30, "seed": 7}, "text/csv"))
        refused = CliRunner().invoke(
            cli.app, ["synthesize", release_id, "--rows", "0", "--seed", "7", "--token", TOKEN]
        )
    finally:
        loop.run(context.__aexit__(None, None, None))
        loop.close()
    assert written.exit_code == 0, written.output
    assert file.read_text("utf-8") == answer.text == printed.stdout  # type: ignore[attr-defined]
    assert json.loads(file.with_name("rows.csv.json").read_text("utf-8"))["warnings"][0] == WARNING
    assert WARNING in written.stderr
    assert typed.exit_code == 0, typed.output
    assert packed.exit_code == 0, packed.output
    table = pd.read_parquet(tmp_path / "rows.parquet")
    with np.load(tmp_path / "rows.npz", allow_pickle=False) as held:
        assert held["columns"].tolist() == list(table)
    assert table.to_csv(index=False) == printed.stdout.replace("true", "True").replace("false", "False")
    assert b"lintra" in pq.read_schema(tmp_path / "rows.parquet").metadata
    assert refused.exit_code == 1
    assert "num_rows" in refused.stderr
