"""Every refusal of the public listener has its token and its status, and changes nothing."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from lintra_protocol.crypto.sealing import CLASSICAL, HYBRID
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import OverloadedError
from lintra_protocol.http.requests import media_type, sign_request
from lintra_protocol.http.signature import INPUT_HEADER, SIGNATURE_HEADER
from lintra_protocol.messages.documents import TaskRecord, sign
from lintra_protocol.task import ServerEntry, Task
from lintra_server.settings import RegistrationPolicy
from lintra_server.web.app import MAX_TASK_BYTES
from lintra_service import responses
from support.checked_world import verified
from support.server_world import ANALYZER, AUTHOR, STRANGER, World, a_world, new_world, token, url


async def state(world: World, server: int = 0) -> tuple[str, int]:
    store = world.apps[server].node.store
    return store.batch(1).state, store.num_reports(1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def filled(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """Three servers with twelve reports, for refusals: they change nothing, so all may ask the same servers."""
    async with a_world(tmp_path_factory.mktemp("filled")) as world:
        await world.upload_everywhere(world.reports(12))
        yield world


asks_the_same = pytest.mark.asyncio(loop_scope="module")


# --- registering ----------------------------------------------------------------------------------------------


def changed(**values: object) -> Callable[[Task], Task]:
    return lambda task: task.model_copy(update=values)


def cheap_claim(task: Task) -> Task:
    return task.model_copy(update={"claim": task.claim.model_copy(update={"epsilon": "0.5"})})


def huge_rows(task: Task) -> Task:
    return task.model_copy(update={"mechanism": task.mechanism.model_copy(update={"row_bound": "99999999999"})})


def other_key(task: Task) -> Task:
    servers = (ServerEntry(url=url(0), identity_key=STRANGER.public_key), *task.servers[1:])
    return task.model_copy(update={"servers": servers})


def other_url(task: Task) -> Task:
    servers = (task.servers[0].model_copy(update={"url": "https://elsewhere.example"}), *task.servers[1:])
    return task.model_copy(update={"servers": servers})


@pytest.mark.parametrize(
    ("change", "policy", "status", "kind"),
    [
        (cheap_claim, {}, 400, "false_claim"),
        (changed(client_auth="mtls"), {}, 400, "unsupported_feature"),
        (changed(client_auth="token"), {}, 400, "invalid_task"),
        (changed(), {"open": False}, 403, "policy_refused"),
        (changed(not_after=2**53 - 1), {}, 403, "policy_refused"),
        (changed(), {"max_definition_bytes": 1024}, 403, "policy_refused"),
        (changed(), {"allowed_authors": ()}, 403, "policy_refused"),
        (huge_rows, {}, 400, "invalid_task"),
        (other_key, {}, 403, "policy_refused"),
        (other_url, {}, 403, "policy_refused"),
        (changed(), {"allowed_authors": (STRANGER.public_key,)}, 403, "policy_refused"),
        (changed(), {"max_epsilon": "1.9"}, 403, "policy_refused"),
        (changed(), {"min_clients": 13}, 403, "policy_refused"),
        (changed(), {"max_clients": 999}, 403, "policy_refused"),
        (changed(), {"max_words": 2}, 403, "policy_refused"),
        (changed(), {"allowed_suites": (HYBRID,)}, 403, "policy_refused"),
        (changed(not_before=1, not_after=2), {}, 403, "policy_refused"),
    ],
)
@asks_the_same
@pytest.mark.grid(2)
async def test_a_task_that_breaks_its_promise_or_the_policy_is_not_registered(
    filled: World, tmp_path: Path, change: Callable[[Task], Task], policy: dict[str, object], status: int, kind: str
) -> None:
    allowed = RegistrationPolicy.model_validate({"allowed_authors": "any", "open": True} | policy)
    world = new_world(tmp_path, policy=allowed) if policy else filled
    task = change(world.task)
    answer = await world.register(0, task)
    assert (answer.status_code, token(answer)) == (status, kind)
    missing = await world.http[0].get(f"/v1/tasks/{task.task_id}")
    assert (missing.status_code, token(missing)) == (404, "unrecognized_task")
    if policy:
        world.close()


@pytest.mark.parametrize(
    ("allowed", "change", "detail"),
    [
        ({}, changed(retention=30 * 86_400), ""),
        ({}, changed(retention=30 * 86_400 + 1), "retention 2592001 s exceeds 2592000 s"),
        ({}, changed(retention=2**31 - 1), "retention 2147483647 s exceeds 2592000 s"),
        ({"max_retention": 0}, changed(retention=1), "retention 1 s exceeds 0 s"),
        ({}, changed(max_rejected="0.25"), ""),
        ({}, changed(max_rejected="0.26"), "max_rejected 0.26 exceeds 0.25"),
        ({"max_rejected": "0.05"}, changed(max_rejected="0.1"), "max_rejected 0.1 exceeds 0.05"),
    ],
)
async def test_what_is_kept_after_a_release_and_what_may_be_rejected_have_ceilings(
    tmp_path: Path, allowed: dict[str, object], change: Callable[[Task], Task], detail: str
) -> None:
    policy = RegistrationPolicy.model_validate({"allowed_authors": "any", "open": True} | allowed)
    world = new_world(tmp_path, "sum", policy=policy)
    answer = await world.register(0, change(verified(world.task)))
    world.close()
    if not detail:
        assert answer.status_code == 201, answer.text
        return
    assert (answer.status_code, token(answer)) == (403, "policy_refused")
    assert answer.json()["detail"].startswith(detail)


async def test_a_policy_that_just_fits_lets_the_task_in(tmp_path: Path) -> None:
    policy = RegistrationPolicy.model_validate(
        {
            "allowed_authors": [AUTHOR.public_key],
            "open": True,
            "max_epsilon": 2,
            "min_clients": 12,
            "max_clients": 1000,
            "max_words": 3,
            "allowed_suites": [CLASSICAL],
        }
    )
    async with a_world(tmp_path, policy=policy) as world:
        assert await state(world) == ("open", 0)


async def test_a_task_under_another_name_or_signature_is_refused(tmp_path: Path) -> None:
    world = new_world(tmp_path)
    body = sign(AUTHOR, TaskRecord(definition=world.task)).canonical()
    headers = {"content-type": media_type("task")}
    other = await world.http[0].put(f"/v1/tasks/{base64url(bytes(32))}", content=body, headers=headers)
    assert (other.status_code, token(other)) == (400, "invalid_message")
    forged = await world.register(0, key=STRANGER)
    assert (forged.status_code, token(forged)) == (401, "unauthorized")
    spaced = await world.http[0].put(f"/v1/tasks/{world.task.task_id}", content=b" " + body, headers=headers)
    assert (spaced.status_code, token(spaced)) == (400, "invalid_message")
    world.close()


# --- the framework --------------------------------------------------------------------------------------------


async def test_whatever_the_framework_refuses_is_a_problem_document_too(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        http, task = world.http[0], f"/v1/tasks/{world.task.task_id}"
        for method, path, status, kind in [
            ("GET", "/", 404, "not_found"),
            ("GET", "/v1/keys/", 404, "not_found"),
            ("GET", "/docs", 404, "not_found"),
            ("GET", "/openapi.json", 404, "not_found"),
            ("GET", "/metrics", 404, "not_found"),
            ("DELETE", task, 405, "method_not_allowed"),
            ("POST", "/v1/keys", 405, "method_not_allowed"),
            ("GET", f"{task}/reports", 405, "method_not_allowed"),
            ("PUT", task, 415, "unsupported_media_type"),
            ("POST", f"{task}/reports", 415, "unsupported_media_type"),
            ("GET", "/v1/tasks/!", 404, "unrecognized_task"),
            ("POST", f"/v1/tasks/{base64url(bytes(32))}/reports", 404, "unrecognized_task"),
        ]:
            answer = await http.request(method, path)
            assert (answer.status_code, token(answer)) == (status, kind), (method, path)


async def test_an_unexpected_failure_says_nothing_but_that_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_world(tmp_path) as world:
        monkeypatch.setattr(world.apps[0].node.registry, "find", lambda _: 1 / 0)
        for path in (f"/v1/tasks/{world.task.task_id}", f"/v1/tasks/{world.task.task_id}/reports"):
            answer = await world.http[0].request("POST" if path.endswith("reports") else "GET", path)
            assert (answer.status_code, token(answer)) == (500, "internal")
            assert "division" not in answer.text


async def test_a_body_beyond_the_limit_is_refused_unread(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        read = []

        async def endless():  # type: ignore[no-untyped-def]
            while True:
                read.append(1)
                yield bytes(1 << 20)

        path = f"/v1/tasks/{world.task.task_id}"
        headers = {"content-type": media_type("task"), "content-length": str(MAX_TASK_BYTES + 1)}
        stated = await world.http[0].put(path, content=endless(), headers=headers)
        assert (stated.status_code, token(stated)) == (413, "message_too_large")
        headers = {"content-type": media_type("reports")}
        unstated = await world.http[0].post(f"{path}/reports", content=endless(), headers=headers)
        assert (unstated.status_code, token(unstated)) == (413, "message_too_large")
        body = await world.ask(0, "POST", "/batches/0/inventory", b"x")
        assert (body.status_code, token(body)) == (413, "message_too_large")
        headers = {"content-type": media_type("reports"), "content-length": "many"}
        wrong = await world.http[0].post(f"{path}/reports", content=b"", headers=headers)
        assert (wrong.status_code, token(wrong)) == (400, "invalid_message")


async def test_every_answer_has_its_own_request_identifier(tmp_path: Path) -> None:
    world = new_world(tmp_path)
    answers = [await world.http[0].get("/v1/keys"), await world.http[0].get("/v1/keys"), await world.http[0].get("/")]
    assert len({answer.headers["lintra-request-id"] for answer in answers}) == 3
    world.close()


# --- who asks -------------------------------------------------------------------------------------------------

ANALYZER_ONLY = [
    ("GET", "/batches"),
    ("GET", "/counters"),
    ("POST", "/batches/0/inventory"),
    ("GET", "/batches/0/inventory"),
    ("GET", "/batches/0/inventory/ids"),
    ("PUT", "/batches/0/cohort"),
    ("GET", "/batches/0/cohort"),
    ("PUT", "/batches/0/aggregate"),
    ("GET", "/batches/0/aggregate"),
]
BODY_NAMES = {"/batches/0/cohort": "cohort-request", "/batches/0/aggregate": "aggregate-request"}


@pytest.mark.parametrize(("method", "resource"), ANALYZER_ONLY)
@asks_the_same
async def test_only_the_tasks_analyzer_is_answered(filled: World, method: str, resource: str) -> None:
    name = BODY_NAMES.get(resource) if method == "PUT" else None
    for key in (None, STRANGER, AUTHOR):
        answer = await filled.ask(0, method, resource, key=key, name=name)  # type: ignore[arg-type]
        assert (answer.status_code, token(answer)) == (401, "unauthorized")
    assert await state(filled) == ("open", 12)


async def test_a_signed_request_counts_once_and_for_its_own_words_only(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        path = f"/v1/tasks/{world.task.task_id}/batches"
        now, whole = int(world.clock()), f"{url(0)}{path}"
        headers = sign_request(ANALYZER, "GET", whole, b"", now, bytes(16))
        assert (await world.http[0].get(path, headers=headers)).status_code == 200
        another = headers[INPUT_HEADER].replace(base64url(bytes(16)), base64url(b"x" * 16))
        for replay in (headers, {**headers, INPUT_HEADER: another}):
            answer = await world.http[0].get(path, headers=replay)
            assert (answer.status_code, token(answer)) == (401, "unauthorized")
        for elsewhere in (f"{whole}x", f"{whole}?x=1", f"{url(1)}{path}"):
            signed = sign_request(ANALYZER, "GET", elsewhere, b"", now, b"y" * 16)
            assert (await world.http[0].get(path, headers=signed)).status_code == 401
        query = sign_request(ANALYZER, "GET", f"{whole}?x=1", b"", now, b"q" * 16)
        assert (await world.http[0].get(f"{path}?x=1", headers=query)).status_code == 200
        old = sign_request(ANALYZER, "GET", whole, b"", now - 301, b"z" * 16)
        assert (await world.http[0].get(path, headers=old)).status_code == 401
        broken = {**headers, SIGNATURE_HEADER: "="}
        assert (await world.http[0].get(path, headers=broken)).status_code == 400


async def test_a_stranger_is_refused_before_a_byte_of_the_body_is_read(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        path = f"/v1/tasks/{world.task.task_id}/batches/0/cohort"
        whole = f"{url(0)}{path}"
        read = 0

        async def body() -> AsyncIterator[bytes]:
            nonlocal read
            read += 1
            yield b"{}"

        for key, expected, times in ((STRANGER, 401, 0), (ANALYZER, 401, 1)):
            # The analyzer's signature is good, but it was made for another body.
            headers = sign_request(key, "PUT", whole, b"other", int(world.clock()), bytes([times]) * 16)
            headers["content-type"] = media_type("cohort-request")
            answer = await world.http[0].put(path, content=body(), headers=headers)
            assert (answer.status_code, token(answer), read) == (expected, "unauthorized", times)


@pytest.mark.parametrize("resource", ["inventory", "inventory/ids", "cohort", "aggregate"])
@pytest.mark.grid(2)
async def test_there_is_one_batch_and_what_it_has_not_yet_is_not_found(tmp_path: Path, resource: str) -> None:
    async with a_world(tmp_path) as world:
        other = await world.ask(0, "GET", f"/batches/1/{resource}")
        assert (other.status_code, token(other)) == (404, "batch_unknown")
        early = await world.ask(0, "GET", f"/batches/0/{resource}")
        assert (early.status_code, token(early)) == (409, "batch_open")
        await world.upload_everywhere(world.reports(12))
        await world.inventories()
        if not resource.startswith("inventory"):
            closed = await world.ask(0, "GET", f"/batches/0/{resource}")
            assert (closed.status_code, token(closed)) == (404, "not_found")


async def test_a_proof_of_inclusion_or_absence_needs_a_cohort(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        base = f"/v1/tasks/{world.task.task_id}/batches"
        unknown = base64url(bytes(32))
        for path, status, kind in [
            (f"{base}/1/inclusion/{unknown}", 404, "batch_unknown"),
            (f"{base}/0/inclusion/{unknown}", 409, "batch_open"),
            (f"{base}/0/inclusion/short", 400, "invalid_message"),
        ]:
            answer = await world.http[0].get(path)
            assert (answer.status_code, token(answer)) == (status, kind)
        await world.upload_everywhere(world.reports(12))
        await world.aggregate_request()
        answer = await world.http[0].get(f"{base}/0/inclusion/{unknown}")
        assert (answer.status_code, json.loads(answer.content)["kind"]) == (200, "absence")


async def test_an_overloaded_server_says_when_to_come_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_world(tmp_path, max_pending_bytes=1 << 16) as world:
        body = await world.body(0, world.reports(2))
        with world.apps[0].node.uploads.lease("somebody else") as lease:
            lease.take((1 << 16) - 1)
            answer = await world.post(0, body)
        assert (answer.status_code, token(answer)) == (429, "overloaded")
        assert answer.headers["retry-after"] == "1"
        assert (await world.post(0, body)).status_code == 200

        def full(*_: object) -> None:
            raise OverloadedError

        monkeypatch.setattr(world.apps[0].node.writer, "submit", full)
        # What is stored needs no room.
        assert (await world.post(0, body)).status_code == 200
        assert (await world.post(0, await world.body(0, world.reports(1, "another")))).status_code == 429
        counters = (await world.ask(0, "GET", "/counters")).json()
        assert counters == {"received": 5, "accepted": 2, "repeated": 2, "refused": {"overloaded": 1}}


async def test_a_sender_that_is_too_slow_or_leaves_is_cut_off_and_its_room_is_free_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_world(tmp_path) as world:
        body = await world.body(0, world.reports(2))

        async def upload(rest: Callable[[], Awaitable[dict[str, object]]]) -> tuple[int, bytes]:
            parts: list[dict[str, object]] = [{"type": "http.request", "body": body[:100], "more_body": True}]
            sent: list[dict[str, object]] = []

            async def receive() -> dict[str, object]:
                return parts.pop() if parts else await rest()

            async def send(message: dict[str, object]) -> None:
                sent.append(message)

            headers = [(b"content-type", media_type("reports").encode()), (b"content-length", b"%d" % len(body))]
            path = f"/v1/tasks/{world.task.task_id}/reports"
            scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
            await world.apps[0](scope, receive, send)  # type: ignore[arg-type]
            return sent[0]["status"], sent[1]["body"]  # type: ignore[return-value]

        async def gone() -> dict[str, object]:
            return {"type": "http.disconnect"}

        async def slow() -> dict[str, object]:
            await asyncio.sleep(10)
            return {"type": "http.request", "body": body[100:], "more_body": False}

        assert (await upload(gone))[0] == 400
        monkeypatch.setattr(responses, "READ_SECONDS", 0.05)
        assert (await upload(slow))[0] == 503
        node = world.apps[0].node
        assert node.uploads.used == 0
        assert node.store.report_ids(1) == []
