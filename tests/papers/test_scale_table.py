"""The page's table of scale is what the benchmark wrote from its figures, and says whose floor is beyond its aim."""

import json
from pathlib import Path

import pytest
from scale.tables import BEGIN, END, missed, rows_table, section

from support.pages import text_of

ROOT = Path(__file__).resolve().parents[2]


FIGURES = json.loads((ROOT / "benchmarks/data/scale.json").read_text("utf-8"))
PAGE = text_of("benchmarks")


def row(today: float, floor: float | None, target: float | None, *, at_least: bool = False) -> dict[str, object]:
    said = {"what": "a thing", "unit": "ms", "measured": "today", "remark": "", "quick": False}
    return {**said, "today": today, "floor": floor, "target": target, "at_least": at_least}


def test_the_tables_of_the_page_are_what_the_figures_say_and_nothing_in_them_was_typed() -> None:
    written = PAGE.split(BEGIN)[1].split(END)[0]
    assert written.strip() == "\n".join(section(FIGURES)).strip()


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (row(3, 1, 5), "| yes |"),
        (row(7, 1, 5), "| no |"),
        (row(7, 6, 5), "| no: its floor is beyond it |"),
        (row(4, 6, 5), "| yes |"),
        (row(6, 7, 5), "| no |"),  # what is not reached from above is no floor
        (row(1, 2, 1.7, at_least=True), "| no |"),
        (row(1, 1.5, 1.7, at_least=True), "| no: its floor is beyond it |"),
        (row(7, None, 5), "| no |"),
        (row(7, 6, None), "|  |"),
    ],
)
def test_a_row_says_whether_its_aim_is_met_and_whether_its_floor_could(found: dict[str, object], said: str) -> None:
    assert said in rows_table({"x": found})[2]


def test_the_sentence_tells_what_the_machine_misses_from_what_we_do() -> None:
    found = {"kept": row(1, 1, 2), "ours": row(3, 1, 2), "floor": row(4, 3, 2), "no aim": row(1, 1, None)}
    sentence = missed(found)
    assert sentence.startswith("1 of 3 aims are met.")
    assert "Of `floor` the floor itself misses" in sentence
    assert sentence.endswith("keeps it: `ours`.")
