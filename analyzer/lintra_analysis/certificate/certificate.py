"""The certificate of a release: what was released, from whom, how private it is, and what nobody promised.

It is signed by the analyzer and named by its own hash. Together with the cohort's identifiers and the released numbers
it lets an auditor derive seed, public matrix and privacy statement again.
"""

import hashlib
import io
import math
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from pydantic import StringConstraints

from lintra_protocol.crypto.ring import IntArray, ring_bytes, to_ring
from lintra_protocol.crypto.signing import verify
from lintra_protocol.encoding.canonical import base64url, domain_hash
from lintra_protocol.encoding.documents import Count, Frozen, Key, Real, ServerIndex, float_of, omitted, rounded_up
from lintra_protocol.errors import InvalidReleaseError
from lintra_protocol.privacy.statement import IfColluding, PrivacyStatement
from lintra_protocol.task import Task

TRUSTED = (
    "privacy holds as long as at least one of the servers follows the protocol and at most max_corrupt_clients "
    "clients leave out their noise; the analyzer and the network are not trusted"
)
TRUSTED_SERVER = (
    "privacy holds as long as at least one of the servers follows the protocol, keeps its shares to itself and adds "
    "its noise, once, however many other clients are corrupt; the analyzer and the network are not trusted"
)
"""Where servers add the noise."""

NOT_PROMISED = (
    "that somebody took part is not hidden: report identifiers and the size of the cohort are visible",
    "that at most max_corrupt_clients clients leave out their noise is an assumption, which nobody checks",
    "that a row lies within its bounds is checked by its own client only: there is no range proof",
    "that the numbers are right needs all servers to be honest; a server that errs is not found out by this record",
    "other tasks over the same rows have their own privacy loss, which adds up",
)

_COUNTED, _UNVERIFIED = NOT_PROMISED[1], NOT_PROMISED[2]
ALL_SERVERS = (
    "if all servers collude they see every row as it was sent: the reports have no noise of their own; and that a "
    "server added its noise is nothing that anybody can check"
)
"""Where servers add the noise, in the place of what is said of clients that leave theirs out."""

VERIFIED = (
    "a hostile client may have sent any report whose norm is at most R (see `verification`), also one that no row "
    "gives; and if a server colludes with a client, its report may be longer, or reports of others may be left out"
)
"""Of a verified task, in the place of what is said of bounds that nobody else checks."""


NOT_WITNESSED = "not witnessed: if both of its folders were set back together nobody would have noticed"

_WORD, _NPY_HEADER = 8, 1024
"""Bytes of a number in an archive, and at most so many before the first of an array."""


class RecordedNoise(Frozen):
    """The noise in the released numbers.

    Attributes:
        sigma: deviation of one client's noise, or of one server's, in steps of the ring (off the diagonal, for second
            moments).
        step_bits: one step of the ring is worth 2^-step_bits, in normalised units (squared, for second moments).
        step: the same as a number.
        smoothing: parameter of each server's noise in every released number, in steps of the ring, beside that of
            clients (of second moments off the diagonal); 0 for none.
        fewest_reports: in any row of the released numbers; a number in a row of r reports has a deviation of sigma *
            sqrt(r) steps, smoothing aside, before a sketch is divided by the root of its sparsity; where servers add
            the noise, of sigma * sqrt(servers) steps.
        most_reports: in any row.
        smallest_sd: deviation in the row with the fewest, in normalised units.
        largest_sd: deviation in the row with the most.
        servers: how many add the noise, each its own to every number; left out where clients do.
    """

    sigma: Count
    step_bits: Count
    step: Real
    smoothing: Count
    fewest_reports: Count
    most_reports: Count
    smallest_sd: Real
    largest_sd: Real
    servers: Count = omitted(0)


class RecordedClipping(Frozen):
    """What the clip counter says: how many rows a bound of a column or of the norm changed.

    Attributes:
        rows: the noisy count, which may be negative.
        sd: deviation of its noise, in rows, rounded up.
        upper_share: upper end at 95 %, as a part of all rows, rounded up.
        words: what that means for the answers.
    """

    rows: Real
    sd: Real
    upper_share: Real
    words: str


class Plausibility(Frozen):
    """Rows with an entry that clients within their bounds would hardly ever give; flagged, never dropped.

    Attributes:
        deviations: the threshold, in deviations of an honest row's entry.
        false_alarm: bound on the chance that an honest cohort has any such row.
        flagged_rows: their numbers.
        totals: what cannot be about the totals of organisations, each in words; left out where there is nothing.
    """

    deviations: Real
    false_alarm: Real
    flagged_rows: tuple[Count, ...]
    totals: tuple[str, ...] = omitted(())


class RecordedWindow(Frozen):
    """Which window was released, and what all that one source may send to the task promises.

    Attributes:
        begins: seconds since the epoch.
        ends: seconds since the epoch; the grace comes after it.
        reports_per_source: in how many windows one source may answer.
        together: the privacy of so many of the worst windows that the servers release; `privacy` is that of this one,
            of one report in it.
        first: of the windows that were merged into it, if any were; `begins` is when that one did.
        of_one_source: the privacy of this release for a source that answered each of them.
    """

    begins: Count
    ends: Count
    reports_per_source: Count
    together: PrivacyStatement
    first: Count | None = omitted(None)
    of_one_source: PrivacyStatement | None = omitted(None)


class RecordedVerification(Frozen):
    """What servers proved of every report that was released, and how many they left out for want of a proof.

    Attributes:
        frozen_root: of the cohort that was checked; the release is of those of it that were accepted.
        frozen: how many they were.
        rejected: reports whose proof failed.
        max_rejected: largest part of the cohort that may fail.
        check_seed: that the points of all checks come from.
        checks: hash of the check shares of all servers, which give the verdict.
        squared_bound: R^2 in squared steps of the ring: no noised report in the release is longer.
        influence: R in normalised units: by so much in norm one hostile report can move the released sums.
    """

    frozen_root: Key
    frozen: Count
    accepted: Count
    rejected: Count
    max_rejected: Real
    check_seed: Key
    checks: Key
    squared_bound: Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,18})$")]
    influence: Real


class ServerPart(Frozen):
    """What one server contributed: its nonce, and the hash of its sealed sketch share.

    Attributes:
        nonce: its part of the seed; in a verified task its second one.
        reports: how many it held when it closed the batch.
        left_out: how many of these are in no release, since some other server lacks them.
        lost: how many more it had acknowledged and lost, at most; left out if none is.
        witnessed: whether its inventory says that it had a witness; left out if not.
        remembered: earlier windows whose remembered noise entered, in a stream; else left out.
    """

    server: ServerIndex
    identity_key: Key
    reports: Count
    left_out: Count
    lost: Count = omitted(0)
    witnessed: bool = omitted(False)
    nonce: Key
    remembered: tuple[Count, ...] | None = omitted(None)
    sketch_share: Key


class ReleaseRecord(Frozen):
    """Everything about a release but its numbers.

    Attributes:
        definition: SHA-256 of the canonical task definition, without label.
        privacy: of the actual cohort and matrix, spelled in decimal strings, rounded up.
        values: hash of the released integers, little-endian in row order.
        clipped: what the clip counter says; left out of a release without one.
        window: which one it is; left out where the task has no windows.
        verification: of a verified task; `cohort_root` and `num_clients` are of the accepted reports then.
        released_at: seconds since the epoch.
    """

    kind: Literal["release"] = "release"
    task_id: Key
    definition: Key
    batch: Count
    mechanism: str
    rows: Count
    words: Count
    cohort_root: Key
    num_clients: Count
    seed: Key
    inventories: Key
    servers: tuple[ServerPart, ...]
    values: Key
    privacy: PrivacyStatement
    noise: RecordedNoise
    plausibility: Plausibility
    clipped: RecordedClipping | None = omitted(None)
    window: RecordedWindow | None = omitted(None)
    verification: RecordedVerification | None = omitted(None)
    analyzer_key: Key
    released_at: Count

    @property
    def release_id(self) -> str:
        """Return the hash that names the release."""
        return base64url(domain_hash("release", self.canonical()))


class SignedRecord(Frozen):
    """A record and the analyzer's signature over its canonical encoding."""

    record: ReleaseRecord
    signature: Key

    def verified(self, public_key: str) -> ReleaseRecord:
        """Return the record."""
        verify(public_key, self.signature, self.record.kind, self.record.canonical())
        return self.record


def witness_lines(record: ReleaseRecord, task: Task) -> list[str]:
    """Return for each server in words whether it had a witness when it closed the batch."""
    return [
        f"server {task.servers[part.server].url}: {'witnessed' if part.witnessed else NOT_WITNESSED}"
        for part in record.servers
    ]


def stated(
    privacy: PrivacyStatement, remark: str, if_colluding: Mapping[int, float], *, verified: bool = False
) -> PrivacyStatement:
    """Return a statement as a record holds it: with what its mechanism says beside it, and who has to be trusted.

    Numbers below 1e-23 are rounded up to the digits that a document spells, so that a record is what it is read as.
    """
    return replace(
        privacy,
        epsilon=_spelled(privacy.epsilon),
        delta=_spelled(privacy.delta),
        mu=_spelled(privacy.mu),
        slack=_spelled(privacy.slack),
        delta_coalition=_spelled(privacy.delta_coalition),
        delta_shares=_spelled(privacy.delta_shares),
        leverage=_spelled(privacy.leverage),
        remark=remark,
        if_colluding=tuple(
            IfColluding(percent, _spelled(epsilon) if epsilon < math.inf else math.inf)
            for percent, epsilon in if_colluding.items()
        ),
        trusted=TRUSTED_SERVER if privacy.noise == "servers" else TRUSTED,
        not_promised=tuple(_said(line, privacy, verified=verified) for line in NOT_PROMISED),
    )


def _said(line: str, privacy: PrivacyStatement, *, verified: bool) -> str:
    """Return what takes the place of a line of `NOT_PROMISED`, mostly itself."""
    if line == _UNVERIFIED and verified:
        return VERIFIED
    return ALL_SERVERS if line == _COUNTED and privacy.noise == "servers" else line


def _spelled(value: float) -> float:
    return float_of(rounded_up(value))


def definition_hash(task: Task) -> str:
    """Return the plain SHA-256 of the canonical definition, which any tool can compute."""
    return base64url(hashlib.sha256(task.canonical()).digest())


def values_hash(sketch: IntArray) -> str:
    """Return the hash of the released integers of shape `(m, w/c)`."""
    return base64url(domain_hash("release values", ring_bytes(to_ring(sketch))))


def require_values(record: ReleaseRecord, sketch: IntArray) -> None:
    """Check that numbers are those that a record was written for, shape included, or raise InvalidReleaseError."""
    if sketch.shape != (record.rows, record.words) or values_hash(sketch) != record.values:
        raise InvalidReleaseError(f"the stored numbers are not those of release {record.release_id}")


def numbers_in(record: ReleaseRecord, data: bytes) -> tuple[IntArray, IntArray]:
    """Return the integers, shape `(m, w/c)`, and row counts, shape `(m,)`, in the bytes of a release's .npz file.

    Raises InvalidReleaseError if the file is not what the record describes.
    """
    most = {"sketch.npy": record.rows * record.words, "row_counts.npy": record.rows}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as members:
            # A few bytes may unfold to any number of them: nothing is read that could not be what the record describes.
            if any(members.getinfo(name).file_size > _WORD * size + _NPY_HEADER for name, size in most.items()):
                raise ValueError("more numbers than the record describes")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            sketch, row_counts = arrays["sketch"], arrays["row_counts"]
    except (ValueError, KeyError, OSError, EOFError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error):
        raise InvalidReleaseError(f"the archived file of release {record.release_id} is damaged") from None
    if sketch.dtype != np.int64 or row_counts.dtype != np.int64:
        raise InvalidReleaseError(f"the archived file of release {record.release_id} holds other numbers")
    require_values(record, sketch)
    return sketch, row_counts
