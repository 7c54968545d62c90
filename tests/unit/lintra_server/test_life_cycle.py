"""From the first upload to the release: the services give exactly what the ideal protocol gives."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from unit.lintra_server.world import World, ready_world

from lintra_protocol import ideal
from lintra_protocol.canonical import parse_base64url
from lintra_protocol.messages import AggregateRequest
from lintra_protocol.ring import from_ring
from lintra_protocol.sealing import HYBRID
from lintra_protocol.sharing import combine


async def released(world: World, request: AggregateRequest) -> np.ndarray:
    shares = []
    for server in range(len(world.apps)):
        answer = await world.release(server, request)
        assert answer.status_code == 200, answer.text
        shares.append(world.opened(server, answer.content)[1])
    return world.task.mechanism.decode(from_ring(combine(np.stack(shares))), world.task.num_columns)


@pytest.mark.parametrize("share_form", ["uniform", "seeded"])
@pytest.mark.parametrize("mechanism", ["osnap", "sum", "second_moment"])
async def test_three_servers_release_exactly_what_the_ideal_protocol_releases(
    tmp_path: Path, mechanism: str, share_form: str
) -> None:
    world = await ready_world(
        tmp_path, mechanism, change=lambda task: task.model_copy(update={"share_form": share_form})
    )
    await world.upload_everywhere(world.reports(15))
    request = await world.aggregate_request()
    nonces = [parse_base64url(signed.message.nonce) for signed in request.cohorts]
    expected = ideal.run(world.task, world.rows(15), nonces)
    assert_array_equal(await released(world, request), expected.values)
    world.close()


async def test_the_default_hybrid_suite_gives_the_same(tmp_path: Path) -> None:
    world = await ready_world(tmp_path, suite=HYBRID)
    await world.upload_everywhere(world.reports(13))
    request = await world.aggregate_request()
    nonces = [parse_base64url(signed.message.nonce) for signed in request.cohorts]
    assert_array_equal(await released(world, request), ideal.run(world.task, world.rows(13), nonces).values)
    world.close()
