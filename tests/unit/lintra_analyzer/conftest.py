"""One started analyzer among its servers for all tests of a module that do not need a world of their own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.analyzer_world import Life, living

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests that share a world in the event loop in which it was started."""
    for item in items:
        if item.path.is_relative_to(HERE) and "life" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def started(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Life]:
    async with living(tmp_path_factory.mktemp("world")) as life:
        yield life


@pytest.fixture
def life(started: Life) -> Life:
    """Return the module's world with whole wires; tasks and releases of other tests may stand in it."""
    started.wires.fault = None
    started.wires.log.clear()
    return started
