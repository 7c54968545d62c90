"""One private collection of a table in one process: the task, every client's report, the release.

It computes the same bits as the services do; only the transport is left out: nothing is sealed or sent.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lintra_analysis.estimators.newton import stops
from lintra_analysis.kinds.decode import read
from lintra_analysis.kinds.released_parts import nothing_earlier
from lintra_analysis.releases.release import Release
from lintra_analysis.spec.build_task import PartyKeys, build_task
from lintra_analysis.spec.second_round import build_second_task
from lintra_analysis.spec.specification import Specification
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray, from_ring
from lintra_protocol.crypto.sealing import CLASSICAL, HYBRID, SealingKey
from lintra_protocol.crypto.sharing import combine
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.ideal import server_sketch_share
from lintra_protocol.mechanisms.noise_law import summed_deviation
from lintra_protocol.messages.documents import BATCH
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.report.report import Report, make_report, make_reports
from lintra_protocol.rules.release import check_cohort, draw_matrix
from lintra_protocol.task import ServerEntry, Task

NUM_SERVERS = 3
NONCE_BYTES = 32

_TOGETHER = 256
_WORDS_TOGETHER = 1 << 20
"""Rows, and their words, that are encoded at once: enough to draw noise fast, few enough to stay small."""


@dataclass(frozen=True)
class Collected:
    """What one collection gave.

    Attributes:
        exact: the release of the same rows without noise; of second moments only.
        contributions: of organisations what each sent, before noise, shape `(w,)`.
    """

    task: Task
    release: Release
    privacy: PrivacyStatement
    exact: Release | None = None
    contributions: tuple[IntArray, ...] = ()

    @property
    def noise(self) -> float:
        """Return the deviation of a released product of two columns, in normalised units."""
        mechanism = self.task.mechanism
        draws = self.task.setting.draws(self.privacy.num_clients)
        of_servers = self.task.num_servers * self.task.measurement.layout.floor.deviation**2
        return summed_deviation(mechanism.sigma, draws, of_servers) * 2.0**-mechanism.sigma_bits


def collect(
    specification: Mapping[str, object],
    rows: FloatArray,
    now: int,
    random_bytes: RandomBytes,
    said: Callable[[str], None] = lambda _: None,
    files: Sequence[tuple[IntArray, IntArray]] = (),
) -> Collected:
    """Run the protocol over rows that each belong to a client of its own, or to organisations with one report each.

    `rows` has shape `(n, d)`, in users' units, categories as level numbers. `said` is told in words how far the
    collection is. `files` has for each organisation the places of its rows, and whose each is, numbered from 0. All
    reports are added to one row of the release.
    """
    return collect_task(trial_task(specification, now, random_bytes), rows, random_bytes, said, files)


def collect_task(
    task: Task,
    rows: FloatArray,
    random_bytes: RandomBytes,
    said: Callable[[str], None] = lambda _: None,
    files: Sequence[tuple[IntArray, IntArray]] = (),
    before: Release | None = None,
) -> Collected:
    """Run the protocol over rows for a task that is there (see `collect`); `before` is the release of its round before.

    `rows` has shape `(n, d)`, in users' units.
    """
    checked = task.schema_arrays.rows(rows)
    nonces = [random_bytes(NONCE_BYTES) for _ in range(task.num_servers)]
    normalised = (task.schema_arrays.normalise(checked[own]) for own, _ in files)
    exact = [
        task.measurement.exact_contribution(own, of, random_bytes)
        for own, (_, of) in zip(normalised, files, strict=True)
    ]
    made = _contributed(task, exact, random_bytes, said) if files else _reports(task, checked, random_bytes, said)
    collected = added_up(task, made, nonces, random_bytes, before)
    collected = replace(collected, contributions=tuple(exact))
    if task.mechanism.kind != "second_moment":
        return collected
    sums = np.sum(exact, axis=0) if files else exact_sums(task, checked, random_bytes)
    counts = np.array([len(files) or len(checked)], np.int64)
    return replace(collected, exact=read(task, sums[np.newaxis], counts))


def exact_sums(task: Task, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Return the sum of all noiseless reports, shape `(w,)`, some of them at a time."""
    total, together = np.zeros(task.num_words, np.int64), max(1, _WORDS_TOGETHER // task.num_words)
    normalised, outside = task.schema_arrays.normalise(rows), task.schema_arrays.outside(rows)
    for start in range(0, len(rows), together):
        some = slice(start, start + together)
        total += task.measurement.exact_reports(normalised[some], outside[some], random_bytes).sum(axis=0)
    return total


def _reports(
    task: Task, rows: FloatArray, random_bytes: RandomBytes, said: Callable[[str], None]
) -> Iterator[list[Report]]:
    """Yield the reports of all rows, some at a time."""
    together = max(1, min(_TOGETHER, _WORDS_TOGETHER // task.num_words))
    for start in range(0, len(rows), together):
        said(f"making reports of the rows: {start:,} of {len(rows):,}")
        noised = task.encode(rows[start : start + together], random_bytes)
        yield make_reports(task, noised, task.not_before, random_bytes)


def _contributed(
    task: Task, exact: Sequence[IntArray], random_bytes: RandomBytes, said: Callable[[str], None]
) -> Iterator[list[Report]]:
    """Yield the report of each organisation."""
    for number, contribution in enumerate(exact, 1):
        said(f"making the reports of organisations: {number:,} of {len(exact):,}")
        noised = task.measurement.noised(contribution, random_bytes)
        yield [make_report(task, noised, task.not_before, random_bytes)]


def collect_chain(
    specification: Mapping[str, object],
    rows: FloatArray,
    now: int,
    random_bytes: RandomBytes,
    said: Callable[[str], None] = lambda _: None,
) -> list[Collected]:
    """Run the rounds of a logistic regression over rows of clients, shape `(n, d)`, until an analyst would stop."""
    task, found = trial_task(specification, now, random_bytes), list[Collected]()
    asked = _asked(specification)
    while True:
        number = len(found) + 1
        before = found[-1].release if found else None

        def said_of_round(words: str, number: int = number) -> None:
            said(f"round {number}: {words}")

        found.append(collect_task(task, rows, random_bytes, said_of_round, before=before))
        release = found[-1].release
        if stops(release.need("newton").chain):
            return found
        task = build_second_task(asked, task, release, now, random_bytes)


def added_up(
    task: Task,
    made: Iterable[list[Report]],
    nonces: Sequence[bytes],
    random_bytes: RandomBytes,
    before: Release | None = None,
) -> Collected:
    """Compute what `ideal.release` gives where every report is added to one row, without holding all reports at once.

    The clients of a trial are honest, so the checks of a verified task are left out. `made` is all reports, some at a
    time; `nonces` are one from each server, in server order; `before` is the release of the round before.
    """
    shares = np.zeros((task.num_servers, 1, task.sketch_words), np.uint64)
    found: list[bytes] = []
    for some in made:
        ones = task.mechanism.public_matrix(len(some), bytes(NONCE_BYTES))
        shares += np.stack([server_sketch_share(task, server, some, ones) for server in range(task.num_servers)])
        found += [report.report_id for report in some]
    for share in shares:
        task.measurement.add_server_noise(share, random_bytes)
    check_cohort(task, len(found), len(found))
    drawn = draw_matrix(task, BATCH, ReportIds.of(sorted(found)).root, nonces, len(found))
    counts = drawn.matrix.row_counts()
    earlier = nothing_earlier if before is None else lambda _: before
    return Collected(task, read(task, from_ring(combine(shares)), counts, earlier), drawn.privacy)


def trial_task(specification: Mapping[str, object], now: int, random_bytes: RandomBytes) -> Task:
    """Return the task of a trial; its reports are verified only if that is asked for in so many words.

    All rows of a trial are its smallest cohort, and its clients are honest: a verified task would wait for more reports
    than there are, as many as might be rejected (R5).
    """
    asked = _asked(specification)
    return build_task(asked, placeholder_servers(random_bytes), placeholder_keys(random_bytes), now, random_bytes)


def _asked(specification: Mapping[str, object]) -> Specification:
    return Specification.model_validate({"verification": "none"} | dict(specification))


def placeholder_servers(random_bytes: RandomBytes, count: int = NUM_SERVERS) -> list[ServerEntry]:
    """Return servers that exist for the length of a trial."""
    keys = [SigningKey.generate(random_bytes).public_key for _ in range(count)]
    return [ServerEntry(url=f"https://server-{number}.invalid", identity_key=key) for number, key in enumerate(keys, 1)]


def placeholder_keys(random_bytes: RandomBytes) -> PartyKeys:
    """Return keys that exist for the length of a trial; nobody holds their private halves."""
    sealing = {suite: base64url(SealingKey.generate(suite, random_bytes).public_bytes) for suite in (HYBRID, CLASSICAL)}
    author, identity = (SigningKey.generate(random_bytes).public_key for _ in range(2))
    return PartyKeys(author, identity, sealing)
