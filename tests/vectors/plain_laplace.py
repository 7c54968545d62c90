"""A client's share of Laplace noise a second time, in plain Python; it shares no code with the package.

Written from docs/proofs/laplace.md, to be read beside it. The distribution function is added up in decimal numbers of
a hundred digits, and a word that they do not settle is refused.
"""

from decimal import Decimal, localcontext
from fractions import Fraction

DIGITS, DOUBT = 100, Fraction(1, 10**80)


def share(scale: int, shares: int, words: list[int]) -> int:
    """Return one share from two words: the value at the first uniform real less the value at the second."""
    positive, negative = (value(scale, shares, word) for word in words)
    return positive - negative


def value(scale: int, shares: int, word: int) -> int:
    """Return the least k whose distribution function is above the reals that begin with the 64 bits of a word."""
    low, high = Fraction(word, 2**64), Fraction(word + 1, 2**64)
    with localcontext(prec=DIGITS):
        chance = Fraction((-(Decimal(scale + 1).ln() / shares)).exp())
    total, k = chance, 0
    while total <= low:
        # Rounded to many more digits than a word has, so that the terms stay short.
        chance = chance * scale * (k * shares + 1) / ((scale + 1) * shares * (k + 1))
        chance = Fraction(int(chance * 10**DIGITS), 10**DIGITS)
        total, k = total + chance, k + 1
    assert total - DOUBT >= high, "more digits are needed"
    return k
