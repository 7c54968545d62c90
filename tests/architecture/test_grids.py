"""A grid that is thinned for `make test` keeps every value of every parameter."""

from itertools import product

import pytest

from support.grids import is_quick


@pytest.mark.parametrize("part", [2, 3, 4])
def test_one_cell_in_so_many_is_quick_whatever_the_size_of_the_grid(part: int) -> None:
    for size in (5, 14, 42, 168):
        quick = sum(is_quick(index, part) for index in range(size))
        assert abs(quick - size / part) < 2
    assert is_quick(0, part)


def test_every_value_of_every_parameter_of_a_grid_is_among_the_quick_cells() -> None:
    cells = list(product(range(2), range(7), range(3)))
    for grid in (cells, sorted(cells, key=lambda cell: cell[::-1])):
        quick = [cell for index, cell in enumerate(grid) if is_quick(index, 3)]
        assert [len(set(values)) for values in zip(*quick, strict=True)] == [2, 7, 3]
