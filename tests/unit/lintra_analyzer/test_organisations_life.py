"""Five organisations from a specification to their release, among real servers, by the public client."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_client import Client
from lintra_protocol import ideal
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.errors import LintraError, TokenInvalidError
from lintra_protocol.messages.documents import Cohort, Signed
from lintra_protocol.report.report import make_report, seal_block
from lintra_protocol.task import Task
from support.analyzer_world import NOW, Life, living, seeded, server_url, specification
from support.measured import layout_of

URLS = [server_url(server) for server in range(3)]
ORGANISATIONS = 5


def asked(kind: str = "second_moment", **changes: object) -> dict[str, object]:
    """Return what an analyst asks of five organisations."""
    own: dict[str, object] = {
        "min_clients": ORGANISATIONS,
        "max_clients": ORGANISATIONS,
        "max_missing": None,
        "contributors": {"rows_per_person": 3, "max_rows": 500},
        **changes,
    }
    if kind in ("histogram", "ron_gauss"):
        own["row_bound"] = None
    return specification(kind, **own)


def file_of(organisation: int) -> tuple[FloatArray, list[str]]:
    """Return the rows of one organisation and whose each is."""
    random = np.random.default_rng(organisation)
    rows = random.uniform(-1, 1, (60 + organisation, 3))
    rows[0, 0] = np.nan
    return rows, [f"person {place // 3} of {organisation}" for place in range(len(rows))]


async def created(life: Life, document: dict[str, object]) -> Task:
    async with life.rest() as rest:
        answer = await rest.post("/v1/tasks", json=document)
    assert answer.status_code == 201, answer.text
    return life.service.task(answer.json()["task_id"])


def client(life: Life, task: Task, token: str | None = None) -> Client:
    return Client(task.task_id, URLS, now=lambda: NOW, transport=life.wires, ledger=None, token=token)


async def contribute(life: Life, task: Task, tokens: list[str] | None = None) -> None:
    for organisation in range(ORGANISATIONS):
        rows, persons = file_of(organisation)
        token = None if tokens is None else tokens[organisation]
        async with client(life, task, token) as one:
            await one.contribute(rows, person=persons, random_bytes=seeded(f"organisation {organisation}"))


@pytest.mark.parametrize(
    "kind",
    ["second_moment", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("sum", "histogram", "ron_gauss"))],
)
async def test_a_release_of_organisations_is_the_ideal_one_bit_for_bit(kind: str, tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        # Joint sums without a label count rows exactly, and then persons become null rows.
        exact = {"contributors": {"rows_per_person": 3, "max_rows": 500, "count": "exact"}, "neighbours": "zero-out"}
        task = await created(life, asked(kind, **(exact if kind == "ron_gauss" else {})))
        assert (task.claim.max_corrupt_clients, task.max_missing) == (ORGANISATIONS - 1, "0")
        assert task.contributors is not None
        assert task.contributors.count == ("exact" if kind == "ron_gauss" else "noisy")
        await contribute(life, task)
        signed = life.service.record(await life.release(task))
        sketch, row_counts = life.service.archive.read(signed.record)
        reports = []
        for organisation in range(ORGANISATIONS):
            rows, names = file_of(organisation)
            # In the order in which they first stand in the file: dithering reads its words person by person.
            numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
            persons = np.array([numbers[name] for name in names])
            reports.append(
                ideal.organisation_report(
                    task, rows, persons, NOW // task.time_precision, seeded(f"organisation {organisation}")
                )
            )
        bodies = [life.service.store.document(task.task_id, 0, "cohort", server) for server in range(3)]
        nonces = [parse_base64url(Signed[Cohort].from_canonical(body or b"").message.nonce) for body in bodies]
        expected = ideal.release(task, reports, nonces)
        assert_array_equal(sketch, expected.sketch)
        assert row_counts.tolist() == [ORGANISATIONS]
        record = signed.record
        assert record.num_clients == ORGANISATIONS
        assert record.privacy.persons == "persons, each with at most 3 rows in at most 1 organisation"
        assert [each.percent for each in record.privacy.if_colluding] == [0, 20, 40, 60, 80]
        assert record.plausibility.totals == ()
        assert type(record).from_canonical(record.canonical()) == record


async def test_one_token_for_each_organisation_is_one_report_for_each(tmp_path: Path) -> None:
    async with living(tmp_path, {"open": False}) as life:
        async with life.rest() as rest:
            open_to_all = await rest.post("/v1/tasks", json=asked(max_corrupt_clients=1, max_missing=0))
            assert "whoever can send reports can be many of them" in open_to_all.json()["detail"]
        task = await created(life, asked(max_corrupt_clients=1, client_auth="token", max_clients=6, max_missing=None))
        async with life.rest() as rest:
            answer = await rest.post(f"/v1/tasks/{task.task_id}/tokens", json={"count": ORGANISATIONS})
        tokens = list(answer.json()["tokens"])
        rows, persons = file_of(0)
        async with client(life, task) as stranger:
            with pytest.raises(TokenInvalidError):
                await stranger.contribute(rows, person=persons)
        await contribute(life, task, tokens)
        async with client(life, task, tokens[0]) as again:
            with pytest.raises(LintraError, match="oken"):
                await again.contribute(rows, person=persons)
        assert life.service.record(await life.release(task)).record.num_clients == ORGANISATIONS


@pytest.mark.slow
async def test_a_total_that_no_rows_give_stands_in_the_certificate(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        task = await created(life, asked())
        for organisation in range(ORGANISATIONS - 1):
            rows, persons = file_of(organisation)
            async with client(life, task) as one:
                await one.contribute(rows, person=persons)
        lie = np.zeros(task.num_words, np.int64)
        lie[3] = -(10**6) * layout_of(task).bound
        report = make_report(task, lie, NOW // task.time_precision, seeded("liar"))
        async with client(life, task) as one:
            for destination in one._open():
                key = await destination.key()
                block = seal_block(task, destination.index, key.key_id, key.public_key, [report])
                await destination.upload_again([block])
        record = life.service.record(await life.release(task)).record
        assert any("squares of 'a' are negative" in said for said in record.plausibility.totals)


async def test_what_cannot_have_contributors_is_refused_in_words(life: Life) -> None:
    refusals = [
        (asked("osnap"), "organisations can be asked for sum, second_moment, range_finder, histogram or ron_gauss"),
        (asked(mechanism={"kind": "sum", "count": "noisy"}), "with contributors it stands among their fields"),
        (asked(neighbours="add-remove", contributors={"rows_per_person": 1, "max_rows": 9, "count": "exact"}), "exact"),
        (specification("sum", neighbours="add-remove"), "are for contributors"),
    ]
    async with life.rest() as rest:
        for document, words in refusals:
            answer = await rest.post("/v1/tasks", json=document)
            assert answer.status_code == 400, words
            assert words in answer.json()["detail"]
