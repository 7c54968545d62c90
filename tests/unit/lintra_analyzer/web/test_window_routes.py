"""A stream from its specification to its timeline: over HTTP, in a terminal, from Python, and on a page."""

import json
from collections.abc import Iterator

import jsonschema_rs
import pytest
from typer.testing import CliRunner

from lintra_analysis import regression
from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_analysis.estimators.timeline import Timeline
from lintra_analyzer import cli
from lintra_analyzer.commands import asking
from lintra_analyzer.web.analyses import parse_request
from lintra_analyzer.web.description import combined_answers, interval_answers
from lintra_analyzer.web.trends import parse_interval, people_in
from lintra_protocol.errors import InvalidAnalysisError, UnknownBatchError
from lintra_protocol.task import Task
from support import analyzer_world
from support.analyzer_world import CLIENTS, NOW, TOKEN, Life, living
from support.blocking import Bridge, KeptOpen, Loop

MINUTE = 60
WINDOWS = {"window_seconds": 5 * MINUTE, "grace_seconds": MINUTE, "max_windows": 12, "stream": {}}
ASKED = {
    "windows": WINDOWS, "reports_per_source": 1, "time_precision": MINUTE, "noise": "servers", "epsilon": 8,
    "mechanism": {"kind": "second_moment", "intercept": "0.5"},
    "columns": [{"name": name, "lower": -1, "upper": 1} for name in ("a", "b", "c")],
}  # fmt: skip
RELEASED = (0, 2, 3)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[AnalyzerClient, str, str, Life, Loop]]:
    """Yield a client, a stream of second moments whose window 1 is a gap, a task whose windows are none, and both."""
    loop = Loop()
    context = living(tmp_path_factory.mktemp("world"))
    life: Life = loop.run(context.__aenter__())  # type: ignore[arg-type, assignment]
    with pytest.MonkeyPatch.context() as patched:
        task: Task = loop.run(life.create("second_moment", **ASKED))  # type: ignore[assignment]
        plain = ASKED | {
            "windows": {name: value for name, value in WINDOWS.items() if name != "stream"},
            "mechanism": {"kind": "sum"},
        }
        other: Task = loop.run(life.create("sum", **plain))  # type: ignore[assignment]
        for window in RELEASED:
            patched.setattr(analyzer_world, "NOW", NOW + 5 * MINUTE * window)
            loop.run(life.upload(task, CLIENTS, label=f"window {window}", batch=window))
        patched.setattr(analyzer_world, "NOW", NOW + 21 * MINUTE)

        async def catch_up() -> None:
            while started := life.service.schedule.look():
                for job in started:
                    await life.service.jobs.finished(job.task_id, job.batch)

        loop.run(catch_up())
        with AnalyzerClient("http://analyzer.test", TOKEN, transport=Bridge(life, loop)) as client:
            patched.setattr(asking, "connect", lambda _url, _token: KeptOpen(client))
            yield client, task.task_id, other.task_id, life, loop
    loop.run(context.__aexit__(None, None, None))
    loop.close()


def typed(*words: str, ok: bool = True) -> str:
    result = CliRunner().invoke(cli.app, list(words), env={"LINTRA_ANALYZER_TOKEN": TOKEN, "COLUMNS": "200"})
    assert (result.exit_code == 0) == ok, result.output
    return result.stdout if ok else result.stderr


def test_a_timeline_comes_as_json_of_its_declared_form_as_csv_and_as_text(
    released: tuple[AnalyzerClient, str, str, Life, Loop],
) -> None:
    client, task_id, _, _, _ = released
    for over, spans in (("windows", 3), ("totals", 3), ("moving", 1)):
        found = client.timeline(task_id, over=over, columns=["a"])
        jsonschema_rs.validate(combined_answers(Timeline)[200]["content"]["application/json"]["schema"], found)
        assert len(found["result"]["spans"]) == spans
        assert found["result"]["gaps"] == [1]
        assert found["privacy"]["reports_per_source"] == 1
    text = typed("timeline", task_id, "--column", "a", "--column", "b")
    assert "Columns over windows: running totals" in text
    assert "for all 1 reports of one source" in text
    assert "windows that were released: 0, 2-3; never: 1" in typed("stream", task_id)
    csv = typed("timeline", task_id, "--over", "windows", "--csv")
    assert len(csv.splitlines()) == 1 + 3 * 3
    shown = json.loads(typed("timeline", task_id, "--over", "moving", "--width", "2", "--first", "3", "--json"))
    assert [(span["first"], span["last"]) for span in shown["result"]["spans"]] == [(2, 3)]


def test_python_and_the_analyzer_read_the_same_intervals(
    released: tuple[AnalyzerClient, str, str, Life, Loop],
) -> None:
    client, task_id, _, _, _ = released
    stream = client.stream(task_id)
    assert stream.numbers == RELEASED
    assert client.timeline(task_id)["result"] == json.loads(json.dumps(stream.totals().to_dict()))
    assert client.trend(task_id, "b")["result"] == json.loads(json.dumps(stream.trend("b").to_dict()))
    asked = client.analyse(f"{task_id}:2-3", "regression", target="a")
    assert asked["result"] == json.loads(json.dumps(regression(stream.release(2, 3), "a").to_dict()))
    assert (asked["first"], asked["last"], asked["kind"]) == (2, 3, "regression")
    # A release of windows has the rows of all of them; that of the last alone has less, and not the root's less noise.
    assert stream.release().num_clients == 3 * CLIENTS


def test_every_analysis_of_second_moments_reads_any_interval(
    released: tuple[AnalyzerClient, str, str, Life, Loop],
) -> None:
    client, task_id, _, _, _ = released
    schema = interval_answers()[200]["content"]["application/json"]["schema"]
    for kind, arguments in (("regression", {"target": "a"}), ("pca", {}), ("correlation", {}), ("means", {})):
        found = client.analyse(f"{task_id}:0-3", kind, **arguments)
        assert set(found) == set(schema["required"])
        assert found["result"]
    said = " ".join(typed("regress", f"{task_id}:0-2", "--target", "a").split())
    assert "for all 1 reports of one source" in said
    assert "each report is another source's" in said
    often = Task.from_value(client.task(task_id)["definition"])
    assert often.windows is not None
    often = often.model_copy(update={"windows": often.windows.model_copy(update={"reports_per_source": 4})})
    for interval, most in (("0-9", "2 times"), ("3-5", "1.73 times"), ("7-7", "another source's")):
        assert most in people_in(often, parse_interval(interval, parse_request(b'{"kind": "means"}')))
    assert len(typed("analyse", f"{task_id}:0-3", "--kind", "means", "--csv").splitlines()) == 4


@pytest.mark.parametrize(
    ("interval", "complaint"),
    [("5-7", "no window from 5 to 7"), ("3", "FIRST-LAST"), ("1-1", "no window from 1 to 1"), ("a-b", "FIRST-LAST"),
     ("0-99999999", "FIRST-LAST"), ("-1-2", "FIRST-LAST")],
)  # fmt: skip
def test_an_interval_that_is_none_is_refused_in_words(
    released: tuple[AnalyzerClient, str, str, Life, Loop], interval: str, complaint: str
) -> None:
    client, task_id, _, _, _ = released
    with pytest.raises(InvalidAnalysisError, match=complaint):
        client.analyse(f"{task_id}:{interval}", "means")


def test_windows_that_are_no_stream_are_refused_in_words(
    released: tuple[AnalyzerClient, str, str, Life, Loop],
) -> None:
    client, task_id, other, _, _ = released
    for ask in (lambda: client.stream(other), lambda: client.timeline(other)):
        with pytest.raises(InvalidAnalysisError, match="no stream"):
            ask()
    with pytest.raises(InvalidAnalysisError, match="timeline has no argument 'nothing'"):
        client.timeline(task_id, nothing=["a"])
    with pytest.raises(InvalidAnalysisError, match="unknown columns: nobody"):
        client.timeline(task_id, columns=["nobody"])
    with pytest.raises(UnknownBatchError):
        client.timeline(client.create_task(analyzer_world.specification("sum"))["task_id"])


def test_a_page_draws_the_timeline_of_the_windows_between_two_sliders(
    released: tuple[AnalyzerClient, str, str, Life, Loop],
) -> None:
    client, task_id, other, life, loop = released

    async def got(path: str, **query: object) -> tuple[int, str]:
        async with life.rest() as rest:
            answer = await rest.get(path, params=query)
            return answer.status_code, answer.text

    path = f"/tasks/{task_id}/timeline"
    assert f'href="{path}"' in loop.run(got(f"/tasks/{task_id}/windows"))[1]
    assert path.replace(task_id, other) not in loop.run(got(f"/tasks/{other}/windows"))[1]
    status, empty = loop.run(got(path))
    assert (status, empty.count('type="range"'), empty.count('max="11"')) == (200, 2, 2)
    assert "<h2>Finding</h2>" not in empty
    query = {"over": "totals", "first": 2, "last": 3, "columns": "a", "of": "cohort"}
    status, page = loop.run(got(path, **query))
    (last,) = client.stream(task_id).totals(["a"], since=2, until=3).spans[-1].means
    assert (status, '<output for="last">3</output>' in page) == (200, True)
    assert f"lintra analyzer analyse {task_id}:2-3 --kind means" in page
    csv = loop.run(got(f"{path}/table.csv", **query))[1].splitlines()
    assert [line.split(",")[:3] for line in csv[1:]] == [["a", "2", "2"], ["a", "2", "3"]]
    assert float(csv[-1].split(",")[5]) == pytest.approx(last.value)
    status, picture = loop.run(got(f"{path}/picture.svg", shown="a", **query))
    assert (status, "<svg" in picture) == (200, True)
    too_wide = {"over": "moving", "width": 9}
    for unfit, words in (({"first": 5}, "No window from 5 to"), (too_wide, "no 9 windows in a row")):
        status, page = loop.run(got(path, **unfit))
        assert (status, words in page) == (400, True)
    status, page = loop.run(got(path.replace(task_id, other), over="totals"))
    assert (status, "no stream" in page) == (400, True)
