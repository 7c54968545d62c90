"""Verified reports a second time, in plain integers: the proof, its shares, the check of a server, the verdict.

Polynomials are multiplied out coefficient by coefficient, and evaluated power by power.
"""

import hashlib
from dataclasses import dataclass
from itertools import product
from math import ceil, isqrt, log2

from plain import H, commitment, framed, header

PRIMES = [2**60 - 107, 2**60 - 179, 2**60 - 279, 2**60 - 395]
ROOTS = [383824447308448458, 131347044478969944, 166254837967917052, 564895608718700323]


@dataclass(frozen=True)
class Sizes:
    """Of reports of w words to N servers: W, L, K, g and O, and the squared bound R^2."""

    words: int
    servers: int
    bound: int

    @property
    def padded(self) -> int:
        return self.words + 7

    @property
    def columns(self) -> int:
        return next(L for L in range(1, 1000) if self.padded <= 16 * L * L)

    @property
    def powers(self) -> int:
        return ceil(self.padded / self.columns)

    @property
    def bits(self) -> int:
        return 79 - (0 if self.servers == 2 else ceil(log2(self.servers - 1)))

    @property
    def offset(self) -> int:
        return (self.servers - 1) * 2**self.bits + 2**64

    @property
    def elements(self) -> int:
        return 2 * self.columns + self.powers + 3


def squared_bound(longest: int, variances: list[int]) -> int:
    total, squares, largest = sum(variances), sum(v * v for v in variances), max(variances)
    return longest + total + 2 * (isqrt(56 * (squares + 2 * largest * longest)) + 1) + 112 * largest


# --- the client ---------------------------------------------------------------------------------------------


def four_squares(number: int) -> list[int]:
    """The first decreasing 4-tuple in lexicographic order."""
    sizes = range(isqrt(number) + 1)
    tuples = ([a, b, c, d] for a, b, c, d in product(sizes, repeat=4) if a >= b >= c >= d)
    return next(four for four in tuples if sum(x * x for x in four) == number)


def padding(row: list[int], bound: int) -> list[int]:
    rest, large = bound - sum(x * x for x in row), []
    for _ in range(3):
        large.append(isqrt(rest))
        rest -= large[-1] ** 2
    return large + four_squares(rest)


def polynomials(sizes: Sizes, a: list[int], blinds: list[int], t: int, root: int | None = None) -> list[list[int]]:
    """The coefficients of every column's f; `root` in the place of i lets a test leave it out."""
    i, p = ROOTS[t] if root is None else root, PRIMES[t]
    result = []
    for c in range(sizes.columns):
        beta, gamma = blinds[c], blinds[sizes.columns + c]
        own = a[c :: sizes.columns]
        own += [0] * (sizes.powers - len(own))
        result.append([*own, beta, i * beta % p, gamma, i * gamma % p])
    return result


def proof(sizes: Sizes, a: list[int], blinds: list[int], t: int) -> list[int]:
    """P_1 .. P_(K+3): the coefficients of X^d in sum f(X) f(1/X)."""
    columns = polynomials(sizes, a, blinds, t)
    return [
        sum(f[k] * f[k + d] for f in columns for k in range(len(f) - d)) % PRIMES[t] for d in range(1, sizes.powers + 4)
    ]


def read_share(sizes: Sizes, stream: bytes) -> tuple[list[int], list[list[int]], int]:
    """The words and elements that random bytes stand for, and how many bytes they took."""
    words = [int.from_bytes(stream[10 * n : 10 * n + 10], "little") % 2**sizes.bits for n in range(sizes.padded)]
    at, elements = 10 * sizes.padded, []
    for p in PRIMES:
        own, at = read_elements(p, sizes.elements, stream, at)
        elements.append(own)
    return words, elements, at


def read_elements(prime: int, count: int, stream: bytes, at: int) -> tuple[list[int], int]:
    found: list[int] = []
    while len(found) < count:
        assert at + 8 <= len(stream)
        word = int.from_bytes(stream[at : at + 8], "little") % 2**60
        found += [word] if word < prime else []
        at += 8
    return found, at


def seed_share(sizes: Sizes, seed: bytes) -> tuple[list[int], list[list[int]]]:
    stream = hashlib.shake_128(framed("verified share seed", seed)).digest(20 * sizes.padded + 64 * sizes.elements)
    return read_share(sizes, stream)[:2]


Share = tuple[list[int], list[list[int]]]


def last_share(sizes: Sizes, a: list[int], elements: list[list[int]], others: list[Share]) -> Share:
    words = [a[n] + sizes.offset - sum(share[0][n] for share in others) for n in range(len(a))]
    rest = [
        [(own[n] - sum(share[1][t][n] for share in others)) % p for n in range(len(own))]
        for t, (p, own) in enumerate(zip(PRIMES, elements, strict=True))
    ]
    return words, rest


def payload(share: Share) -> bytes:
    words = b"".join(word.to_bytes(10, "little") for word in share[0])
    return words + b"".join(element.to_bytes(8, "little") for own in share[1] for element in own)


def parse(sizes: Sizes, data: bytes) -> Share:
    words = [int.from_bytes(data[10 * n : 10 * n + 10], "little") for n in range(sizes.padded)]
    numbers = [int.from_bytes(data[at : at + 8], "little") for at in range(10 * sizes.padded, len(data), 8)]
    return words, [numbers[t * sizes.elements : (t + 1) * sizes.elements] for t in range(4)]


def report(
    task_id: bytes, sizes: Sizes, row: list[int], time: int, random: bytes, *, seeded: bool
) -> dict[str, object]:
    """Prove and share a noised row with the bytes of `random`: blinds of the proof, shares, blinds of commitments."""
    blinds, at = [], 0
    for p in PRIMES:
        own, at = read_elements(p, 2 * sizes.columns, random, at)
        blinds.append(own)
    a = row + padding(row, sizes.bound)
    elements = [own + proof(sizes, a, own, t) for t, own in enumerate(blinds)]
    others: list[Share] = []
    payloads = []
    for _ in range(sizes.servers - 1):
        if seeded:
            others.append(seed_share(sizes, random[at : at + 32]))
            payloads.append(b"\x03" + random[at : at + 32])
            at += 32
        else:
            words, own_elements, used = read_share(sizes, random[at:])
            others.append((words, own_elements))
            payloads.append(b"\x02" + payload(others[-1]))
            at += used
    payloads.append(b"\x02" + payload(last_share(sizes, a, elements, others)))
    covers = [random[at + 32 * j : at + 32 * j + 32] for j in range(sizes.servers)]
    commitments = [commitment(task_id, j, covers[j], payloads[j][:1], payloads[j][1:]) for j in range(sizes.servers)]
    head = header(task_id, time, commitments)
    shares = [cover + each for cover, each in zip(covers, payloads, strict=True)]
    return {"header": head, "report_id": H("report", head), "shares": shares}


# --- the servers ----------------------------------------------------------------------------------------------


def points(check_seed: bytes) -> list[int]:
    stream = hashlib.shake_128(framed("check points", check_seed)).digest(8 * 64)
    words = iter([int.from_bytes(stream[at : at + 8], "little") % 2**60 for at in range(0, len(stream), 8)])
    return [next(r for r in words if r < p and pow(r, 4, p) not in (0, 1)) for p in PRIMES]


def check_seed(task_id: bytes, batch: int, root: bytes, nonces: list[bytes]) -> bytes:
    return H("check seed", task_id, batch.to_bytes(8, "big"), root, *nonces)


def well_formed(sizes: Sizes, server: int, share: Share) -> bool:
    """R4: elements below their primes, words of all servers but the last below 2^g."""
    below = all(element < p for p, own in zip(PRIMES, share[1], strict=True) for element in own)
    most = 2**80 if server == sizes.servers - 1 else 2**sizes.bits
    return below and all(0 <= word < most for word in share[0])


def check_share(sizes: Sizes, server: int, share: Share, at: list[int]) -> list[list[int]]:
    """For each prime F_0 .. F_(L-1), G_0 .. G_(L-1), H; at points of fourth power 1 too, which a test tries."""
    result = []
    words = [word - (sizes.offset if server == sizes.servers - 1 else 0) for word in share[0]]
    for t, p in enumerate(PRIMES):
        r, inverse = at[t], pow(at[t], -1, p)
        columns = polynomials(sizes, words, share[1][t], t)
        sums = [[sum(f[k] * pow(x, k, p) for k in range(len(f))) % p for f in columns] for x in (r, inverse)]
        coefficients = enumerate(share[1][t][2 * sizes.columns :], 1)
        result.append([*sums[0], *sums[1], sum(P * (pow(r, d, p) + pow(inverse, d, p)) for d, P in coefficients) % p])
    return result


def passes(sizes: Sizes, checks: list[list[list[int]]], primes: range = range(4)) -> bool:
    """Whether the check shares of all servers add up; `primes` lets a test leave some out."""
    for t in primes:
        total = [sum(check[t][n] for check in checks) % PRIMES[t] for n in range(2 * sizes.columns + 1)]
        pairs = zip(total[: sizes.columns], total[sizes.columns : -1], strict=True)
        if (sum(f * g for f, g in pairs) - sizes.bound - total[-1]) % PRIMES[t]:
            return False
    return True
