"""The glossary names what exists and is used, and no module, class or function is a participle or a metaphor.

That a class name stands once is held by test_figures.py.
"""

import ast
import re
import tomllib
from pathlib import Path

from support.house import modules
from support.import_graph import ROOT
from support.sources import parsed, statements

PAGE = ROOT / "docs/reference/glossary.md"
BANNED = {
    "held",
    "kept",
    "told",
    "asked",
    "spent",
    "wanted",
    "stated",
    "drawn",
    "together",
    "beside",
    "door",
    "line",
    "gate",
    "room",
    "opener",
    "shortcut",
    "foresight",
}
NAMED = tomllib.loads((Path(__file__).parent / "figures.toml").read_text("utf-8"))["banned"]["names"]
STALE = 5
DEFINED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def terms() -> dict[str, str]:
    """Return by term the name of its class."""
    return dict(re.findall(r"^\| ([a-z ]+) \|.*\| `(\w+)` \|$", PAGE.read_text("utf-8"), re.MULTILINE))


def definitions() -> set[str]:
    """Return the names of all classes, of constants and fields with a type, and of other constants."""
    names = set()
    for path in modules():
        for node in statements(parsed(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.AnnAssign | ast.Assign):
                targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def banned() -> set[str]:
    """Return as `path name` each module, top-level class and public function whose whole name is a banned word."""
    bad = set()
    for path in modules():
        place = str(path.relative_to(ROOT))
        own = [node.name for node in parsed(path.read_text("utf-8")).body if isinstance(node, DEFINED)]
        bad |= {f"{place} {name}" for name in [path.stem, *own] if name.lower() in BANNED}
    return bad


def test_every_name_in_the_glossary_stands_in_the_source() -> None:
    exist = definitions()
    assert len(terms()) > 20
    assert [name for name in terms().values() if name not in exist] == []


def test_no_module_class_or_function_has_a_participle_or_a_metaphor_for_its_name_and_the_list_shrinks() -> None:
    bad, listed = banned(), set(NAMED)
    assert not bad - listed
    assert len(listed - bad) <= STALE, listed - bad


def test_every_term_is_used_on_another_page() -> None:
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path != PAGE and "decisions" not in path.parts]
    text = " ".join(" ".join(path.read_text("utf-8").split()) for path in pages).lower()
    assert [term for term in terms() if not re.search(rf"\b{term}s?\b", text)] == []
