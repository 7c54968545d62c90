"""Bodies of check shares as files: whole under their hash, or not there."""

from pathlib import Path

import numpy as np
import pytest

from lintra_protocol.encoding.canonical import domain_hash
from lintra_protocol.errors import ChecksMismatchError
from lintra_service.spooled_bodies import BodyFolder, path_of

ROWS = np.random.default_rng(3).integers(0, 256, (1000, 96), np.uint8)
BODY = ROWS.tobytes()


def test_a_body_is_named_by_the_hash_of_what_came_whatever_the_file_holds_by_then(tmp_path: Path) -> None:
    folder = BodyFolder(tmp_path)
    with folder.writer(len(BODY)) as writer:
        for start in range(0, len(BODY), 1001):
            writer.add(BODY[start : start + 1001])
        assert writer.finish() == (digest := domain_hash("check body", BODY))
    assert b"".join(folder.pieces(digest)) == BODY
    with folder.writer(len(BODY)) as writer:
        writer.add(BODY)
        (coming,) = tmp_path.glob("coming-*")
        coming.write_bytes(BODY[::-1])
        assert writer.finish() == digest
    assert not folder.is_whole(digest, len(BODY))


@pytest.mark.parametrize("body", [BODY[:-1], BODY + b"x", b""], ids=["short", "long", "empty"])
def test_a_body_of_another_length_leaves_nothing_behind(tmp_path: Path, body: bytes) -> None:
    folder = BodyFolder(tmp_path)
    with folder.writer(len(BODY)) as writer:
        writer.add(body)
        with pytest.raises(ChecksMismatchError):
            writer.finish()
    assert list(tmp_path.iterdir()) == []


def test_a_changed_file_is_not_whole_and_a_half_written_one_goes_at_the_next_start(tmp_path: Path) -> None:
    folder = BodyFolder(tmp_path)
    with folder.writer(len(BODY)) as writer:
        writer.add(BODY)
        digest = writer.finish()
    assert folder.is_whole(digest, len(BODY))
    path_of(tmp_path, digest).write_bytes(bytes([BODY[0] ^ 1]) + BODY[1:])
    assert folder.has(digest, len(BODY))
    assert not folder.is_whole(digest, len(BODY))
    (tmp_path / "coming-half").write_bytes(b"half")
    BodyFolder(tmp_path).keep_only([])
    assert list(tmp_path.iterdir()) == []
