"""A replay finds the certificate again from what the servers signed, and names whatever was changed since."""

import html
import sqlite3
from dataclasses import replace

from lintra_analysis.certificate.certificate import ReleaseRecord, SignedRecord
from lintra_analysis.certificate.replay import ReplayedCheck
from lintra_analyzer.exchange.replay import FIELDS, compared
from support.analyzer_world import Life


async def released(life: Life) -> SignedRecord:
    """Return the release that all tests replay, which the first of them makes."""
    if not life.records():
        task = await life.create("overlapping")
        await life.upload(task)
        await life.release(task)
    return life.records()[0]


def refused(checks: tuple[ReplayedCheck, ...] | list[ReplayedCheck]) -> list[str]:
    return [check.question for check in checks if not check.passed]


def test_every_field_of_a_record_stands_under_one_question() -> None:
    names = [name for _, group in FIELDS for name in group]
    assert sorted(names) == sorted(ReleaseRecord.model_fields)


async def test_an_honest_release_is_found_again(life: Life) -> None:
    signed = await released(life)
    checks = await life.service.replay(signed)
    assert refused(checks) == []
    assert len(checks) == len(FIELDS) + 3
    async with life.rest() as rest:
        page = html.unescape((await rest.get(f"/releases/{signed.record.release_id}/audit?replay=1")).text)
    assert "Nothing differs" in page
    assert all(check.detail in page for check in checks)


async def test_a_certificate_that_says_more_than_was_released_is_caught(life: Life) -> None:
    signed = await released(life)
    better = replace(signed.record.privacy, epsilon=0.5)
    checks = await life.service.replay(
        SignedRecord(record=signed.record.model_copy(update={"privacy": better}), signature=signed.signature)
    )
    assert refused(checks) == [
        "Did this analyzer sign the certificate?",
        "Are the archived numbers those that the certificate names?",
        "Is the privacy statement that of the matrix which the seed gives?",
    ]


async def test_what_differs_is_named(life: Life) -> None:
    record = (await released(life)).record
    for field, value in (("seed", "A" * 43), ("num_clients", 23), ("values", "B" * 43), ("released_at", 1)):
        (found,) = [one for one in compared(record.model_copy(update={field: value}), record) if not one.passed]
        assert found.detail == f"the certificate differs in {field}"


async def test_a_stored_answer_that_was_changed_on_the_disk_is_caught(life: Life) -> None:
    signed = await released(life)
    one = "WHERE kind = 'sketch_share' AND server = 1"
    with sqlite3.connect(life.folder / "analyzer" / "analyzer.sqlite") as database:
        (body,) = database.execute(f"SELECT body FROM documents {one}").fetchone()
        broken = body[:-1] + bytes([body[-1] ^ 1])
        database.execute(f"UPDATE documents SET body = ? {one}", (broken,))
        database.commit()
        checks = await life.service.replay(signed)
        database.execute(f"UPDATE documents SET body = ? {one}", (body,))
    assert refused(checks) == ["Can the certificate be written again from what is stored?"]
    assert "server 1" in checks[-1].detail
