"""Verified tasks in a simulation: clients that prove one row and share another, and the two more steps of a release.

What a server must say is computed by the plain implementation of tests/vectors; who is rejected is known beforehand.
"""

import struct
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import plain_verified

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.messages.documents import Cohort, Signed
from lintra_protocol.messages.verification import CheckShare, Verdict
from lintra_protocol.report import report
from lintra_protocol.report.report import Report
from lintra_protocol.rules.verification import BodyHash, ChecksRequest, VerdictRequest, VerifiedAggregateRequest
from lintra_protocol.task import Task
from lintra_server.batches.registry import RegisteredBatch
from lintra_server.node import Node
from simulation.books import Course, law
from support.checked_world import added_to_first_word, changed_proofs
from vectors import plain

if TYPE_CHECKING:
    from simulation.world import World

FORGED = 0.03
"""Of all reports of a verified task: their rows are not those that were proved."""


def forged_report(task: Task, row: np.ndarray, time: int, rng: RandomBytes) -> Report:
    """Return the report of a hostile client."""
    with patch.object(report, "prove", changed_proofs(added_to_first_word(2**40))):
        return report.make_report(task, row, time, rng)


def accepted(course: Course, cohort: list[bytes]) -> list[bytes]:
    """Return those of a cohort that are released: of a verified task all but the forged ones."""
    return [report_id for report_id in cohort if not course.all_reports[report_id].forged]


def may_be_released(course: Course, cohort: list[bytes]) -> bool:
    """Return whether no more of a cohort are forged than the task allows."""
    return len(accepted(course, cohort)) >= course.task.least_accepted(len(cohort))


def plain_words(task: Task, share: bytes) -> list[int]:
    """Return the ring words of a share, blind and form first, as they are added up."""
    payload = share[33:]
    if task.verified is None:
        return plain.bytes_words(payload)
    return [int.from_bytes(payload[10 * n : 10 * n + 8], "little") for n in range(task.num_words)]


def checks_request(course: Course) -> bytes:
    cohorts = [Signed[Cohort].from_canonical(course.documents[each, "cohort"]) for each in course.servers]
    return ChecksRequest(cohorts=tuple(cohorts)).canonical()


def verdict_request(course: Course, server: int) -> bytes:
    shares = [Signed[CheckShare].from_canonical(course.documents[each, "checks"]) for each in course.servers]
    head = VerdictRequest(check_shares=tuple(shares)).canonical()
    bodies = [course.bodies[each] for each in course.servers if each != server]
    return struct.pack(">I", len(head)) + head + b"".join(bodies)


def release_request(course: Course) -> bytes:
    verdicts = [Signed[Verdict].from_canonical(course.documents[each, "verdict"]) for each in course.servers]
    return VerifiedAggregateRequest(verdicts=tuple(verdicts)).canonical()


def judged_inside(node: Node, held: RegisteredBatch, request: bytes) -> bytes:
    """Do at a node what the application does with a request for a verdict."""
    size = node.judge.body_bytes(held)
    (length,) = struct.unpack_from(">I", request)
    wanted, digests = VerdictRequest.from_canonical(request[4 : 4 + length]), []
    for start in range(4 + length, len(request), size):
        with node.judge.bodies.writer(size) as writer:
            writer.add(request[start : start + size])
            digests.append(writer.finish())
    node.judge.expect(held, digests)
    return node.judge.judge(held, wanted, digests)


# --- laws ----------------------------------------------------------------------------------------------------


def check_checks(
    world: "World", course: Course, server: int, document: bytes, body: bytes, cohort: list[bytes]
) -> None:
    """(law) A check share is of the cohort, its body the one that was signed, and the plain reference's."""
    share = Signed[CheckShare].from_canonical(document).verified(course.task.servers[server].identity_key)
    nonces = [
        parse_base64url(Signed[Cohort].from_canonical(course.documents[each, "cohort"]).message.nonce)
        for each in course.servers
    ]
    root = plain.merkle_root(cohort)
    law((share.count, share.cohort_root) == (len(cohort), plain.b64(root)), "a check share is of another cohort")
    seed = parse_base64url(share.check_seed)
    if course.first is None:
        wanted = plain_verified.check_seed(course.task.id_bytes, course.batch, root, nonces)
        law(seed == wanted, "check points are not drawn from the nonces", course.key)
    whole = BodyHash(len(body))
    whole.add(body)
    law(base64url(whole.digest()) == share.body, "a body is not the one that was signed", course.key)
    size, parameters = len(body) // len(cohort), course.task.verified
    sizes = plain_verified.Sizes(parameters.num_words, parameters.num_servers, parameters.squared_bound)
    for place in world.chance.sample(range(len(cohort)), 2):
        payload = course.all_reports[cohort[place]].report.shares[server][33:]
        found = plain_verified.check_share(
            sizes, server, plain_verified.parse(sizes, payload), plain_verified.points(seed)
        )
        said = [int.from_bytes(body[at : at + 8], "little") for at in range(place * size, (place + 1) * size, 8)]
        law(said == [number for each in found for number in each], "a check share is not the reference's", course.key)


def check_verdict(course: Course, server: int, document: bytes, cohort: list[bytes]) -> None:
    """(law) Exactly the forged reports are rejected."""
    verdict = Signed[Verdict].from_canonical(document).verified(course.task.servers[server].identity_key)
    left = accepted(course, cohort)
    said = (verdict.count, verdict.rejected, verdict.root)
    wanted = (len(left), len(cohort) - len(left), plain.b64(plain.merkle_root(left)))
    law(said == wanted, "a verdict rejects others than the forged reports", said, wanted, course.key)
