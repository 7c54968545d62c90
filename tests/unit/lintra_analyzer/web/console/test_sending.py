"""How people send: commands that the programs take as they stand, and a program that Python reads."""

import ast
import html
import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from lintra_analyzer.web.console.sending import address_of, snippets_of
from lintra_client.commands.client import app
from lintra_protocol.task import Task
from support.analyzer_world import Life

COLUMNS = [
    {"name": "a</script><b>\"'", "lower": 0, "upper": 9, "kind": "integer"},
    {"name": "smoker", "kind": "boolean"},
    {"name": "stage", "kind": "category", "levels": ["I </pre>", "II"]},
]


async def task_of(life: Life, **changes: object) -> Task:
    return await life.create("second_moment", columns=COLUMNS, purpose="hostile <i>names</i>", **changes)


async def test_every_command_is_taken_by_the_program_that_it_names(
    life: Life, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("smoker\n")
    (tmp_path / "tokens.txt").write_text("")
    who = {
        "contributors": {"rows_per_person": 3, "max_rows": 500},
        "min_clients": 5,
        "max_clients": 5,
        "max_missing": None,
    }
    seen = set()
    for task in (await task_of(life), await task_of(life, client_auth="token"), await life.create(**who)):
        for snippet in snippets_of(task):
            words = shlex.split(snippet.text)
            if words[0] == "lintra":
                command = get_command(app).commands[words[2]]  # type: ignore[attr-defined]
                found = command.make_context(words[2], words[3:]).params
                assert found["server"] == [server.url for server in task.servers], snippet.text
                assert task.task_id in (found.get("task_id"), str(found.get("task")))
                seen.add(words[2])
    assert seen == {"check", "rehearse", "send", "contribute"}


async def test_the_program_is_python_and_its_row_fits_the_task(life: Life) -> None:
    task = await task_of(life, client_auth="token")
    (program,) = [one.text for one in snippets_of(task) if "Python" in one.title]
    tree = ast.parse(program)
    (row,) = [ast.literal_eval(node) for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    assert row == {"a</script><b>\"'": 4, "smoker": True, "stage": "I </pre>"}
    assert 'token="TOKEN"' in program


async def test_the_page_shows_hostile_names_as_text_and_holds_a_code(life: Life) -> None:
    task = await task_of(life)
    async with life.rest() as rest:
        answer = await rest.get(f"/tasks/{task.task_id}/sending")
        assert f'href="/tasks/{task.task_id}/sending"' in (await rest.get(f"/tasks/{task.task_id}")).text
        assert (await rest.get("/static/copy.js")).status_code == 200
    assert answer.status_code == 200
    assert '<path d="M' in answer.text
    assert address_of(task) in html.unescape(answer.text)
    assert re.findall(r"<script[^>]*>", answer.text)[-1] == '<script src="/static/copy.js" defer>'
    assert "a</script>" not in answer.text
    assert "I </pre>" not in answer.text


async def test_a_page_or_app_is_offered_only_what_its_client_knows(life: Life) -> None:
    titles = [one.title for one in snippets_of(await task_of(life))]
    assert any("TypeScript" in title for title in titles)
    wishart = await life.create("second_moment_wishart", min_clients=60)
    assert not any("TypeScript" in one.title for one in snippets_of(wishart))
