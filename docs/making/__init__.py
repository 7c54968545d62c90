"""Reference pages that are made from the code when the site is built, so that nobody types them and none grows old."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from making.command_line import command_line_page
from making.configuration import configuration_page
from making.problem_list import problems_page
from making.python_faces import FACES, face_page
from making.rest import analyzer_page, server_page
from making.task_document import specification_page, task_page

PAGES: dict[str, Callable[[], str]] = {
    "command-line": command_line_page,
    "configuration": configuration_page,
    "problems": problems_page,
    "rest-analyzer": analyzer_page,
    "rest-server": server_page,
    "specification": specification_page,
    "task-document": task_page,
    **{f"python-{name.removeprefix('lintra_')}": partial(face_page, name) for name in FACES},
}
"""What is made, by the name of its file in docs/reference/made, without its ending."""


def make_pages(folder: Path) -> list[Path]:
    """Write every page into a folder, leave alone those that did not change, and return all of them.

    Raises:
        ValueError: the code lacks a description that a page needs; the message names it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name, page in PAGES.items():
        path, text = folder / f"{name}.md", page()
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
        made.append(path)
    return made
