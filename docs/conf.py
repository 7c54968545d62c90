"""The site: `make docs` builds it from these pages and from the code, without a network."""

import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from making import make_pages  # noqa: E402
from making.glossary_links import GLOSSARY, add_links  # noqa: E402
from making.mechanism_table import MARK, mechanism_table  # noqa: E402

from lintra_protocol import __version__  # noqa: E402

project = "Lintra"
author = "the Lintra developers"
version = release = __version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build", "making"]

html_theme = "furo"
html_title = f"Lintra {version}"
html_copy_source = False
html_theme_options = {"sidebar_hide_name": False}

# Headings down to the fourth level can be linked to, by the names that GitHub gives them.
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_dmath_double_inline = True
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_attr_annotations = False
default_role = "code"

# Notebooks are text; what they print is computed while the site is built, and a cell that fails fails the build.
# Nothing is taken from a cache: its key would be the cells alone, and a change of Lintra would leave old figures.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_execution_show_tb = True

_MARK = re.compile(r'^(?P<quote>> )?<a id="(?P<name>[\w-]+)"></a>', re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>\.\./[^)#\s]+)(?:#[^)\s]*)?\)")
_CODE = re.compile(r"(``?)(.+?)\1")


def _read(app: Sphinx, name: str, source: list[str]) -> None:
    """Let the site read pages that are also read where the repository is hosted.

    An empty HTML anchor becomes a target of the site. A link to a file of the repository that is no page becomes its
    text; one to a file that is not there stays, and fails.
    """
    folder = (HERE / name).parent

    def outside(match: re.Match[str]) -> str:
        path = (folder / match["target"]).resolve()
        return match["text"] if path.exists() and not path.is_relative_to(HERE) else match[0]

    text = _LINK.sub(outside, source[0])
    if MARK in text:
        text = text.replace(MARK, mechanism_table())
    source[0] = _MARK.sub(lambda match: f"\n({match['name']})=\n\n{match['quote'] or ''}", text)


def _docstring(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Read docstrings as they are written: code between single ticks, `|x|` for a norm, tables of Markdown."""
    made: list[str] = []
    for line in lines:
        if line.startswith("| ") and line.endswith(" |"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if set("".join(cells)) == {"-"}:
                continue
            if not (made and made[-1].startswith("     - ")):
                made += [".. list-table::", "   :header-rows: 1", ""]
            made += [f"   {'* -' if k == 0 else '  -'} {_plain(cell)}" for k, cell in enumerate(cells)]
        else:
            made.append(line if line.lstrip().startswith(">>>") else _plain(line))
    lines[:] = made


def _plain(line: str) -> str:
    """Return a line in which nothing but code between ticks means anything to reStructuredText."""
    parts, end = [], 0
    for match in _CODE.finditer(line):
        parts += [_escaped(line[end : match.start()]), f"``{match[2]}``\\ " if match[2].strip() else match[0]]
        end = match.end()
    return "".join([*parts, _escaped(line[end:])])


def _escaped(text: str) -> str:
    return re.sub(r"(?<=\w)_(?!\w)", r"\_", text).replace("|", r"\|").replace("`", r"\`")


def _link(app: Sphinx, tree: nodes.document, docname: str) -> None:
    add_links(tree, docname, HERE, app.builder.get_relative_uri(docname, GLOSSARY))


def setup(app: Sphinx) -> dict[str, bool]:
    """Make the pages that come from the code before anything is read."""
    app.connect("builder-inited", lambda app: make_pages(HERE / "reference" / "made"))
    app.connect("source-read", _read)
    app.connect("doctree-resolved", _link)
    app.connect("autodoc-process-docstring", _docstring, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
