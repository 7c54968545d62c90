"""Requests made from the services' own descriptions, in process: no request makes a service fail, and what it answers
is what it describes.
"""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import positive_data_acceptance

from lintra_analyzer.web.app import OPENAPI_PATH
from lintra_protocol.http.requests import media_type
from lintra_server.web.description import OPERATIONS
from support.analyzer_world import TOKEN, Life, living
from support.blocking import Bridge, Loop
from support.server_world import World, a_world

QUICK, LONG = 2, 60
URL = "http://analyzer.test"

# Messages of bytes are sent as they are drawn.
schemathesis.serializer.alias(["application/vnd.lintra.v1+octets", media_type("reports")], "application/octet-stream")

Send = Callable[[Case], httpx2.Response]


def tried(
    schema: schemathesis.BaseSchema, method: str, path: str, examples: int, check: Callable[[Case], None]
) -> None:
    """Make requests for one operation, the same ones everywhere."""
    strategy = schema[path][method].as_strategy()
    run = settings(
        max_examples=examples, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    run(given(strategy)(check))()


def meets(case: Case, **real: str) -> None:
    """Let half of the requests name things that exist: names that are drawn never do."""
    for name, value in real.items():
        if name in case.path_parameters and len(str(case.path_parameters[name])) % 2:
            case.path_parameters[name] = value


def require_problem(response: httpx2.Response) -> None:
    if response.status_code >= 400:
        assert response.headers["content-type"] == "application/problem+json"
        document = json.loads(response.content)
        assert document["status"] == response.status_code
        assert document["type"].startswith("urn:lintra:problem:")


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


@pytest.fixture(scope="module")
def life(loop: Loop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    world = living(tmp_path_factory.mktemp("analyzer"))
    life: Life = loop.run(world.__aenter__())  # type: ignore[assignment]
    loop.run(released(life))
    yield life
    loop.run(world.__aexit__(None, None, None))


async def released(life: Life) -> None:
    task = await life.create()
    await life.upload(task)
    await life.release(task)


@pytest.fixture(scope="module")
def described(life: Life, loop: Loop) -> tuple[schemathesis.BaseSchema, httpx2.Client]:
    client = httpx2.Client(transport=Bridge(life, loop), base_url=URL, headers={"authorization": f"Bearer {TOKEN}"})
    return schemathesis.openapi.from_dict(client.get(OPENAPI_PATH).json()), client


@pytest.mark.parametrize(
    "examples", [pytest.param(QUICK, id="few"), pytest.param(LONG, id="many", marks=pytest.mark.slow)]
)
def test_the_analyzer_answers_every_request_as_it_describes(
    described: tuple[schemathesis.BaseSchema, httpx2.Client], life: Life, examples: int
) -> None:
    schema, client = described

    def check(case: Case) -> None:
        record = life.records()[0].record
        meets(case, release_id=record.release_id, task_id=record.task_id)
        wanted = case.as_transport_kwargs(base_url=URL)
        wanted.pop("cookies")
        wanted["headers"] = {**wanted["headers"], "authorization": f"Bearer {TOKEN}"}
        response = client.request(**wanted)
        require_problem(response)
        response.elapsed = timedelta(0)  # an answer that did not travel has none
        # A task that is well formed may still promise nothing, or two columns of one name.
        case.validate_response(response, excluded_checks=[positive_data_acceptance])

    operations = [operation.ok() for operation in schema.get_all_operations()]
    assert len(operations) >= 13
    for operation in operations:
        tried(schema, operation.method, operation.path, examples, check)


@pytest.fixture(scope="module")
def world(loop: Loop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = a_world(tmp_path_factory.mktemp("server"))
    yield loop.run(made.__aenter__())  # type: ignore[misc]
    loop.run(made.__aexit__(None, None, None))


@pytest.mark.parametrize(
    "examples", [pytest.param(QUICK, id="few"), pytest.param(LONG, id="many", marks=pytest.mark.slow)]
)
def test_no_request_makes_a_server_fail_and_every_refusal_is_a_problem(world: World, loop: Loop, examples: int) -> None:
    schema = schemathesis.openapi.from_dict(world.apps[0].inner.openapi())  # type: ignore[attr-defined]

    def check(case: Case) -> None:
        meets(case, task_id=world.task.task_id)
        wanted = case.as_transport_kwargs(base_url="https://server.example")
        wanted.pop("cookies")
        if "data" in wanted:
            wanted["content"] = wanted.pop("data")
        response: httpx2.Response = loop.run(world.http[0].request(**wanted))  # type: ignore[assignment]
        require_problem(response)
        case.validate_response(response, checks=[not_a_server_error])

    operations = [operation.ok() for operation in schema.get_all_operations()]
    assert len(operations) >= 12
    for operation in operations:
        tried(schema, operation.method, operation.path, examples, check)


def test_every_resource_of_a_server_says_which_messages_it_takes_and_answers(world: World, loop: Loop) -> None:
    application = world.apps[0].inner
    routes = {(method.lower(), route.path) for route in application.routes for method in route.methods - {"HEAD"}}  # type: ignore[attr-defined]
    known = routes | {("post", "/v1/tasks/{task_id}/reports")}
    assert known == set(OPERATIONS), f"OPERATIONS of web/description.py and the routes: {known ^ set(OPERATIONS)}"
    described = application.openapi()["paths"]  # type: ignore[attr-defined]
    task = f"/v1/tasks/{world.task.task_id}"
    for method, path, asked in (("get", "/v1/keys", "/v1/keys"), ("get", "/v1/tasks/{task_id}", task)):
        answer = loop.run(world.http[0].get(asked))
        (declared,) = described[path][method]["responses"]["200"]["content"].items()
        assert answer.headers["content-type"] == declared[0]  # type: ignore[attr-defined]
    assert described["/v1/tasks/{task_id}/reports"]["post"]["requestBody"]["required"]
