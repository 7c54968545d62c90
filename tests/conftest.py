"""What holds for all tests: cells of large grids, examples, and a collector of garbage that leaves tests alone."""

import gc
from collections import Counter

import pytest
from hypothesis import settings

from support.grids import is_quick

settings.register_profile("quick", max_examples=25, derandomize=True, deadline=None)
settings.register_profile("all", max_examples=200, deadline=None)


def pytest_configure(config: pytest.Config) -> None:
    """Let properties be tried on the same few examples under `make test`, on many and ever new ones otherwise."""
    settings.load_profile("quick" if config.getoption("markexpr") == "not slow" else "all")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cells of a grid that only `make test-all` runs as slow."""
    seen: Counter[str] = Counter()
    for item in items:
        if marker := item.get_closest_marker("grid"):
            name = item.nodeid.partition("[")[0]
            if not is_quick(seen[name], *marker.args):
                item.add_marker(pytest.mark.slow)
            seen[name] += 1


def pytest_collection_finish() -> None:
    """Take what was collected out of every later round of garbage collection: thousands of tests stay to the end."""
    gc.collect()
    gc.freeze()
