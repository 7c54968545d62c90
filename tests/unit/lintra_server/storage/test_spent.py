"""Used tokens: the set in memory is exact, and follows what the disk has, whatever became of a commit."""

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lintra_protocol.errors import TokenSpentError
from lintra_server.storage.spent import SerialSet
from lintra_server.storage.store import Store, Upload
from support import few
from support.server_world import seeded
from support.stores import Stored, no_commits


def test_the_set_answers_as_a_plain_one_does_while_it_grows_and_serials_meet() -> None:
    ours, plain = SerialSet(seeded("factors")), set[bytes]()
    draw = random.Random(5)
    for size in (0, 1, 40, 300, 5, 2000):
        # Few different first halves, so that many meet in one slot.
        drawn = {bytes([draw.randrange(3)]) * 8 + draw.randbytes(8) for _ in range(size)} | {bytes(16)}
        assert list(ours.has(b"".join(drawn))) == [each in plain for each in drawn]
        new = drawn - plain
        ours.add(b"".join(new))
        plain |= new
        assert len(ours) == len(plain)
        assert np.all(ours.has(b"".join(plain)))


@few
@given(st.lists(st.integers(0, 20), max_size=30), st.integers(1, 4), st.randoms(use_true_random=False))
def test_a_table_of_used_tokens_that_is_full_grows_and_ends(sizes: list[int], halves: int, draw: random.Random) -> None:
    """Whatever is added: it is at most half full, so that every search finds a free slot and comes to an end."""
    ours, used = SerialSet(seeded("factors")), list[bytes]()
    for size in sizes:
        new = list({bytes([draw.randrange(halves)]) * 8 + draw.randbytes(8) for _ in range(size)} - set(used))
        ours.add(b"".join(new))
        used += new
        assert len(ours) == len(used)
        assert 2 * len(used) <= len(ours._taken) <= max(64, 4 * len(used))
        assert int(ours._taken.sum()) == len(used)
        assert np.all(ours.has(b"".join(used)))
        absent = {draw.randbytes(16) for _ in range(4)} - set(used)
        assert not np.any(ours.has(b"".join(absent)))


def test_serials_that_an_author_chose_to_meet_are_spread_by_secret_factors() -> None:
    # They would all lie in one slot if the slot were a part of the serial.
    ours = SerialSet(seeded("factors"))
    ours.add(b"".join(number.to_bytes(8, "big") + bytes(8) for number in range(4000)))
    slots = ours._split(b"".join(number.to_bytes(8, "big") + bytes(8) for number in range(4000)))[2]
    assert np.bincount(slots).max() < 12


def a_store(folder: Path) -> Store:
    return Stored("sqlite", folder).open()


def used(store: Store, report: int, serial: int) -> object:
    upload = Upload(1, [bytes([report]) * 32], [bytes(112)], 99, None, [bytes([serial]) * 16])
    return store.add_reports([upload])[0][0]


def test_a_token_is_free_again_if_its_commit_failed_and_used_for_ever_if_it_did_not(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    assert used(store, 1, 1) is True

    with no_commits(store), pytest.raises(OSError, match="full"):
        used(store, 2, 2)
    for _ in range(2):
        assert used(store, 2, 2) in (True, False)  # now, and once more the same
        assert isinstance(used(store, 3, 2), TokenSpentError)
        assert isinstance(used(store, 3, 1), TokenSpentError)
        store.database.close()
        store = a_store(tmp_path)
    store.database.close()


def test_a_token_stays_used_if_the_memory_fails_after_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_set: SerialSet, _serials: bytes) -> None:
        raise MemoryError

    store = a_store(tmp_path)
    assert used(store, 1, 1) is True
    with monkeypatch.context() as patched:
        patched.setattr(SerialSet, "add", fail)
        with pytest.raises(MemoryError):
            used(store, 2, 2)
    assert used(store, 2, 2) is False
    assert isinstance(used(store, 3, 2), TokenSpentError)
    store.database.close()


def test_a_failed_commit_leaves_no_table_in_memory(tmp_path: Path) -> None:
    """What became of it only the disk knows, so used tokens and identifiers are read from there again."""
    store = a_store(tmp_path)
    assert used(store, 1, 1) is True
    assert isinstance(used(store, 3, 1), TokenSpentError)  # whoever looks has both tables in memory
    assert used(store, 1, 1) is False
    assert store._spent.ready(1) is not None
    assert 1 in store._known._tables
    with no_commits(store), pytest.raises(OSError, match="full"):
        used(store, 2, 2)
    assert store._spent.ready(1) is None
    assert store._known._tables == {}
    assert used(store, 2, 2) in (True, False)
    assert isinstance(used(store, 3, 2), TokenSpentError)
    store.database.close()


def test_two_reports_of_one_upload_cannot_share_a_token(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    both = Upload(1, [b"a" * 32, b"b" * 32], [bytes(112)] * 2, 99, None, [bytes(16)] * 2)
    first, second = store.add_reports([both])[0]
    assert first is True
    assert isinstance(second, TokenSpentError)
    store.database.close()
