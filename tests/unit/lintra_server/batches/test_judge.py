"""The two steps of a verified task at its servers: each once, each from what all servers signed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
from numpy.testing import assert_array_equal

from lintra_protocol.report import Report, share_words
from lintra_protocol.ring import IntArray
from lintra_protocol.verdicts import VerifiedAggregateRequest
from lintra_protocol.wire import BLIND_BYTES
from support.checked_world import (
    hostile,
    released,
    verdicts,
    verified_world,
)  # fmt: skip
from support.server_world import World


@asynccontextmanager
async def a_world(folder: Path, mechanism: str = "sum", **more: object) -> AsyncIterator[World]:
    world = verified_world(folder, mechanism, **more)
    try:
        for server in range(len(world.apps)):
            assert (await world.register(server)).status_code == 201
        yield world
    finally:
        world.close()


def row_of(world: World, report: Report) -> IntArray:
    """Return the ring words that the shares of a report add up to."""
    shares = [share_words(world.task, server, share[BLIND_BYTES + 1 :]) for server, share in enumerate(report.shares)]
    total: IntArray = np.sum(shares, axis=0, dtype=np.uint64).view(np.int64)
    return total


async def test_a_release_is_the_sum_of_the_accepted_reports_exactly(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        honest, bad = world.reports(18), hostile(world, 2)
        await world.upload_everywhere([*honest, *bad])
        signed = await verdicts(world)
        assert {(each.message.count, each.message.rejected) for each in signed} == {(18, 2)}
        values = await released(world, VerifiedAggregateRequest(verdicts=signed))
        assert_array_equal(values[0], np.sum([row_of(world, report) for report in honest], axis=0))
        assert world.apps[0].node.store.batch(1).state == "released"
