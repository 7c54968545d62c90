"""What the interface says about itself is true: forms of answers, refusals, who may ask, and the page for people."""

import re
from typing import Any, cast

import jsonschema_rs
import numpy as np
import pytest

from lintra_analysis.synthetic.analysis import SyntheticEstimate
from lintra_analyzer.web.analyses import ANALYSES
from lintra_analyzer.web.result_schema import result_schema
from lintra_protocol.task import Task
from support.analyzer_world import CLIENTS, Life, seeded
from support.example_releases import LIVES, RELAPSES, SENSORS, WAVE, relapses, sensors
from support.example_releases import released as released_rows

OF_HISTOGRAM: dict[str, dict[str, Any]] = {"histogram": {}, "power-sums": {}}
OF_RANGE: dict[str, dict[str, Any]] = {"wide-components": {}, "wide-variances": {}, "wide-ridge": {"target": "power"}}
OF_NEWTON: dict[str, dict[str, object]] = {"logit": {}}
OF_LIVES: dict[str, dict[str, Any]] = {
    "survival": {"time": "months", "event": "relapse"},
    "logrank": {"time": "months", "event": "relapse", "group": "arm"},
    "chi-square": {"target": "relapse", "group": "arm"},
}
OF_A_BOOLEAN: dict[str, dict[str, object]] = {
    "linear-score": {"target": "ill"},
    "difference": {"target": "age", "group": "ill"},
    "iv": {"target": "age", "endogenous": ["ill"], "instruments": ["arm"]},
}
OF_RON_GAUSS: dict[str, dict[str, object]] = {"synthetic": {"num_rows": 3, "seed": 1}, "fidelity": {}}
NEEDED: dict[str, dict[str, object]] = {
    kind: {"target": "a"} for kind in ("regression", "regression-path", "anova", "f-test", "elastic-net")
}
"""The options without a default, of what a second moment answers; the lists above are about other releases."""


async def described(life: Life) -> dict[str, Any]:
    async with life.rest() as rest:
        return cast("dict[str, Any]", (await rest.get("/v1/openapi.json")).json())


async def released(life: Life, mechanism: dict[str, object]) -> str:
    bound = None if mechanism["kind"] == "histogram" else 0.6
    task = await life.create(epsilon=10, row_bound=bound, mechanism=mechanism)
    await life.upload(task)
    return f"/v1/releases/{await life.release(task)}/analyses"


def answer_to(document: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the declared schema of the answer to a kind of analysis."""
    operation = document["paths"]["/v1/releases/{release_id}/analyses"]["post"]
    declared = operation["responses"]["200"]["content"]["application/json"]["schema"]["oneOf"]
    (found,) = [schema for schema in declared if schema["properties"]["kind"]["const"] == kind]
    return cast("dict[str, Any]", found)


async def released_boolean(life: Life) -> str:
    columns: list[dict[str, object]] = [{"name": "age", "lower": 0, "upper": 2}]
    columns += [{"name": name, "kind": "boolean"} for name in ("ill", "arm")]
    mechanism = {"kind": "second_moment", "intercept": 1}
    task = await life.create(epsilon=10, row_bound=2, columns=columns, mechanism=mechanism)
    people = [np.array([1 + number % 2 / 2, number % 2, number // 2 % 2]) for number in range(CLIENTS)]
    await life.upload(task, rows=[(person, seeded(f"person {number}")) for number, person in enumerate(people)])
    return f"/v1/releases/{await life.release(task)}/analyses"


async def released_wide(life: Life) -> str:
    return f"/v1/releases/{await released_rows(life, SENSORS, sensors(), WAVE)}/analyses"


@pytest.mark.parametrize(
    "mechanism", ["second_moment", "ron_gauss", "histogram", "boolean", "range", "newton_step", "lives"]
)
@pytest.mark.grid(6)
async def test_every_answer_has_the_form_that_is_declared_and_lacks_nothing(life: Life, mechanism: str) -> None:
    others = ANALYSES.keys() - {*OF_RON_GAUSS, *OF_HISTOGRAM, *OF_A_BOOLEAN, *OF_RANGE, *OF_NEWTON, *OF_LIVES}
    own = {
        "ron_gauss": OF_RON_GAUSS,
        "histogram": OF_HISTOGRAM,
        "boolean": OF_A_BOOLEAN,
        "range": OF_RANGE,
        "newton_step": OF_NEWTON,
        "lives": OF_LIVES,
    }
    asked = own.get(mechanism) or {kind: NEEDED.get(kind, {}) for kind in others}
    async with life.rest() as rest:
        if mechanism == "boolean":
            path = await released_boolean(life)
        elif mechanism == "range":
            path = await released_wide(life)
        elif mechanism == "lives":
            path = f"/v1/releases/{await released_rows(life, RELAPSES, relapses(), LIVES)}/analyses"
        else:
            path = await released(life, mechanism={"kind": mechanism})
        document = await described(life)
        for kind, arguments in asked.items():
            answer = await rest.post(path, json={"kind": kind, **arguments})
            assert answer.status_code == 200, f"{kind}: {answer.text}; the lists above say what each is asked"
            schema, given = answer_to(document, kind), answer.json()
            jsonschema_rs.validate(schema, given)
            for name in given["result"]:
                lacking = {key: value for key, value in given["result"].items() if key != name}
                assert not jsonschema_rs.is_valid(schema, given | {"result": lacking}), (kind, name)
            assert not jsonschema_rs.is_valid(schema, given | {"result": given["result"] | {"surprise": 1}}), kind


def test_a_result_without_a_plain_form_cannot_be_described() -> None:
    with pytest.raises(TypeError, match="no plain form"):
        result_schema(SyntheticEstimate)


async def test_refusals_are_declared_as_problems_and_those_that_come_are_among_them(life: Life) -> None:
    async with life.rest() as rest:
        document = await described(life)
        for path, methods in document["paths"].items():
            for operation in methods.values():
                assert "422" not in operation["responses"]
                assert {"401", "429", "500", "503"} <= operation["responses"].keys(), path
                for status, answer in operation["responses"].items():
                    assert (int(status) >= 400) == ("application/problem+json" in answer.get("content", {})), path
        problem = document["components"]["schemas"]["Problem"]
        for method, path, template in (
            ("GET", "/v1/tasks/unknown", "/v1/tasks/{task_id}"),
            ("POST", "/v1/tasks", "/v1/tasks"),
            ("POST", "/v1/tasks/unknown/second-round", "/v1/tasks/{task_id}/second-round"),
            ("GET", "/v1/releases/unknown", "/v1/releases/{release_id}"),
            ("PUT", "/v1/tasks/x/batches/1/release", "/v1/tasks/{task_id}/batches/{batch}/release"),
        ):
            refused = await rest.request(method, path, json={} if method == "POST" else None)
            assert str(refused.status_code) in document["paths"][template][method.lower()]["responses"]
            jsonschema_rs.validate(problem, refused.json())


def free_objects(schema: object, place: str = "") -> list[str]:
    """Return where a description allows an object of any form."""
    if isinstance(schema, list):
        return [found for number, each in enumerate(schema) for found in free_objects(each, f"{place}/{number}")]
    if not isinstance(schema, dict):
        return []
    further = schema.get("additionalProperties")
    free = further is True or (not schema.get("properties") and not isinstance(further, dict))
    own = [place] if schema.get("type") == "object" and free else []
    return own + [found for name, each in schema.items() for found in free_objects(each, f"{place}/{name}")]


async def test_no_answer_has_a_part_of_unknown_form_but_a_problem_which_may_grow(life: Life) -> None:
    async with life.rest() as rest:
        document = await described(life)
        task = await life.create("sum")
        given = (await rest.get(f"/v1/tasks/{task.task_id}")).json()
    assert free_objects(document) == ["/components/schemas/Problem"]
    schema = {"$ref": "#/components/schemas/TaskView", "components": document["components"]}
    jsonschema_rs.validate(schema, given)
    assert Task.from_value(given["definition"]).task_id == task.task_id
    lacking = {name: value for name, value in given["definition"].items() if name != "columns"}
    assert not jsonschema_rs.is_valid(schema, given | {"definition": lacking})


async def test_every_route_but_the_public_keys_asks_for_a_token_as_it_says(life: Life) -> None:
    async with life.rest() as rest:
        document = await described(life)
        (scheme,) = document["components"]["securitySchemes"].values()
        assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
        del rest.headers["authorization"]
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                answer = await rest.request(method, re.sub(r"\{\w+\}", "x", path))
                assert (answer.status_code == 401) == (operation.get("security") == [{"token": []}]), (method, path)
        assert (await rest.get("/v1/keys")).status_code == 200


async def test_the_page_for_people_names_every_route_and_loads_nothing(life: Life) -> None:
    async with life.rest() as rest:
        document = await described(life)
        del rest.headers["authorization"]
        page = await rest.get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    for path in document["paths"]:
        assert path in page.text
    assert "<script" not in page.text
    assert re.findall(r'(?:src|href|action)="([^"]*)"', page.text) == ["/v1/openapi.json"]
