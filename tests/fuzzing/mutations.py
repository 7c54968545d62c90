"""Small changes of good inputs: of bytes, and of values inside documents."""

import json
import random
from collections.abc import Sequence

NUMBERS = (0, 1, -1, 255, 2**31, 2**53 - 1, 2**53, 2**64, -(2**63), 10**30)
TEXTS = ("", "0", "-1", "1e999", "nan", "A" * 43, "\u0000", "\ud800", "\u202e", "x" * 300)
PIECES = (
    b"\x00",
    b"\x80",
    b"\xff" * 4,
    b"\x80" * 6,
    b"\n",
    b'"',
    b",",
    b"{}",
    b"[" * 50,
    b"9" * 30,
    b"\xed\xa0\x80",
    b"e5",
    b"\x00" * 32,
)


def mutated(data: bytes, seeds: Sequence[bytes], chance: random.Random, is_json: bool) -> bytes:
    """Return a changed input."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        data = _document(data, chance) if is_json and chance.random() < 0.6 else _bytes(data, seeds, chance)
    return data


def _bytes(data: bytes, seeds: Sequence[bytes], chance: random.Random) -> bytes:
    place = chance.randrange(len(data) + 1)
    end = min(len(data), place + chance.choice((1, 1, 2, 4, 8, 32, 200)))
    match chance.randrange(8):
        case 0 if place < len(data):
            return data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]
        case 1 if place < len(data):
            return data[:place] + chance.randbytes(1) + data[place + 1 :]
        case 2:
            return data[:place] + data[end:]
        case 3:
            return data[:end] + data[place:]
        case 4:
            return data[:place] + chance.choice(PIECES) + data[place:]
        case 5:
            return data[:place] + chance.randbytes(1) + data[place:]
        case 6:
            other = chance.choice(seeds)
            return data[:place] + other[chance.randrange(len(other) + 1) :]
        case _:
            return data[:place]


def _document(data: bytes, chance: random.Random) -> bytes:
    """Change one value of a JSON document, and write it in the one canonical order."""
    try:
        value = json.loads(data)
        changed = _changed(value, chance)
        return json.dumps(changed, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode(
            "utf-8", "surrogatepass"
        )
    except (ValueError, RecursionError):
        return data


def _changed(value: object, chance: random.Random) -> object:
    if isinstance(value, dict) and value and chance.random() < 0.9:
        name = chance.choice(sorted(value))
        if chance.random() < 0.1:
            rest = {key: other for key, other in value.items() if key != name}
            return rest if chance.random() < 0.5 else {**rest, name + "x": value[name]}
        return {**value, name: _changed(value[name], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        place = chance.randrange(len(value))
        match chance.randrange(4):
            case 0:
                return value[:place] + value[place + 1 :]
            case 1:
                return [*value, value[place]]
        return [*value[:place], _changed(value[place], chance), *value[place + 1 :]]
    if isinstance(value, str) and value and chance.random() < 0.5:
        place = chance.randrange(len(value))
        return value[:place] + chance.choice("A_-0.9\u00e9") + value[place + 1 :]
    if isinstance(value, int) and chance.random() < 0.5:
        return value + chance.choice((-1, 1, 2, 1000))
    return chance.choice([*NUMBERS, *TEXTS, None, True, [], {}, 0.5, [[]], {"kind": []}])
