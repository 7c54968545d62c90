"""The references of both REST interfaces, from the OpenAPI documents that the services describe themselves with."""

from collections.abc import Iterator
from typing import Any

from making.tables import Schema, cell, code, kind_of, members, prose, table


def analyzer_page() -> str:
    """Return the page of the analyzer's interface."""
    from lintra_analyzer.web.app import _routes

    text = (
        "Every request but that for `/v1/keys` carries a bearer token. A running analyzer serves this\n"
        "description at `/v1/openapi.json`, and for people at `/docs`.\n"
    )
    return _page("REST: the analyzer", text, _routes().openapi())


def server_page() -> str:
    """Return the page of a server's interface."""
    from lintra_server.web.app import _control_plane

    text = (
        "Clients and analyzers speak to a server like this; [the protocol](../protocol.md) says what each\n"
        "message must hold. Requests of the analyzer are signed (RFC 9421).\n"
    )
    return _page("REST: a server", text, _control_plane().openapi())


def _page(title: str, text: str, document: dict[str, Any]) -> str:
    parts = [f"# {title}\n", text]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            parts += _operation(f"{method.upper()} {path}", operation)
    parts.append("## Schemas\n")
    for name, schema in sorted(document.get("components", {}).get("schemas", {}).items()):
        parts.append(f"### {name}\n\n{prose(schema.get('description', ''))}{members(schema)}")
    return "\n".join(parts)


def _operation(name: str, operation: Schema) -> Iterator[str]:
    yield f"## `{name}`\n"
    yield prose(operation.get("description", "") or operation.get("summary", ""))
    yield table(
        ("parameter", "in", "is", "about"),
        [
            (code(one["name"]), one["in"], cell(kind_of(one.get("schema", {}))), cell(one.get("description", "")))
            for one in operation.get("parameters", ())
        ],
    )
    if body := operation.get("requestBody"):
        yield f"Body: {_content(body)}.\n"
    answers = [
        (code(status), cell(answer.get("description", "")), _content(answer))
        for status, answer in operation["responses"].items()
    ]
    yield table(("status", "means", "body"), answers)


def _content(message: Schema) -> str:
    return " or ".join(
        f"`{media}` ({cell(kind_of(one.get('schema', {})))})" for media, one in message.get("content", {}).items()
    )
