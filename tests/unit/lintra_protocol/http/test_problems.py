"""Errors as problem documents, and their line in the documentation."""

import re
from pathlib import Path

import pytest

from lintra_protocol import errors
from lintra_protocol.encoding.canonical import canonical_json
from lintra_protocol.errors import LintraError
from lintra_protocol.fields.schema import Column
from lintra_protocol.http.problems import STATUS, all_errors, from_problem, to_problem
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import ServerEntry, Task

ERRORS = tuple(all_errors())
ROOT = Path(__file__).resolve().parents[4]

PROTOCOL = "".join(path.read_text("utf-8") for path in sorted((ROOT / "docs/reference").glob("protocol*.md")))
"""The pages of the protocol, one after the other."""
every_error = pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.token)


def test_every_error_has_a_status() -> None:
    assert set(STATUS) == set(ERRORS)
    assert all(400 <= status < 600 for status in STATUS.values())


@every_error
def test_every_error_survives_the_trip(error: type[LintraError]) -> None:
    rebuilt = from_problem(to_problem(error("12 of 50"), instance="abc"))
    assert type(rebuilt) is error
    assert rebuilt.detail == "12 of 50"
    assert rebuilt.retryable == error.retryable


@every_error
def test_every_error_stands_in_the_protocol_with_its_status(error: type[LintraError]) -> None:
    text = (ROOT / "docs/reference/protocol-http.md").read_text("utf-8")
    again = "yes" if error.retryable else "no"
    assert f"| `{error.token}` | {STATUS[error]} | {again} | {error.title()} |" in text


def test_a_problem_holds_what_is_known_and_nothing_else() -> None:
    problem = to_problem(errors.BatchOpenError("3 reports"), instance="abc", task="xyz", batch=None)
    assert problem == {
        "type": "urn:lintra:problem:batch_open", "title": "The batch still collects reports.", "status": 409,
        "detail": "3 reports", "retryable": True, "instance": "abc", "task": "xyz",
    }  # fmt: skip
    canonical_json(problem)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"type": "about:blank", "title": "Bad Gateway"},
        {"type": 7, "detail": ["x"]},
        {"type": "urn:lintra:problem:new"},
    ],
)
def test_a_problem_of_a_later_version_is_still_a_refusal(document: dict[str, object]) -> None:
    error = from_problem(document)
    assert type(error) is LintraError
    assert str(document.get("title", "unknown problem")) in str(error)


def test_every_anchor_that_the_code_cites_is_there() -> None:
    headings = [line for line in PROTOCOL.splitlines() if line.startswith("## ")]
    assert {"## Sealing", "## Rules", "## Framing", "## Matrix", "## Encoding"} <= set(headings)


def test_every_hash_label_of_the_protocol_stands_in_its_table() -> None:
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "protocol/lintra_protocol").rglob("*.py"))
    labels = set(re.findall(r'(?:domain_hash|framed)\(\s*"([^"]+)"', sources)) | {"merkle leaf", "merkle node"}
    assert len(labels) > 12
    assert [label for label in sorted(labels) if f"`{label}`" not in PROTOCOL] == []


def test_every_field_of_a_task_stands_in_its_table() -> None:
    names = {*Task.model_fields, *Claim.model_fields, *Column.model_fields, *ServerEntry.model_fields}
    assert [name for name in sorted(names) if f"`{name}`" not in PROTOCOL] == []
