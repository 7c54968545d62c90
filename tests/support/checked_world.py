"""Verified tasks in a `World` of servers: their two more steps as the analyzer takes them, and hostile clients."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from unittest.mock import patch

import httpx2
import numpy as np

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.documents import Frozen
from lintra_protocol.messages.documents import Signed
from lintra_protocol.messages.verification import CheckShare, Verdict
from lintra_protocol.report import report
from lintra_protocol.report.report import Report
from lintra_protocol.report.wire import BLIND_BYTES
from lintra_protocol.rules.verification import ChecksRequest, VerdictRequest, VerifiedAggregateRequest
from lintra_protocol.task import Task
from lintra_protocol.verification.parameters import Parameters
from lintra_protocol.verification.proof import ProvenRows, prove
from support.measured import calibrated_for
from support.server_world import World, seeded

Change = Callable[[ProvenRows], ProvenRows]
Prove = Callable[[Parameters, IntArray, RandomBytes], ProvenRows]

CHECKS, VERDICT = "/batches/0/checks", "/batches/0/verdict"
LEAST = 13
"""Reports that a batch of a `verified` task needs: 12, and one that may be rejected."""


def verified(task: Task) -> Task:
    """Return the same task with proofs, and noise that keeps the claim beside what shares of proven reports show."""
    task = task.model_copy(update={"verification": "norm", "max_rejected": "0.1"})
    for _ in range(3):  # the bound on reports follows from the noise, and what shares show from the bound
        noise = calibrated_for(task, len(task.columns), task.noise_claim, task.max_clients)
        task = task.model_copy(update={"mechanism": noise})
    return task


def row_of(world: World, sent: Report) -> IntArray:
    """Return the ring words that the shares of a report add up to, shape `(w,)`."""
    payloads = [share[BLIND_BYTES + 1 :] for share in sent.shares]
    shares = [report.share_words(world.task, server, payload) for server, payload in enumerate(payloads)]
    total: IntArray = np.sum(shares, axis=0, dtype=np.uint64).view(np.int64)
    return total


def hostile(world: World | Task, count: int, label: str = "hostile", added: int = 2**40) -> list[Report]:
    """Return reports of clients that prove an honest row, and share it with `added` on its first word."""

    task = world if isinstance(world, Task) else world.task
    return [forged(task, f"{label} {index}", added_to_first_word(added)) for index in range(count)]


def added_to_first_word(added: int) -> Change:
    """Return what makes of a proven row the same with something added on its first word."""

    def change(proven: ProvenRows) -> ProvenRows:
        words = proven.words.copy()
        words[:, 0] += added
        return replace(proven, words=words)

    return change


def forged(task: Task, label: str, change: Change) -> Report:
    """Return the report of a client that proves an honest row, and shares what `change` makes of row and proof."""
    values = np.random.default_rng(len(label)).uniform(-0.5, 0.5, (1, len(task.columns)))
    row = task.encode(task.schema_arrays.rows(values), seeded(f"{label} noise"))[0]
    with patch.object(report, "prove", changed_proofs(change)):
        return report.make_report(task, row, task.not_before, seeded(label))


def changed_proofs(change: Change) -> Prove:
    """Return what makes proofs in the place of `prove`, and changes them."""

    def changed(parameters: Parameters, noised: IntArray, random_bytes: RandomBytes) -> ProvenRows:
        return change(prove(parameters, noised, random_bytes))

    return changed


async def checks_request(world: World) -> ChecksRequest:
    """Take the batch to its frozen cohort at every server."""
    return ChecksRequest(cohorts=(await world.aggregate_request()).cohorts)


async def check(world: World, server: int, request: Frozen | None = None) -> httpx2.Response:
    request = request or await checks_request(world)
    return await world.ask(server, "PUT", CHECKS, request.canonical(), "checks-request")


async def check_shares(world: World) -> tuple[tuple[Signed[CheckShare], ...], list[bytes]]:
    """Return the signed check shares of all servers and their bodies."""
    request = await checks_request(world)
    answers = [await check(world, server, request) for server in range(len(world.apps))]
    assert [answer.status_code for answer in answers] == [200] * len(answers), [a.text for a in answers]
    bodies = [await world.ask(server, "GET", f"{CHECKS}/body") for server in range(len(world.apps))]
    assert [body.status_code for body in bodies] == [200] * len(bodies), [b.text for b in bodies]
    return tuple(Signed[CheckShare].from_canonical(answer.content) for answer in answers), [b.content for b in bodies]


def framed(shares: Sequence[Signed[CheckShare]], bodies: Sequence[bytes]) -> bytes:
    """Return the body of a request for a verdict."""
    head = VerdictRequest(check_shares=tuple(shares)).canonical()
    return struct.pack(">I", len(head)) + head + b"".join(bodies)


async def judge(
    world: World, server: int, shares: Sequence[Signed[CheckShare]], bodies: Sequence[bytes]
) -> httpx2.Response:
    """Ask one server for its verdict on what all servers said."""
    others = [body for other, body in enumerate(bodies) if other != server]
    return await world.ask(server, "PUT", VERDICT, framed(shares, others), "verdict-request")


async def verdicts(world: World) -> tuple[Signed[Verdict], ...]:
    shares, bodies = await check_shares(world)
    answers = [await judge(world, server, shares, bodies) for server in range(len(world.apps))]
    assert [answer.status_code for answer in answers] == [200] * len(answers), [a.text for a in answers]
    return tuple(Signed[Verdict].from_canonical(answer.content) for answer in answers)


async def release(world: World, server: int, request: VerifiedAggregateRequest | None = None) -> httpx2.Response:
    request = request or VerifiedAggregateRequest(verdicts=await verdicts(world))
    return await world.ask(server, "PUT", "/batches/0/aggregate", request.canonical(), "verified-aggregate-request")


async def released(world: World, request: VerifiedAggregateRequest | None = None) -> IntArray:
    """Return the integers that the shares of all servers add up to."""
    request = request or VerifiedAggregateRequest(verdicts=await verdicts(world))
    answers = [await release(world, server, request) for server in range(len(world.apps))]
    assert [answer.status_code for answer in answers] == [200] * len(answers), [a.text for a in answers]
    opened = [world.opened(server, answer.content)[1] for server, answer in enumerate(answers)]
    total: IntArray = np.sum(opened, axis=0, dtype=np.uint64).view(np.int64)
    return total
