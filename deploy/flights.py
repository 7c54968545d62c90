"""The demo's rows: 327,346 flights, all columns integers, from one file that NumPy reads by itself.

See data/README.md for the source, the licence, and what each column means.
"""

import bz2
import hashlib
import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

DATA = Path(__file__).parent / "data" / "flights.npy.bz2"
NAMES = (
    "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time",
    "sched_arr_time", "air_time", "distance", "hour", "minute", "arr_delay",
)  # fmt: skip
ORDER_LABEL = b"lintra demo: order of the flights"


def load_flights(rows: int | None = None) -> tuple[FloatArray, list[str]]:
    """Load the flights as `(n, 12)` and the names of their columns; the last one is `arr_delay`.

    Args:
        rows: take this many flights, always the same ones and spread over the year; without it take them all,
            in the order of the file, which is by month.

    Raises:
        ValueError: there are not that many flights.
    """
    table = np.load(io.BytesIO(bz2.decompress(DATA.read_bytes())), allow_pickle=False)
    if rows is not None:
        if not 0 <= rows <= len(table):
            raise ValueError(f"there are {len(table)} flights, not {rows}")
        table = table[_public_order(len(table))[:rows]]
    return np.ascontiguousarray(table, dtype=np.float64), list(NAMES)


def _public_order(count: int) -> NDArray[np.int64]:
    """Return a fixed pseudorandom permutation: indices sorted by their words of a SHAKE-256 stream.

    A NumPy generator would do, but its streams may change between releases, and the demo's answer should not.
    """
    words = np.frombuffer(hashlib.shake_256(ORDER_LABEL).digest(8 * count), dtype="<u8")
    return np.argsort(words, kind="stable").astype(np.int64)
