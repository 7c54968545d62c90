"""On the site the first use of each glossary term on a page links to the glossary, and shows its meaning as a hint."""

import re
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes

GLOSSARY = "reference/glossary"
WITHOUT_LINKS = (GLOSSARY, "decisions/", "reference/made/", "index")
"""Pages without links: the glossary itself, the records, and pages that are made from the code."""
_ROW = re.compile(r"^\| (?P<term>[a-z0-9 -]+) \| (?P<meaning>[^|]+) \|", re.MULTILINE)
_APART = (nodes.reference, nodes.literal, nodes.title, nodes.math, nodes.literal_block, nodes.rubric, nodes.target)


def glossary(page: str) -> dict[str, str]:
    """Return the meaning of each term that the glossary's table has, in its order."""
    rows = [row for row in _ROW.finditer(page) if row["term"] not in ("term", "---")]
    return {row["term"]: row["meaning"].replace("`", "") for row in rows}


def first_uses(text: str, terms: list[str]) -> list[tuple[int, int, str]]:
    """Return where each term stands first in a text, as start, end and term, in order and without overlap.

    A longer term takes a place before a shorter one that is a part of it.
    """
    taken: list[tuple[int, int, str]] = []
    for term in sorted(terms, key=len, reverse=True):
        for match in re.finditer(rf"\b{re.escape(term)}s?\b", text, re.IGNORECASE):
            if all(match.end() <= start or end <= match.start() for start, end, _ in taken):
                taken.append((match.start(), match.end(), term))
                break
    return sorted(taken)


def anchor(term: str) -> str:
    """Return the name of a term's row on the glossary's page."""
    return f"term-{term.replace(' ', '-')}"


def link_terms(tree: nodes.document, meanings: dict[str, str], uri: str) -> set[str]:
    """Link the first use of each term in a page's paragraphs, and return the terms that were linked."""
    left = dict(meanings)
    for text in list(_readable(tree)):
        parts, end = [], 0
        for start, stop, term in first_uses(str(text), list(left)):
            hint = left.pop(term)
            shown = str(text)[start:stop]
            link = nodes.reference("", shown, refuri=f"{uri}#{anchor(term)}", reftitle=hint, classes=["glossary"])
            parts += [nodes.Text(str(text)[end:start]), link]
            end = stop
        if parts:
            text.parent.replace(text, [*parts, nodes.Text(str(text)[end:])])
    return meanings.keys() - left.keys()


def mark_rows(tree: nodes.document, meanings: dict[str, str]) -> None:
    """Give each row of the glossary the name that links lead to."""
    for row in tree.findall(nodes.row):
        term = row[0].astext()
        if term in meanings:
            row["ids"].append(anchor(term))


def add_links(tree: nodes.document, docname: str, folder: Path, uri: str) -> None:
    """Link the terms of one page of the site, or mark the rows of the glossary."""
    meanings = glossary((folder / f"{GLOSSARY}.md").read_text("utf-8"))
    if docname == GLOSSARY:
        mark_rows(tree, meanings)
    elif not docname.startswith(WITHOUT_LINKS):
        link_terms(tree, meanings, uri)


def _readable(tree: nodes.document) -> Iterator[nodes.Text]:
    """Yield the texts of paragraphs in which a link may stand."""
    for paragraph in tree.findall(nodes.paragraph):
        for text in paragraph.findall(nodes.Text):
            above = text.parent
            while above is not paragraph and not isinstance(above, _APART):
                above = above.parent
            if above is paragraph and paragraph.parent is not None:
                yield text
