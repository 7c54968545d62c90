"""Models among real servers: rounds follow each other by themselves, also after a restart; bad wishes are refused."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lintra_analyzer.storage.access_tokens import Scope
from lintra_analyzer.tasks.models import LATE_SECONDS, Model, key_after
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.ideal import run
from lintra_protocol.messages.documents import Cohort, Signed
from lintra_protocol.task import Task
from support.analyzer_world import NOW, Life, living, seeded, specification

PEOPLE = 16
HOUR = 3600


@pytest.fixture
async def life(tmp_path: Path) -> AsyncIterator[Life]:
    async with living(tmp_path) as one:
        yield one


def wish(rounds: int = 3, **changes: object) -> dict[str, object]:
    """Return the specification of a logistic regression of c on a and b."""
    mechanism = {"kind": "newton_step", "rounds": rounds, "intercept": 1, "target": "c"}
    wanted = {"row_bound": 2, "epsilon": 10, "min_clients": 12, "max_corrupt_clients": 0, "duration_seconds": HOUR}
    return specification("newton_step", **wanted, **{"mechanism": mechanism} | changes)


def people(count: int = PEOPLE, label: str = "person") -> list[tuple[FloatArray, RandomBytes]]:
    """Return rows whose c follows a logistic law of a and b, each with randomness of its own."""
    generator = np.random.default_rng(len(label) + count)
    features = generator.uniform(-1, 1, (count, 2))
    chances = 1 / (1 + np.exp(-(0.5 + features @ [1.0, -1.0])))
    rows = np.column_stack([features, np.where(generator.uniform(size=count) < chances, 1.0, -1.0)])
    return [(row, seeded(f"{label} {place}")) for place, row in enumerate(rows)]


async def create(life: Life, **body: Any) -> Model:
    async with life.rest() as rest:
        answer = await rest.post("/v1/models", json=body)
    assert answer.status_code == 201, answer.text
    return life.service.models.show(answer.json()["task_id"])


async def answered(life: Life, model: Model, label: str, count: int = PEOPLE) -> Task:
    """Send the reports of a model's last round, release it, and let the analyzer look at its models."""
    task = life.service.task(life.service.models.show(model.task.task_id).rounds[-1].task_id)
    await life.upload(task, rows=people(count, label))
    await life.release(task)
    await life.service.models.look()
    return task


async def view(life: Life, model: Model) -> dict[str, Any]:
    async with life.rest() as rest:
        found: dict[str, Any] = (await rest.get(f"/v1/models/{model.task.task_id}")).json()
    return found


def ideal_sketch(life: Life, task: Task, label: str) -> Any:
    bodies = [life.service.store.document(task.task_id, 0, "cohort", server) for server in range(3)]
    nonces = [parse_base64url(Signed[Cohort].from_canonical(body or b"").message.nonce) for body in bodies]
    return run(task, people(label=label), nonces).sketch


async def test_three_rounds_of_the_same_people_follow_by_themselves_and_their_sums_are_the_ideal_ones(
    life: Life,
) -> None:
    model = await create(life, specification=wish())
    tasks = [await answered(life, model, "a person")]
    life.restart()  # what is made between rounds is not lost
    tasks.append(await answered(life, model, "a person"))
    tasks.append(await answered(life, model, "a person"))
    await life.service.models.look()
    found = await view(life, model)
    async with life.rest() as rest:
        estimate = await rest.get(f"/v1/models/{model.task.task_id}/estimate", params={"of": "cohort"})
        listed = (await rest.get("/v1/models")).json()
    assert [each["task_id"] for each in found["rounds"]] == [task.task_id for task in tasks]
    assert [task.mechanism.after for task in tasks] == [None, tasks[0].task_id, tasks[1].task_id]  # type: ignore[attr-defined]
    assert (found["state"], found["ended"]) == ("ended", "the last of 3 rounds is released")
    for task in tasks:
        record = life.service.record(life.service.job(task.task_id).release_id or "").record
        assert np.array_equal(life.service.archive.read(record)[0], ideal_sketch(life, task, "a person"))
    assert [each["statistic"] is None for each in found["rounds"]] == [True, False, False]
    assert float(found["spent"]["epsilon"]) <= float(found["reserved"]["epsilon"]) == 10
    assert estimate.json()["result"]["rounds"][2]["statistic"] == found["rounds"][2]["statistic"]
    assert [each["task_id"] for each in listed] == [model.task.task_id]


async def test_a_window_makes_the_parameter_of_the_next_and_the_last_ends_the_model(life: Life) -> None:
    model = await create(life, specification=wish(1), windows=2)
    first = await answered(life, model, "somebody")
    second = await answered(life, model, "somebody else")
    found = await view(life, model)
    assert (second.mechanism.after, second.mechanism.round_number) == (first.task_id, 1)  # type: ignore[attr-defined]
    assert any(float(number) for number in second.mechanism.parameter)  # type: ignore[attr-defined]
    assert (found["state"], found["ended"]) == ("ended", "all 2 windows are over")
    assert float(found["reserved"]["epsilon"]) == 10
    assert 5 < float(found["spent"]["epsilon"]) <= 10  # of one window, and of more people than are needed


async def test_a_round_is_released_when_its_time_is_over_and_one_that_few_answered_is_a_gap(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = await create(life, specification=wish(1), windows=3)
    clock = [NOW]
    monkeypatch.setattr(life.service.models._rounds, "now", lambda: clock[0])
    await life.service.models.look()
    assert (await view(life, model))["state"] == "collecting"
    clock[0] = NOW + 2 * HOUR
    await life.upload(model.task, rows=people(5))
    await life.service.models.look()
    await life.service.jobs.finished(model.task.task_id)
    waits = await view(life, model)
    assert (waits["state"], waits["rounds"][0]["problem"]["type"]) == ("waiting", "urn:lintra:problem:cohort_too_small")
    clock[0] += HOUR // 10 + LATE_SECONDS
    await life.service.models.look()
    found = await view(life, model)
    assert [each["state"] for each in found["rounds"]] == ["waiting", "collecting"]
    again = life.service.task(found["rounds"][1]["task_id"])
    assert again.mechanism.is_start  # type: ignore[attr-defined]  # nothing was released that a parameter comes from


async def test_a_gap_of_the_same_people_ends_the_model_and_an_analyst_may_end_one(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, other = await create(life, specification=wish()), await create(life, specification=wish(5))
    monkeypatch.setattr(life.service.models._rounds, "now", lambda: NOW + 3 * HOUR)
    async with life.rest() as rest:
        stopped = await rest.post(f"/v1/models/{other.task.task_id}/stop")
    await life.service.models.look()
    await life.service.jobs.finished(model.task.task_id)
    await life.service.models.look()
    assert str((await view(life, model))["ended"]).startswith("round 1 will not be released: ")
    assert stopped.json()["ended"] == (await view(life, other))["ended"] == "an analyst ended it"
    assert life.service.store.job(other.task.task_id) is None


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"specification": specification("sum")}, "newton_step is one"),
        ({"specification": wish(3), "windows": 2}, "one of both is 1"),
        ({"specification": wish(1)}, "several rounds"),
        ({"specification": wish(1), "windows": 61}, "windows"),
        (
            {
                "specification": wish(1, windows={"window_seconds": HOUR, "grace_seconds": 0, "max_windows": 2}),
                "windows": 2,
            },
            "leave `windows` out",
        ),
    ],
    ids=["another kind", "rounds and windows", "one round", "too many windows", "windows in the task"],
)
async def test_what_is_no_model_is_refused_in_words(life: Life, body: dict[str, object], says: str) -> None:
    async with life.rest() as rest:
        answer = await rest.post("/v1/models", json=body)
        unknown = await rest.get("/v1/models/nobody")
    assert answer.status_code == 400
    assert says in answer.json()["detail"]
    assert unknown.status_code == 404


async def test_the_page_of_a_model_shows_its_rounds_and_says_why_there_is_no_interval(life: Life) -> None:
    model = await create(life, specification=wish())
    await answered(life, model, "a person")
    address = f"/models/{model.task.task_id}"
    async with life.rest() as rest:
        listed, shown = (await rest.get("/models")).text, (await rest.get(address)).text
        stopped = await rest.post(f"{address}/stop")
        after = (await rest.get(address)).text
    assert f'href="{address}"' in listed
    assert "No interval:</strong> it needs another round" in shown
    assert "takes reports" in shown  # the second round is there
    assert "/analyses/logit/picture.svg" in shown
    assert stopped.status_code == 303
    assert "No further round is made: an analyst ended it." in after
    assert "<button>Make no further round" not in after


async def test_a_token_for_another_population_sees_no_model_ends_none_and_puts_no_task_among_its_rounds(
    life: Life,
) -> None:
    model = await create(life, specification=wish())
    path, task_id = f"/v1/models/{model.task.task_id}", model.task.task_id
    given, _ = life.service.access.add("Ada", "analyst", Scope(populations=("ward 3",)), None)
    async with life.rest(given) as rest:
        assert (await rest.get("/v1/models")).json() == []
        assert task_id not in (await rest.get("/models")).text
        for seen in (path, f"{path}/estimate", f"/models/{task_id}"):
            assert (await rest.get(seen)).status_code == 404, seen
        for ends in (f"{path}/stop", f"/models/{task_id}/stop"):
            assert (await rest.post(ends)).status_code == 404, ends
        assert (await rest.post("/v1/models", json={"specification": wish()})).status_code == 403
        key, asked = {"idempotency-key": key_after(task_id)}, {"population": "ward 3"}
        for where, body in (("/v1/tasks", wish()), ("/v1/models", {"specification": wish()})):
            refused = await rest.post(where, params=asked, json=body, headers=key)
            assert refused.status_code == 400, where
            assert "are the analyzer's own" in refused.text
    found = life.service.models.show(task_id)
    assert (len(found.rounds), found.state) == (1, "collecting")
