"""What is too large is refused from a few integers, before anything of that size is made."""

import tracemalloc

import pytest

from lintra_analysis.kinds import context
from lintra_analysis.spec.build_task import build_task
from lintra_analysis.spec.specification import Specification
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.task import ServerEntry
from support import identity
from support.analyzer_world import KEYS, NOW, seeded, specification

MEBIBYTE = 1 << 20
SERVERS = tuple(
    ServerEntry(url=f"http://server-{index}.test", identity_key=identity(f"server {index}").public_key)
    for index in range(3)
)


def columns(count: int) -> list[dict[str, object]]:
    return [{"name": f"c{number}", "lower": -1, "upper": 1} for number in range(count)]


def build(mechanism: dict[str, object], count: int, **changes: object) -> None:
    wanted = Specification.model_validate(
        specification(columns=columns(count), mechanism=mechanism, min_clients=10**7, **changes)
    )
    build_task(wanted, SERVERS, KEYS.public_keys, NOW, seeded("task"))


@pytest.mark.parametrize(
    ("mechanism", "count", "complaint"),
    [
        ({"kind": "ron_gauss", "dimension": 1500, "bins": 0}, 1500, "a report of 11[0-9]{5} words"),
        pytest.param(
            {"kind": "ron_gauss", "dimension": 30_000}, 30_000, "a report of 45[0-9]{7} words", marks=pytest.mark.slow
        ),
        ({"kind": "second_moment"}, 1500, "a report of 11[0-9]{5} words"),
        ({"kind": "second_moment_wishart"}, 1500, "a report of 11[0-9]{5} words"),
        ({"kind": "osnap", "rows": 2**20}, 100, "a sketch of 105906176 words"),
    ],
    ids=["ron_gauss", "ron_gauss, 30,000 columns", "second_moment", "second_moment_wishart", "osnap"],
)
def test_a_task_of_gigabytes_is_refused_before_they_are_allocated(
    mechanism: dict[str, object], count: int, complaint: str
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InvalidTaskError, match=complaint):
            build(mechanism, count)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < (8 if count <= 1500 else 300) * MEBIBYTE


@pytest.mark.slow
def test_without_the_bound_memory_grows_with_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "require_size", lambda *_: None)
    tracemalloc.start()
    try:
        # A twentieth of the columns, a four-hundredth of the memory, so that this machine survives the demonstration.
        with pytest.raises(InvalidTaskError):
            build({"kind": "ron_gauss", "dimension": 1500, "bins": 0}, 1500)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak > 16 * MEBIBYTE
