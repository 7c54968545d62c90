"""What a sender says of a file: names, readings and what is of no level, from options, from a file and back."""

import json
from pathlib import Path

import pytest

from lintra_client.organisations.mapping import AS_IT_IS, FileMapping
from lintra_protocol.errors import InvalidRowError
from lintra_protocol.tables.readings import Reading

MAPPING = FileMapping.from_options(
    ["Alter=age"], True, ["age=number-comma"], ["age=-99", "age=", "sex=9"], ["sex=divers:12", "sex=a=b:c:3"]
)


def test_options_say_names_readings_codes_and_what_is_of_no_level() -> None:
    assert MAPPING.rename == {"Alter": "age"}
    assert MAPPING.readings == {"age": Reading("number-comma", ("-99", "")), "sex": Reading(None, ("9",))}
    assert MAPPING.others == {"sex": {"divers": 12, "a=b:c": 3}}


def test_a_mapping_that_was_written_is_read_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "mapping.json"
    file.write_text(json.dumps(MAPPING.document()), "utf-8")
    assert FileMapping.from_file(file) == MAPPING
    assert AS_IT_IS.with_more(MAPPING) == MAPPING
    assert MAPPING.with_more(FileMapping(others={"sex": {"x": 1}})).others == {"sex": {"x": 1}}


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"rename": [], "columns": false, "readings": {}, "others": {}}',
     '{"rename": {}, "columns": 1, "readings": {}, "others": {}}',
     '{"rename": {}, "columns": true, "readings": {"a": {"as": null, "missing": [9]}}, "others": {}}',
     '{"rename": {}, "columns": true, "readings": {}, "others": {"a": {"x": true}}}'],
)  # fmt: skip
def test_a_file_that_holds_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mapping.json"
    file.write_text(text, "utf-8")
    with pytest.raises(InvalidRowError, match="is no mapping"):
        FileMapping.from_file(file)


def test_columns_get_the_names_of_the_task_and_its_order() -> None:
    table = {"sex": [1], "x": [2], "Alter": [3], "who": [4]}
    assert MAPPING.apply(table, ["age", "sex"], "who") == {"age": [3], "sex": [1]}
    with pytest.raises(InvalidRowError, match="the task has age, sex; rename columns, or take the task's alone"):
        FileMapping(rename={"Alter": "age"}).apply(table, ["age", "sex"], "who")


@pytest.mark.parametrize(
    ("mapping", "person", "complaint"),
    [
        (FileMapping(rename={"nobody": "age"}), None, "no column 'nobody' to rename"),
        (FileMapping(others={"town": {"x": 1}}), None, "the task has no column 'town'"),
        (FileMapping(rename={"x": "sex"}), None, "the file has columns"),
        (AS_IT_IS, "age", "belongs to the task"),
    ],
)
def test_a_mapping_that_does_not_fit_is_refused_in_words(
    mapping: FileMapping, person: str | None, complaint: str
) -> None:
    with pytest.raises(InvalidRowError, match=complaint):
        mapping.apply({"age": [1], "sex": [2], "x": [3]}, ["age", "sex"], person)


@pytest.mark.parametrize(
    "options",
    [
        (["A"], False, [], [], []),
        ([], False, ["age=numbers"], [], []),
        ([], False, [], [], ["sex=divers"]),
        ([], False, [], [], ["sex=divers:many"]),
        (["A=b", "B=b"], False, [], [], []),
    ],
)
def test_an_option_that_says_nothing_is_refused(
    options: tuple[list[str], bool, list[str], list[str], list[str]],
) -> None:
    with pytest.raises(InvalidRowError):
        FileMapping.from_options(*options)
