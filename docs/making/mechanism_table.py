"""The table of kinds of mechanisms on the page of the papers: each line is made from the header of the kind's page."""

from pathlib import Path

from lintra_protocol.mechanisms import MECHANISMS
from making.tables import code, table

MARK = "<!-- made: kinds of mechanisms -->"
"""Where the table stands on the page."""

PAGES = Path(__file__).resolve().parents[1] / "reference/mechanisms"


def mechanism_table() -> str:
    """Return one line a kind: its page, what it releases, and its module.

    Raises:
        ValueError: a page's first line is not the kind, a colon and what it releases.
    """
    rows = []
    for kind in sorted(MECHANISMS):
        title = (PAGES / f"{kind}.md").read_text("utf-8").partition("\n")[0]
        head, _, releases = title.partition(": ")
        if head != f"# `{kind}`" or not releases:
            raise ValueError(f"docs/reference/mechanisms/{kind}.md begins with {title!r}, not with its kind")
        page = f"[`{kind}`](../reference/mechanisms/{kind}.md)"
        rows.append((page, releases, code(f"mechanisms/{kind}.py")))
    return table(("kind", "releases", "module"), rows)
