"""The schema of an estimate follows from the types of its fields."""

from dataclasses import make_dataclass
from typing import TypeVar

import numpy as np
from typing_extensions import TypeAliasType

from lintra_analyzer.web.result_schema import result_schema


def test_an_array_whose_type_is_an_alias_with_a_name_of_its_own_is_an_array() -> None:
    # From Python 3.12 on numpy's NDArray is one; the service did not start there.
    scalar = TypeVar("scalar", bound=np.generic)
    alias = TypeAliasType("NDArray", np.ndarray[tuple[int, ...], np.dtype[scalar]], type_params=(scalar,))
    estimate = make_dataclass("Drawn", [("values", alias[np.float64])])
    assert result_schema(estimate)["properties"]["values"]["type"] == "array"
