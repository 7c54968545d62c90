"""Vectors of lists of reports: their tree, proofs, differences and order."""

import hashlib

import plain
from given import Vector, bad, good, hexes, identifiers, seed
from plain import b64


def manifest() -> list[Vector]:
    result = []
    for count in (0, 1, 2, 63, 64, 65, 128, 129, 192, 193, 320, 449):
        ids = identifiers(count)
        result.append(good(f"root of {count}", "merkle_root", plain.merkle_root(ids).hex(), count=count))
        for position in sorted({0, count // 2, count - 1} & set(range(count))):
            name = f"proof of {position} among {count}"
            result.append(good(name, "prove", plain.inclusion(ids, position), count=count, position=position))
    ids = identifiers(193)
    proof = plain.inclusion(ids, 70)
    siblings = proof["siblings"]
    assert isinstance(siblings, list)
    right = {"root": plain.merkle_root(ids).hex(), "count": 193, "id": ids[70].hex()} | proof
    last = {"id": ids[192].hex()} | plain.inclusion(ids, 192)
    result += [
        good("a member", "verify_inclusion", None, **right),
        good("a member of the last leaf", "verify_inclusion", None, **(right | last)),
    ]
    wrong: dict[str, dict[str, object]] = {
        "an identifier of another leaf": {"id": ids[2].hex()}, "another root": {"root": seed("root").hex()},
        "more leaves": {"count": 257},
        "a step less": {"siblings": siblings[:-1]}, "no siblings": {"siblings": []},
        "a step more": {"siblings": [*siblings, seed("x").hex()]},
        "siblings in another order": {"siblings": siblings[::-1]},
        "another leaf": {"leaf": 0}, "no leaf of this list": {"leaf": 4},
        "half an identifier": {"leaf_ids": str(proof["leaf_ids"])[:-32]},
        "an identifier less": {"leaf_ids": str(proof["leaf_ids"])[:-64]},
        "an identifier put in": {"leaf_ids": seed("x").hex() + str(proof["leaf_ids"])[64:], "id": seed("x").hex()},
    }  # fmt: skip
    result += [
        bad(name, "verify_inclusion", "inventory_mismatch", **(right | change)) for name, change in wrong.items()
    ]
    return result + _absences() + _lists(identifiers(5))


def _absences() -> list[Vector]:
    ids = identifiers(193)
    between = {
        "before all": 0, "within a leaf": 71, "between two leaves": 128, "before the last leaf": 192, "behind all": 193,
    }  # fmt: skip
    right: dict[str, dict[str, object]] = {}
    for name, place in between.items():
        # One more than what stands before it, or nothing but zeros: no hash of an example.
        wanted = (int.from_bytes(ids[place - 1], "big") + 1).to_bytes(32, "big") if place else bytes(32)
        right[name] = {
            "root": plain.merkle_root(ids).hex(), "count": 193, "id": wanted.hex(), "leaves": plain.absence(ids, wanted)
        }  # fmt: skip
    none = {"root": plain.H("merkle empty").hex(), "count": 0, "id": seed("x").hex(), "leaves": []}
    two, one = right["between two leaves"], right["within a leaf"]
    first, second = plain.absence(ids, bytes.fromhex(str(two["id"])))
    wrong: dict[str, dict[str, object]] = {
        "one of two neighbours": two | {"leaves": [first]}, "the other one": two | {"leaves": [second]},
        "neighbours in another order": two | {"leaves": [second, first]}, "a leaf twice": two | {"leaves": [first] * 2},
        "leaves that are no neighbours": two | {"leaves": [plain.inclusion(ids, 0), second]},
        "three leaves": two | {"leaves": [plain.inclusion(ids, 0), first, second]}, "no leaf": one | {"leaves": []},
        "a member": one | {"id": ids[70].hex()},
        "an identifier of another leaf": one | {"id": ids[3].hex()[:-2] + "00"},
        "an empty list of another root": none | {"root": one["root"]},
        "an empty list with a leaf": one | {"count": 0},
        "another count": one | {"count": 257},
    }  # fmt: skip
    return [
        good("absent from an empty list", "verify_absence", None, **none),
        *(good(f"absent {name}", "verify_absence", None, **case) for name, case in right.items()),
        *(good(f"absent {name}", "prove_absence", case["leaves"], count=193, id=case["id"])
          for name, case in right.items()),
        *(bad(f"absent: {name}", "verify_absence", "inventory_mismatch", **case) for name, case in wrong.items()),
    ]  # fmt: skip


def _lists(ids: list[bytes]) -> list[Vector]:
    own, other = ids[:4], sorted([ids[0], ids[2], ids[4]])
    gaps = plain.positions([1, 3]).hex()
    named = {"own": hexes(own), "missing": gaps, "extra": hexes([ids[4]])}
    fits, message = "inventory_mismatch", "invalid_message"
    far = [0, 1, 129, 130, 300, 16_700, 2_200_000, 300_000_000]
    return [
        good("a difference", "difference", {"missing": gaps, "extra": hexes([ids[4]])},
             own=hexes(own), other=hexes(other)),
        good("a difference in pieces", "pieces",
             [len(gaps) // 2, [b64(hashlib.sha256(bytes.fromhex(gaps) + ids[4]).digest())]],
             own=hexes(own), other=hexes(other)),
        good("a list rebuilt", "rebuild", hexes(other), **named),
        bad("missing what is not there", "rebuild", fits, **(named | {"missing": plain.positions([4]).hex()})),
        bad("adding what is there", "rebuild", fits, **(named | {"extra": [ids[0].hex()]})),
        bad("adding what was taken out", "rebuild", fits, **(named | {"extra": [ids[1].hex()]})),
        bad("adding twice", "rebuild", message, **(named | {"extra": hexes([ids[4]] * 2)})),
        bad("adding half an identifier", "rebuild", message, **(named | {"extra": ["00" * 16]})),
        good("positions", "positions", far, data=plain.positions(far).hex()),
        good("no positions", "positions", [], data=""),
        bad("a position cut off", "positions", message, data="80"),
        bad("a position spelled longer", "positions", message, data="018000"),
        bad("a position too large", "positions", message, data="808080808001"),
        good("three lists", "intersection", hexes([ids[0], ids[2]]), lists=[hexes(own), hexes(other), hexes(ids)]),
        good("sorting", "sorted_ids", hexes(ids), ids=hexes(ids[::-1])),
        bad("an identifier twice", "sorted_ids", message, ids=hexes([ids[0], ids[0]])),
        bad("31 bytes", "sorted_ids", message, ids=["00" * 31]),
        good("a list in bytes", "parse_ids", hexes(ids), data=b"".join(ids).hex(), maximum=5),
        bad("a broken list", "parse_ids", message, data=b"".join(ids)[:-1].hex(), maximum=5),
        bad("a list out of order", "parse_ids", message, data=b"".join(ids[::-1]).hex(), maximum=5),
        bad("a list with a repetition", "parse_ids", message, data=(ids[0] + ids[0]).hex(), maximum=5),
        bad("too long a list", "parse_ids", "message_too_large", data=b"".join(ids).hex(), maximum=4),
    ]  # fmt: skip
