"""One private collection of a table in one process: the task, every client's report, the release.

It is the whole protocol, bit for bit what the services do, but for the transport: nothing is sealed or sent.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lintra_analysis.asked.specification import Specification
from lintra_analysis.asked.task import PublicKeys, build_task
from lintra_analysis.readings import read
from lintra_analysis.releases.release import Release
from lintra_protocol.canonical import base64url
from lintra_protocol.ideal import release
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.randomness import RandomBytes
from lintra_protocol.report import make_report
from lintra_protocol.ring import FloatArray
from lintra_protocol.sealing import CLASSICAL, HYBRID, SealingKey
from lintra_protocol.signing import SigningKey
from lintra_protocol.task import ServerEntry, Task

NUM_SERVERS = 3
NONCE_BYTES = 32

_TOGETHER = 256
"""Rows that are encoded at once: enough to draw noise fast, few enough to stay small."""


@dataclass(frozen=True)
class Collected:
    """What one collection gave."""

    task: Task
    release: Release
    privacy: PrivacyStatement

    @property
    def noise(self) -> float:
        """Return the deviation of a released product of two columns, in normalised units."""
        mechanism = self.task.mechanism
        return math.sqrt(self.privacy.num_clients) * mechanism.sigma * 2.0**-mechanism.sigma_bits


def collect(
    specification: Mapping[str, object],
    rows: FloatArray,
    now: int,
    random_bytes: RandomBytes,
    said: Callable[[str], None] = lambda _: None,
) -> Collected:
    """Run the protocol over rows that each belong to a client of its own.

    Args:
        specification: as for a new task (docs/analyzer.md).
        rows: shape `(n, d)`, in users' units, categories as level numbers.
        now: seconds since the epoch.
        random_bytes: a cryptographic source, for keys, noise, shares and nonces.
        said: told in words how far the collection is.

    Raises:
        LintraError: the task is impossible, or a row does not fit it.
    """
    asked = Specification.model_validate(dict(specification))
    task = build_task(asked, placeholder_servers(random_bytes), placeholder_keys(random_bytes), now, random_bytes)
    checked = task.schema_arrays.rows(rows)
    reports = []
    for start in range(0, len(checked), _TOGETHER):
        said(f"making reports of the rows: {start:,} of {len(checked):,}")
        noised = task.encode(checked[start : start + _TOGETHER], random_bytes)
        reports += [make_report(task, row, task.not_before, random_bytes) for row in noised]
    sources = [random_bytes] * task.num_servers
    nonces = [random_bytes(NONCE_BYTES) for _ in sources]
    said("adding up the shares")
    released = release(task, reports, nonces, sources)
    return Collected(task, read(task, released.sketch, released.row_counts), released.privacy)


def placeholder_servers(random_bytes: RandomBytes) -> list[ServerEntry]:
    """Return servers that exist for the length of a trial."""
    keys = [SigningKey.generate(random_bytes).public_key for _ in range(NUM_SERVERS)]
    return [
        ServerEntry(url=f"https://server-{name}.invalid", identity_key=key)
        for name, key in zip("abc", keys, strict=True)
    ]


def placeholder_keys(random_bytes: RandomBytes) -> PublicKeys:
    """Return keys that exist for the length of a trial; nobody holds their private halves."""
    sealing = {suite: base64url(SealingKey.generate(suite, random_bytes).public_bytes) for suite in (HYBRID, CLASSICAL)}
    author, identity = (SigningKey.generate(random_bytes).public_key for _ in range(2))
    return PublicKeys(author, identity, sealing)
