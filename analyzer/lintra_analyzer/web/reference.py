"""The page `/docs`: the interface's description for people, rendered here.

The framework's own page loads its program from another origin, into a page where an analyst would enter a token. This
one has no program at all, and nothing in it leaves the origin.
"""

import json
from html import escape
from typing import Any

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; } summary { cursor: pointer; } pre { overflow: auto; padding: .5rem; border: 1px solid; }
code, pre { font: 14px/1.4 ui-monospace, monospace; } table { border-collapse: collapse; }
td, th { border: 1px solid; padding: .2rem .6rem; text-align: left; vertical-align: top; }
"""


def reference_page(document: dict[str, Any]) -> str:
    """Return the page of an OpenAPI description."""
    title = escape(str(document["info"]["title"]))
    parts = [
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body><h1>{title}</h1>',
        "<p>Every request but those for <code>/v1/keys</code>, <code>/v1/openapi.json</code> and this page carries ",
        "<code>Authorization: Bearer TOKEN</code>. The same for machines: ",
        '<a href="/v1/openapi.json">openapi.json</a>.</p>',
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts += _operation(method.upper(), path, operation)
    parts.append("<h2>Types</h2>")
    for name, schema in document["components"]["schemas"].items():
        parts.append(f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary>{_schema(schema)}')
        parts.append("</details>")
    return "".join([*parts, "</body></html>"])


def _operation(method: str, path: str, operation: dict[str, Any]) -> list[str]:
    said = escape(operation.get("description", operation.get("summary", "")))
    parts = [f"<section><h2><code>{method} {escape(path)}</code></h2><p>{said}</p>"]
    if parameters := operation.get("parameters"):
        rows = "".join(
            f"<tr><td><code>{escape(given['name'])}</code></td><td>{escape(given['in'])}</td></tr>"
            for given in parameters
        )
        parts.append(f"<table><tr><th>parameter</th><th>in</th></tr>{rows}</table>")
    if body := operation.get("requestBody"):
        parts += [_content(f"body, {kind}", held) for kind, held in body["content"].items()]
    for status, answer in operation["responses"].items():
        head = f"{status} {answer['description']}"
        held = answer.get("content", {})
        parts += [_content(f"{head}, {kind}", each) for kind, each in held.items()] or [f"<p>{escape(head)}</p>"]
    return [*parts, "</section>"]


def _content(head: str, content: dict[str, Any]) -> str:
    return f"<details><summary>{escape(head)}</summary>{_schema(content.get('schema', {}))}</details>"


def _schema(schema: object) -> str:
    return f"<pre>{escape(json.dumps(schema, indent=2, ensure_ascii=False))}</pre>"
