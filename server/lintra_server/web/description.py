"""The server's description in OpenAPI: which message each resource takes, and which it answers.

The handlers read raw bytes, since what is signed must be canonical; so the framework cannot know, and is told here.
"""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from lintra_protocol.encoding.documents import Frozen
from lintra_protocol.http.requests import MessageName, media_type
from lintra_protocol.messages.documents import (
    AggregateRequest,
    BatchStatus,
    Census,
    Cohort,
    CohortRequest,
    Counters,
    Inventory,
    KeyList,
    Progress,
    Registration,
    Signed,
    TaskRecord,
    UploadAnswer,
)
from lintra_protocol.messages.inclusion import Absence, Inclusion, Judged
from lintra_protocol.messages.verification import CheckShare, Verdict
from lintra_protocol.rules.verification import ChecksRequest, VerifiedAggregateRequest

Schema = dict[str, Any]
_TASK, _BATCH = "/v1/tasks/{task_id}", "/v1/tasks/{task_id}/batches/{batch}"

OPERATIONS: Mapping[tuple[str, str], tuple[tuple[MessageName, ...], MessageName]] = {
    ("get", "/v1/keys"): ((), "keys"),
    ("get", _TASK): ((), "task"),
    ("put", _TASK): (("task", "registration"), "task"),
    ("post", f"{_TASK}/reports"): (("reports",), "upload-answer"),
    ("get", f"{_TASK}/counters"): ((), "counters"),
    ("get", f"{_TASK}/batches"): ((), "batches"),
    ("get", _BATCH): ((), "batches"),
    ("get", f"{_BATCH}/census"): ((), "census"),
    ("get", f"{_BATCH}/census/ids"): ((), "ids"),
    ("post", f"{_BATCH}/inventory"): ((), "inventory"),
    ("get", f"{_BATCH}/inventory"): ((), "inventory"),
    ("get", f"{_BATCH}/inventory/ids"): ((), "ids"),
    ("put", f"{_BATCH}/cohort"): (("cohort-request",), "cohort"),
    ("get", f"{_BATCH}/cohort"): ((), "cohort"),
    ("put", f"{_BATCH}/cohort/pieces/{{name}}"): (("piece",), "piece"),
    ("put", f"{_BATCH}/checks"): (("checks-request",), "check-share"),
    ("get", f"{_BATCH}/checks"): ((), "check-share"),
    ("get", f"{_BATCH}/checks/body"): ((), "checks"),
    ("put", f"{_BATCH}/verdict"): (("verdict-request",), "verdict"),
    ("get", f"{_BATCH}/verdict"): ((), "verdict"),
    ("put", f"{_BATCH}/aggregate"): (("aggregate-request", "verified-aggregate-request"), "sketch-share"),
    ("get", f"{_BATCH}/aggregate"): ((), "sketch-share"),
    ("get", f"{_BATCH}/inclusion/{{report_id}}"): ((), "inclusion"),
}
"""By method and path: the messages that a request's body may be, and the answer."""

_OTHER_ANSWERS: Mapping[tuple[str, str], tuple[MessageName, ...]] = {
    ("get", f"{_BATCH}/inclusion/{{report_id}}"): ("absence", "judged")
}

_MODELS: Mapping[MessageName, type[Frozen]] = {
    "keys": Signed[KeyList],
    "task": Signed[TaskRecord],
    "registration": Registration,
    "upload-answer": UploadAnswer,
    "counters": Counters,
    "batches": BatchStatus,
    "census": Signed[Census],
    "inventory": Signed[Inventory],
    "cohort-request": CohortRequest,
    "cohort": Signed[Cohort],
    "aggregate-request": AggregateRequest,
    "inclusion": Inclusion,
    "progress": Progress,
    "absence": Absence,
    "judged": Judged,
    "checks-request": ChecksRequest,
    "check-share": Signed[CheckShare],
    "verdict": Signed[Verdict],
    "verified-aggregate-request": VerifiedAggregateRequest,
}
"""The others are bytes."""

STEPS = tuple(f"{_BATCH}/{document}" for document in ("inventory", "cohort", "checks", "verdict", "aggregate"))
"""Resources whose making may take longer than a request."""


class DescribedApp(FastAPI):
    """An application whose description says what its handlers read and answer."""

    def openapi(self) -> Schema:
        """Return the description, with the messages of every resource."""
        return _described(super().openapi())


def _described(document: Schema) -> Schema:
    referred, definitions = models_json_schema(
        [(model, "validation") for model in _MODELS.values()], ref_template="#/components/schemas/{model}"
    )
    document.setdefault("components", {}).setdefault("schemas", {}).update(definitions["$defs"])
    schemas: dict[str, Schema] = {name: dict(referred[model, "validation"]) for name, model in _MODELS.items()}
    schemas["batches"] = {
        "type": "object",
        "properties": {"batches": {"type": "array", "items": schemas["batches"]}},
        "required": ["batches"],
    }
    for (method, path), (bodies, answer) in OPERATIONS.items():
        operation = document["paths"].setdefault(path, {}).setdefault(method, _bare(path))
        if bodies:
            operation["requestBody"] = {"required": True, "content": _content(schemas, *bodies)}
        answers = (answer, *_OTHER_ANSWERS.get((method, path), ()))
        operation["responses"] = {"200": {"description": "The message.", "content": _content(schemas, *answers)}}
        if (method, path) == ("put", _TASK):
            operation["responses"]["201"] = operation["responses"]["200"]
        if path.endswith("/ids"):
            operation["responses"]["206"] = {"description": "A range of it.", "content": _content(schemas, answer)}
        if path in STEPS:
            operation["responses"]["202"] = {
                "description": "It is being made; ask for it with GET in `Retry-After` seconds.",
                "headers": {name: {"schema": {"type": "string"}} for name in ("Location", "Retry-After")},
                "content": _content(schemas, "progress"),
            }
        operation["responses"]["default"] = {
            "description": "A problem document (RFC 9457).",
            "content": {"application/problem+json": {"schema": {"type": "object"}}},
        }
    return document


def _content(schemas: Mapping[str, Schema], *names: MessageName) -> Schema:
    octets: Schema = {"type": "string", "format": "binary"}
    return {media_type(name): {"schema": schemas.get(name, octets)} for name in names}


def _bare(path: str) -> Schema:
    """Return an operation that the framework does not know: uploads are answered before it."""
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    return {"summary": "Reports", "parameters": parameters}
