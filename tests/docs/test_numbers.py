"""No number on a page is typed by hand: each is written by a benchmark, asserted by a test, or named as a choice."""

from pathlib import Path

import pytest

from support.figures import BLOCK, STAMP, Figure, figures, sections, written
from support.pages import ROOT, pages

EXEMPT = "docs/decisions/"
"""Records say what was found on their day, and stay as they are."""

PAGES = sorted(page for page in pages() if not page.startswith(EXEMPT))


@pytest.mark.parametrize("page", PAGES)
def test_every_figure_of_a_page_has_a_source(page: str) -> None:
    assert [fault for section in sections(page, pages()[page]) for fault in section.faults()] == []


def test_every_written_table_has_its_command_date_and_machine() -> None:
    for name, block in written().items():
        found = STAMP.search(block)
        assert found, f"{name}: which command wrote this, when, and on what machine?"
        assert (ROOT / "benchmarks" / f"{found[1]}.py").is_file(), name


def faults(text: str) -> list[str]:
    return [fault.rsplit(": ", 1)[1] for section in sections("page.md", text) for fault in section.faults()]


def test_a_figure_without_a_source_is_found_and_what_is_no_figure_is_not() -> None:
    assert faults("# A\n\nIt takes .62 of it.\n") == [".62 has no source"]
    assert faults("# A\n\nIt takes 31 ms, and 95 % of\nthat is noise.\n") == ["31 has no source", "95 has no source"]
    assert faults("# A\n\n| x | y |\n| --- | --- |\n| 3 | -1.5e-3 |\n") == ["-1.5e-3 has no source"]
    assert not faults(
        "# 1.5\n\nTheorem 3.1, Figures 4.1 and 4.2, `x = .5`, [x](a1.5.md), Python 3.11, arXiv 2309.01243\n"
    )


def test_a_figure_may_be_rounded_and_must_not_be_another() -> None:
    kept = "# A\n\n<!-- race -->\n| 0.6249 | 1,342 |\n<!-- end race -->\n\nAbout {} of it.\n"
    for said in (".62", ".625", "0.6249", "62 %", "1,342 s", "1,300 s"):
        assert faults(kept.format(said)) == [], said
    for said in (".63", ".624", "61 %", "1,400 s", "1,341 s", ".7"):
        assert len(faults(kept.format(said))) == 1, said


def test_a_comment_names_sources_and_none_that_nothing_comes_from() -> None:
    (name,) = sorted(written())[:1]
    assert faults("# A\n\nAt .95, by design.\n\n<!-- figures: setting .95 -->\n") == []
    assert faults("# A\n\nBy design.\n\n<!-- figures: setting .95 -->\n") == ["nothing here comes from setting .95"]
    assert 1.05 < 1.123  # what the next page rounds
    here = Path(__file__).relative_to(ROOT)
    said = "# A\n\n1.1 times.\n\n<!-- figures: in {}::{} -->\n"
    assert faults(said.format(here, "test_a_comment_names_sources_and_none_that_nothing_comes_from")) == []
    assert faults(said.format(here, "test_a_section_does_not_lend_its_sources_to_the_next"))[0] == "1.1 has no source"
    with pytest.raises(ValueError, match="has no nowhere"):
        faults(said.format(here, "nowhere"))
    with pytest.raises(ValueError, match="no written table"):
        faults("# A\n\n<!-- figures: block nowhere -->\n")
    with pytest.raises(ValueError, match="none of block"):
        faults(f"# A\n\n<!-- figures: blocks {name} -->\n")


def test_a_section_does_not_lend_its_sources_to_the_next() -> None:
    for held in ("```\n.62\n```", "<!-- a -->\n| .62 |\n<!-- end a -->"):
        assert faults(f"# A\n\n{held}\n\n# B\n\nIt is .62.\n") == [".62 has no source"]
        assert not faults(f"# A\n\n{held}\n\nIt is .62.\n")
    assert BLOCK.search("<!-- a -->\n1\n<!-- end b -->\n") is None


def test_figures_between_a_less_than_and_a_greater_than_are_seen() -> None:
    assert faults("# A\n\nFor m <= r it is .62 of it,\nand k >= 3.\n\n<a id='b1.5'></a>\n") == [".62 has no source"]


def test_figures_know_their_digits() -> None:
    assert [one.text for one in figures("4,461 bytes against 4.05e2 and 10^7.5 or 2.3.4")] == ["4,461", "4.05e2"]
    assert Figure("x", next(figures("2,000 s")).value).value == 2000
