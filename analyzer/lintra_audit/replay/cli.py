"""`lintra audit replay`: a third party recomputes the verdict of a verified task from a file and public keys.

Exit codes: 0 nothing differs, 1 something does, 2 the file cannot be read.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from lintra_analysis.certificate.certificate import ReleaseRecord, definition_hash, stated
from lintra_analysis.certificate.evidence import SIGNED, Evidence, SignedKind, opened_evidence
from lintra_analysis.certificate.replay import ReplayedCheck, compared_fields, recorded_verification, signature_check
from lintra_audit.output import Document, report
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import InvalidReleaseError, LintraError
from lintra_protocol.mechanisms.collusion import released_epsilons_if_colluding
from lintra_protocol.messages.documents import inventories_hash
from lintra_protocol.rules.release import draw_matrix
from lintra_protocol.rules.verification import FrozenBatch, Judgement, judgement_of, require_frozen

NOT_ASKED = (
    "Not asked: whether the released numbers are the sum of these reports. Sketch shares are sealed to the "
    "analyzer; its own replay opens them."
)


def replay(
    evidence: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The file that `lintra analyzer evidence` wrote.", exists=True, dir_okay=False
        ),
    ],
    server: Annotated[
        list[str],
        typer.Option(
            "--server",
            metavar="KEY",
            help="A server's public key, from a source that you trust; given once for each server, in order.",
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")] = False,
) -> None:
    """Find again which reports of a verified task were accepted, from what its servers signed; no network is used."""
    try:
        with opened_evidence(evidence) as opened:
            checks, release_id = tuple(replayed(opened, server)), opened.record.record.release_id
    except LintraError as error:
        checks, release_id = (ReplayedCheck("Is the file whole, as an analyzer writes it?", False, str(error)),), None
    passed = all(check.passed for check in checks)
    asked = [{"question": check.question, "passed": check.passed, "detail": check.detail} for check in checks]
    document = {"verdict": "pass" if passed else "fail", "release_id": release_id, "checks": asked}
    report(document, show_replay, as_json=as_json, code=int(not passed))


def show_replay(console: Console, document: Document) -> None:
    """Print each question with its answer, and the verdict."""
    for check in document["checks"]:
        console.print(Text(check["question"], style="bold"))
        console.print(Text(f"  {'yes' if check['passed'] else 'NO'}: {check['detail']}"))
    passed = document["verdict"] == "pass"
    console.print(
        "The accepted cohort is right: nothing differs." if passed else "Something differs: see the question with NO.",
        highlight=False,
    )
    console.print(NOT_ASKED, highlight=False)


FIELDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Is the certificate about this task and its mechanism?",
        ("task_id", "kind", "definition", "mechanism", "rows", "words", "analyzer_key"),
    ),
    (
        "Does it name the accepted cohort, and what that comes from?",
        ("inventories", "cohort_root", "num_clients", "verification"),
    ),
    ("Does the seed come from the accepted cohort and a second nonce of every server?", ("seed", "servers")),
    ("Is the privacy statement that of the matrix which the seed gives?", ("privacy",)),
)
"""The fields of a certificate that a third party can recompute, by question."""


def replayed(evidence: Evidence, server_keys: Sequence[str]) -> Iterator[ReplayedCheck]:
    """Yield the questions with their answers; after a failure on which the rest would depend there are no more.

    `evidence` holds bodies not read yet. `server_keys` are the servers' public keys from a source that the third party
    trusts, in the task's order.
    """
    task, record = evidence.task, evidence.record.record
    yield _keys(evidence, server_keys)
    for kind in SIGNED:
        yield (signed := _signatures(evidence, kind, server_keys))
        if not signed.passed:
            return
    frozen: FrozenBatch | None = None
    judgement: Judgement | None = None
    question = "Did every server freeze these reports, those that all of them had listed?"
    try:
        frozen = FrozenBatch.of(task, record.batch, evidence.inventories, evidence.cohorts, evidence.report_ids)
        require_frozen(frozen.cohort, evidence.report_ids)
        yield ReplayedCheck(question, True, f"{frozen.cohort.count:,} reports with the root {frozen.cohort.root}")
        question = "Do the check shares of all servers add up, so that it shows which reports are short enough?"
        judgement = judgement_of(frozen, evidence.check_shares, lambda _: evidence.bodies)
        passing = f"{len(judgement.accepted):,} pass, with the root {base64url(judgement.accepted.root)}"
        yield ReplayedCheck(question, True, f"{passing}; {judgement.rejected:,} fail")
        question = "Did every server come to this verdict, and reveal the nonce that it had committed to?"
        nonces = judgement.verified(evidence.verdicts)
        yield ReplayedCheck(question, True, f"{len(nonces)} verdicts")
        question = "Can the certificate be written again, as far as a third party sees it?"
        again = _written_again(evidence, judgement, nonces)
    except LintraError as error:
        yield ReplayedCheck(question, False, str(error))
        return
    yield from (compared_fields(asked, names, record, again) for asked, names in FIELDS)
    yield signature_check(evidence.record, task.analyzer.identity_key)


def _keys(evidence: Evidence, server_keys: Sequence[str]) -> ReplayedCheck:
    question = "Does the task name these servers?"
    named = [entry.identity_key for entry in evidence.task.servers]
    if len(named) != len(server_keys):
        return ReplayedCheck(question, False, f"it has {len(named)} servers, and {len(server_keys)} keys were given")
    others = [str(number) for number, pair in enumerate(zip(named, server_keys, strict=True)) if pair[0] != pair[1]]
    if others:
        return ReplayedCheck(question, False, f"it names another key for server {', '.join(others)}")
    return ReplayedCheck(question, True, f"task {evidence.task.task_id}, with {len(named)} servers")


def _signatures(evidence: Evidence, kind: SignedKind, server_keys: Sequence[str]) -> ReplayedCheck:
    question = f"Did every server sign its {kind.replace('_', ' ')}?"
    documents = evidence.signed(kind)
    if len(documents) != len(server_keys):
        return ReplayedCheck(question, False, f"there are {len(documents)}, and {len(server_keys)} keys were given")
    for server, (signed, key) in enumerate(zip(documents, server_keys, strict=True)):
        try:
            message = signed.verified(key)
        except LintraError as error:
            return ReplayedCheck(question, False, f"server {server} did not: {error}")
        about = (message.task_id, message.batch, message.server)
        if about != (evidence.task.task_id, evidence.record.record.batch, server):
            return ReplayedCheck(question, False, f"that of server {server} is of another task, batch or server")
    return ReplayedCheck(question, True, f"{len(documents)} signatures")


def _written_again(evidence: Evidence, judgement: Judgement, nonces: Sequence[bytes]) -> ReleaseRecord:
    """Return the certificate with every field replaced that a third party can compute."""
    task, record, frozen = evidence.task, evidence.record.record, judgement.frozen
    accepted, first = judgement.accepted, frozen.inventories[0].message.first
    drawn = draw_matrix(task, frozen.batch, accepted.root, nonces, len(accepted), first, shows_coalitions=True)
    colluding = released_epsilons_if_colluding(task.measurement, task.claim, drawn.matrix, task.shares_seen)
    if len(record.servers) != task.num_servers:
        raise InvalidReleaseError(f"it names {len(record.servers)} servers, and there are {task.num_servers}")
    parts = zip(record.servers, task.servers, evidence.inventories, nonces, strict=True)
    servers = tuple(
        part.model_copy(
            update={
                "server": number,
                "identity_key": entry.identity_key,
                "reports": inventory.message.count,
                "left_out": inventory.message.count - frozen.cohort.count,
                "lost": inventory.message.lost,
                "witnessed": inventory.message.witnessed,
                "nonce": base64url(nonce),
            }
        )
        for number, (part, entry, inventory, nonce) in enumerate(parts)
    )
    return record.model_copy(
        update={
            "kind": "release",
            "task_id": task.task_id,
            "definition": definition_hash(task),
            "mechanism": task.mechanism.kind,
            "rows": task.mechanism.num_rows,
            "words": task.sketch_words,
            "analyzer_key": task.analyzer.identity_key,
            "inventories": inventories_hash(evidence.inventories),
            "cohort_root": base64url(accepted.root),
            "num_clients": len(accepted),
            "verification": recorded_verification(task, judgement),
            "seed": base64url(drawn.seed),
            "servers": servers,
            "privacy": stated(drawn.privacy, task.mechanism.remark(drawn.privacy), colluding, verified=True),
        }
    )
