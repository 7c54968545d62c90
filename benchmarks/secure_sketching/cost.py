"""Tables 4, 6 and 7: running time and bytes of the linear step, m = 100, d = 10.

Theirs is the time of a secure computation between servers in one cloud region (three or two t3.large); ours the CPU of
one server of this machine, which derives the public matrix and multiplies it with its shares, and sends nothing to the
other servers meanwhile. A share of the sketch goes to the analyzer.
"""

import math
import time

import numpy as np
from showing import Cell, Shown, spread

from lintra_protocol.mechanisms import Osnap
from lintra_server.batches.transform import add_reports

COLUMNS, ROWS, BLOCK = 10, 100, 50_000
BY_CLIENTS = {100_000: (0.172, 24.024), 250_000: (0.457, 60.024), 500_000: (0.861, 120.024)}
BY_CLIENTS |= {750_000: (1.219, 180.024), 1_000_000: (1.641, 240.024)}
BY_SPARSITY = {1: (0.851, 80.016), 10: (6.863, None), 20: (13.0, None), 30: (20.4, None), 40: (28.0, None)}
BY_SPARSITY |= {50: (33.7, 4000.016)}
TWO_SERVERS = {1_000_000: (1.683, 160.016)}
NOTE = (
    "Theirs: seconds and MB as printed, on their machines. Ours: CPU seconds of one server, {runs} runs, columns of "
    "the matrix derived. MB are what all clients send to all servers in ring words, and with seeds, where one server "
    "gets words and the others 32 bytes each, and every server's share of the sketch. Sealing is not in either."
)


def server_seconds(count: int, sparsity: int, seed: int) -> float:
    """Return the CPU seconds in which one server multiplies its shares."""
    rng = np.random.default_rng([6, seed])
    shares = rng.integers(0, 2**64, (min(count, 500_000), COLUMNS), np.uint64)
    rows = max(ROWS, sparsity * math.ceil(ROWS / sparsity))
    mechanism = Osnap(row_bound="1", fraction_bits=0, sigma=8, rows=rows, sparsity=sparsity)
    matrix = mechanism.public_matrix(count, bytes([seed]) * 32)
    sketch = np.zeros((rows, COLUMNS), np.uint64)
    began = time.process_time()
    for start in range(0, count, BLOCK):
        here = np.arange(start, min(start + BLOCK, count))
        add_reports(matrix, sketch, here, shares[here % len(shares)])
    return time.process_time() - began


def megabytes(count: int, servers: int) -> tuple[float, float]:
    """Return what words and what seeded shares take, with the servers' shares of the sketch."""
    released = 8 * ROWS * COLUMNS * servers
    words = 8 * COLUMNS * count * servers
    seeds = count * (8 * COLUMNS + 32 * (servers - 1))
    return (words + released) / 1e6, (seeds + released) / 1e6


def mb(value: float | None) -> str | None:
    """Return megabytes as the paper prints them."""
    return None if value is None else f"{value:.3f}"


def by_clients(name: str, servers: int, full: bool, runs: int) -> Shown:
    """Return Table 4 (three servers) or 7 (two)."""
    printed = BY_CLIENTS if servers == 3 else {**dict.fromkeys(BY_CLIENTS, (None, None)), **TWO_SERVERS}
    rows: list[tuple[Cell, ...]] = []
    for count, (seconds, size) in printed.items():
        if not full and count > 250_000:
            continue
        ours = spread(server_seconds(count, 1, run) for run in range(runs))
        rows.append((count, seconds, mb(size), ours, *map(mb, megabytes(count, servers))))
    return Shown(
        name,
        f"Running time and bytes, {servers} servers, m = {ROWS}, d = {COLUMNS}, s = 1",
        ("n", "theirs, s", "theirs, MB", "ours, CPU s of a server", "ours, MB of words", "ours, MB with a seed"),
        tuple(rows),
        NOTE.format(runs=runs),
    )


def by_sparsity(full: bool, runs: int) -> Shown:
    """Return Table 6: s entries a column. A client here sends one row whatever s is, theirs sends s."""
    count = 500_000 if full else 100_000
    rows: list[tuple[Cell, ...]] = []
    for sparsity, (seconds, size) in BY_SPARSITY.items():
        ours = spread(server_seconds(count, sparsity, run) for run in range(runs))
        rows.append((sparsity, seconds, seconds * count / 500_000, mb(size), ours, mb(megabytes(count, 2)[0])))
    return Shown(
        "table-6",
        f"Running time by sparsity, d = {COLUMNS}: theirs at n = 500,000, ours at n = {count:,}",
        (
            "s",
            "theirs, s",
            "theirs for our n, in proportion",
            "theirs, MB",
            "ours, CPU s of a server",
            "ours, MB of words, two servers",
        ),
        tuple(rows),
        NOTE.format(runs=runs) + " Its caption says three servers; its megabytes are those of two.",
    )
