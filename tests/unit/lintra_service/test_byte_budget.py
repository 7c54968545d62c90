"""Room is counted in bytes that came; one peer's share bites only when half is used."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lintra_protocol.errors import OverloadedError
from lintra_service.byte_budget import ByteBudget
from support import few


def test_nothing_is_taken_before_it_came_and_all_is_given_back() -> None:
    room = ByteBudget(100)
    with room.lease("a") as lease:
        assert room.used == 0
        lease.take(60)
        assert room.used == 60
    assert room.used == 0


def test_a_full_room_takes_nothing_more() -> None:
    room = ByteBudget(100, peer_share=1)
    with room.lease("a") as lease, room.lease("b") as other:
        lease.take(100)
        with pytest.raises(OverloadedError):
            other.take(1)
        with pytest.raises(OverloadedError), room.lease("c"):
            pass


def test_a_request_alone_is_taken_whatever_its_size() -> None:
    room = ByteBudget(100)
    with room.lease("a") as lease:
        lease.take(90)
        lease.take(90)
        assert room.used == 180


def test_one_peer_fills_half_a_room_and_then_only_its_share() -> None:
    room = ByteBudget(800, peer_share=8)
    with room.lease("a") as first, room.lease("a") as second, room.lease("b") as honest:
        first.take(390)
        with pytest.raises(OverloadedError, match="its share"):
            second.take(20)
        honest.take(90)
        with pytest.raises(OverloadedError, match="its share"):
            second.take(1)


@few
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 200)), max_size=60))
def test_a_room_is_never_overfull_and_forgets_every_peer(steps: list[tuple[int, int]]) -> None:
    room = ByteBudget(500)
    leases = [room.lease(f"peer {number // 2}") for number in range(5)]
    for number, count in steps:
        alone = room.used == leases[number].held
        try:
            leases[number].take(count)
        except OverloadedError:
            assert not alone
        assert room.used == sum(lease.held for lease in leases)
        assert room.used <= 500 or sum(lease.held > 0 for lease in leases) == 1 or alone or count == 0
    for lease in leases:
        lease.__exit__(None, None, None)
    assert room.used == 0
    assert not room._peers
