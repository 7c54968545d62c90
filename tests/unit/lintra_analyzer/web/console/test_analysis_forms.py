"""Every analysis that any release offers answers its form as it comes, and its files hold the table of the page."""

import csv
import html
import io
import re
from collections.abc import Iterable
from pathlib import Path

import httpx2
import numpy as np
import pyarrow.parquet as pq
import pytest

from lintra_analyzer.web.analyses import ANALYSES
from lintra_analyzer.web.console.analysis_forms import MOST_BOXES, AnalysisForm
from lintra_analyzer.web.console.pages import _ENVIRONMENT
from support.analyzer_world import living
from support.console_world import furnish

SELECT = re.compile(r'<select id="\w+" name="(\w+)"[^>]*>\s*(.*?)</select>', re.DOTALL)
OPTION = re.compile(r'<option(?: value="([^"]*)")?( selected)?>([^<]*)')
INPUT = re.compile(r'<input id="\w+" name="(\w+)"[^>]* value="([^"]*)"')

CANNOT = re.compile(r"[Nn]oise|needs? (a rank of )?at least|Choose something in every field that is needed")
"""What an answer may lack that is offered: numbers above the noise, directions to spare, or a choice of columns."""


def form_of(page: str) -> dict[str, str]:
    """Return what a browser sends of a form in which nobody changed anything."""
    found = {name: html.unescape(value) for name, value in INPUT.findall(page)}
    for name, options in SELECT.findall(page):
        offered = [(chosen, html.unescape(value or text)) for value, chosen, text in OPTION.findall(options)]
        found[name] = next((value for chosen, value in offered if chosen), offered[0][1])
    return found


def as_text(cell: object) -> str:
    """Return a cell of a file as the CSV spells it, a number with its every digit."""
    if isinstance(cell, float | np.floating):
        return "" if np.isnan(cell) else repr(float(cell))
    return str(cell)


def same(cell: object, written: str) -> bool:
    try:
        return float(written) == float(cell)  # type: ignore[arg-type]
    except ValueError:
        return as_text(cell) == written


async def files_agree(rest: httpx2.AsyncClient, path: str, query: dict[str, str]) -> None:
    """Open the table of an answer in all its files, and compare every cell."""
    files = {}
    for ending in ("csv", "npz", "parquet"):
        answer = await rest.get(f"{path}/table.{ending}", params=query)
        assert answer.status_code == 200, (path, ending, answer.text)
        assert f'.{ending}"' in answer.headers["content-disposition"]
        files[ending] = answer.content
    header, *lines = csv.reader(io.StringIO(files["csv"].decode()))
    table = pq.read_table(io.BytesIO(files["parquet"]))
    assert (table.column_names, table.num_rows) == (header, len(lines)), path
    columns = [table.column(name).to_pylist() for name in header]
    for written, *read in zip(zip(*lines, strict=True), columns, strict=True):
        assert all(same(cell, text) for cell, text in zip(read[0], written, strict=True)), path
    with np.load(io.BytesIO(files["npz"]), allow_pickle=False) as held:
        assert held.files, path
        if "columns" in held.files and "0" in held.files:
            assert held["columns"].tolist() == header, path
            for place, written in enumerate(zip(*lines, strict=True)):
                assert all(same(cell, text) for cell, text in zip(held[str(place)].tolist(), written, strict=True))


def without_input(names: Iterable[str], kind: str) -> list[str]:
    """Return the fields of a form that the page of an analysis has no input for."""
    template, offer = _ENVIRONMENT.get_template("fields.html").module, ANALYSES[kind]
    drawn = {name: template.field(name, AnalysisForm(offer, []), ["a", "b"], MOST_BOXES, ["a"]) for name in names}  # type: ignore[attr-defined]
    return [name for name, text in drawn.items() if f'name="{name}"' not in text]


@pytest.mark.parametrize("kind", ANALYSES)
def test_a_form_asks_for_all_that_its_analysis_needs_and_has_an_input_for_every_field(kind: str) -> None:
    fields, needed = ANALYSES[kind].form.fields, ANALYSES[kind].required
    assert not set(needed) - set(fields), f"the form of {kind} does not ask for all of {needed}"
    assert not without_input(fields, kind), f"templates/fields.html draws no input for {without_input(fields, kind)}"


def test_a_field_that_no_template_knows_is_found() -> None:
    assert without_input(("target", "numerator"), "regression") == ["numerator"]


@pytest.mark.slow
async def test_every_form_is_answered_as_it_comes_and_all_files_hold_the_table(tmp_path: Path) -> None:
    asked: set[str] = set()
    with pytest.MonkeyPatch.context() as clock:
        async with living(tmp_path) as life:
            found = await furnish(life, clock)
            async with life.rest() as rest:
                for name, release_id in found.releases.items():
                    page = (await rest.get(f"/releases/{release_id}")).text
                    for kind in re.findall(r'/analyses/([a-z-]+)"', page):
                        path = f"/releases/{release_id}/analyses/{kind}"
                        query = form_of((await rest.get(path)).text)
                        answer = await rest.get(path, params=query)
                        if answer.status_code == 200:
                            asked.add(kind)
                            assert "<h2>Finding</h2>" in answer.text, (name, kind, query)
                            await files_agree(rest, path, query)
                        else:
                            said = re.findall('role="alert">(.*?)</p>', answer.text)
                            assert CANNOT.search(said[0]), (name, kind, query, said)
                            if "needed" in said[0]:
                                asked.add(kind)
                for state, place in (("windows", "windows"), ("stream", "timeline")):
                    path = f"/tasks/{found.tasks[state]}/{place}"
                    query = form_of((await rest.get(path)).text)
                    assert "<h2>Finding</h2>" in (await rest.get(path, params=query)).text
                    await files_agree(rest, path, query)
    assert asked == set(ANALYSES)
