"""What a server remembers of a window: only beside the bytes that were released with it, and lost rather than wrong."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_protocol.crypto.randomness import system_randomness
from lintra_server.durability.encryption_at_rest import Vault
from lintra_server.durability.journal import BatchId, fact
from lintra_server.durability.key_files import KeyFiles
from lintra_server.storage.stream_memory import StreamMemory

WINDOW, OTHER = BatchId(bytes(32), 3), BatchId(bytes(32), 4)
NOISE = np.array([-(2**40), 0, 7], np.int64)


def opened(folder: Path, *keys: int) -> StreamMemory:
    vault = Vault([bytes([key]) * 32 for key in keys or (1,)], system_randomness)
    return StreamMemory(KeyFiles(folder / "streams", vault, "stream memory"))


def test_a_memory_is_given_beside_its_released_bytes_and_beside_no_others(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.write(WINDOW, b"released", NOISE)
    assert_array_equal(opened(tmp_path).read(WINDOW, fact(b"released")), NOISE)
    assert memory.read(WINDOW, fact(b"other bytes")) is None
    assert memory.read(WINDOW, None) is None
    assert memory.read(OTHER, fact(b"released")) is None


def test_what_an_attempt_wrote_is_overwritten_by_the_next(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.write(WINDOW, b"first", NOISE)
    memory.write(WINDOW, b"second", NOISE + 1)
    assert memory.read(WINDOW, fact(b"first")) is None
    assert_array_equal(memory.read(WINDOW, fact(b"second")), NOISE + 1)


def test_a_file_of_another_window_or_key_counts_as_lost(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.write(WINDOW, b"released", NOISE)
    (path,) = (tmp_path / "streams").iterdir()
    path.rename(path.with_name(f"{OTHER.name.hex()}.key"))
    assert memory.read(OTHER, fact(b"released")) is None
    memory.write(WINDOW, b"released", NOISE)
    assert opened(tmp_path, 2).read(WINDOW, fact(b"released")) is None


@pytest.mark.parametrize("everything", [False, True])
def test_a_forgotten_memory_is_gone(tmp_path: Path, everything: bool) -> None:
    memory = opened(tmp_path)
    memory.write(WINDOW, b"released", NOISE)
    memory.forget_all() if everything else memory.forget(WINDOW)
    assert not list((tmp_path / "streams").iterdir())


def test_a_memory_moves_to_a_new_root_key(tmp_path: Path) -> None:
    opened(tmp_path).write(WINDOW, b"released", NOISE)
    assert opened(tmp_path, 2, 1).renew(WINDOW)
    assert_array_equal(opened(tmp_path, 2).read(WINDOW, fact(b"released")), NOISE)
