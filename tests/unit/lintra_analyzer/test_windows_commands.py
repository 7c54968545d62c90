"""All windows together over HTTP and in a terminal, and every command of docs/how-to/windows.md as it stands."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import jsonschema_rs
import pytest
from typer.testing import CliRunner

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_analysis.commands.plan import app as plan_app
from lintra_analysis.spec.specification import Specification
from lintra_analyzer import cli
from lintra_analyzer.commands import asking
from lintra_protocol.errors import InvalidAnalysisError, UnknownBatchError
from lintra_protocol.task import Task
from support import analyzer_world
from support.analyzer_world import CLIENTS, NOW, TOKEN, Life, living, specification
from support.blocking import Bridge, KeptOpen, Loop
from support.pages import blocks, commands

MINUTE = 60
WINDOWS = {"window_seconds": 5 * MINUTE, "grace_seconds": MINUTE, "max_windows": 8}
COLUMNS = [{"name": name, "lower": -1, "upper": 1} for name in ("sleep", "mood", "walks")]
ASKED = {"windows": WINDOWS, "reports_per_source": 3, "time_precision": MINUTE, "columns": COLUMNS}


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[AnalyzerClient, str, str]]:
    """Yield a client, a task whose windows 0 and 2 are released and 1 is a gap, and one without windows."""
    loop = Loop()
    context = living(tmp_path_factory.mktemp("world"))
    life: Life = loop.run(context.__aenter__())  # type: ignore[arg-type, assignment]
    with pytest.MonkeyPatch.context() as patched:
        task: Task = loop.run(life.create("sum", **ASKED))  # type: ignore[assignment]
        plain: Task = loop.run(life.create("sum"))  # type: ignore[assignment]
        for window in (0, 2):
            patched.setattr(analyzer_world, "NOW", NOW + 5 * MINUTE * window)
            loop.run(life.upload(task, CLIENTS, label=f"window {window}", batch=window))
        patched.setattr(analyzer_world, "NOW", NOW + 16 * MINUTE)

        async def catch_up() -> None:
            while started := life.service.schedule.look():
                for job in started:
                    await life.service.jobs.finished(job.task_id, job.batch)

        loop.run(catch_up())
        with AnalyzerClient("http://analyzer.test", TOKEN, transport=Bridge(life, loop)) as client:
            patched.setattr(asking, "connect", lambda _url, _token: KeptOpen(client))
            yield client, task.task_id, plain.task_id
    loop.run(context.__aexit__(None, None, None))
    loop.close()


def typed(*words: str, ok: bool = True) -> str:
    result = CliRunner().invoke(cli.app, list(words), env={"LINTRA_ANALYZER_TOKEN": TOKEN, "COLUMNS": "200"})
    assert (result.exit_code == 0) == ok, result.output
    return result.stdout if ok else result.stderr


def test_a_trend_comes_as_json_of_its_declared_form_as_csv_and_as_text_and_gaps_are_shown(
    released: tuple[AnalyzerClient, str, str],
) -> None:
    client, task_id, _ = released
    found = client.trend(task_id, "sleep", of="cohort")
    assert [each["window"] for each in found["result"]["windows"]] == [0, 2]
    assert found["result"]["gaps"] == [1]
    assert float(found["privacy"]["epsilon"]) > 4  # of three reports together, each with 4 at most
    document = json.loads(client._send("GET", "/v1/openapi.json").content)
    declared = document["paths"]["/v1/tasks/{task_id}/trend"]["post"]["responses"]["200"]["content"]
    schema = declared["application/json"]["schema"]
    jsonschema_rs.validate(schema, found)
    for name in found["result"]:
        lacking = {key: value for key, value in found["result"].items() if key != name}
        assert not jsonschema_rs.is_valid(schema, found | {"result": lacking}), name
    lines = client.trend_text(task_id, "sleep", "text/csv").splitlines()
    assert [line.split(",")[0] for line in lines] == ["window", "0", "1", "2"]
    assert lines[2] == "1" + "," * 8
    text = " ".join(client.trend_text(task_id, "sleep").split())
    assert "Gaps" in text
    assert "for all 3 reports of one source" in text


def test_what_does_not_fit_is_refused_in_words(released: tuple[AnalyzerClient, str, str]) -> None:
    client, task_id, plain = released
    for arguments, complaint in (
        ({"column": "z"}, "unknown columns: z; known are: sleep"),
        ({"column": "sleep", "first": 1}, "at least two windows, got 1"),
        ({"column": "sleep", "first": 2, "last": 0}, "at least two windows, got 0"),
        ({"column": "sleep", "speed": 1}, "trend has no argument 'speed'; it has: column, of"),
        ({"column": "sleep", "confidence": True}, "expected a number"),
    ):
        with pytest.raises(InvalidAnalysisError, match=complaint):
            client.trend(task_id, **arguments)  # type: ignore[arg-type]
    with pytest.raises(UnknownBatchError, match="no windows"):
        client.trend(plain, "sleep")
    assert "choose one" in typed("trend", task_id, "--column", "sleep", "--json", "--csv", ok=False)


def test_every_command_of_the_page_about_windows_runs(
    released: tuple[AnalyzerClient, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, task_id, _ = released
    (shown,) = [block.text for block in blocks("docs/how-to/windows.md") if block.text.startswith("{")]
    Specification.model_validate_json(shown)  # the page's own is right
    monkeypatch.chdir(tmp_path)
    # A year of weeks is more than these servers allow; the commands are those of the page.
    Path("weekly.json").write_text(json.dumps(specification("sum", **ASKED)))
    printed = {}
    for block in (block for block in blocks("docs/how-to/windows.md") if block.kind == "shell"):
        for command in commands(block.text):
            program, *words = shlex.split(command.replace("$TASK", task_id))
            assert program == "lintra"
            if words[0] == "analyzer":
                printed[words[1]] = typed(*words[1:])
            else:
                result = CliRunner().invoke(plan_app, words[1:])
                assert (words[0], result.exit_code) == ("plan", 0), result.output
    assert len(printed["task"].strip()) == 43
    assert [line.split()[0] for line in printed["windows"].splitlines()] == ["0", "1", "2", "3"]
    assert printed["trend"].splitlines()[0].startswith("window,")
