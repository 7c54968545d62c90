"""A QR code of a short text (ISO/IEC 18004, bytes, level M), as the rows of its dark and light modules.

A page needs one kind of code, so this is shorter than a library would be. Its tests hold it against another one.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

Grid = list[list[bool]]

_BLOCKS: dict[int, tuple[int, int, int]] = {
    1: (16, 1, 10), 2: (28, 1, 16), 3: (44, 1, 26), 4: (64, 2, 18), 5: (86, 2, 24), 6: (108, 4, 16), 7: (124, 4, 18),
    8: (154, 4, 22), 9: (182, 5, 22), 10: (216, 5, 26), 11: (254, 5, 30), 12: (290, 8, 22), 13: (334, 9, 22),
    14: (365, 9, 24), 15: (415, 10, 24), 16: (453, 10, 28),
}  # fmt: skip
"""Of each version at level M: bytes of data, blocks, and bytes of correction in each block."""

_CENTRES: dict[int, tuple[int, ...]] = {
    1: (), 2: (6, 18), 3: (6, 22), 4: (6, 26), 5: (6, 30), 6: (6, 34), 7: (6, 22, 38), 8: (6, 24, 42), 9: (6, 26, 46),
    10: (6, 28, 50), 11: (6, 30, 54), 12: (6, 32, 58), 13: (6, 34, 62), 14: (6, 26, 46, 66), 15: (6, 26, 48, 70),
    16: (6, 26, 50, 74),
}  # fmt: skip
"""Rows and columns of the alignment patterns' centres."""

MOST_BYTES = _BLOCKS[16][0] - 3

_EXP, _LOG = [1] * 512, [0] * 256
for _power in range(1, 512):
    _EXP[_power] = _EXP[_power - 1] << 1 ^ (0x11D if _EXP[_power - 1] & 0x80 else 0)
for _power in range(255):
    _LOG[_EXP[_power]] = _power


def qr_code(content: bytes) -> Grid:
    """Return the modules of the smallest code that holds some bytes; True is dark.

    Raises ValueError if there are more than `MOST_BYTES`.
    """
    for version, (room, *_) in _BLOCKS.items():
        if len(content) + (2 if version < 10 else 3) <= room:
            masks = [masked_grid(content, version, mask) for mask in range(8)]
            return min(masks, key=_long_runs)
    raise ValueError(f"a code here holds at most {MOST_BYTES} bytes, got {len(content)}")


def masked_grid(content: bytes, version: int, mask: int) -> Grid:
    """Return the code of some bytes in one version, under one mask."""
    size = 17 + 4 * version
    modules, fixed = [[False] * size for _ in range(size)], [[False] * size for _ in range(size)]
    for row, column, dark in _patterns(version, mask, size):
        modules[row][column], fixed[row][column] = dark, True
    bits = _bits(_codewords(content, version))
    for row, column in _path(size):
        if not fixed[row][column]:
            modules[row][column] = next(bits, False) != _masked(mask, row, column)
    return modules


def path_of(grid: Grid) -> str:
    """Return the dark modules as the path of an SVG picture, in units of a module, within a margin of four."""
    return "".join(
        f"M{column + 4},{row + 4}h1v1h-1z" for row, line in enumerate(grid) for column, dark in enumerate(line) if dark
    )


def _codewords(content: bytes, version: int) -> list[int]:
    room, blocks, extra = _BLOCKS[version]
    head = f"0100{len(content):0{8 if version < 10 else 16}b}"
    text = head + "".join(f"{byte:08b}" for byte in content) + "0000"
    data = [int(text[at : at + 8].ljust(8, "0"), 2) for at in range(0, min(len(text), 8 * room), 8)]
    data += [(0xEC, 0x11)[place % 2] for place in range(room - len(data))]
    short, longer = room // blocks, room % blocks
    parts, at = [], 0
    for block in range(blocks):
        length = short + (block >= blocks - longer)
        parts.append(data[at : at + length])
        at += length
    checks = [_correction(part, extra) for part in parts]
    return [part[at] for at in range(short + 1) for part in parts if at < len(part)] + [
        check[at] for at in range(extra) for check in checks
    ]


def _correction(data: Sequence[int], count: int) -> list[int]:
    """Return the remainder of a block by the generator of Reed and Solomon."""
    generator = [1]
    for power in range(count):
        product = [*generator, 0]
        for place, value in enumerate(generator):
            product[place + 1] ^= _times(value, _EXP[power])
        generator = product
    rest = [0] * count
    for byte in data:
        factor = byte ^ rest[0]
        rest = [value ^ _times(factor, each) for value, each in zip([*rest[1:], 0], generator[1:], strict=True)]
    return rest


def _times(one: int, other: int) -> int:
    return _EXP[_LOG[one] + _LOG[other]] if one and other else 0


def _bits(codewords: Sequence[int]) -> Iterator[bool]:
    return (bool(byte >> place & 1) for byte in codewords for place in range(7, -1, -1))


def _path(size: int) -> Iterator[tuple[int, int]]:
    """Yield the places of the data: up and down in pairs of columns, from the right; the timing column is left out."""
    up = True
    for right in [*range(size - 1, 6, -2), 5, 3, 1]:
        for row in range(size - 1, -1, -1) if up else range(size):
            yield row, right
            yield row, right - 1
        up = not up


def _masked(mask: int, row: int, column: int) -> bool:
    both = row * column
    return (
        (row + column) % 2, row % 2, column % 3, (row + column) % 3, (row // 2 + column // 3) % 2, both % 2 + both % 3,
        (both % 2 + both % 3) % 2, ((row + column) % 2 + both % 3) % 2,
    )[mask] == 0  # fmt: skip


def _patterns(version: int, mask: int, size: int) -> Iterator[tuple[int, int, bool]]:
    """Yield what every code of a version holds: row, column, and whether it is dark. A later one counts."""
    for place in range(size):
        yield 6, place, place % 2 == 0
        yield place, 6, place % 2 == 0
    for top, left in ((0, 0), (0, size - 7), (size - 7, 0)):
        for row in range(max(top - 1, 0), min(top + 8, size)):
            for column in range(max(left - 1, 0), min(left + 8, size)):
                far = max(abs(row - top - 3), abs(column - left - 3))
                yield row, column, far not in (2, 4)
    centres = _CENTRES[version]
    for middle in centres:
        for other in centres:
            if (middle, other) not in ((6, 6), (6, centres[-1]), (centres[-1], 6)):
                for row in range(-2, 3):
                    for column in range(-2, 3):
                        yield middle + row, other + column, max(abs(row), abs(column)) != 1
    word = _checked(mask, 0x537, 10) ^ 0x5412  # level M is 00
    for place in range(15):
        dark = bool(word >> place & 1)
        yield (place + (place > 5) if place < 8 else size - 15 + place), 8, dark
        yield 8, (size - 1 - place if place < 8 else 15 - place - (place > 8)), dark
    yield size - 8, 8, True
    if version >= 7:
        word = _checked(version, 0x1F25, 12)
        for place in range(18):
            far, near, dark = size - 11 + place % 3, place // 3, bool(word >> place & 1)
            yield far, near, dark
            yield near, far, dark


def _checked(value: int, generator: int, count: int) -> int:
    """Return a number with the remainder of so many bits behind it."""
    rest = value << count
    for place in range(value.bit_length() + count, count, -1):
        if rest >> (place - 1) & 1:
            rest ^= generator << (place - 1 - count)
    return value << count | rest


def _long_runs(grid: Grid) -> int:
    """Return how much a reader is disturbed by five modules and more of one kind in a row or a column."""
    found = 0
    for line in [*grid, *(list(column) for column in zip(*grid, strict=True))]:
        length = 1
        for before, here in pairwise(line):
            length = length + 1 if before == here else 1
            found += 3 if length == 5 else length > 5
    return found
