"""The conformance data of `first_column`."""

from fractions import Fraction

from lintra_protocol.mechanisms.first_column import FirstColumn

from lintra_protocol.encoding.documents import real
from support.conformance import Conformance, Reference


def decode(words: list[list[int]], columns: int) -> list[object]:
    """Return the total as a float; 4 bits of a word lie behind the point."""
    del columns
    return [float(Fraction(word - (word >> 63 << 64), 16)) for word in words[0]]


CONFORMANCE = Conformance(
    uncalibrated=lambda small: FirstColumn(row_bound=real(small.row_bound), fraction_bits=0, sigma=4),
    decoded=lambda mechanism, row, bound: row[:1],
    run={"kind": "first_column"},
    reference=Reference(
        {"kind": "first_column", "row_bound": "1", "fraction_bits": 4, "sigma": 100}, num_words=1, decode=decode
    ),
    slow=frozenset(),
)
