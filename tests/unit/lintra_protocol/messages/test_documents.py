"""Signed messages."""

import pytest

from lintra_protocol.encoding.canonical import base64url, canonical_json
from lintra_protocol.encoding.documents import Frozen
from lintra_protocol.errors import InvalidMessageError, UnauthorizedError
from lintra_protocol.messages.documents import (
    BatchStatus,
    Cohort,
    Counters,
    Failure,
    Inventory,
    KeyList,
    Receipt,
    SealingKeyEntry,
    Signed,
    TaskRecord,
    UploadAnswer,
    inventories_hash,
    key_bytes,
    nonce_commitment,
    receipt_hash,
    sign,
)
from support import identity, make_task, nonce, signed_cohorts, signed_inventories

TASK = make_task()
IDS = [bytes([index]) * 32 for index in range(8)]
INVENTORIES = signed_inventories(TASK, [IDS] * 3)


def test_a_signed_message_survives_the_round_trip() -> None:
    data = INVENTORIES[1].canonical()
    again = Signed[Inventory].from_canonical(data)
    assert again == INVENTORIES[1]
    assert again.verified(identity("server 1").public_key).count == 8


def test_what_is_written_by_hand_is_the_canonical_encoding() -> None:
    receipt = sign(identity("server 0"), Receipt(task_id=TASK.task_id, server=2, count=3, reports=base64url(bytes(32))))
    told = Failure(report_id=base64url(IDS[0]), type="a", detail='"quoted" \\ and \u00e9\u2028', retryable=True)
    written: list[Frozen] = [receipt, receipt.message, INVENTORIES[0]]
    written += [UploadAnswer(failures=failures, receipt=receipt) for failures in ((), (told,), (told, told))]
    for message in written:
        assert message.canonical() == canonical_json(message.model_dump(mode="json"))
        assert type(message).from_canonical(message.canonical()) == message


def test_a_message_is_signed_by_one_key_only() -> None:
    with pytest.raises(UnauthorizedError):
        INVENTORIES[1].verified(identity("server 0").public_key)


def test_a_changed_message_is_not_signed() -> None:
    changed = INVENTORIES[0].message.model_copy(update={"count": 9})
    with pytest.raises(UnauthorizedError):
        Signed[Inventory](message=changed, signature=INVENTORIES[0].signature).verified(identity("server 0").public_key)


def test_a_signature_of_one_kind_is_none_of_another() -> None:
    cohort = signed_cohorts(TASK, [IDS] * 3, INVENTORIES)[0]
    with pytest.raises(InvalidMessageError, match="kind"):
        Signed[Inventory].from_canonical(cohort.canonical())


def test_every_kind_of_message_is_signed_under_its_own_label() -> None:
    kinds = [m.model_fields["kind"].default for m in (KeyList, TaskRecord, Receipt, Inventory, Cohort)]
    assert len(set(kinds)) == len(kinds)


def test_a_task_is_served_with_its_servers_word() -> None:
    signed = sign(identity("server 0"), TaskRecord(definition=TASK))
    again = Signed[TaskRecord].from_canonical(signed.canonical()).verified(identity("server 0").public_key)
    assert again.definition == TASK
    assert again.definition.task_id == TASK.task_id


def test_a_key_list_keeps_its_order() -> None:
    entries = tuple(
        SealingKeyEntry(key_id=name, suite="x25519", public_key="AA", valid_from=0, valid_until=1)
        for name in ("B", "A")
    )
    keys = KeyList(identity_key=identity("server 0").public_key, keys=entries)
    assert KeyList.from_canonical(keys.canonical()).keys == entries


def test_a_receipt_depends_on_the_order_and_on_every_report() -> None:
    assert len({receipt_hash(IDS), receipt_hash(IDS[::-1]), receipt_hash(IDS[1:]), receipt_hash([])}) == 4


def test_an_inventory_commits_to_its_nonce_without_showing_it() -> None:
    inventory = INVENTORIES[2].message
    assert inventory.nonce_commitment == base64url(nonce_commitment(TASK, 0, nonce(2)))
    assert base64url(nonce(2)) not in INVENTORIES[2].canonical().decode()


def test_the_hash_of_inventories_depends_on_their_order_and_not_on_signatures() -> None:
    stripped = tuple(signed.model_copy(update={"signature": "AAAA"}) for signed in INVENTORIES)
    assert inventories_hash(INVENTORIES) == inventories_hash(stripped)
    assert inventories_hash(INVENTORIES) != inventories_hash(INVENTORIES[::-1])


def test_keys_of_messages_are_base64url() -> None:
    assert key_bytes(base64url(b"key")) == b"key"
    with pytest.raises(InvalidMessageError):
        key_bytes("A")


@pytest.mark.parametrize("count", [-1, 2**53, 1.0, "1", True, None])
def test_a_count_is_a_small_integer(count: object) -> None:
    with pytest.raises(ValueError, match="count"):
        BatchStatus.model_validate({"batch": 0, "state": "open", "count": count, "enough": True})


def test_refusals_are_counted_by_their_token() -> None:
    counters = Counters(received=3, accepted=1, repeated=0, refused={"batch_closed": 2})
    assert Counters.from_canonical(counters.canonical()) == counters
