"""On the site each page links the glossary's terms where they come first, once, and in text only."""

import re
import sys
from importlib.util import find_spec

import pytest

from support.pages import ROOT

sys.path.insert(0, str(ROOT / "docs"))
pytestmark = pytest.mark.skipif(find_spec("docutils") is None, reason="needs the group docs: make .venv/.more")
MEANINGS = {"report": "What one client sends.", "verified report": "A report with a proof.", "gate": "The check."}


def linked(text: str) -> str:
    """Return a page of one paragraph as its links make it: `{term>target}` for each link."""
    from docutils import nodes
    from docutils.utils import new_document
    from making.glossary_links import link_terms

    tree = new_document("page")
    paragraph = nodes.paragraph()
    for part in re.split(r"(`[^`]+`)", text):
        paragraph += nodes.literal("", part.strip("`")) if part.startswith("`") else nodes.Text(part)
    tree += paragraph
    link_terms(tree, MEANINGS, "glossary.html")
    for link in list(tree.findall(nodes.reference)):
        link.parent.replace(link, nodes.Text(f"{{{link.astext()}>{link['refuri']}}}"))
    return paragraph.astext()


def test_a_term_is_linked_where_it_comes_first_and_nowhere_else() -> None:
    assert linked("Reports pass the gate. A report is kept.") == (
        "{Reports>glossary.html#term-report} pass the {gate>glossary.html#term-gate}. A report is kept."
    )


def test_a_longer_term_is_linked_before_its_part() -> None:
    made = linked("A verified report is a report.")
    assert made == "A {verified report>glossary.html#term-verified-report} is a {report>glossary.html#term-report}."


def test_code_and_parts_of_words_are_no_terms() -> None:
    assert linked("A delegate has `report` and reporting.") == "A delegate has report and reporting."


def test_every_row_of_the_glossary_is_read_with_its_meaning() -> None:
    from making.glossary_links import glossary

    page = (ROOT / "docs/reference/glossary.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith(("| term", "| ---"))]
    found = glossary(page)
    assert len(found) == len(rows) > 35
    assert all(meaning.strip().endswith((".", "?")) for meaning in found.values())
