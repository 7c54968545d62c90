"""The command line and the blocking client, against the real application in another thread."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_analysis.certificate.certificate import NOT_WITNESSED
from lintra_analysis.commands.plan import app as plan
from lintra_analysis.estimators.regression import regression
from lintra_analyzer import cli
from lintra_analyzer.commands import asking
from lintra_analyzer.settings import Settings
from lintra_protocol.errors import (
    CohortTooSmallError,
    InvalidAnalysisError,
    InvalidMessageError,
    InvalidReleaseError,
    InvalidTaskError,
    UnavailableError,
)
from lintra_service.bearer_tokens import token_hash
from support import analyzer_world
from support.analyzer_world import CLIENTS, KEYS, NOW, TOKEN, Life, living, specification
from support.blocking import Bridge, Loop


class Desk:
    """An analyst's desk: a running analyzer, a blocking client, and a terminal."""

    def __init__(self, life: Life, loop: Loop) -> None:
        self.life = life
        self.loop = loop
        self.bridge = Bridge(life, loop)
        self.client = AnalyzerClient("http://analyzer.test", TOKEN, attempts=3, transport=self.bridge)
        self._released: dict[str, str] = {}

    def upload(self, task_id: str, count: int = CLIENTS) -> None:
        self.loop.run(self.life.upload(self.life.service.task(task_id), count))

    def released(self, kind: str, **changes: object) -> str:
        """Return a release of such a task, made once for all tests that share the desk."""
        asked = json.dumps(specification(kind, **changes))
        if asked not in self._released:
            task_id = self.client.create_task(specification(kind, **changes))["task_id"]
            self.upload(task_id)
            self._released[asked] = self.client.release(task_id, poll_seconds=0.01)
        return self._released[asked]

    def type(self, *words: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(cli.app, list(words), env={"LINTRA_ANALYZER_TOKEN": TOKEN, "COLUMNS": "200"})
        return result.exit_code, result.stdout.strip(), result.stderr.strip()


@contextmanager
def at_a_desk(folder: Path) -> Iterator[Desk]:
    loop = Loop()
    context = living(folder)
    desk = Desk(loop.run(context.__aenter__()), loop)  # type: ignore[arg-type]
    yield desk
    desk.client.close()
    loop.run(context.__aexit__(None, None, None))
    loop.close()


@pytest.fixture(scope="module")
def shared_desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with at_a_desk(tmp_path_factory.mktemp("desk")) as desk:
        yield desk


@pytest.fixture
def desk(shared_desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Return the desk of all tests here: others may have left tasks and releases on it."""
    shared_desk.bridge.lost = 0
    sit_down(shared_desk, monkeypatch)
    return shared_desk


@pytest.fixture
def empty_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with at_a_desk(tmp_path) as desk:
        sit_down(desk, monkeypatch)
        yield desk


def sit_down(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the commands talk to this desk's analyzer."""

    @contextmanager
    def connect(_url: str, _token: str) -> Iterator[AnalyzerClient]:
        yield desk.client

    monkeypatch.setattr(asking, "connect", connect)


# --- the blocking client --------------------------------------------------------------------------------------------


def test_the_client_walks_the_whole_way(empty_desk: Desk) -> None:
    client = empty_desk.client
    release_id = empty_desk.released("second_moment")
    signed = client.record(release_id)
    assert signed.verified(str(client.keys()["identity_key"])).num_clients == CLIENTS
    assert [task["task_id"] for task in client.tasks()] == [signed.record.task_id]
    assert [entry["release_id"] for entry in client.releases()] == [release_id]
    assert client.task(signed.record.task_id, live=True)["servers"][0]["counters"]["accepted"] == CLIENTS
    assert len(client.cohort(release_id)["report_ids"]) == CLIENTS
    assert client.sketch(release_id).startswith(b"PK")
    assert client.sketch(release_id, "text/csv").startswith(b"a,b,c")
    assert client.analyse(release_id, "regression", target="a")["result"]["target"] == "a"


@pytest.mark.slow
def test_a_release_that_is_opened_here_gives_the_same_answers_and_another_task_or_changed_numbers_are_refused(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    release_id = desk.released("second_moment")
    here = regression(desk.client.open_release(release_id), "a").to_dict()
    assert here == desk.client.analyse(release_id, "regression", target="a")["result"]
    other = desk.client.sketch(desk.released("second_moment", epsilon=3))
    task = desk.client.task(desk.client.record(release_id).record.task_id)
    monkeypatch.setattr(desk.client, "sketch", lambda _: other)
    with pytest.raises(InvalidReleaseError):
        desk.client.open_release(release_id)
    task["definition"]["purpose"] = "another"
    monkeypatch.setattr(desk.client, "task", lambda _: task)
    with pytest.raises(InvalidMessageError, match="the release is of"):
        desk.client.open_release(release_id)


def test_refusals_come_back_as_the_errors_that_were_raised(desk: Desk) -> None:
    with pytest.raises(InvalidTaskError, match="epsilon"):
        desk.client.create_task(specification(epsilon=0))
    task_id = desk.client.create_task(specification())["task_id"]
    with pytest.raises(CohortTooSmallError, match="server 0"):
        desk.client.release(task_id, poll_seconds=0.01)
    with pytest.raises(InvalidAnalysisError, match="expected one of"):
        desk.client.analyse(desk.released("sum"), "magic")


def test_a_lost_answer_does_not_make_a_second_task(empty_desk: Desk) -> None:
    empty_desk.bridge.lost = 2
    task_id = empty_desk.client.create_task(specification())["task_id"]
    assert [task["task_id"] for task in empty_desk.client.tasks()] == [task_id]


@pytest.mark.slow
def test_an_analyzer_that_is_away_is_unavailable(desk: Desk) -> None:
    desk.bridge.lost = 100
    with pytest.raises(UnavailableError, match="does not answer"):
        desk.client.tasks()


def test_a_record_under_a_wrong_name_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    right, other = desk.released("sum"), desk.released("second_moment")
    record = desk.life.service.record(other)
    monkeypatch.setattr(desk.life.service, "record", lambda _: record)
    with pytest.raises(InvalidMessageError):
        desk.client.record(right)


# --- the command line -----------------------------------------------------------------------------------------------


def test_the_commands_walk_the_whole_way(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "specification.json"
    file.write_text(json.dumps(specification(time_precision=60)), "utf-8")
    code, task_id, warning = desk.type("task", "create", str(file))
    assert (code, len(task_id)) == (0, 43)
    assert "classical suite" in warning
    assert json.loads(desk.type("task", "show", task_id, "--live")[1])["registered"]
    code, _, complaint = desk.type("release", task_id)
    assert code == asking.NOT_READY == 75
    assert "fewer than 12 reports" in complaint
    desk.upload(task_id)
    monkeypatch.setattr(analyzer_world, "NOW", NOW + 60)  # when servers count again
    code, release_id, said = desk.type("release", task_id)
    assert code == 0
    assert f"server http://server-0.test: {NOT_WITNESSED}" in said.splitlines()
    code, table, _ = desk.type("analyse", release_id, "--kind", "regression", "--target", "a", "--feature", "b")
    assert code == 0
    assert "P>|t|" in table
    assert "spent nothing more" in " ".join(table.split())
    for words in (("--kind", "pca", "--components", "2"), ("--kind", "means", "--column", "c")):
        assert desk.type("analyse", release_id, *words)[0] == 0
    answer = json.loads(desk.type("analyse", release_id, "--kind", "means", "--json")[1])
    assert answer["result"]["columns"] == ["a", "b", "c"]
    assert desk.type("analyse", release_id, "--kind", "magic")[0] == 1


def test_regressions_are_printed_as_a_summary_as_csv_and_as_json(desk: Desk) -> None:
    release_id = desk.released("second_moment")
    words = ("regress", release_id, "--target", "a", "--feature", "c")
    code, text, _ = desk.type(*words, "--simultaneous", "--confidence", "0.9")
    assert code == 0
    assert "std err" in text
    assert "[0.05" in text
    assert "all regressions at once, 90 %" in text
    assert "Privacy: epsilon" in text
    assert desk.type(*words, "--csv")[1].splitlines()[1].startswith("c,")
    result = json.loads(desk.type(*words, "--ridge", "2.5", "--no-intercept", "--json")[1])["result"]
    assert (result["regularization"], result["features"]) == (2.5, ["c"])
    assert "Best penalty" in desk.type(*words, "--path")[1]
    assert len(desk.type(*words, "--path", "--csv")[1].splitlines()) == 26
    for wrong, complaint in (
        (("--path", "--ridge", "1"), "leave out --ridge"),
        (("--csv", "--json"), "one of --json and --csv"),
        (("--feature", "a"), "own features"),
        (("--target", "a ~ c"), "leave out `features`"),
    ):
        code, _, error = desk.type(*words, *wrong)
        assert code == 1
        assert complaint in error


@pytest.mark.slow
def test_components_correlations_and_means_are_printed(desk: Desk) -> None:
    release_id = desk.released("second_moment", epsilon=10, row_bound=0.6)
    for kind, words in (("pca", ("--components", "2")), ("correlation", ("--column", "a", "--column", "b"))):
        code, text, _ = desk.type("analyse", release_id, "--kind", kind, *words)
        assert code == 0
        assert "about the public centers" in text
        assert desk.type("analyse", release_id, "--kind", kind, *words, "--csv")[0] == 0
    assert "std err" in desk.type("analyse", desk.released("sum"), "--kind", "means")[1]
    assert desk.type("analyse", release_id, "--kind", "means", "--csv")[1].startswith("name,mean,")


def test_a_table_of_means_is_printed_for_a_sum(desk: Desk) -> None:
    code, table, _ = desk.type("analyse", desk.released("sum"), "--kind", "means")
    assert code == 0
    assert "mean" in table


def test_an_identifier_may_begin_with_hyphens(desk: Desk) -> None:
    for identifier in ("-nPd", "--nPd", "-h", "-"):
        for words in (("release",), ("task", "show"), ("analyse", "--kind", "means")):
            code, _, complaint = desk.type(*words, identifier + "x" * 40)
            assert code == 1
            assert "no such" in complaint.lower()


@pytest.mark.slow
def test_tasks_and_releases_are_listed_and_a_waiting_command_says_what_it_waits_for(empty_desk: Desk) -> None:
    task_id = empty_desk.client.create_task(specification("sum"))["task_id"]
    empty_desk.upload(task_id)
    code, release_id, said = empty_desk.type("release", task_id)
    assert code == 0
    assert "closing the batch at every server" in said.splitlines()
    (task,) = empty_desk.type("tasks")[1].splitlines()
    assert task.startswith(task_id)
    assert "sum, at least 12 clients, epsilon 4 at delta 1e-05" in task
    (release,) = empty_desk.type("releases")[1].splitlines()
    assert release.startswith(release_id)
    assert f"sum, {CLIENTS} clients, epsilon " in release
    assert json.loads(empty_desk.type("tasks", "--json")[1]) == empty_desk.client.tasks()
    assert json.loads(empty_desk.type("releases", "--json")[1]) == empty_desk.client.releases()


def test_a_pilot_is_asked_for_released_and_gives_the_main_task_its_bounds(desk: Desk, tmp_path: Path) -> None:
    study = tmp_path / "study.json"
    study.write_text(json.dumps(specification("second_moment", row_bound=None)), "utf-8")
    asked = CliRunner().invoke(plan, [str(study), "--pilot"])
    (tmp_path / "pilot.json").write_text(asked.stdout, "utf-8")
    task_id = desk.type("task", "create", str(tmp_path / "pilot.json"))[1]
    desk.upload(task_id)
    release_id = desk.type("release", task_id)[1]
    code, file, said = desk.type("download", release_id, str(tmp_path / "pilot"))
    assert (code, file) == (0, str(tmp_path / "pilot.npz"))
    assert said.splitlines() == [f"server http://server-{server}.test: {NOT_WITNESSED}" for server in range(3)]
    main = CliRunner().invoke(plan, [str(study), "--pilot-release", str(tmp_path / "pilot.npz")])
    (tmp_path / "main.json").write_text(main.stdout, "utf-8")
    second = desk.type("task", "create", str(tmp_path / "main.json"))[1]
    first_task, second_task = (desk.life.service.task(each) for each in (task_id, second))
    squares = [task.privacy(task.claim.min_clients).mu ** 2 for task in (first_task, second_task)]
    whole = desk.life.service.task(desk.client.create_task(specification("second_moment"))["task_id"])
    assert sum(squares) <= whole.privacy(whole.claim.min_clients).mu ** 2 * (1 + 1e-6)
    assert second_task.mechanism.kind == "second_moment"
    assert first_task.study is not None
    assert second_task.study == first_task.study.model_copy(update={"pilot": task_id})
    assert "rows below" in desk.type("analyse", release_id, "--kind", "histogram")[1]


def test_a_file_that_is_no_specification_is_named(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "broken.json"
    for text in ("{", "[]"):
        file.write_text(text)
        code, _, complaint = desk.type("task", "create", str(file))
        assert code == 1
        assert "broken.json" in complaint
    assert desk.type("task", "create", str(tmp_path / "nowhere.json"))[0] == 1


def test_without_a_token_nothing_is_sent() -> None:
    result = CliRunner().invoke(cli.app, ["release", "x"], env={"LINTRA_ANALYZER_TOKEN": ""})
    assert result.exit_code == 1
    assert "LINTRA_ANALYZER_TOKEN" in result.stderr


def test_a_token_is_shown_once_and_its_hash_kept(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "hashes"
    tokens = [CliRunner().invoke(cli.app, ["token", "--file", str(file)]).stdout.strip() for _ in range(2)]
    assert file.read_text().split() == [token_hash(token) for token in tokens]
    result = CliRunner().invoke(cli.app, ["token"])
    assert token_hash(result.stdout.strip()) in result.stderr


def test_the_public_keys_can_be_shown_before_the_service_runs(tmp_path: Path) -> None:
    config = tmp_path / "analyzer.toml"
    key = KEYS.identity.public_key
    servers = "".join(f'[[servers]]\nurl = "http://{n}.test"\nidentity_key = "{key}"\n' for n in "ab")
    config.write_text('data_dir = "data"\ncreate_keys = true\n' + servers)
    first, second = (CliRunner().invoke(cli.app, ["keys", "--config", str(config)]).stdout for _ in range(2))
    assert first == second
    assert set(json.loads(first)) == {"identity_key", "author_key", "sealing_keys"}
    assert Settings.load(config).data_dir == tmp_path / "data"
    assert CliRunner().invoke(cli.app, ["keys", "--config", str(tmp_path / "no.toml")]).exit_code == 1


def test_a_census_says_in_a_terminal_what_the_consoles_page_says() -> None:
    server = {"reports": 1200, "missing": 3, "counted_at_seconds": 0, "start": 2, "highest_start": 2}
    servers = [{"server": 0, **server}, {"server": 1, **server, "start": 1}]
    lines = list(cli.census_lines({"anywhere": 1203, "common": 1198, "gate": "The gate is shut.", "servers": servers}))
    assert lines[:2] == [
        "1,203 reports are at some server, 1,198 of them at all.",
        "server 0: 1,200 reports, 3 missing, counted 1970-01-01 00:00Z",
    ]
    assert "set back" in lines[3]
    assert lines[4:] == [
        "The gate is shut.",
        "What was sent since is not among these numbers, so the gate may open sooner.",
    ]
    page = (Path(cli.__file__).parent / "web/console/templates/census.html").read_text("utf-8")
    assert "so the gate may open sooner" in page
    assert "reports are at some server" in page
