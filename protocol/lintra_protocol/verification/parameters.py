"""The sizes of a verified report, and how long its row may be."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import isqrt

from lintra_protocol.verification.fields import ELEMENT_BYTES, PRIMES

PADDING = 7
"""How many squares fill a row's squared norm up to the bound: three large ones, and four of the small rest."""

WORD_BYTES = 10
MAX_PADDED = 1 << 18
MAX_SQUARED_BOUND = (1 << 62) - 1


@dataclass(frozen=True)
class Parameters:
    """What a report of w words to N servers looks like that proves its squared norm to be at most R^2.

    The row with its padding is a matrix of L columns, word by word: word i stands in column i mod L, in row i // L,
    which is its power in the column's polynomial.
    """

    num_words: int  #: w
    num_servers: int  #: N
    squared_bound: int  #: R^2

    def __post_init__(self) -> None:
        """Refuse sizes for which nothing is proven.

        Raises:
            ValueError: in these words.
        """
        if not 0 <= self.squared_bound <= MAX_SQUARED_BOUND:
            raise ValueError(f"the squared bound of a verified report is below 2^62, got {self.squared_bound}")
        if not 1 <= self.num_words <= MAX_PADDED - PADDING:
            raise ValueError(f"a verified report has 1 to {MAX_PADDED - PADDING} words, got {self.num_words}")
        if not 2 <= self.num_servers <= 16:
            raise ValueError(f"verified reports are for 2 to 16 servers, got {self.num_servers}")

    @property
    def padded(self) -> int:
        """Return W, the words of a row and its padding."""
        return self.num_words + PADDING

    @cached_property
    def columns(self) -> int:
        """Return L, the smallest number whose square is at least W / 16."""
        return isqrt(-(-self.padded // 16) - 1) + 1

    @property
    def powers(self) -> int:
        """Return K, the words of a full column."""
        return -(-self.padded // self.columns)

    @property
    def word_bits(self) -> int:
        """Return g, the bits of a share's words at all servers but the last."""
        return 79 - (self.num_servers - 2).bit_length()

    @property
    def offset(self) -> int:
        """Return O, what the shares of a word add up to beyond the word: a multiple of 2^64."""
        return (self.num_servers - 1 << self.word_bits) + (1 << 64)

    @property
    def elements(self) -> int:
        """Return how many elements of each field a share has: 2 L blinds and K + 3 of the proof."""
        return 2 * self.columns + self.powers + 3

    @property
    def words_bytes(self) -> int:
        """Return the length of a share's words."""
        return WORD_BYTES * self.padded

    @property
    def payload_bytes(self) -> int:
        """Return the length of a share: words, then elements of one field after the other."""
        return self.words_bytes + ELEMENT_BYTES * len(PRIMES) * self.elements

    @property
    def check_elements(self) -> int:
        """Return how many elements of each field a check share has: two for each column, and one of the proof."""
        return 2 * self.columns + 1

    @property
    def check_bytes(self) -> int:
        """Return the length of one report's check share."""
        return ELEMENT_BYTES * len(PRIMES) * self.check_elements


def noised_bound(longest: int, variances: Iterable[int]) -> int:
    """Return R^2, which a noised row exceeds with probability at most e^-56, whatever row it is.

    With B2 the largest squared norm of a row, V1 and V2 the sums of the variances and of their squares, and m the
    largest one: B2 + V1 + 2 (isqrt(56 (V2 + 2 m B2)) + 1) + 112 m. Discrete Gaussian noise is sub-Gaussian, so the
    squared norm is sub-gamma like the noncentral chi-square (Birge 2001; Hsu, Kakade, Zhang 2012;
    docs/explanation/verified.md). `longest` is B2; `variances` are the squared noise parameter of every word, 0 for a
    word without noise.
    """
    of_words = list(variances)
    largest = max(of_words)
    if not largest:
        return longest
    squares = sum(variance**2 for variance in of_words)
    return longest + sum(of_words) + 2 * (isqrt(56 * (squares + 2 * largest * longest)) + 1) + 112 * largest
