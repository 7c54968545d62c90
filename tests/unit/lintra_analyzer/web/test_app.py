"""The REST interface: who gets in, what it answers, and that every refusal is a problem document."""

import asyncio
import io
import json
from pathlib import Path

import httpx2
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_analysis.certificate.certificate import SignedRecord
from lintra_analyzer.serve import create_internal_app
from lintra_analyzer.service import INTERACTIVE_ATTEMPTS
from lintra_analyzer.web.app import OPENAPI_PATH
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.rules.release import late_seed
from lintra_protocol.task import Task
from support.analyzer_world import KEYS, NAMES, Answer, Life, living, server_url, specification


def problem(answer: httpx2.Response) -> str:
    """Return the kind of problem, after checking that the answer is a whole problem document."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    document = answer.json()
    assert document["status"] == answer.status_code
    assert document["instance"] == "urn:lintra:request:" + answer.headers["lintra-request-id"]
    assert document.keys() >= {"type", "title", "detail", "retryable"}
    return str(document["type"]).removeprefix("urn:lintra:problem:")


async def released(life: Life, kind: str) -> str:
    task = await life.create(kind)
    await life.upload(task)
    return await life.release(task)


# --- who gets in ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [None, "", "lintra_wrong", "lintra_a-token-that-only-tests-knoW"])
async def test_without_a_known_token_nobody_gets_in(tmp_path: Path, token: str | None) -> None:
    async with living(tmp_path) as life, life.rest(token) as rest:
        for path in ("/v1/tasks", "/v1/tasks/x", "/v1/releases", "/v1/releases/x", "/v1/releases/x/sketch"):
            answer = await rest.get(path)
            assert (answer.status_code, problem(answer)) == (401, "unauthorized")
            assert answer.headers["www-authenticate"].startswith("Bearer")
        assert problem(await rest.post("/v1/tasks", json=specification())) == "unauthorized"
        assert life.service.store.tasks() == []


async def test_the_public_keys_and_the_description_are_for_everybody(life: Life) -> None:
    async with life.rest(None) as rest:
        assert (await rest.get("/v1/keys")).json()["author_key"] == KEYS.author.public_key
        paths = (await rest.get(OPENAPI_PATH)).json()["paths"]
    assert set(paths) >= {
        "/v1/keys",
        "/v1/tasks",
        "/v1/tasks/{task_id}",
        "/v1/tasks/{task_id}/registration",
        "/v1/tasks/{task_id}/batches/{batch}/release",
        "/v1/releases",
        "/v1/releases/{release_id}",
        "/v1/releases/{release_id}/sketch",
        "/v1/releases/{release_id}/cohort",
        "/v1/releases/{release_id}/analyses",
    }


# --- problems -------------------------------------------------------------------------------------------------------


async def test_every_refusal_is_a_problem_document(tmp_path: Path) -> None:
    async with living(tmp_path, max_body_bytes=2000) as life, life.rest() as rest:
        task = await life.create()
        release = f"/v1/tasks/{task.task_id}/batches/0/release"
        refusals = [
            (await rest.get("/nowhere"), 404, "not_found"),
            (await rest.delete("/v1/tasks"), 405, "method_not_allowed"),
            (await rest.get("/v1/tasks/unknown"), 404, "unrecognized_task"),
            (await rest.get(f"/v1/tasks/{task.task_id}?live=yes"), 400, "invalid_message"),
            (await rest.put("/v1/tasks/unknown/batches/0/release"), 404, "unrecognized_task"),
            (await rest.put(release.replace("/0/", "/1/")), 404, "batch_unknown"),
            (await rest.get(release.replace("/0/", "/x/")), 404, "batch_unknown"),
            (await rest.get("/v1/releases/unknown"), 404, "not_found"),
            (await rest.get("/v1/releases/unknown/sketch"), 404, "not_found"),
            (await rest.get("/v1/releases/unknown/cohort"), 404, "not_found"),
            (await rest.post("/v1/releases/unknown/analyses", json={}), 404, "not_found"),
            (await rest.post("/v1/tasks", content=b"{"), 400, "invalid_message"),
            (await rest.post("/v1/tasks", content=b"[" * 2001), 413, "message_too_large"),
        ]
        for answer, status, token in refusals:
            assert (answer.status_code, problem(answer)) == (status, token)


async def test_a_defect_shows_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with living(tmp_path) as life, life.rest() as rest:

        def broken(*_: object) -> None:
            raise ZeroDivisionError("a secret")

        monkeypatch.setattr(life.service.store.listed, "tasks", broken)
        answer = await rest.get("/v1/tasks")
        assert (answer.status_code, problem(answer)) == (500, "internal")
        assert "secret" not in answer.text


# --- tasks ----------------------------------------------------------------------------------------------------------


async def test_a_new_task_is_named_by_its_hash_and_described(tmp_path: Path) -> None:
    async with living(tmp_path) as life, life.rest() as rest:
        answer = await rest.post("/v1/tasks", json=specification("osnap"))
        view = answer.json()
        assert (answer.status_code, answer.headers["location"]) == (201, f"/v1/tasks/{view['task_id']}")
        task = Task.from_value(view["definition"])
        assert task.task_id == view["task_id"]
        assert float(view["privacy"]["epsilon"]) <= 4
        assert view["headroom"]["sigma"] == task.mechanism.sigma
        assert view["upload"]["total_bytes"] == sum(view["upload"]["report_bytes"])
        assert [server["state"] for server in view["servers"]] == ["accepted"] * 3
        assert (await rest.get(f"/v1/tasks/{task.task_id}")).json() == view
        assert [entry["task_id"] for entry in (await rest.get("/v1/tasks")).json()] == [task.task_id]


async def test_live_asks_the_servers_and_shows_their_counters(life: Life) -> None:
    async with life.rest() as rest:
        task = await life.create()
        await life.upload(task, 13)
        view = (await rest.get(f"/v1/tasks/{task.task_id}?live=1")).json()
        assert [server["counters"]["accepted"] for server in view["servers"]] == [13, 13, 13]
        plain = (await rest.get(f"/v1/tasks/{task.task_id}")).json()
        assert [server["counters"] for server in plain["servers"]] == [None, None, None]


async def test_a_repeated_request_makes_no_second_task(tmp_path: Path) -> None:
    async with living(tmp_path) as life, life.rest() as rest:
        headers = {"idempotency-key": "one"}
        first = await rest.post("/v1/tasks", json=specification(), headers=headers)
        second = await rest.post("/v1/tasks", json=specification(), headers=headers)
        assert first.json() == second.json()
        other = await rest.post("/v1/tasks", json=specification(epsilon=3), headers=headers)
        assert (other.status_code, problem(other)) == (409, "task_conflict")
        assert len(life.service.store.tasks()) == 1


async def test_two_requests_at_once_with_one_key_make_one_task(life: Life) -> None:
    async with life.rest() as rest:
        headers = {"idempotency-key": "one"}
        answers = await asyncio.gather(
            *(rest.post("/v1/tasks", json=specification(), headers=headers) for _ in range(3))
        )
        assert [answer.status_code for answer in answers] == [201] * 3
        assert len({answer.json()["task_id"] for answer in answers}) == 1


async def test_an_analyst_does_not_wait_for_a_server_as_long_as_a_job_does(tmp_path: Path) -> None:
    async with living(tmp_path, server_attempts=20) as life, life.rest() as rest:
        task = await life.create()
        life.wires.log.clear()

        def down(server: int, _request: httpx2.Request, answer: Answer) -> Answer:
            if server == 0:
                raise httpx2.ConnectError("down")
            return answer

        life.wires.fault = down
        view = (await rest.get(f"/v1/tasks/{task.task_id}?live=1")).json()
        assert [server["state"] for server in view["servers"]] == ["refused", "accepted", "accepted"]
        assert view["servers"][0]["problem"]["type"] == "urn:lintra:problem:unavailable"
        assert len([1 for server, _, _ in life.wires.log if server == 0]) == INTERACTIVE_ATTEMPTS


async def test_a_task_that_one_server_refuses_cannot_be_used_until_it_takes_it(tmp_path: Path) -> None:
    async with living(tmp_path) as life, life.rest() as rest:
        refusal = json.dumps({"type": "urn:lintra:problem:policy_refused", "detail": "epsilon 4 exceeds 1"}).encode()

        def strict(server: int, request: httpx2.Request, answer: Answer) -> Answer:
            if server == 2 and request.method == "PUT":
                return 403, {"content-type": "application/problem+json"}, refusal
            return answer

        life.wires.fault = strict
        answer = await rest.post("/v1/tasks", json=specification(), headers={"idempotency-key": "k"})
        assert (answer.status_code, problem(answer)) == (403, "policy_refused")
        assert "1 of 3 servers" in answer.json()["detail"]
        assert f"server 2 ({server_url(2)}): epsilon 4 exceeds 1" in answer.json()["detail"]
        (task_id,) = [stored.task_id for stored in life.service.store.tasks()]
        assert answer.json()["task"] == task_id
        view = (await rest.get(f"/v1/tasks/{task_id}")).json()
        assert [server["state"] for server in view["servers"]] == ["accepted", "accepted", "refused"]
        assert problem(await rest.put(f"/v1/tasks/{task_id}/batches/0/release")) == "policy_refused"
        life.wires.fault = None
        assert (await rest.put(f"/v1/tasks/{task_id}/registration")).json()["registered"]
        again = await rest.post("/v1/tasks", json=specification(), headers={"idempotency-key": "k"})
        assert (again.status_code, again.json()["task_id"]) == (201, task_id)


async def test_a_task_that_a_server_lost_is_brought_to_it_again_and_one_that_is_away_still_has_it(life: Life) -> None:
    async with life.rest() as rest:
        made = await rest.post("/v1/tasks", json=specification(), headers={"idempotency-key": "k"})
        path, brought = f"/v1/tasks/{made.json()['task_id']}/registration", set[int]()

        def away(server: int, request: httpx2.Request, answer: Answer) -> Answer:
            if server == 1:
                raise httpx2.ConnectError("refused")
            brought.update({server} if request.method == "PUT" else ())
            return answer

        life.wires.fault = away
        assert (await rest.put(path)).json()["registered"]
        assert brought == {0, 2}


async def test_a_server_that_is_down_is_named(life: Life) -> None:
    async with life.rest() as rest:

        def down(server: int, _request: httpx2.Request, answer: Answer) -> Answer:
            if server == 0:
                raise httpx2.ConnectError("down")
            return answer

        life.wires.fault = down
        answer = await rest.post("/v1/tasks", json=specification())
        assert (answer.status_code, problem(answer)) == (503, "unavailable")
        assert "server 0" in answer.json()["detail"]


async def test_a_server_is_trusted_on_first_use_only_and_its_key_is_kept(tmp_path: Path) -> None:
    servers = [{"url": server_url(server)} for server in range(3)]
    async with living(tmp_path, servers=servers, trust_on_first_use=True) as life:
        task = await life.create()
        expected = [app.node.identity.public_key for app in life.servers]
        assert [entry.identity_key for entry in task.servers] == expected
        life.wires.log.clear()
        await life.create()
        assert "keys" not in {what for _, _, what in life.wires.log}
        assert [life.service.store.servers.pinned_key(server_url(server)) for server in range(3)] == expected


# --- releases -------------------------------------------------------------------------------------------------------


async def test_a_release_is_started_with_put_and_followed_with_get(tmp_path: Path) -> None:
    async with living(tmp_path) as life, life.rest() as rest:
        task = await life.create()
        path = f"/v1/tasks/{task.task_id}/batches/0/release"
        assert (await rest.get(path)).json()["state"] == "waiting"
        await life.upload(task)
        first, second = await rest.put(path), await rest.put(path)
        for answer in (first, second):
            assert (answer.status_code, answer.headers["location"]) == (202, path)
            assert answer.headers["retry-after"]
        await life.service.jobs.finished(task.task_id)
        done = await rest.put(path)
        release_id = done.json()["release_id"]
        assert (done.status_code, done.headers["location"]) == (200, f"/v1/releases/{release_id}")
        assert (await rest.get(path)).json() == done.json()
        assert [entry["release_id"] for entry in (await rest.get("/v1/releases")).json()] == [release_id]


async def test_the_refusal_of_a_server_stands_in_the_job(life: Life) -> None:
    async with life.rest() as rest:
        task = await life.create()
        await life.upload(task, 3)
        path = f"/v1/tasks/{task.task_id}/batches/0/release"
        await rest.put(path)
        await life.service.jobs.finished(task.task_id)
        view = (await rest.get(path)).json()
        assert (view["state"], view["stage"]) == ("waiting", "inventory")
        assert view["problem"]["type"] == "urn:lintra:problem:cohort_too_small"
        assert view["problem"]["task"] == task.task_id


@pytest.mark.parametrize("kind", ["osnap", "sum", "second_moment"])
@pytest.mark.grid(4)
async def test_the_numbers_come_as_npz_json_and_csv(life: Life, kind: str) -> None:
    async with life.rest() as rest:
        release_id = await released(life, kind)
        path = f"/v1/releases/{release_id}/sketch"
        with np.load(io.BytesIO((await rest.get(path)).content), allow_pickle=False) as arrays:
            values = np.atleast_2d(arrays["values"])
        as_json = (await rest.get(path, headers={"accept": "application/json"})).json()
        assert_array_equal(np.array(as_json["values"]), values)
        lines = (await rest.get(path, headers={"accept": "text/csv"})).text.splitlines()
        assert lines[0] == ",".join(NAMES)
        assert_array_equal(np.array([[float(cell) for cell in line.split(",")] for line in lines[1:]]), values)


async def test_an_auditor_can_derive_the_seed_from_what_is_public(life: Life) -> None:
    async with life.rest() as rest:
        release_id = await released(life, "osnap")
        view = (await rest.get(f"/v1/releases/{release_id}")).json()
        signed = SignedRecord.from_value({"record": view["record"], "signature": view["signature"]})
        record = signed.verified(KEYS.identity.public_key)
        ids = (await rest.get(f"/v1/releases/{release_id}/cohort")).json()["report_ids"]
        task = life.service.task(record.task_id)
        root = ReportIds.of(parse_base64url(report_id) for report_id in ids).root
        nonces = [parse_base64url(part.nonce) for part in record.servers]
        assert base64url(root) == record.cohort_root
        assert base64url(late_seed(task, 0, root, nonces)) == record.seed


# --- the internal listener --------------------------------------------------------------------------------------------


async def test_the_internal_listener_tells_health_and_counts(tmp_path: Path) -> None:
    async with living(tmp_path) as life, life.rest() as rest:
        await rest.get("/v1/tasks")
        transport = httpx2.ASGITransport(create_internal_app(life.service))
        async with httpx2.AsyncClient(transport=transport, base_url="http://internal.test") as internal:
            assert (await internal.get("/healthz")).status_code == 200
            assert (await internal.get("/readyz")).status_code == 200
            text = (await internal.get("/metrics")).text
            assert 'lintra_requests_total{resource="/v1/tasks",status="200"} 1.0' in text
            assert problem(await internal.get("/v1/tasks")) == "not_found"
