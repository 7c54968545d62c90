"""Roles and scopes over all routes of the application: a route that is added tomorrow is tried too."""

import httpx2
import pytest

from lintra_analyzer.storage.access_tokens import Role, Scope
from lintra_analyzer.web.admission import CHANGES_NOTHING, FOR_ANALYSTS, FOR_OPERATORS, READING, SIGN_IN, needed_role
from support.analyzer_world import Life, specification
from support.routes import filled, routes, stored

# Whoever comes along may look at these, and sign in.
OPEN = {("GET", "/v1/keys"), ("GET", "/docs"), ("GET", SIGN_IN), ("POST", SIGN_IN)}

EVERYTHING = Scope()


def token(life: Life, role: Role, scope: Scope = EVERYTHING) -> str:
    return life.service.access.add(f"a {role}", role, scope, None)[0]


def who(rest: httpx2.AsyncClient, given: str) -> None:
    rest.headers["authorization"] = f"Bearer {given}"


async def test_a_viewer_can_change_nothing_through_any_route(life: Life) -> None:
    task = await life.create()
    viewer, before = token(life, "viewer"), stored(life)
    changing = [(m, p) for m, p in routes(life) if m not in READING and p not in CHANGES_NOTHING and (m, p) not in OPEN]
    assert len(changing) >= 6
    async with life.rest(viewer) as rest:
        for method, path in changing:
            answer = await rest.request(method, filled(path, task_id=task.task_id), json=specification())
            assert answer.status_code == 403, (method, path, answer.text)
        assert (await rest.get("/")).status_code == (await rest.get("/v1/tasks")).status_code == 200
    assert stored(life) == before


async def test_what_viewers_look_at_changes_nothing(life: Life) -> None:
    task = await life.create()
    await life.upload(task)
    viewer = token(life, "viewer")
    before, refused = stored(life), set()
    async with life.rest(viewer) as rest:
        for method, path in routes(life):
            if method == "GET" and (method, path) not in OPEN:
                answer = await rest.get(filled(path, task_id=task.task_id, release_id="x"))
                refused |= {path} if answer.status_code == 403 else set()
    assert refused == FOR_ANALYSTS | {"/tokens"}
    assert stored(life) == before


async def test_what_viewers_may_send_changes_nothing(life: Life) -> None:
    task = await life.create()
    viewer = token(life, "viewer")
    before = stored(life)
    async with life.rest(viewer) as rest:
        for path in CHANGES_NOTHING:
            answer = await rest.post(filled(path, task_id=task.task_id, release_id="x"), json={"kind": "means"})
            assert answer.status_code != 403, (path, answer.text)
    assert stored(life) == before


async def test_every_list_of_exceptions_names_routes_that_there_are(life: Life) -> None:
    known = {path for _, path in routes(life)}
    assert known >= CHANGES_NOTHING | FOR_ANALYSTS | FOR_OPERATORS
    assert set(routes(life)) >= OPEN


async def test_only_operators_come_near_tokens(life: Life) -> None:
    about_tokens = [(m, p) for m, p in routes(life) if p.startswith("/tokens")]
    assert len(about_tokens) == 3
    assert {needed_role(method, path) for method, path in about_tokens} == {"operator"}
    async with life.rest(token(life, "analyst")) as rest:
        for method, path in about_tokens:
            assert (await rest.request(method, filled(path))).status_code == 403, (method, path)
    async with life.rest(token(life, "operator")) as rest:
        assert (await rest.get("/tokens")).status_code == 200


async def test_strangers_are_let_in_nowhere_but_where_it_is_meant(life: Life) -> None:
    before = stored(life)
    async with life.rest(None) as rest:
        for method, path in routes(life):
            answer = await rest.request(method, filled(path, task_id="x", release_id="x"))
            refused = answer.status_code == 401 or answer.headers.get("location", "").startswith(SIGN_IN)
            assert refused != ((method, path) in OPEN), (method, path, answer.status_code)
    assert stored(life) == before


async def test_a_token_for_one_population_finds_nothing_of_another(life: Life) -> None:
    hidden = await life.create(purpose="the hidden purpose")
    await life.upload(hidden)
    release_id = await life.release(hidden)
    given = token(life, "analyst", Scope(tasks=("another",), populations=("ward 3",)))
    ids = {"task_id": hidden.task_id, "release_id": release_id}
    tried = 0
    async with life.rest(given) as rest:
        for method, path in routes(life):
            about_it = any("{" + name + "}" in path for name in ids)
            if method != "GET" and not about_it:
                continue
            answer = await rest.request(method, filled(path, **ids))
            assert "the hidden purpose" not in answer.text, (method, path)
            if about_it:
                tried += 1
                assert answer.status_code == 404, (method, path, answer.text)
            else:
                assert hidden.task_id not in answer.text, (method, path)
                assert release_id not in answer.text, (method, path)
    assert tried >= 12
    async with life.rest(token(life, "viewer", Scope(tasks=(hidden.task_id,)))) as rest:
        assert [each["task_id"] for each in (await rest.get("/v1/tasks")).json()] == [hidden.task_id]
        assert (await rest.get(f"/v1/releases/{release_id}")).status_code == 200
        assert "the hidden purpose" in (await rest.get("/")).text


async def test_a_token_for_a_population_makes_tasks_for_it_only(life: Life) -> None:
    async with life.rest(token(life, "analyst", Scope(populations=("ward 3",)))) as rest:
        assert (await rest.post("/v1/tasks", json=specification())).status_code == 403
        made = await rest.post("/v1/tasks", params={"population": "ward 3"}, json=specification())
        assert made.status_code == 201
        assert [each["task_id"] for each in (await rest.get("/v1/tasks")).json()] == [made.json()["task_id"]]
    async with life.rest() as rest:
        once = {"idempotency-key": "k"}
        assert (await rest.post("/v1/tasks", json=specification(), headers=once)).status_code == 201
        answer = await rest.post("/v1/tasks", params={"population": "b"}, json=specification(), headers=once)
        assert answer.status_code == 409


@pytest.mark.parametrize(
    ("method", "path", "role"),
    [
        ("GET", "/v1/tasks", "viewer"),
        ("POST", "/v1/tasks", "analyst"),
        ("PUT", "/anything/new", "analyst"),
        ("DELETE", "/anything/new", "analyst"),
        ("POST", "/v1/tasks/{task_id}/trend", "viewer"),
        ("GET", "/tokens", "operator"),
    ],
)
def test_a_route_that_nobody_thought_of_is_closed_to_viewers(method: str, path: str, role: str) -> None:
    assert needed_role(method, path) == role
