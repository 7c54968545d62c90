"""Which columns of a table are tried, and what becomes of a target."""

from pathlib import Path

import pytest

from lintra_analysis.trial.files.table import read_table
from lintra_analysis.trial.selection import chosen_columns
from lintra_protocol.errors import InvalidTableError


def test_a_target_of_two_levels_may_be_missing_and_texts_of_neither_level_are_refused(tmp_path: Path) -> None:
    lines = [f"{row % 7 + 0.5},{('died', 'alive', '')[row % 3]}" for row in range(30)]
    file = tmp_path / "rows.csv"
    file.write_text("x,end\n" + "\n".join(lines) + "\n", "utf-8")
    explained = chosen_columns(read_table(file), "end").column("end")
    assert (explained.levels, explained.missing) == (("alive", "died"), 10)
    file.write_text("x,end\n" + "\n".join(lines) + "\n1,moved\n", "utf-8")
    with pytest.raises(InvalidTableError, match="a category"):
        chosen_columns(read_table(file), "end")
