"""What servers, clients and the analyzer of a verified task can do to each other, and what they could without a rule.

Server 0 is honest throughout; server 1 lies where somebody does.
"""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_protocol.crypto.ring import IntArray, RingArray
from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.mechanisms import Sum
from lintra_protocol.messages.documents import Signed, sign
from lintra_protocol.messages.verification import MATRIX_NONCE, Verdict
from lintra_protocol.report import report
from lintra_protocol.report.report import Report
from lintra_protocol.report.wire import BLIND_BYTES
from lintra_protocol.rules import release as rules
from lintra_protocol.rules.release import draw_matrix
from lintra_protocol.rules.verification import BodyHash, VerifiedAggregateRequest
from lintra_protocol.task import Task
from lintra_protocol.verification.fields import PRIMES, ROOTS
from lintra_protocol.verification.padding import padded_rows
from lintra_protocol.verification.points import Points, check_points
from lintra_server.batches import gate
from support.checked_world import (
    LEAST,
    check_shares,
    checks_request,
    hostile,
    judge,
    release,
    released,
    row_of,
    verified,
)  # fmt: skip
from support.server_world import COLUMNS, World, a_world, token

LIAR = 1


def lie_about(world: World, body: bytes, places: list[int]) -> bytes:
    """Return a body in which the check shares of some reports are others, elements of the fields still."""
    rows = np.frombuffer(body, np.uint8).reshape(-1, world.task.verified.check_bytes).copy()
    rows[places, 0] ^= 1
    return rows.tobytes()


def signed_by_liar(world: World, share, body: bytes):  # type: ignore[no-untyped-def]
    """Return the liar's word for another body."""
    whole = BodyHash(len(body))
    whole.add(body)
    changed = share.message.model_copy(update={"body": base64url(whole.digest())})
    return sign(world.apps[LIAR].node.identity, changed)


def liars_verdict(world: World, verdict: Verdict) -> Signed[Verdict]:
    """Return the liar's word for what others found, with its own nonce."""
    nonce = world.apps[LIAR].node.store.nonce(1, MATRIX_NONCE)
    return sign(world.apps[LIAR].node.identity, verdict.model_copy(update={"server": LIAR, "nonce": base64url(nonce)}))


def sum_at(world: World, server: int, reports: list[Report]) -> RingArray:
    shares = [report.share_words(world.task, server, one.shares[server][BLIND_BYTES + 1 :]) for one in reports]
    total: RingArray = np.sum(shares, axis=0, dtype=np.uint64)
    return total


async def test_a_lying_server_leaves_out_the_reports_it_lies_about_and_no_others(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", change=verified) as world:
        reports = world.reports(20)
        await world.upload_everywhere(reports)
        shares, bodies = await check_shares(world)
        false = lie_about(world, bodies[LIAR], [4, 11])
        shares = (shares[0], signed_by_liar(world, shares[LIAR], false), shares[2])
        answers = {server: await judge(world, server, shares, [bodies[0], false, bodies[2]]) for server in (0, 2)}
        found = {server: Signed[Verdict].from_canonical(answer.content) for server, answer in answers.items()}
        assert (found[0].message.count, found[0].message.rejected) == (18, 2)
        request = VerifiedAggregateRequest(verdicts=(found[0], liars_verdict(world, found[0].message), found[2]))
        left = [one for place, one in enumerate(sorted(reports, key=lambda one: one.report_id)) if place not in (4, 11)]
        for server in (0, 2):
            answer = await release(world, server, request)
            assert_array_equal(world.opened(server, answer.content)[1][0], sum_at(world, server, left))


@pytest.mark.slow
async def test_a_server_that_signs_two_bodies_gets_no_release_from_any_honest_one(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", change=verified) as world:
        await world.upload_everywhere(world.reports(20))
        shares, bodies = await check_shares(world)
        false = lie_about(world, bodies[LIAR], [4])
        told = {0: (shares, bodies)}
        told[2] = ((shares[0], signed_by_liar(world, shares[LIAR], false), shares[2]), [bodies[0], false, bodies[2]])
        answers = {server: await judge(world, server, *told[server]) for server in (0, 2)}
        found = {server: Signed[Verdict].from_canonical(answer.content) for server, answer in answers.items()}
        assert {server: verdict.message.rejected for server, verdict in found.items()} == {0: 0, 2: 1}
        for server, claimed in product((0, 2), (0, 2)):
            liar = liars_verdict(world, found[claimed].message)
            request = VerifiedAggregateRequest(verdicts=(found[0], liar, found[2]))
            answer = await release(world, server, request)
            assert (answer.status_code, token(answer)) == (409, "checks_mismatch")
            # Nor may the liar say that the other agreed.
            forged = found[server].message.model_copy(update={"server": 2 - server})
            verdicts = [found[0], liars_verdict(world, found[server].message), found[2]]
            verdicts[2 - server] = sign(world.apps[LIAR].node.identity, forged)
            answer = await release(world, server, VerifiedAggregateRequest(verdicts=tuple(verdicts)))
            assert token(answer) == "unauthorized"


@pytest.mark.slow
async def test_a_second_nonce_that_was_not_committed_to_is_refused(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", change=verified, num_servers=2) as world:
        await world.upload_everywhere(world.reports(LEAST))
        shares, bodies = await check_shares(world)
        own, other = [
            Signed[Verdict].from_canonical((await judge(world, server, shares, bodies)).content) for server in (0, 1)
        ]
        wished = other.message.model_copy(update={"nonce": base64url(b"1" * 32)})
        chosen = sign(world.apps[LIAR].node.identity, wished)
        answer = await release(world, 0, VerifiedAggregateRequest(verdicts=(own, chosen)))
        assert (answer.status_code, token(answer)) == (409, "checks_mismatch")
        assert (await release(world, 0, VerifiedAggregateRequest(verdicts=(own, other)))).status_code == 200


@pytest.mark.parametrize(
    "rule", [pytest.param(True, marks=pytest.mark.slow), False], ids=["with the margin", "without"]
)
async def test_attack_without_a_margin_one_hostile_report_costs_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    async with a_world(tmp_path, "sum", change=verified, num_servers=2) as world:
        await world.upload_everywhere([*world.reports(11), *hostile(world, 1)])
        if rule:
            assert token(await world.close_batch(0)) == "cohort_too_small"
            await world.upload_everywhere(world.reports(LEAST)[11:12])
            assert_array_equal(
                (await released(world))[0], np.sum([row_of(world, one) for one in world.reports(12)], axis=0)
            )
            return
        monkeypatch.setattr(gate, "fewest_reports", lambda task: task.claim.min_clients)
        with monkeypatch.context() as patched:
            patched.setattr(Task, "least_accepted", lambda _, count: count)
            await checks_request(world)
        shares, bodies = await check_shares(world)
        assert token(await judge(world, 0, shares, bodies)) == "cohort_too_small"
        assert token(await world.ask(0, "GET", "/batches/0/cohort")) == "abandoned"


def rows_of_matrix(task: Task, root: bytes, nonces: list[bytes], count: int) -> IntArray:
    """Return the row of the public matrix that each rank stands in, shape `(count,)`."""
    rows: IntArray = draw_matrix(task, 0, root, nonces, count).matrix.entries(np.arange(count))[0][:, 0]
    return rows


async def test_attack_with_the_matrix_drawn_before_the_verdict_a_victim_stands_alone(tmp_path: Path) -> None:
    async with a_world(tmp_path, "osnap", change=lambda task: verified(wider(task)), num_servers=2) as world:
        reports = sorted(world.reports(40), key=lambda one: one.report_id)
        await world.upload_everywhere(reports)
        request = await checks_request(world)
        nonces = [parse_base64url(signed.message.nonce) for signed in request.cohorts]
        # The old order: a matrix that everybody knows when the cohort is frozen.
        before = rows_of_matrix(world.task, parse_base64url(request.cohorts[0].message.root), nonces, 40)
        victim = 7
        others = [place for place in np.flatnonzero(before == before[victim]).tolist() if place != victim]
        shares, bodies = await check_shares(world)
        false = lie_about(world, bodies[LIAR], others)
        shares = (shares[0], signed_by_liar(world, shares[LIAR], false))
        answer = await judge(world, 0, shares, [bodies[0], false])
        verdict = Signed[Verdict].from_canonical(answer.content)
        left = [place for place in range(40) if place not in others]
        assert verdict.message.count == len(left)
        assert [place for place in left if before[place] == before[victim]] == [victim]  # its noise alone would hide it
        # The order of the rules: the matrix is of those who are left, and of nonces that the liar did not know.
        seconds = [verdict, liars_verdict(world, verdict.message)]
        late = [parse_base64url(signed.message.nonce) for signed in seconds]
        after = rows_of_matrix(world.task, parse_base64url(verdict.message.root), late, len(left))
        assert min(np.bincount(after, minlength=world.task.mechanism.num_rows)) > 1
        assert (await release(world, 0, VerifiedAggregateRequest(verdicts=tuple(seconds)))).status_code == 200


def wider(task: Task) -> Task:
    """Return the task with as many rows as its cohort fills with a few reports each."""
    claim = task.claim.model_copy(update={"min_clients": 30})
    mechanism = task.mechanism.model_copy(update={"rows": 12})
    return task.model_copy(update={"claim": claim, "mechanism": mechanism}).model_copy(update={"max_missing": "0.3"})


async def test_attack_a_second_check_seed_shows_the_row_of_a_short_report(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", change=coarse, num_servers=2, columns=COLUMNS[:1]) as world:
        reports = sorted(world.reports(LEAST), key=lambda one: one.report_id)
        await world.upload_everywhere(reports)
        await check_shares(world)
        own = await checks_request(world)
        seeds = [
            rules.check_seed(world.task, 0, parse_base64url(own.cohorts[0].message.root), nonces)
            for nonces in ([parse_base64url(each.message.nonce) for each in own.cohorts], [bytes(32), bytes(32)])
        ]
        # What servers would answer without R14, which they are not asked for otherwise: a check share for another seed.
        opened = [opened_for(world, seed)[4] for seed in seeds]
        points = [check_points(seed) for seed in seeds]
        limit = int(np.sqrt(world.task.verified.squared_bound))
        rows = range(-limit, limit + 1)
        assert all(fits(world.task, row, points[:1], opened[:1]) for row in rows)  # one point says nothing
        assert [row for row in rows if fits(world.task, row, points, opened)] == [int(row_of(world, reports[4])[0])]


def coarse(task: Task) -> Task:
    """Return a verified task whose rows are few enough to try them all."""
    return verified(task).model_copy(update={"mechanism": Sum(row_bound="1", fraction_bits=4, sigma=60)})


def opened_for(world: World, seed: bytes) -> IntArray:
    """Return what the check shares of both servers for a seed add up to at the first prime, shape `(reports, 3)`."""
    bodies = []
    for app in world.apps:
        held = app.node.registry.find_batch(world.task.task_id)
        digest = app.node.judge._compute(held, LEAST, seed, lambda _: None)
        bodies.append(np.frombuffer(b"".join(app.node.judge.bodies.pieces(digest)), "<u8").reshape(LEAST, 4, 3)[:, 0])
    total: IntArray = (bodies[0].astype(object) + bodies[1].astype(object)) % PRIMES[0]
    return total


def fits(task: Task, row: int, points: list[Points], opened: list[IntArray]) -> bool:
    """Return whether blinds exist with which a row of one word gives what was opened, at the first prime."""
    prime, root = PRIMES[0], ROOTS[0]
    padded = [int(word) for word in padded_rows(task.verified, np.array([[row]]))[0]]
    size, equations = len(padded), []
    for point, values in zip(points, opened, strict=True):
        for at, value in ((point[0], values[0]), (pow(point[0], -1, prime), values[1])):
            rest = (int(value) - sum(word * pow(at, power, prime) for power, word in enumerate(padded))) % prime
            blinds = [(pow(at, k, prime) + root * pow(at, k + 1, prime)) % prime for k in (size, size + 2)]
            equations.append((*blinds, rest))
    (a, b, e), (c, d, f) = equations[:2]
    inverse = pow(a * d - b * c, -1, prime)
    beta, gamma = (d * e - b * f) * inverse % prime, (a * f - c * e) * inverse % prime
    return all((a * beta + b * gamma - e) % prime == 0 for a, b, e in equations)
