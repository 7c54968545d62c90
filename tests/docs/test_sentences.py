"""Pages are short and so are their sentences; records and proofs are as long as their matter is."""

from pathlib import Path

import pytest

from support.sentences import sentences

ROOT = Path(__file__).resolve().parents[2]
LONGEST, MEAN, WORDS = 35, 18, 3000
EXEMPT = ("docs/decisions/", "docs/proofs/", "docs/reference/made/")


def pages() -> list[str]:
    """Return the paths of the pages that a user reads."""
    found = [path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]]
    return sorted(name for name in found if not name.startswith(EXEMPT))


@pytest.mark.parametrize("name", pages())
def test_no_sentence_has_more_than_35_words_and_their_mean_is_at_most_18(name: str) -> None:
    found = list(sentences((ROOT / name).read_text("utf-8")))
    mean = sum(map(len, found)) / len(found)
    long = [" ".join(words) for words in found if len(words) > LONGEST]
    assert not long, f"{name}: part these sentences: {long}"
    assert mean <= MEAN, f"{name}: {mean:.1f} words in the mean"


@pytest.mark.parametrize("name", pages())
def test_a_page_has_at_most_3000_words(name: str) -> None:
    words = sum(map(len, sentences((ROOT / name).read_text("utf-8"))))
    assert words <= WORDS, f"{name} has {words} words: part it"


def test_sentences_end_where_a_reader_ends_them() -> None:
    page = "# Title\n\nOne two. Three\nfour: five.\n\n* six\n* seven, [eight](x.md) `nine ten`\n\n    code here\n"
    page += "\n| a b | c |\n| --- | --- |\n"
    assert list(sentences(page)) == [
        ["One", "two."],
        ["Three", "four:", "five."],
        ["six"],
        ["seven,", "eight", "Code"],
        ["a", "b"],
        ["c"],
    ]
