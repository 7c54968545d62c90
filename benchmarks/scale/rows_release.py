"""Rows of a whole release: the analyzer and one server together, over the number of servers."""

import hashlib
from functools import cache

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from lintra_protocol.crypto.randomness import bulk_system_randomness
from lintra_protocol.crypto.ring import ring_from_bytes
from scale.cohort import COLUMNS, ROWS, SPARSITY
from scale.figures import Asked, Measured, cpu, row
from scale.release import ReleaseCost, release, waits
from scale.rows_transform import bare_product

MILLION, TEN_MILLION = 10**6, 10**7
FLOOR_IS = "every list of ids hashed once at both, sorted once at the server, shares decrypted, bare SciPy CSC product"


@cache
def floor_of(num_reports: int, num_servers: int) -> tuple[float, float]:
    """Return the CPU seconds that an analyzer and a server cannot avoid, from one piece of a million reports."""
    piece, random_bytes = min(num_reports, MILLION), bulk_system_randomness()
    ids = random_bytes(32 * piece)
    hashing = cpu(lambda: hashlib.sha256(ids).digest())
    words = np.frombuffer(ids, np.uint64)[::4].copy()
    sorting = cpu(np.argsort, words, kind="stable")
    cipher, shares = AESGCM(bytes(32)), random_bytes(8 * COLUMNS * piece)
    sealed = cipher.encrypt(bytes(12), shares, None)
    opening = cpu(cipher.decrypt, bytes(12), sealed, None)
    product = bare_product(ring_from_bytes(shares).reshape(piece, COLUMNS), ROWS, SPARSITY)
    times = num_reports / piece
    return times * num_servers * hashing, times * (num_servers * hashing + sorting + opening + product)


def _seconds(asked: Asked, num_reports: int, num_servers: int) -> Measured:
    found, floor = release(asked.folder, num_reports, num_servers), sum(floor_of(num_reports, num_servers))
    wire = sum(stage.wire for stage in found.stages) / 2**20
    remark = f"analyzer {found.analyzer_cpu:.2f}, server {found.server_cpu:.2f}; {wire:.0f} MiB on all wires"
    return Measured(found.cpu, floor, FLOOR_IS, remark)


def _memory(asked: Asked, num_reports: int, num_servers: int) -> Measured:
    return _memory_of(release(asked.folder, num_reports, num_servers))


def _memory_of(found: ReleaseCost) -> Measured:
    remark = f"analyzer {found.analyzer_peak:.0f}, server {found.server_peak:.0f}"
    lists = 32 * found.num_reports / 2**20
    return Measured(max(found.analyzer_peak, found.server_peak), lists, "one list of ids", remark)


@row("release_1e6_n2", "release of 10^6, N = 2: analyzer + one server", "CPU s", None)
def _two(asked: Asked) -> Measured:
    return _seconds(asked, asked.of(MILLION), 2)


@row("release_1e6_n3", "release of 10^6, N = 3: analyzer + one server", "CPU s", 5)
def _three(asked: Asked) -> Measured:
    return _seconds(asked, asked.of(MILLION), 3)


@row("release_1e6_n3_memory", "release of 10^6, N = 3: peak memory of the larger party", "MiB", 400)
def _three_memory(asked: Asked) -> Measured:
    return _memory(asked, asked.of(MILLION), 3)


@row("release_1e6_n10", "release of 10^6, N = 10: analyzer + one server", "CPU s", 8)
def _ten(asked: Asked) -> Measured:
    return _seconds(asked, asked.of(MILLION), 10)


@row("release_1e6_n10_memory", "release of 10^6, N = 10: peak memory of the larger party", "MiB", 400)
def _ten_memory(asked: Asked) -> Measured:
    return _memory(asked, asked.of(MILLION), 10)


@row("release_1e7_n3", "release of 10^7, N = 3: the busier party", "CPU s", 50, large=True)
def _large(asked: Asked) -> Measured:
    found = _largest(asked)
    floors = floor_of(found.num_reports, 3)
    remark = f"analyzer {found.analyzer_cpu:.1f}, server {found.server_cpu:.1f}"
    return Measured(max(found.analyzer_cpu, found.server_cpu), max(floors), FLOOR_IS, remark)


@row("release_1e7_n3_memory", "release of 10^7, N = 3: peak memory of the larger party", "MiB", 600, large=True)
def _large_memory(asked: Asked) -> Measured:
    return _memory_of(_largest(asked))


@row("beside_upload_1e7", "single upload to a server that releases 10^7 meanwhile: p99", "ms", None, large=True)
def _upload_beside(asked: Asked) -> Measured:
    return _beside(asked, "upload")


@row("beside_health_1e7", "`/healthz` of a server that releases 10^7 meanwhile: p99", "ms", None, large=True)
def _health_beside(asked: Asked) -> Measured:
    return _beside(asked, "health")


@row("beside_ready_1e7", "`/readyz` of a server that releases 10^7 meanwhile: p99", "ms", None, large=True)
def _ready_beside(asked: Asked) -> Measured:
    return _beside(asked, "ready")


def _largest(asked: Asked) -> ReleaseCost:
    return release(asked.folder, asked.of(TEN_MILLION), 3, asked=True)


def _beside(asked: Asked, kind: str) -> Measured:
    before, meanwhile = waits(_largest(asked), kind)
    return Measured(meanwhile.p99, before.p99, "the same before the release", f"{meanwhile}; before it {before}")
