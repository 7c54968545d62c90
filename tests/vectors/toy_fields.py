"""What verified reports rest on, tried out in fields so small that everything in them can be looked at.

Run it to see the numbers: for each toy prime how many check points the best cheat survives, and at which points the
opened numbers of a column are uniform. It shares no code with the package.
"""

import random
import sys
from collections.abc import Iterator

TOY_PRIMES = (101, 229, 1009)


def root_of_minus_one(p: int) -> int:
    return next(i for i in range(2, p) if i * i % p == p - 1)


def usable_points(p: int) -> list[int]:
    return [r for r in range(1, p) if pow(r, 4, p) != 1]


def best_cheat(p: int, powers: int, seed: int) -> list[int]:
    """Points that a liar survives who chose the polynomial with the most roots that any symmetric one can have.

    Its difference to a true one is the product of X + 1/X - s over K + 3 pairs of points, scaled so that its constant
    term is the lie. Blinds cannot help: they leave the constant term as it is.
    """
    generator = random.Random(seed)
    pairs = sorted({tuple(sorted((r, pow(r, -1, p)))) for r in usable_points(p)})
    while True:
        difference = {0: 1}
        for r, inverse in generator.sample(pairs, powers + 3):
            difference = _times(difference, {1: 1, -1: 1, 0: -(r + inverse)}, p)
        if difference.get(0, 0):
            break  # the lie is some number other than 0, and a factor makes it any other
    assert max(difference) == powers + 3
    assert all(difference.get(d, 0) == difference.get(-d, 0) for d in difference)
    return [r for r in usable_points(p) if not sum(c * pow(r, d, p) for d, c in difference.items()) % p]


def most_survived(p: int, powers: int, trials: int, seed: int) -> int:
    """The most points that any of many random lies survives; the degree says that none does better than 2K + 6."""
    generator, most = random.Random(seed), 0
    for _ in range(trials):
        upper = {d: generator.randrange(p) for d in range(1, powers + 4)}
        lie = generator.randrange(1, p)
        passed = sum(
            not (lie + sum(c * (pow(r, d, p) + pow(r, -d, p)) for d, c in upper.items())) % p for r in usable_points(p)
        )
        most = max(most, passed)
    return most


def opened_pairs(p: int, powers: int, r: int, own: list[int]) -> int:
    """How many different pairs f(r), f(1/r) a column has over all p^2 blinds: p^2 where they are uniform."""
    i, inverse = root_of_minus_one(p), pow(r, -1, p)
    at = [sum(a * pow(x, k, p) for k, a in enumerate(own)) for x in (r, inverse)]
    first = [(pow(x, powers, p) + i * pow(x, powers + 1, p)) % p for x in (r, inverse)]
    second = [(pow(x, powers + 2, p) + i * pow(x, powers + 3, p)) % p for x in (r, inverse)]
    lines = [[(at[side] + first[side] * beta) % p for beta in range(p)] for side in (0, 1)]
    steps = [[second[side] * gamma % p for gamma in range(p)] for side in (0, 1)]
    return len({
        (f + g) % p * p + (h + k) % p
        for f, h in zip(*lines, strict=True)
        for g, k in zip(*steps, strict=True)
    })  # fmt: skip


def _times(first: dict[int, int], second: dict[int, int], p: int) -> dict[int, int]:
    result: dict[int, int] = {}
    for d, a in first.items():
        for e, b in second.items():
            result[d + e] = (result.get(d + e, 0) + a * b) % p
    return result


def lines() -> Iterator[str]:
    """Say what every toy prime shows; the largest takes some seconds."""
    for p in TOY_PRIMES:
        for powers in (1, 2, 5):
            passed = len(best_cheat(p, powers, seed=p))
            yield f"p {p}, K {powers}: the best cheat survives {passed} of {p - 5} points; 2K + 6 is {2 * powers + 6}"
        yield f"p {p}, K 2: of 200 random lies none survives more than {most_survived(p, 2, 200, seed=p)}, at most 10"
        every = range(1, p) if p < 200 else [*(r for r in range(1, p) if pow(r, 4, p) == 1), 2, 3, 5, 7, 11]
        uniform = {r for r in every if opened_pairs(p, 2, r, [1, p - 1]) == p * p}
        agrees = uniform == {r for r in every if pow(r, 4, p) != 1}
        yield f"p {p}: of {len(every)} points opened pairs are uniform at exactly those with r^4 != 1: {agrees}"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in lines())
