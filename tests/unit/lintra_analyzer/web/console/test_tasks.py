"""The pages of tasks: how they stand, what their servers hold, and how one is made from the plan beside its form."""

import html
import re
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx2
import pytest
import pytest_asyncio

from lintra_analysis.spec.specification import ColumnSpecification, specifications
from lintra_analyzer.service import WORK_MODULES
from lintra_analyzer.storage.access_tokens import Scope
from lintra_analyzer.storage.rows import Job, ServerState
from lintra_analyzer.web.console import new_task
from lintra_analyzer.web.console.task_form import TaskForm, asked_by, columns_of, kinds
from lintra_analyzer.web.console.task_text import gate_of, span_in_words, standing_of, time_left
from lintra_protocol.errors import InvalidTaskError
from lintra_service.work_pool import WorkLimits, WorkPool
from support.analyzer_world import NOW, Life

FORM = {
    "purpose": "How <age> goes with the rest",
    "population": "ward 3",
    "columns": "age: 0 to 120 years\nsmoker: yes/no\nstage: I | II | III",
    "kind": "second_moment",
    "epsilon": "2",
    "min_clients": "2,000",
    "days": "3",
    "target": "age",
}

NEEDED = {
    "osnap_published": {
        "mechanism-rows": "2", "mechanism-entry_bound": "1", "mechanism-published_epsilon": "0.5",
    },
}  # fmt: skip
"""What a kind asks for that has no default."""


@pytest_asyncio.fixture(loop_scope="module")
async def browser(life: Life) -> AsyncIterator[httpx2.AsyncClient]:
    """Return the browser of an analyst who is signed in."""
    token, _ = life.service.access.add("Ada", "analyst", Scope(), None)
    async with life.rest(None) as rest:
        rest.headers["origin"] = "http://analyzer.test"
        assert (await rest.post("/sign-in", data={"token": token})).status_code == 303
        yield rest


async def sent(browser: httpx2.AsyncClient, path: str, **fields: str) -> httpx2.Response:
    secret = re.findall(r'name="form_secret" value="([^"]+)"', (await browser.get("/")).text)[0]
    return await browser.post(path, data={"form_secret": secret, **fields})


def text_of(answer: httpx2.Response) -> str:
    """Return the words of a page, as a reader sees them."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", answer.text)))


async def test_a_task_is_planned_made_and_shown(life: Life, browser: httpx2.AsyncClient) -> None:
    before = life.service.store.tasks()
    answer = await sent(browser, "/tasks/new/plan", **FORM)
    words = text_of(answer)
    assert answer.status_code == 200
    assert "ε = 2 at δ = 1e-06, from 2,000 reports" in words
    assert "mean of deviation by noise unit age ±" in words
    assert "coefficient of" in words
    assert "takes one row of 3 columns: age (cut to 0 to 120 years); smoker (yes or no); stage (one of" in words
    assert 'value="How &lt;age&gt; goes with the rest"' in answer.text  # the form keeps what was filled in
    assert life.service.store.tasks() == before  # nobody was asked for anything
    made = await sent(browser, "/tasks", **FORM)
    assert made.status_code == 303
    stored = life.service.store.tasks()[0]
    task = life.service.task(stored.task_id)
    assert made.headers["location"] == f"/tasks/{stored.task_id}"
    assert (stored.population, task.purpose, task.claim.min_clients) == ("ward 3", FORM["purpose"], 2000)
    assert (task.not_after - task.not_before) * task.time_precision == 3 * 86_400
    shown = text_of(await browser.get(f"/tasks/{stored.task_id}"))
    assert "collecting : Reports are collected." in shown
    assert "At least 2,222 reports are at all 3 servers" in shown  # so that 2,000 are left if a tenth fails
    assert "noise is added, and the result is cut into shares" in shown


@pytest.mark.slow
async def test_the_smallest_errors_come_with_the_largest_epsilon(life: Life, browser: httpx2.AsyncClient) -> None:
    errors = []
    for epsilon in ("0.5", "1", "2"):
        words = text_of(await sent(browser, "/tasks/new/plan", **FORM | {"epsilon": epsilon}))
        errors.append(float(re.findall(r"mean of deviation by noise unit age ± ([\d.]+)", words)[0]))
    assert errors[0] > errors[1] > errors[2] > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", kinds())
async def test_every_kind_of_the_form_can_be_planned(life: Life, browser: httpx2.AsyncClient, kind: str) -> None:
    changes = {"kind": kind, "target": "", "client_auth": "token", "min_clients": "4000", **NEEDED.get(kind, {})}
    answer = await sent(browser, "/tasks/new/plan", **FORM | changes)
    assert 'role="alert"' not in answer.text, text_of(answer)
    assert "Nothing is predicted for this kind" not in answer.text
    assert "What a device will be asked for" in answer.text


def columns(count: int) -> str:
    return "\n".join(f"c{number}: 0 to 9" for number in range(count))


async def test_a_plan_of_too_many_columns_is_refused_before_anything_is_computed(
    browser: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str | None] = []

    async def computed(_request: object, _service: object, asked: TaskForm, *_: object) -> None:
        begun.append(asked.target)
        raise InvalidTaskError("it is computed")

    monkeypatch.setattr(new_task, "computed", computed)
    levels = " | ".join(f"L{number}" for number in range(231))
    wide = FORM | {"target": "c0", "columns": columns(460)}
    together = FORM | {"target": "c0", "columns": f"c0: 0 to 9\nsite: {levels}\nward: {levels}"}
    for asked in (wide, together):
        words = text_of(await sent(browser, "/tasks/new/plan", **asked))
        assert "Columns : this page plans at most 449 columns of this kind" in words
        assert "leave the column to explain empty, or use `lintra plan` in a terminal" in words
    words = text_of(await sent(browser, "/tasks/new/plan", **wide | {"kind": "histogram", "columns": columns(1001)}))
    assert "this page plans at most 1,000 columns of this kind" in words
    assert "leave the column" not in words
    assert begun == []
    widest = wide | {"columns": columns(449)}
    for asked in (widest, wide | {"target": ""}, wide | {"kind": "range_finder"}, wide | {"kind": "osnap"}):
        assert "It is computed" in text_of(await sent(browser, "/tasks/new/plan", **asked))
    assert begun == ["c0", None, "c0", "c0"]


@pytest.mark.slow
async def test_a_plan_of_400_columns_is_an_answer_or_a_refusal_within_ten_seconds_and_a_gigabyte(
    life: Life, browser: httpx2.AsyncClient
) -> None:
    before = time.monotonic()
    words = text_of(await sent(browser, "/tasks/new/plan", **FORM | {"target": "c0", "columns": columns(400)}))
    # The process may have to start what it is made from; a second of each is not the plan's.
    assert time.monotonic() - before < life.service.settings.work_seconds + 4
    assert "coefficient of" in words or "it takes more than 10 seconds" in words


@pytest.mark.slow
async def test_a_plan_of_many_columns_is_made_in_a_process_and_one_that_reaches_a_cap_is_refused(
    life: Life, browser: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = FORM | {"kind": "sum", "target": "", "columns": columns(61)}
    monkeypatch.setattr(life.service, "work", WorkPool(WorkLimits(1, 60, 1 << 30), WORK_MODULES))
    words = text_of(await sent(browser, "/tasks/new/plan", **asked))
    assert "Means, 40 of 61" in words
    monkeypatch.setattr(life.service, "work", WorkPool(WorkLimits(1, 0.01, 1 << 30), WORK_MODULES))
    words = text_of(await sent(browser, "/tasks/new/plan", **asked))
    assert "columns: it takes more than 0.01 seconds; use fewer columns" in words


STRANGE = {
    "the wrong way round": {"columns": "age: 120 to 0"},
    "no range": {"columns": "age: 1 to 1"},
    "a number without end": {"columns": "age: 0 to 1e400"},
    "a range that no decimal spells": {"columns": "age: 0 to 1e-39"},
    "two levels without a name": {"columns": "stage: | |"},
    "thousands of brackets": {"specification": "[" * 5000},
    "thousands of braces": {"specification": '{"a":' * 5000},
    "a number of thousands of digits": {"specification": '{"epsilon": ' + "1" * 5000 + "}"},
    "a list of brackets": {"kind": "range_finder", "mechanism-targets": "[" * 5000},
    "no promise": {"epsilon": "0"},
    "a negative promise": {"epsilon": "-1"},
    "less than rounding takes": {"epsilon": "1e-39"},
    "a bound beyond decimals": {"kind": "range_finder", "row_bound": "999999999999999999"},
}
"""What made the form answer HTTP 500, or something like it."""


@pytest.mark.parametrize("path", ["/tasks/new/plan", "/tasks"])
@pytest.mark.parametrize("said", STRANGE.values(), ids=STRANGE)
async def test_strange_numbers_are_refused_in_words(
    browser: httpx2.AsyncClient, said: dict[str, str], path: str
) -> None:
    answer = await sent(browser, path, **FORM | {"target": ""} | said)
    assert answer.status_code == (200 if path.endswith("plan") else 400)
    (complaint,) = re.findall(r'<p class="notice" role="alert">(.+)</p>', answer.text)
    assert not re.search(r"Value error|Traceback|Error\(|<class|\bself\b", complaint)


async def test_every_kind_is_offered_with_all_that_its_specification_asks_for(browser: httpx2.AsyncClient) -> None:
    assert set(kinds()) == set(specifications())
    for kind, asked in specifications().items():
        page = (await browser.get("/tasks/new", params={"kind": kind})).text
        assert f'<option value="{kind}" selected>' in page
        fields = set(re.findall(r'<label for="mechanism-(\w+)"', page))
        assert fields == set(asked.model_fields) - {"kind"}
        assert all(f'name="mechanism-{key}"' in page for key in fields)


def form(**fields: str) -> dict[str, list[str]]:
    return {name.replace("__", "-"): [value] for name, value in {**FORM, **fields}.items()}


def test_options_are_read_as_the_specification_holds_them() -> None:
    many = form(
        kind="ron_gauss", mechanism__bins="8", mechanism__pairs="rule", mechanism__edges='{"age": [0, 18]}',
        mechanism__covariance="per_class", mechanism__rounds="2", mechanism__rank="9",
        contributors__rows_per_person="2", contributors__max_rows="10,000", more__neighbours="zero-out",
        more__time_precision="1 minute",
    )  # fmt: skip
    document = asked_by(many).document
    assert document["mechanism"] == {
        "kind": "ron_gauss", "bins": 8, "pairs": "rule", "edges": {"age": [0, 18]}, "covariance": "per_class",
        "rounds": 2,
    }  # fmt: skip
    assert document["contributors"] == {"rows_per_person": 2, "max_rows": 10_000}
    assert (document["neighbours"], document["time_precision"]) == ("zero-out", 60)
    assert "windows" not in document
    assert document["duration_seconds"] == 3 * 86_400
    windows = form(
        kind="range_finder", mechanism__targets="age, stage", mechanism__intervals="yes", mechanism__intercept="0.50",
        windows__window_seconds="7 days", windows__grace_seconds="1 hour", windows__max_windows="52",
        more__reports_per_source="4",
    )  # fmt: skip
    document = asked_by(windows).document
    assert document["mechanism"] == {
        "kind": "range_finder", "targets": [{"column": "age"}, {"column": "stage"}], "intervals": True,
        "intercept": "0.50",
    }  # fmt: skip
    assert document["windows"] == {"window_seconds": 604_800, "grace_seconds": 3600, "max_windows": 52}
    assert "duration_seconds" not in document


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"mechanism__trace": "perhaps"}, "trace: choose one of no, yes"),
        ({"windows__window_seconds": "a fortnight"}, "window_seconds: a length of time"),
        ({"contributors__max_rows": "-3"}, "max_rows: a whole number"),
        ({"kind": "ron_gauss", "mechanism__edges": "{age"}, "edges: this JSON is broken"),
    ],
)
def test_an_option_that_cannot_be_read_is_named(changes: dict[str, str], complaint: str) -> None:
    with pytest.raises(InvalidTaskError, match=complaint):
        asked_by(form(**changes))


@pytest.mark.slow
async def test_windows_and_organisations_are_planned_and_made_from_the_form(
    life: Life, browser: httpx2.AsyncClient
) -> None:
    windows = {"windows-window_seconds": "1 day", "windows-grace_seconds": "1 hour", "windows-max_windows": "4"}
    asked = FORM | windows | {"more-reports_per_source": "2", "epsilon": "0.5"}
    words = text_of(await sent(browser, "/tasks/new/plan", **asked))
    assert "What the windows promise together" in words
    assert "all 2 reports of a source" in words
    assert (await sent(browser, "/tasks", **asked)).status_code == 303
    task = life.service.task(life.service.store.tasks()[0].task_id)
    assert task.windows is not None
    assert (task.windows.max_windows, task.reports_per_source) == (4, 2)
    words = text_of(await sent(browser, "/tasks/new/plan", **FORM | {"more-noise": "servers"}))
    assert "No noise is added there: every server adds enough of its own" in words
    who = {"contributors-rows_per_person": "1", "contributors-max_rows": "1000", "min_clients": "5", "max_clients": "5"}
    words = text_of(await sent(browser, "/tasks/new/plan", **FORM | who))
    assert "An organisation takes all its rows of 3 columns" in words
    assert (await sent(browser, "/tasks", **FORM | who)).status_code == 303
    held = life.service.task(life.service.store.tasks()[0].task_id).contributors
    assert held is not None
    assert held.max_rows == 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"columns": "age: 0 to 120\nheight"}, "Columns</a>: line 2: write"),
        ({"columns": ""}, "Columns</a>: none yet"),
        ({"min_clients": "many"}, "Reports at least</a>: a whole number, got 'many'"),
        ({"days": ""}, "Days that reports are taken</a>: missing"),
        ({"epsilon": "-1"}, "epsilon"),
        ({"epsilon": ""}, "epsilon"),
        ({"purpose": ""}, "purpose"),
        ({"kind": "guess"}, "What is released</a>: choose one of second_moment"),
        ({"target": "weight"}, "weight"),
        ({"specification": "{"}, "A whole specification</a>: this JSON is broken"),
        ({"specification": "[]"}, "A whole specification</a>: a JSON object"),
        ({"specification": '{"purpose": "x", "columns": [{"name": "a"}]}'}, "state lower and upper"),
    ],
)
async def test_a_form_that_cannot_be_is_shown_again_with_what_is_wrong(
    life: Life, browser: httpx2.AsyncClient, changes: dict[str, str], complaint: str
) -> None:
    answer = await sent(browser, "/tasks/new/plan", **FORM | changes)
    assert answer.status_code == 200
    assert complaint in html.unescape(answer.text), text_of(answer)
    assert 'value="ward 3"' in answer.text
    if "target" not in changes:
        before = life.service.store.tasks()
        refused = await sent(browser, "/tasks", **FORM | changes)
        assert (refused.status_code, life.service.store.tasks()) == (400, before)


async def test_a_released_task_leads_to_its_release_and_is_charged_to_its_population(
    life: Life, browser: httpx2.AsyncClient
) -> None:
    task = await life.create(purpose="released on its page")
    await life.upload(task)
    page = f"/tasks/{task.task_id}"
    live = text_of(await browser.get(f"{page}/servers"))
    assert len(re.findall(r"http://server-\d.test 24 0 0", live)) == 3
    census = text_of(await browser.get(f"{page}/census"))
    assert "There are enough: 24 reports are at all servers, and 12 are needed." in census
    assert "The numbers are of 2027-01-15 08:00 UTC: a server counts at most once in 1 hour" in census
    assert (await sent(browser, f"{page}/release")).headers["location"] == page
    await life.service.jobs.finished(task.task_id)
    release_id = life.service.job(task.task_id).release_id
    assert f'href="/releases/{release_id}"' in (await browser.get(page)).text
    line = text_of(await browser.get("/privacy")).partition("everybody one row is replaced by any other row ")[2]
    epsilons = [float(found) for found in re.findall(r"ε = ([\d.e-]+) at δ", line)[:2]]
    assert 0 < epsilons[0] <= epsilons[1]
    assert epsilons[0] == pytest.approx(life.service.record(str(release_id)).record.privacy.epsilon, rel=1e-3)


@pytest.mark.slow
async def test_a_server_that_is_away_is_named_and_the_task_can_be_brought_again(
    life: Life, browser: httpx2.AsyncClient
) -> None:
    def away(server: int, request: httpx2.Request, answer: object) -> object:
        if server == 1:
            raise httpx2.ConnectError("away", request=request)
        return answer

    life.wires.fault = away  # type: ignore[assignment]
    made = await sent(browser, "/tasks", **FORM | {"purpose": "one server is away"})
    page = made.headers["location"]
    shown = text_of(await browser.get(page))
    assert "It is not registered with http://server-1.test: nobody can send." in shown
    assert (await sent(browser, f"{page}/registration")).status_code == 303
    assert "not registered" in text_of(await browser.get(page))
    life.wires.fault = None
    assert (await sent(browser, f"{page}/registration")).status_code == 303
    assert "not registered" not in text_of(await browser.get(page))


async def test_a_viewer_sees_no_button_that_would_be_refused(life: Life) -> None:
    task = await life.create()
    token, _ = life.service.access.add("Eve", "viewer", Scope(), None)
    async with life.rest(token) as rest:
        for path in ("/", f"/tasks/{task.task_id}", "/privacy"):
            forms = re.findall(r'<form[^>]*method="post" action="([^"]+)"', (await rest.get(path)).text)
            assert forms == ["/sign-out"], path
            assert "/tasks/new" not in (await rest.get(path)).text


async def test_a_task_says_in_words_how_it_stands(life: Life) -> None:
    task = await life.create()
    registered = [ServerState(server, "accepted") for server in range(3)]
    job = Job(task.task_id, "inventory", "waiting", {"title": "Too few.", "detail": "12 more are needed"})
    ends = task.not_after * task.time_precision

    def word(job: Job | None, now: int = NOW, states: list[ServerState] = registered) -> str:
        return standing_of(task, states, job, now).word

    open_ = standing_of(task, registered, None, NOW)
    assert word(None) == "collecting"
    assert word(None, ends) == "over"
    assert word(None, states=[*registered[:2], ServerState(2, "refused")]) == "not registered"
    assert word(job) == "waiting"
    assert "12 more are needed" in standing_of(task, registered, job, NOW).sentence
    assert word(replace(job, state="running", problem=None)) == "releasing"
    assert word(replace(job, state="failed")) == "failed"
    assert word(replace(job, state="released", release_id="r")) == "released"
    assert time_left(task, ends - 90_000, open_) == "1 day 1 hour left"
    assert time_left(task, ends + 60, open_) == "over for 1 minute"
    assert any("At least 12 reports are at all 3 servers." in line for line in gate_of(task))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 seconds"), (1, "1 second"), (61, "1 minute 1 second"), (3600, "1 hour"), (90_061, "1 day 1 hour")],
)
def test_a_length_of_time_is_said_in_two_units(seconds: int, words: str) -> None:
    assert span_in_words(seconds) == words


def test_columns_are_read_as_they_are_written() -> None:
    assert columns_of("age: 0 to 120 years, whole\n\n t : -1.5 to 2e3, may be missing\nx: Yes or No\ns: a | b, c") == [
        {"name": "age", "lower": "0", "upper": "120", "unit": "years", "kind": "integer"},
        {"name": "t", "lower": "-1.5", "upper": "2e3", "missing": True},
        {"name": "x", "kind": "boolean"},
        {"name": "s", "kind": "category", "levels": ["a", "b, c"]},
    ]


@pytest.mark.parametrize("line", ["a", "a:", ": 0 to 1", "a: 0 - 1", "a: 0 to", "a: zero to one", "a: 1"])
def test_a_column_that_cannot_be_understood_is_refused_by_its_line(line: str) -> None:
    with pytest.raises(InvalidTaskError, match="columns, line 2: write `age"):
        columns_of(f"b: 0 to 1\n{line}")


def test_a_code_book_stands_beside_levels_and_units_and_makes_a_task() -> None:
    sex, weight = columns_of(
        "sex: M = male, Mann | F = female | (other), missing: 9\nweight: 0 to 200 kg, lb = 0.45359237, missing: -99 999"
    )
    assert sex["levels"] == ["M", "F", "(other)"]
    assert sex["code_book"] == {
        "missing": ["9"],
        "levels": [{"level": "M", "label": "male", "synonyms": ["Mann"]}, {"level": "F", "label": "female"}],
    }
    assert weight["code_book"] == {"missing": ["-99", "999"], "units": [{"unit": "lb", "factor": "0.45359237"}]}
    books = [ColumnSpecification.model_validate(each).code_book for each in (sex, weight)]
    assert [book.missing for book in books if book] == [("9",), ("-99", "999")]
