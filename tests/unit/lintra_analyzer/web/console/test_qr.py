"""QR codes: the same modules, one by one, as the package qrcode 8.2 draws; what it drew is here as digests."""

from hashlib import sha256

import pytest

from lintra_analyzer.web.console.qr import _BLOCKS, MOST_BYTES, masked_grid, path_of, qr_code

DRAWN = {
    1: ("c8f8664ff8476773", "b00cd321c05843c4", "26f3a99a149f1618"),
    2: ("1739aaf8f31c9db3", "ca62aadc7242aeb3", "2d1d5842856bd9d4"),
    3: ("ff148c8da174e598", "b6ffda69cba449c8", "40d970be5e0da8c4"),
    4: ("f76b8b8c7a27bbda", "e9b161889fc998ad", "4bdad0fe39932860"),
    5: ("c7cde5e5297f482f", "8cafa2416b23ca58", "5d16fc32561b8efe"),
    6: ("8aec18df01c4098f", "e9ad609f6f14f6bf", "eb06855c1b8ea3cd"),
    7: ("c96c39852bbd844e", "3c0c12a10cd62971", "fcd5b9ffd734595c"),
    8: ("44741a395cfda8f5", "039b9a49dca3c82a", "4d2167029830ab95"),
    9: ("83f4ca4908c7d517", "51507f28c7c3d64e", "2f9cd1507e903f99"),
    10: ("45fe10df6db7e517", "97109ac22d82c19c", "1dc88588a2394449"),
    11: ("98bef86c86c8908d", "3f33d780bd58f42e", "595faf7d6ffdc20f"),
    12: ("b077f6010751380d", "39f3ecc19449b196", "e070e4cdbcc8f437"),
    13: ("f4e71d29d2f85253", "8a104edee5015947", "b9706a39f38e66df"),
    14: ("062517a7f9258c38", "42bdb475b55781cc", "e1701a5e8400824e"),
    15: ("4f7caced48411aae", "e9a5af55c650b90f", "8ac8d5c027ff6776"),
    16: ("90451367e0b16348", "c268d448867f9806", "b5655fd7f5de57f6"),
}
"""Of each version: a full code under mask 0, one of a byte less under mask 5, one of nine less under mask 7."""


def digest(grid: list[list[bool]]) -> str:
    return sha256("\n".join("".join("01"[dark] for dark in row) for row in grid).encode()).hexdigest()[:16]


@pytest.mark.parametrize("version", DRAWN)
def test_codes_are_those_of_another_implementation(version: int) -> None:
    room = _BLOCKS[version][0] - (2 if version < 10 else 3)
    for length, mask, expected in zip((room, room - 1, max(1, room - 9)), (0, 5, 7), DRAWN[version], strict=True):
        content = bytes((7 * place + version) % 256 for place in range(length))
        assert digest(masked_grid(content, version, mask)) == expected


def test_the_smallest_code_is_taken_and_what_fits_into_none_is_refused() -> None:
    assert [len(qr_code(b"a" * count)) for count in (1, 14, 15, 180, 181, MOST_BYTES)] == [21, 21, 25, 53, 57, 81]
    with pytest.raises(ValueError, match="at most 450 bytes"):
        qr_code(b"a" * (MOST_BYTES + 1))
    grid = qr_code(b"https://stats.example")
    assert grid in [masked_grid(b"https://stats.example", 2, mask) for mask in range(8)]
    assert path_of(grid).count("M") == sum(map(sum, grid))
