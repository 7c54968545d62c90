"""Many rows: every row that was read is accounted for, and no more are read than are under way."""

from collections.abc import Iterator

import pytest

from lintra_client.upload.bulk import BLOCKS_UNDER_WAY
from lintra_protocol.errors import BatchClosedError
from support import make_task
from support.fake_servers import Network

ROW = [0.5, -0.25, 0.125]


async def test_a_server_that_takes_nothing_stops_the_call_and_every_row_read_is_accounted_for() -> None:
    network = Network(make_task())
    network.servers[0].refuse = lambda known: BatchClosedError("closed")
    read = 0

    def rows() -> Iterator[list[float]]:
        nonlocal read
        while read < 100_000:
            read += 1
            yield ROW

    async with network.client() as client:
        summary = await client.send_many(rows())
    assert isinstance(summary.stopped, BatchClosedError)
    assert len(summary.failed) == read <= (BLOCKS_UNDER_WAY + 1) * 256
    with pytest.raises(BatchClosedError):
        summary.require_complete()


async def test_a_generator_is_read_only_as_far_ahead_as_the_blocks_under_way() -> None:
    network = Network(make_task())
    ahead = []
    served = network.servers[0].payloads

    def rows() -> Iterator[list[float]]:
        for count in range(3000):
            ahead.append(count - len(served))
            yield ROW

    async with network.client() as client:
        assert (await client.send_many(rows())).sent == 3000
    assert max(ahead) <= (BLOCKS_UNDER_WAY + 1) * 256
