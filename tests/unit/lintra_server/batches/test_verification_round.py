"""The two steps of a verified task at its servers: each once, each from what all servers signed."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_protocol import ideal
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.ring import from_ring
from lintra_protocol.crypto.sharing import combine
from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.messages.documents import sign
from lintra_protocol.messages.inclusion import Absence, Judged
from lintra_protocol.rules.release import draw_matrix
from lintra_protocol.rules.verification import ChecksRequest, VerifiedAggregateRequest
from support.checked_world import (
    CHECKS,
    LEAST,
    VERDICT,
    check,
    check_shares,
    checks_request,
    framed,
    hostile,
    judge,
    release,
    released,
    row_of,
    verdicts,
    verified,
)  # fmt: skip
from support.server_world import BASE, World, a_world, text, token


async def documents(world: World, server: int) -> list[bytes]:
    """Return all that one server gave out of its batch so far."""
    answers = [await world.ask(server, "GET", path) for path in ("/batches/0/cohort", CHECKS, VERDICT)]
    return [answer.content for answer in answers if answer.status_code == 200]


async def state(world: World, server: int = 0) -> str:
    answer = await world.ask(server, "GET", "/batches/0")
    return str(answer.json()["batches"][0]["state"])


async def test_a_release_is_the_sum_of_the_accepted_reports_and_every_step_is_told_again(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", change=verified) as world:
        honest, bad = world.reports(18), hostile(world, 2)
        await world.upload_everywhere([*honest, *bad])
        request = await checks_request(world)
        assert (await state(world), token(await world.ask(0, "GET", CHECKS))) == ("frozen", "not_found")
        shares, bodies = await check_shares(world)
        assert await state(world) == "checked"
        said = [signed.message for signed in await verdicts(world)]
        assert {(each.count, each.rejected, each.root) for each in said} == {(18, 2, said[0].root)}
        assert await state(world) == "judged"
        before = await documents(world, 0)
        assert len(before) == 3
        # Asked again, also after a restart and after its file was lost, a server says the same.
        for path in (world.settings[0].data_dir / "checks").iterdir():
            path.unlink()
        world.reopen(0)
        assert (await check(world, 0, request)).content == shares[0].canonical() == before[1]
        assert (await world.ask(0, "GET", f"{CHECKS}/body")).content == bodies[0]
        assert (await judge(world, 0, shares, bodies)).content == before[2]
        values = await released(world)
        assert_array_equal(values[0], np.sum([row_of(world, report) for report in honest], axis=0))
        assert await documents(world, 0) == before
        for report, accepted in ((honest[3], True), (bad[1], False)):
            answer = await world.http[0].get(f"{BASE.format(world.task.task_id)}/inclusion/{text(report)}")
            found = Judged.from_canonical(answer.content)
            assert found.verify(request.cohorts[0].message, said[0], report.report_id) is accepted
        answer = await world.http[0].get(f"{BASE.format(world.task.task_id)}/inclusion/{text(world.reports(19)[18])}")
        Absence.from_canonical(answer.content).verify(request.cohorts[0].message, world.reports(19)[18].report_id)
        # What was checked goes with the batch.
        world.apps[0].node.maintain()
        assert list((world.settings[0].data_dir / "checks").iterdir()) == []
        gone = await world.ask(0, "GET", f"{CHECKS}/body")
        assert (gone.status_code, token(gone)) == (404, "not_found")


@pytest.mark.parametrize("form", [pytest.param("uniform", marks=pytest.mark.slow), "seeded"])
async def test_the_matrix_of_a_verified_sketch_comes_from_the_accepted_reports_and_the_second_nonces(
    tmp_path: Path, form: str
) -> None:
    def change(task):  # type: ignore[no-untyped-def]
        return verified(task.model_copy(update={"share_form": form}))

    async with a_world(tmp_path, "osnap", change=change, num_servers=2) as world:
        honest = world.reports(20)
        await world.upload_everywhere([*honest, *hostile(world, 1)])
        signed = await verdicts(world)
        nonces = [parse_base64url(each.message.nonce) for each in signed]
        root = ReportIds.of(report.report_id for report in honest).root
        matrix = draw_matrix(world.task, 0, root, nonces, len(honest)).matrix
        honest.sort(key=lambda report: report.report_id)
        shares = [ideal.server_sketch_share(world.task, server, honest, matrix) for server in (0, 1)]
        found = await released(world, VerifiedAggregateRequest(verdicts=signed))
        assert_array_equal(found, from_ring(combine(np.stack(shares))))


async def test_a_check_share_needs_cohorts_of_all_servers_with_the_nonces_that_they_committed_to(
    tmp_path: Path,
) -> None:
    async with a_world(tmp_path, "sum", change=verified, num_servers=2) as world:
        await world.upload_everywhere(world.reports(LEAST))
        request = await checks_request(world)
        real = request.cohorts[1].message
        other = real.model_copy(update={"nonce": base64url(b"1" * 32)})
        short = real.model_copy(update={"count": real.count - 1})
        key = world.apps[1].node.identity
        wrong = {
            "nonce_mismatch": (request.cohorts[0], sign(key, other)),
            "cohort_conflict": (request.cohorts[0], sign(key, short)),
            "unauthorized": (request.cohorts[0], sign(world.apps[0].node.identity, real)),
            "invalid_message": request.cohorts[:1],
        }
        for expected, cohorts in wrong.items():
            answer = await check(world, 0, ChecksRequest(cohorts=cohorts))
            assert token(answer) == expected
        assert await state(world) == "frozen"
        before = (await check(world, 0, request)).content
        # A second seed is refused as the first one was, and the same one gives the same bytes, however it is signed.
        for expected, cohorts in wrong.items():
            assert token(await check(world, 0, ChecksRequest(cohorts=cohorts))) == expected
        again = sign(key, real.model_copy(update={"start": real.start + 1}))
        assert (await check(world, 0, ChecksRequest(cohorts=(request.cohorts[0], again)))).content == before


async def test_a_verdict_needs_what_every_server_signed_whole_and_unchanged(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", change=verified) as world:
        await world.upload_everywhere(world.reports(LEAST))
        shares, bodies = await check_shares(world)
        key, said = world.apps[1].node.identity, shares[1].message
        flipped = bytes([bodies[1][0] ^ 1]) + bodies[1][1:]

        def lies(**changes: object):  # type: ignore[no-untyped-def]
            return shares[0], sign(key, said.model_copy(update=changes)), shares[2]

        wrong = [
            ("checks_mismatch", shares, [flipped, bodies[2]]),
            ("checks_mismatch", shares, [bodies[2], bodies[1]]),
            ("invalid_message", shares, [bodies[1]]),
            ("message_too_large", shares, [bodies[1], bodies[2], b"x"]),
            ("unauthorized", (shares[0], sign(world.apps[2].node.identity, said), shares[2]), bodies[1:]),
            ("invalid_message", shares[:2], bodies[1:]),
            ("checks_mismatch", lies(count=LEAST - 1), bodies[1:]),
            ("checks_mismatch", lies(check_seed=base64url(bytes(32))), bodies[1:]),
            ("checks_mismatch", lies(cohort_root=base64url(bytes(32))), bodies[1:]),
            ("checks_mismatch", (sign(world.apps[0].node.identity, said), *shares[1:]), bodies[1:]),
        ]
        for expected, signed, others in wrong:
            answer = await world.ask(0, "PUT", VERDICT, framed(signed, others), "verdict-request")
            assert token(answer) == expected
        assert await state(world) == "checked"
        verdict = (await judge(world, 0, shares, bodies)).content
        # One verdict, for ever: not another one from other check shares, though they be signed.
        again = await world.ask(
            0, "PUT", VERDICT, framed(lies(body=base64url(bytes(32))), bodies[1:]), "verdict-request"
        )
        assert (token(again), (await world.ask(0, "GET", VERDICT)).content) == ("checks_mismatch", verdict)


async def test_more_failures_than_the_task_allows_give_the_batch_up_for_good(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", change=verified, num_servers=2) as world:
        await world.upload_everywhere([*world.reports(18), *hostile(world, 3)])
        secrets = world.settings[0].key_dir / "batches"
        shares, bodies = await check_shares(world)
        held = len(list(secrets.iterdir()))
        for _ in range(2):
            answer = await judge(world, 0, shares, bodies)
            assert (answer.status_code, token(answer)) == (409, "too_many_rejected")
            world.reopen(0)
        assert (await state(world), len(list(secrets.iterdir()))) == ("abandoned", held - 1)
        assert token(await world.ask(0, "GET", VERDICT)) == "too_many_rejected"
        assert token(await world.ask(0, "GET", f"{CHECKS}/body")) == "too_many_rejected"


async def test_a_batch_closes_with_as_many_reports_as_the_minimum_and_all_that_may_be_rejected(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", change=verified, num_servers=2) as world:
        await world.upload_everywhere(world.reports(LEAST - 1))
        assert token(await world.close_batch(0)) == "cohort_too_small"
        await world.upload_everywhere(hostile(world, 1))
        values = await released(world)
        assert_array_equal(values[0], np.sum([row_of(world, one) for one in world.reports(LEAST - 1)], axis=0))


async def test_a_task_without_proofs_has_neither_step_and_shows_cohorts_as_before(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        await world.upload_everywhere(world.reports(12))
        request = await checks_request(world)
        for answer in (await check(world, 0, request), await world.ask(0, "PUT", VERDICT, b"", "verdict-request")):
            assert (answer.status_code, token(answer)) == (404, "not_found")
        refused = await release(world, 0, VerifiedAggregateRequest(verdicts=()))
        assert (refused.status_code, token(refused)) == (400, "invalid_message")
        assert request.cohorts[0].message.count == 12
        assert b"matrix_nonce" not in (await world.close_batch(0)).content
        assert (await world.release(0)).status_code == 200
