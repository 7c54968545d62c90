"""From a task to its release, among real servers."""

from pathlib import Path

import pytest
from numpy.testing import assert_array_equal

from lintra_analyzer.reconstruct import as_release
from unit.lintra_analyzer.life import CLIENTS, living

KINDS = ("osnap", "sum", "second_moment")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_release_is_the_ideal_run_bit_for_bit(tmp_path: Path, kind: str) -> None:
    async with living(tmp_path) as life:
        task = await life.create(kind)
        await life.upload(task)
        signed = life.service.record(await life.release(task))
        sketch, row_counts = life.service.archive.read(signed.record)
        ideal = life.ideal(task)
        assert_array_equal(task.mechanism.decode(sketch, task.num_columns), ideal.values)
        assert_array_equal(as_release(task, sketch, row_counts).values, ideal.values)
        assert signed.record.num_clients == CLIENTS == row_counts.sum()
