"""Vectors of verified reports: every step from a row to the verdict, and every lie that it must find."""

from math import isqrt

import plain
import plain_verified as verified
from given import Vector, bad, claim, definition, good, hexes, identifiers, seed, task_id, texts
from plain import b64, canonical
from plain_verified import PRIMES, ROOTS, Share, Sizes

SMALL = Sizes(2, 2, 100)
ROW = [3, -4]
BLINDS = [[10 * t + 1, 10 * t + 2] for t in range(4)]
CHECK_SEED, SHARE_SEED = bytes(range(32)), bytes(range(32, 64))


def verified_reports() -> list[Vector]:
    return _bounds() + _steps() + _reports() + _refused() + _lies() + _tasks()


def _sizes(sizes: Sizes) -> dict[str, object]:
    return {"words": sizes.words, "servers": sizes.servers, "bound": str(sizes.bound)}


def _bounds() -> list[Vector]:
    cases = [(2**48, [2**40] * 78), (10**12, [10**10, 10**10, 225 * 10**8]), (100, [16])]
    result = [
        good(f"R^2 beside {longest}", "noised_bound", str(verified.squared_bound(longest, variances)),
             longest=str(longest), variances=texts(variances))
        for longest, variances in cases
    ]  # fmt: skip
    for words, servers in ((2, 2), (12, 3), (78, 4), (1326, 5), (5151, 16), (2**18 - 7, 9)):
        sizes = Sizes(words, servers, 0)
        output = [sizes.padded, sizes.columns, sizes.powers, sizes.bits, str(sizes.offset)]
        given = {"words": words, "servers": servers}
        result.append(good(f"sizes of {words} words for {servers} servers", "verified_sizes", output, **given))
    return result


def _steps() -> list[Vector]:
    """V1 to V7 and V9 of the design: one small report, step by step."""
    row, long = ROW, [2**20, -(2**19), 7]
    a = row + verified.padding(row, 100)
    elements = [own + verified.proof(SMALL, a, own, t) for t, own in enumerate(BLINDS)]
    first = verified.seed_share(SMALL, SHARE_SEED)
    last = verified.last_share(SMALL, a, elements, [first])
    at = verified.points(CHECK_SEED)
    checks = [verified.check_share(SMALL, j, share, at) for j, share in enumerate((first, last))]
    return [
        good("the padding of 3, -4", "padded", texts(a), row=texts(row), **_sizes(SMALL)),
        good("the padding of a long row", "padded", texts(long + verified.padding(long, 2**48)), row=texts(long),
             **_sizes(Sizes(3, 2, 2**48))),
        good("four squares", "four_squares", [verified.four_squares(n) for n in (4, 7, 724)], numbers=[4, 7, 724]),
        good("the proof of 3, -4", "proof", [texts(own[2:]) for own in elements], words=texts(a),
             blinds=[texts(own) for own in BLINDS], sizes=_sizes(SMALL)),
        good("check points", "check_points", texts(at), seed=CHECK_SEED.hex()),
        good("a share of a seed", "expand_proven", verified.payload(first).hex(), seed=SHARE_SEED.hex(),
             **_sizes(SMALL)),
        good("the last share beside it", "last_share", verified.payload(last).hex(), row=texts(a),
             elements=[texts(own) for own in elements], others=[verified.payload(first).hex()], sizes=_sizes(SMALL)),
        *(
            good(f"the check share of server {j}", "check_share", [texts(own) for own in checks[j]], server=j,
                 payload=verified.payload(share).hex(), points=texts(at), **_sizes(SMALL))
            for j, share in enumerate((first, last))
        ),
        _judged("3, -4 is short", SMALL, [first, last]),
        good("the check seed", "check_seed", verified.check_seed(*_frozen()).hex(), task=canonical(_task()),
             batch=0, root=_frozen()[2].hex(), nonces=hexes(_frozen()[3])),
    ]  # fmt: skip


def _task(**changes: object) -> dict[str, object]:
    return definition() | {"verification": "norm", "max_rejected": "0.1"} | changes


def _frozen() -> tuple[bytes, int, bytes, list[bytes]]:
    return task_id(_task()), 0, plain.merkle_root(identifiers(5)), [seed(f"nonce {index}") for index in range(3)]


def _tasks() -> list[Vector]:
    """A task says that it is verified, and how many reports may fail; where nothing is verified it says neither."""
    whole = canonical(_task())
    result = [good("a verified task", "check_task", b64(task_id(_task())), text=whole)]
    for name, token, changes in (
        ("a verified task without max_rejected", "invalid_message", {"max_rejected": None}),
        ("a verified task in which all reports may fail", "invalid_message", {"max_rejected": "1"}),
        ("verification spelled out where there is none", "invalid_message", {"verification": "none"}),
        ("max_rejected without verification", "invalid_message", {"verification": None}),
        ("noise of servers that hides too little", "false_claim", {"noise": "servers"}),
        ("verified reports in spread shares", "unsupported_feature", {"share_form": "spread"}),
        (
            "shares that cost more than a thousandth of delta",
            "invalid_task",
            {"claim": claim(delta="0.00000000000000001")},
        ),
    ):
        task = {name: value for name, value in _task(**changes).items() if value is not None}
        result.append(bad(name, "check_task", token, text=canonical(task)))
    return result


def _task_sizes(servers: int) -> Sizes:
    """Two columns of bound 1 with 4 fraction bits, and noise of deviation 100."""
    return Sizes(2, servers, verified.squared_bound(16**2, [100**2] * 2))


def _reports() -> list[Vector]:
    result = []
    for form in ("uniform", "seeded"):
        for servers in (2, 3):
            task = definition(servers=servers, share_form=form) | {"verification": "norm", "max_rejected": "0.1"}
            random = plain.keystream(seed("verified report"), 4000)
            made = verified.report(task_id(task), _task_sizes(servers), [-5, 7], 12, random, seeded=form == "seeded")
            output = {
                "report_id": made["report_id"].hex(),  # type: ignore[attr-defined]
                "header": made["header"].hex(),  # type: ignore[attr-defined]
                "shares": hexes(made["shares"]),  # type: ignore[arg-type]
            }
            inputs: dict[str, object] = {
                "task": canonical(task),
                "row": ["-5", "7"],
                "time": 12,
                "random": random.hex(),
            }
            result.append(good(f"a verified {form} report to {servers} servers", "make_report", output, **inputs))
    return result


# --- what a hostile client tries --------------------------------------------------------------------------------


def shared(a: list[int], sizes: Sizes = SMALL, blinds: list[list[int]] | None = None, name: str = "lie") -> list[Share]:
    """Share any words with a proof of them, as a client would: only the constant term may be wrong."""
    own = BLINDS if blinds is None else blinds
    elements = [each + verified.proof(sizes, a, each, t) for t, each in enumerate(own)]
    masks = [verified.seed_share(sizes, seed(f"{name} {j}")) for j in range(sizes.servers - 1)]
    return [*masks, verified.last_share(sizes, a, elements, masks)]


def squares_of(number: int, count: int) -> list[int]:
    """Numbers whose squares add up to any number, as many as a report of W words has room for."""
    found = []
    for _ in range(count - 4):
        found.append(isqrt(number))
        number -= found[-1] ** 2
    return found + verified.four_squares(number)


def lies() -> dict[str, list[Share]]:
    """Shares of reports that the verdict must reject, by the lie they tell."""
    honest, other = (
        shared([3, -4, *verified.padding(ROW, 100)]),
        shared([1, 2, *verified.padding([1, 2], 100)], name="b"),
    )
    more = [[word + 2**64 for word in honest[0][0][:1]] + honest[0][0][1:], honest[0][1]]
    flipped = [[honest[0][0][0] ^ 1, *honest[0][0][1:]], honest[0][1]]
    proof_bit = [honest[0][0], [[honest[0][1][0][0], honest[0][1][0][1], honest[0][1][0][2] ^ 1, *honest[0][1][0][3:]],
                                *honest[0][1][1:]]]  # fmt: skip
    blind_bit = [honest[0][0], [[honest[0][1][0][0] ^ 1, *honest[0][1][0][1:]], *honest[0][1][1:]]]
    swapped = [own[:2] + foreign[2:] for own, foreign in zip(honest[1][1], other[1][1], strict=True)]
    blinds = [foreign[:2] + own[2:] for own, foreign in zip(honest[1][1], other[1][1], strict=True)]
    return {
        "the padding of 3, -4 beside 4, -4": shared([4, -4, *verified.padding(ROW, 100)]),
        "a bit of a word": [tuple(flipped), honest[1]],  # type: ignore[list-item]
        "a bit of the proof": [tuple(proof_bit), honest[1]],  # type: ignore[list-item]
        "a bit of a blind": [tuple(blind_bit), honest[1]],  # type: ignore[list-item]
        "the proof of another report": [honest[0], (honest[1][0], swapped)],
        "the blinds of another report": [honest[0], (honest[1][0], blinds)],
        "shares of two reports": [honest[0], other[1]],
        "a word with 2^64 more, the same in the ring": [tuple(more), honest[1]],  # type: ignore[list-item]
        "a square that is 0 modulo 2^64": shared([2**32, 0, *squares_of(100, 7)]),
        "the bound and the product of two primes": shared(squares_of(100 + PRIMES[0] * PRIMES[1], 9)),
    }


def _judged(name: str, sizes: Sizes, shares: list[Share], check_seed: bytes = CHECK_SEED) -> Vector:
    """What the servers conclude, computed by them and not asserted here."""
    at = verified.points(check_seed)
    checks = [verified.check_share(sizes, j, share, at) for j, share in enumerate(shares)]
    payloads = [verified.payload(share).hex() for share in shares]
    passed = verified.passes(sizes, checks)
    return good(name, "judge", passed, payloads=payloads, seed=check_seed.hex(), **_sizes(sizes))


def _lies() -> list[Vector]:
    result = [_judged(name, SMALL, shares) for name, shares in lies().items()]
    assert not any(vector["output"] for vector in result)
    return result


def _refused() -> list[Vector]:
    """What a server refuses before it stores anything (R4), and what nobody computes or counts (R14, R15)."""
    first, last = (verified.payload(share) for share in shared([3, -4, *verified.padding(ROW, 100)]))
    at = 10 * SMALL.padded
    result = []
    for t, p in enumerate(PRIMES):
        place = at + 8 * SMALL.elements * t
        wrong = last[:place] + p.to_bytes(8, "little") + last[place + 8 :]
        result.append(bad(f"an element of field {t} that equals its prime", "require_formed", "invalid_message",
                          server=1, payload=wrong.hex(), **_sizes(SMALL)))  # fmt: skip
    large = (2**SMALL.bits).to_bytes(10, "little") + first[10:]
    refused = {"server": 0, "payload": large.hex()}
    result.append(bad("a word of 2^g at server 0", "require_formed", "invalid_message", **refused, **_sizes(SMALL)))
    result.append(good("a word of 2^g at the last server", "require_formed", None, server=1, payload=large.hex(),
                       **_sizes(SMALL)))  # fmt: skip
    for name, points in (("a point of fourth power 1", [ROOTS[0], 2, 2, 2]), ("a point of 0", [2, 2, 2, 0])):
        result.append(good(name, "usable_points", False, points=texts(points)))
    result.append(good("points that hide columns", "usable_points", True, points=texts(verified.points(CHECK_SEED))))
    honest = [verified.check_share(SMALL, j, verified.parse(SMALL, data), verified.points(CHECK_SEED))
              for j, data in enumerate((first, last))]  # fmt: skip
    bodies = [b"".join(each.to_bytes(8, "little") for own in check for each in own) for check in honest]
    above = PRIMES[0].to_bytes(8, "little") + bodies[0][8:]
    for name, given in (
        ("a check share is missing", bodies[:1]),
        ("a check share is too short", [bodies[0], bodies[1][:-8]]),
        ("a check share holds a prime", [above, bodies[1]]),
    ):
        inputs = {"bodies": hexes(given), "seed": CHECK_SEED.hex(), **_sizes(SMALL)}
        result.append(bad(name, "accepted", "invalid_message", **inputs))
    result.append(good("one server's check share twice", "accepted", False, bodies=hexes([bodies[0], bodies[0]]),
                       seed=CHECK_SEED.hex(), **_sizes(SMALL)))  # fmt: skip
    return result
