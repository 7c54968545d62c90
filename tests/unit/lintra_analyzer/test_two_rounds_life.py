"""Two rounds over REST and on the command line: two tasks, two releases, one model or one set of directions."""

import json
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_analyzer import cli
from lintra_analyzer.commands import asking
from lintra_client import Ledger
from support.analyzer_world import CLIENTS, TOKEN, Life, living, seeded
from support.blocking import Bridge, Loop
from support.example_releases import SENSORS, WAVE, sensors

FIRST = {"mechanism": {"kind": "ron_gauss", "bins": 4, "rounds": 2}, "epsilon": 10}


async def released(life: Life, task_id: str) -> str:
    task = life.service.task(task_id)
    await life.upload(task, CLIENTS)
    return await life.release(task)


async def second(life: Life, task_id: str, body: dict[str, object] | None = None) -> httpx2.Response:
    async with life.rest() as rest:
        return await rest.post(f"/v1/tasks/{task_id}/second-round", json=body or {})


async def ask(life: Life, release_id: str, body: dict[str, object], accept: str = "*/*") -> httpx2.Response:
    async with life.rest() as rest:
        return await rest.post(f"/v1/releases/{release_id}/analyses", json=body, headers={"accept": accept})


@pytest.mark.slow
async def test_the_second_task_waits_for_the_release_of_the_first_and_there_is_one(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        first = await life.create(**FIRST)
        early = await second(life, first.task_id)
        await released(life, first.task_id)
        answers = [await second(life, first.task_id) for _ in range(2)]
        other = await second(life, first.task_id, {"row_bound": 0.5})
        wrong = [await second(life, first.task_id, body) for body in ({"row_bound": "x"}, {"bound": 1})]
        nobody = await second(life, "A" * 43)
        life.restart()
        again = await second(life, first.task_id)
    assert early.json()["type"].endswith("invalid_task")
    assert "release it first" in early.json()["detail"]
    assert {answer.status_code for answer in (*answers, again)} == {201}
    assert {answer.json()["task_id"] for answer in answers} == {again.json()["task_id"]} != {first.task_id}
    assert answers[0].json()["definition"]["mechanism"]["after"] == first.task_id
    assert other.json()["type"].endswith("task_conflict")
    assert all(400 <= answer.status_code < 500 for answer in (*wrong, nobody))


@pytest.mark.slow
async def test_a_task_of_one_round_has_no_second(life: Life) -> None:
    one = await life.create(mechanism={"kind": "ron_gauss", "bins": 0}, epsilon=10)
    await released(life, one.task_id)
    total = await life.create("sum")
    await released(life, total.task_id)
    refused = [await second(life, task.task_id) for task in (one, total)]
    assert "ask for ron_gauss with 2 rounds" in refused[0].json()["detail"]
    assert "a sum has no second round" in refused[1].json()["detail"]


async def test_rows_and_their_report_come_from_both_releases(life: Life) -> None:
    first = await life.create(**FIRST)
    first_release = await released(life, first.task_id)
    made = await second(life, first.task_id, {"row_bound": 2})
    release_id = await released(life, made.json()["task_id"])
    body = {"kind": "synthetic", "num_rows": 400, "seed": 7}
    drawn, alone = [await ask(life, name, body) for name in (release_id, first_release)]
    report = await ask(life, release_id, {"kind": "fidelity"})
    other = await ask(life, release_id, {"kind": "means"})
    async with life.rest() as rest:
        numbers = await rest.get(f"/v1/releases/{release_id}/sketch", headers={"accept": "application/json"})
    result = drawn.json()["result"]
    assert drawn.status_code == report.status_code == alone.status_code == 200, drawn.text
    assert [len(values) for values in result["columns"].values()] == [400] * 3
    assert result["provenance"]["privacy"] != alone.json()["result"]["provenance"]["privacy"]
    assert "two rounds about the same people" in json.dumps(result["provenance"])
    assert result["provenance"]["model_digest"] == report.json()["result"]["model_digest"]
    assert other.json()["type"].endswith("invalid_analysis")
    assert len(numbers.json()["columns"]) == len(numbers.json()["values"][0]) == 6


@pytest.mark.slow
async def test_whatever_is_said_beside_rows_of_two_rounds_is_the_promise_of_both(life: Life) -> None:
    first = await life.create(**FIRST)
    await released(life, first.task_id)
    made = await second(life, first.task_id, {"row_bound": 2})
    release_id = await released(life, made.json()["task_id"])
    rows = {"kind": "synthetic", "num_rows": 4, "seed": 7}
    answer = (await ask(life, release_id, rows)).json()
    texts = [(await ask(life, release_id, body, "text/plain")).text for body in (rows, {"kind": "fidelity"})]
    both = answer["result"]["provenance"]["privacy"]["epsilon"]
    alone = float(answer["certificate"]["epsilon"])
    assert alone < 0.99 * both
    assert any(warning.startswith("second of two rounds") for warning in answer["certificate"]["warnings"])
    for text in texts:
        assert f"epsilon {both:.6g} at delta" in text
        assert f"epsilon {alone:.6g} at delta" not in text
        assert "second of two rounds" in text


@pytest.mark.slow
def test_commands_make_the_second_task_and_draw_rows_of_both_releases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop()
    context = living(tmp_path)
    life: Life = loop.run(context.__aenter__())  # type: ignore[assignment]
    try:
        first = loop.run(life.create(**FIRST))
        bridge = Bridge(life, loop)
        monkeypatch.setattr(asking, "connect", lambda url, token: AnalyzerClient(url, token, transport=bridge))
        command = ["task", "second-round", first.task_id, "--token", TOKEN]  # type: ignore[attr-defined]
        early = CliRunner().invoke(cli.app, command)
        loop.run(released(life, first.task_id))  # type: ignore[attr-defined]
        made = CliRunner().invoke(cli.app, [*command, "--row-bound", "1.5"])
        release_id = str(loop.run(released(life, made.stdout.strip())))
        rows = CliRunner().invoke(cli.app, ["synthesize", release_id, "--rows", "9", "--seed", "7", "--token", TOKEN])
        answer = loop.run(ask(life, release_id, {"kind": "synthetic", "num_rows": 9, "seed": 7}, "text/csv"))
    finally:
        loop.run(context.__aexit__(None, None, None))
        loop.close()
    assert early.exit_code != 0
    assert made.exit_code == 0, made.output
    assert rows.stdout == answer.text  # type: ignore[attr-defined]
    assert life.service.task(made.stdout.strip()).mechanism.row_bound == "1.5"


WIDE = {"columns": SENSORS, "mechanism": WAVE | {"rounds": 2, "rank": 8}, "row_bound": 1.7, "epsilon": 10}


async def test_a_range_finder_is_followed_by_products_along_its_directions(life: Life) -> None:
    rows = [(row, seeded(f"wide {number}")) for number, row in enumerate(sensors()[:CLIENTS])]
    first = await life.create(**WIDE)
    await life.upload(first, rows=rows)
    await life.release(first)
    made = await second(life, first.task_id)
    assert made.status_code == 201, made.text
    task = life.service.task(made.json()["task_id"])
    await life.upload(task, rows=rows)
    release_id = await life.release(task)
    ridge = await ask(life, release_id, {"kind": "wide-ridge", "target": "power"})
    line = await ask(life, release_id, {"kind": "regression", "target": "power", "features": ["(direction 1)"]})
    assert (ridge.status_code, line.status_code) == (200, 200), ridge.text + line.text
    result = ridge.json()["result"]
    assert len(result["coefficients"]) == len(result["features"]) == 35
    assert result["components"] == 8
    assert any(warning.startswith("second of two rounds") for warning in ridge.json()["certificate"]["warnings"])
    # A device is charged for both when the first report leaves.
    with Ledger(life.folder / "ledger", max_epsilon=11, delta=1e-5) as ledger:
        assert not ledger.charge_task(first, {bytes(32): "ann"}, 0)
        held = ledger.spent("ann")
        assert not ledger.charge_task(task, {bytes([1]) * 32: "ann"}, 0)
        assert ledger.spent("ann") == held
        assert 9.9 < held.epsilon <= 10
