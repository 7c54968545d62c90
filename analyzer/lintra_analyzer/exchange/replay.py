"""Replaying a release: from what the servers signed and sealed to the certificate, once more, and compared with it.

Nothing is taken from the record itself: signatures and lists are checked, seed and matrix drawn, shares opened and
added up, and the certificate is written anew from these by the code that wrote it.
"""

import asyncio

from lintra_analysis.certificate.certificate import ReleaseRecord, SignedRecord
from lintra_analysis.certificate.replay import ReplayedCheck, compared_fields, signature_check
from lintra_analyzer.exchange.collect import ServerExchange
from lintra_analyzer.exchange.issue_certificate import certify
from lintra_analyzer.exchange.reconstruct import FrozenCohort, reconstruct
from lintra_analyzer.storage.archive import Archive
from lintra_analyzer.storage.keys import AnalyzerKeys
from lintra_protocol.errors import InvalidReleaseError, LintraError
from lintra_protocol.task import Task

FIELDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Is the certificate about this task, batch and mechanism?",
        ("kind", "task_id", "definition", "batch", "mechanism", "rows", "words"),
    ),
    (
        "Is the cohort what the servers' signed lists have in common?",
        ("inventories", "cohort_root", "num_clients", "verification"),
    ),
    ("Does the seed come from the cohort and a nonce of every server?", ("seed",)),
    ("Is it these servers' sealed shares that were added up?", ("servers",)),
    ("Do the shares add up to the released numbers?", ("values",)),
    ("Is the privacy statement that of the matrix which the seed gives?", ("privacy", "window")),
    ("Are noise and implausible rows as stated?", ("noise", "plausibility", "clipped")),
    ("Was it written with the analyzer's key, at the stated time?", ("analyzer_key", "released_at")),
)
"""Every field of a record stands under one question."""


async def replay(
    task: Task, signed: SignedRecord, exchange: ServerExchange, archive: Archive, keys: AnalyzerKeys
) -> tuple[ReplayedCheck, ...]:
    """Replay a release from what the analyzer stored of the exchange with the servers.

    `task` is the release's; `keys` are the analyzer's.
    """
    checks = [signature_check(signed, keys.identity.public_key), await asyncio.to_thread(_archived, signed, archive)]
    try:
        cohort = await exchange.frozen()
        again = await asyncio.to_thread(_written_again, task, signed.record, exchange, cohort, keys)
    except (LintraError, ValueError) as error:
        said = error.detail if isinstance(error, LintraError) else str(error)
        return (*checks, ReplayedCheck("Can the certificate be written again from what is stored?", False, said))
    return (*checks, *compared(signed.record, again), _promise(task, cohort))


def compared(record: ReleaseRecord, again: ReleaseRecord) -> list[ReplayedCheck]:
    """Compare a record, question by question, with the one that a replay wrote."""
    return [compared_fields(question, names, record, again) for question, names in FIELDS]


def _archived(signed: SignedRecord, archive: Archive) -> ReplayedCheck:
    question = "Are the archived numbers those that the certificate names?"
    try:
        sketch, _ = archive.read(signed.record)
    except InvalidReleaseError as error:
        return ReplayedCheck(question, False, error.detail)
    return ReplayedCheck(question, True, f"{sketch.size:,} integers with the hash {signed.record.values}")


def _written_again(
    task: Task, record: ReleaseRecord, exchange: ServerExchange, cohort: FrozenCohort, keys: AnalyzerKeys
) -> ReleaseRecord:
    result = reconstruct(task, record.batch, exchange.sketch_shares(), cohort, keys.sealing[task.suite])
    inventories, cohorts = tuple(exchange.inventories()), tuple(exchange.cohorts())
    verdicts = tuple(exchange.verdicts())
    made = certify(task, record.batch, inventories, cohorts, result, keys.identity, record.released_at, verdicts)
    return made.record


def _promise(task: Task, cohort: FrozenCohort) -> ReplayedCheck:
    question = "Does the release keep what the task promised?"
    try:
        cohort.privacy.require(task.claim)
    except LintraError as error:
        return ReplayedCheck(question, False, error.detail)
    return ReplayedCheck(question, True, f"promised {task.claim}, found {cohort.privacy}")
