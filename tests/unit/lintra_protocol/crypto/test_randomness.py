"""Sources of bytes."""

import pytest

from lintra_protocol.crypto.randomness import bulk_system_randomness, derive_seed, expand, keystream, system_randomness

SEED = bytes(range(32))


def test_a_stream_does_not_depend_on_how_it_is_read() -> None:
    whole, pieces = keystream(SEED)(100), keystream(SEED)
    assert b"".join(pieces(count) for count in (1, 0, 15, 16, 17, 51)) == whole


def test_another_seed_or_label_gives_another_stream() -> None:
    streams = {expand(SEED, "a")(16), expand(SEED, "b")(16), expand(bytes(32), "a")(16), keystream(SEED)(16)}
    assert len(streams) == 4


def test_derived_seeds_keep_their_parts_apart() -> None:
    assert len({derive_seed(SEED, "a", b"bc"), derive_seed(SEED, "a", b"b", b"c"), derive_seed(SEED, "ab", b"c")}) == 3


@pytest.mark.parametrize("length", [0, 16, 31, 33])
def test_a_seed_of_another_length_is_the_callers_mistake(length: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        keystream(bytes(length))


def test_the_systems_sources_give_as_much_as_asked_and_never_the_same() -> None:
    for source in (system_randomness, bulk_system_randomness()):
        drawn = [source(32) for _ in range(3)]
        assert [len(data) for data in drawn] == [32, 32, 32]
        assert len(set(drawn)) == 3
    assert bulk_system_randomness()(32) != bulk_system_randomness()(32)
