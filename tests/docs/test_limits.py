"""Every limit of a field and every constant of the protocol stands on a page, so that nobody has to read the code."""

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import lintra_protocol
from lintra_protocol.encoding.documents import _REAL, is_printable
from lintra_protocol.fields.schema import MAX_NAME
from lintra_protocol.task import Task
from support.pages import ROOT, pages

PAGE = "docs/reference/limits.md"

OF_THIS_IMPLEMENTATION = {
    "cohort.differences": "PIECE_BYTES POSITION_BYTES", "encoding.csv_values": "DAYS", "command": "GROUP",
    "fields.schema": "SHOWN_LEVELS", "fields.person_names": "MAX_NAME_LENGTH",
    "http.problems": "MEDIA_TYPE TYPE_PREFIX", "http.requests": "SIGNATURE_TAG NONCE_BYTES REPLAY_WINDOW",
    "http.signature": "DIGEST_HEADER INPUT_HEADER SIGNATURE_HEADER MAX_HEADER_CHARACTERS",
    "mechanisms.collusion": "DEFAULT_PART HALF", "mechanisms.directions": "SECOND_OF_TWO",
    "mechanisms.joint_rows": "NO_CELL", "mechanisms.layout": "CLIPPED ROWS", "mechanisms.projected": "NO_LABEL",
    "mechanisms.row_quota": "MARGIN", "messages.documents": "BATCH", "messages.receipts": "KIND",
    "messages.verification": "MATRIX_NONCE", "privacy.leverage": "MAX_RESIDUAL BLOCK", "trust": "NO_BOUND MOST_BYTES",
    "mechanisms.grid": "FINE_SIGMA", "rules.verification": "BLOCK_BYTES", "privacy.discrete": "MU_MARGIN",
    "crypto.sealing": "HYBRID CLASSICAL",
    "tables.columns": "LEAST_COVERED LARGEST", "tables.doubts": "MAX_LEVELS", "tables.readings": "NO_CODE",
}  # fmt: skip
"""Speed, words for people, planning, and what other tests hold against protocol.md: not needed for the same answers."""


def constants() -> Iterator[tuple[str, str, int | float | Fraction | str]]:
    """Yield module, name and value of each public constant that is a number or a text."""
    for found in pkgutil.walk_packages(lintra_protocol.__path__, "lintra_protocol."):
        module = importlib.import_module(found.name)
        source = Path(str(module.__file__)).read_text("utf-8")
        for name in re.findall(r"^([A-Z][A-Z0-9_]+)(?:: [^=\n]+)? = ", source, re.MULTILINE):
            value = getattr(module, name)
            if isinstance(value, int | float | Fraction | str):
                yield found.name.removeprefix("lintra_protocol."), name, value


def spelled(value: object) -> str:
    """Return a number as the page has it: whole ones with commas, or as powers of two."""
    if isinstance(value, int) and value >= 2**16:
        for less in (0, 1):
            if (value + less).bit_count() == 1:
                return f"2^{value.bit_length() - 1 + less}" + " - 1" * less
    return f"{value:,}" if isinstance(value, int) else str(value)


def fields(schema: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield object, field and limits of everything in a JSON schema that is limited."""
    for about, part in {"Task": schema, **schema["$defs"]}.items():
        for name, field in part["properties"].items():
            if limits := "; ".join(dict.fromkeys(_limits(field))):
                yield about, name, limits


def _limits(field: Mapping[str, Any], of: str = "") -> Iterator[str]:
    words = {"minimum": "at least {}", "maximum": "at most {}", "exclusiveMinimum": "more than {}",
             "exclusiveMaximum": "less than {}", "minLength": "at least {} characters",
             "maxLength": "at most {} characters", "minItems": "at least {} of them",
             "maxItems": "at most {} of them"}  # fmt: skip
    yield from (of + text.format(spelled(field[key])) for key, text in words.items() if key in field)
    if "pattern" in field:
        yield of + ("a real" if field["pattern"] == _REAL else "`" + field["pattern"].replace("|", "\\|") + "`")
    if "enum" in field:
        yield of + "one of " + ", ".join(f"`{value}`" for value in field["enum"])
    elif "const" in field:
        yield of + f"`{field['const']}`"
    for other in field.get("anyOf", ()):
        yield from _limits(other, of)
    for other in (*field.get("prefixItems", ()), *([field["items"]] if isinstance(field.get("items"), dict) else ())):
        yield from _limits(other, "each " if not of else "each of these ")


def written() -> str:
    """Return the table of fields."""
    rows = [f"| `{about}` | `{name}` | {limits} |" for about, name, limits in fields(Task.model_json_schema())]
    return "\n".join(["| object | field | limits |", "|---|---|---|", *rows])


def block(name: str) -> str:
    found = re.search(rf"<!-- from here: {name} -->\n(.*?)\n<!-- up to here: {name} -->", pages()[PAGE], re.DOTALL)
    assert found, name
    return found[1]


def test_the_limits_of_all_fields_stand_on_a_page() -> None:
    assert block("fields") == written(), "write them anew: python tests/docs/test_limits.py"


def test_every_constant_of_the_protocol_stands_on_a_page() -> None:
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (.+?) \|", block("constants"), re.MULTILINE))
    exempt = {f"{module}.{name}" for module, names in OF_THIS_IMPLEMENTATION.items() for name in names.split()}
    held = {f"{module}.{name}": spelled(value) for module, name, value in constants()}
    assert exempt <= set(held), "an exemption that nothing needs"
    assert rows == {name: value for name, value in held.items() if name not in exempt}


def test_the_classes_of_printable_text_on_the_page_are_those_of_the_code() -> None:
    forbidden: set[int] = set()
    for first, last in re.findall(r"U\+([0-9A-F]+)(?: to U\+([0-9A-F]+))?", block("classes")):
        forbidden |= set(range(int(first, 16), int(last or first, 16) + 1))
    forbidden |= {plane << 16 | low for plane in range(17) for low in (0xFFFE, 0xFFFF)}
    assert forbidden == {point for point in range(0x110000) if not is_printable(chr(point))}


def test_lengths_are_counted_in_code_points() -> None:
    columns: Any = Task.model_json_schema()["$defs"]["Column"]["properties"]
    assert "name" in columns
    assert f"{MAX_NAME}" in pages()[PAGE]


if __name__ == "__main__":
    page = ROOT / PAGE
    before, after = "<!-- from here: fields -->\n", "\n<!-- up to here: fields -->"
    text = page.read_text("utf-8")
    head, rest = text.split(before)
    page.write_text(head + before + written() + after + rest.split(after)[1], "utf-8")
    sys.exit()
