"""Sentences of a page of Markdown, as a reader meets them: what is code, a formula or a heading is none."""

import re
from collections.abc import Iterator

_LIST = re.compile(r"^([-*+]|\d+\.)\s+")
_END = re.compile(r"(?<=[.!?])[\"')\]*_]*\s+(?=[\"'(\[*_`$]*[A-Z0-9`$])")
_DROPPED = (
    re.compile(r"\A---\n.*?\n---\n", re.DOTALL),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"^[ ]*(```|~~~|:::+).*?^[ ]*\1[`~:]*\s*$", re.DOTALL | re.MULTILINE),
    re.compile(r"!\[[^\]]*\]\([^)]*\)"),
)


def sentences(page: str) -> Iterator[list[str]]:
    """Yield the words of every sentence; an item of a list and a cell of a table end with their last word."""
    for block in _blocks(page):
        for sentence in _END.split(_plain(block)):
            if words := [word for word in sentence.split() if re.search(r"\w", word)]:
                yield words


def _blocks(page: str) -> Iterator[str]:
    for dropped in _DROPPED:
        page = dropped.sub("", page)
    page = re.sub(r"\$\$.*?\$\$", " formula ", page, flags=re.DOTALL)
    held: list[str] = []
    after_blank = True
    for line in [*page.splitlines(), ""]:
        text = line.strip().lstrip("> ")
        code = line.startswith("    ") and after_blank
        alone = not text or text.startswith("#") or set(text) <= set("-=|: ") or code
        if alone or text.startswith("|") or _LIST.match(text):
            yield " ".join(held)
            held = []
        after_blank = not text or code
        if text.startswith("|"):
            yield from (cell.strip() for cell in text.strip("|").split("|"))
        elif not alone:
            held.append(_LIST.sub("", text))
    yield " ".join(held)


def _plain(block: str) -> str:
    block = re.sub(r"`+[^`]*`+", "Code", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", block))
    return re.sub(r"\$[^$]+\$", "formula", block)
