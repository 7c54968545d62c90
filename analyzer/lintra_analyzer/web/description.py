"""The OpenAPI description of the interface: permissions, refusals of each route, and media types of each answer."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, get_type_hints

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field

from lintra_analysis.certificate.evidence import MEDIA_TYPE as MEDIA_TYPE_OF_EVIDENCE
from lintra_analysis.estimators.table import Estimate
from lintra_analysis.synthetic.analysis import SyntheticEstimate
from lintra_analyzer.web.analyses import ANALYSES
from lintra_analyzer.web.export import CSV, JSON, NPZ, TEXT
from lintra_analyzer.web.result_schema import Schema, result_schema
from lintra_analyzer.web.views import CertificateView, TogetherView
from lintra_protocol.http.problems import MEDIA_TYPE
from lintra_protocol.privacy.statement import PrivacyStatement

BEARER = HTTPBearer(
    auto_error=False,
    scheme_name="token",
    description="What `lintra analyzer access add` printed; only its hash is kept.",
)
OF_EVERY_ROUTE = (401, 403, 405, 413, 429, 500, 503)
"""What any request can be answered: no token, not its role, wrong method, too long, too busy, defect, not now."""

# Columns are named by the task and as long as was asked for, so no dataclass says what they are.
_SYNTHETIC: Schema = {
    "type": "object",
    "properties": {
        "columns": {"type": "object", "additionalProperties": {"type": "array"}},
        "provenance": {
            "type": "object",
            "properties": {
                "rows": {"type": "integer"},
                "columns": {"type": "array", "items": {"type": "string"}},
                "label": {"type": ["string", "null"]},
                "space": {"enum": ["columns", "projected"]},
                "seed": {"type": "string"},
                "model_digest": {"type": "string"},
                "num_clients": {"type": "integer"},
                "privacy": result_schema(PrivacyStatement),
                "warnings": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["rows", "columns", "seed", "privacy", "warnings"],
            "additionalProperties": False,
        },
    },
    "required": ["columns", "provenance"],
    "additionalProperties": False,
}
_WRITTEN_OUT: dict[type, Schema] = {SyntheticEstimate: _SYNTHETIC}
_TEXT_OF = {CSV: "a table with one line of names", TEXT: "for people"}


class Problem(BaseModel):
    """Why a request was refused (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="`urn:lintra:problem:` and a token that never changes")
    title: str
    status: int
    detail: str
    retryable: bool = Field(description="whether the same request may succeed later")
    instance: str = Field(description="names the request in the log")
    task: str | None = None
    batch: str | None = None


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the description of refusals with these statuses and those of every route."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content}
        for status in sorted({*statuses, *OF_EVERY_ROUTE})
    }


def analysis_answers(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """Return the description of an analysis of some kinds, or of all: one object for each kind, or a text."""
    content: dict[str, object] = {JSON: {"schema": {"oneOf": [_analysis(kind) for kind in kinds or ANALYSES]}}}
    content |= {kind: {"schema": {"type": "string", "description": said}} for kind, said in _TEXT_OF.items()}
    content[NPZ] = {
        "schema": {"type": "string", "format": "binary", "description": "synthetic rows only: an .npz file"}
    }
    return {200: {"description": "The answer, and the certificate of the release it rests on.", "content": content}}


def body_of(schema: dict[str, object]) -> dict[str, object]:
    """Return the description of a body in JSON."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def combined_answers(estimate: type[Estimate]) -> dict[int | str, dict[str, Any]]:
    """Return the description of the windows of a task together, as JSON or as a text."""
    properties = {"task_id": {"type": "string"}, "result": result_schema(estimate), **_TOGETHER}
    return {200: {"description": "The windows that were released together; gaps are named.", **_or_text(properties)}}


def interval_answers() -> dict[int | str, dict[str, Any]]:
    """Return the description of an analysis of windows that were added up."""
    kinds = {"oneOf": [_analysis(kind)["properties"]["result"] for kind in ANALYSES]}
    numbers = {name: {"type": "integer"} for name in ("first", "last")}
    texts = {name: {"type": "string"} for name in ("task_id", "kind", "people")}
    properties = {**texts, **numbers, "result": kinds, **_TOGETHER}
    return {200: {"description": "The answer about the windows of an interval, added up.", **_or_text(properties)}}


def _or_text(properties: Schema) -> Schema:
    content: Schema = {JSON: {"schema": {"type": "object", "properties": properties, "required": list(properties)}}}
    return {
        "content": content
        | {kind: {"schema": {"type": "string", "description": said}} for kind, said in _TEXT_OF.items()}
    }


_TOGETHER = {"privacy": TogetherView.model_json_schema(), "privacy_spent": {"type": "string"}}


def sketch_answers() -> dict[int | str, dict[str, Any]]:
    """Return the description of released numbers in their three dresses."""
    row = {"type": "array", "items": {"type": "number"}}
    counts = {"type": "array", "items": {"type": "integer"}}
    columns = {"type": "array", "items": {"type": "string"}}
    numbers = {"columns": columns, "row_counts": counts, "values": {"type": "array", "items": row}}
    content = {
        NPZ: {"schema": {"type": "string", "format": "binary", "description": "an .npz file of NumPy"}},
        JSON: {"schema": {"type": "object", "properties": numbers, "required": list(numbers)}},
        CSV: {"schema": {"type": "string", "description": _TEXT_OF[CSV]}},
    }
    return {200: {"description": "The released numbers, in normalised units.", "content": content}}


def evidence_answers() -> dict[int | str, dict[str, Any]]:
    """Return the description of the evidence of a verdict."""
    schema = {"type": "string", "format": "binary", "description": "a tar archive"}
    return {200: {"description": "The evidence of a verdict.", "content": {MEDIA_TYPE_OF_EVIDENCE: {"schema": schema}}}}


def _analysis(kind: str) -> Schema:
    """Return the schema of the answer to one kind of analysis."""
    estimate = get_type_hints(ANALYSES[kind].run)["return"]
    properties = {
        "release_id": {"type": "string"},
        "kind": {"const": kind},
        "result": _WRITTEN_OUT.get(estimate) or result_schema(estimate),
        "certificate": CertificateView.model_json_schema(),
    }
    return {"type": "object", "title": kind, "properties": properties, "required": list(properties)}


def describe(app: FastAPI, version: str) -> None:
    """Make an application describe itself as it is: the framework's own refusals are not among the answers."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title=app.title, version=version, routes=app.routes)
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            schemas["Problem"] = Problem.model_json_schema()
            for unused in ("HTTPValidationError", "ValidationError"):
                schemas.pop(unused, None)
            for operation in operations(document):
                operation["responses"].pop("422", None)
            app.openapi_schema = document
        return app.openapi_schema

    # The framework's own way to replace the description (its documentation, "Extending OpenAPI").
    setattr(app, "openapi", openapi)  # noqa: B010


def operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every operation of a description."""
    for path in document["paths"].values():
        yield from path.values()
