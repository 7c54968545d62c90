"""A task is refused before anything leaves unless every server tells the same true story about it."""

import re
from collections.abc import Callable

import httpx2
import pytest

from lintra_client import ClientPolicy
from lintra_client.task_check import CLOCK_SKEW, agreed_task, sealing_key
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import (
    FalseClaimError,
    InvalidMessageError,
    InvalidTaskError,
    LintraError,
    PolicyRefusedError,
    TaskConflictError,
    UnauthorizedError,
    UnavailableError,
    UnknownTaskError,
    UnsupportedFeatureError,
    UnsupportedMediaTypeError,
)
from lintra_protocol.messages.documents import KeyList, SealingKeyEntry, Signed, TaskRecord, sign
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import ServerEntry, Task
from support import identity, make_task
from support import sealing_key as known_key
from support.fake_servers import Network, problem, reply


def bodies(task: Task, signers: list[str] | None = None) -> list[bytes]:
    names = signers or [f"server {index}" for index in range(task.num_servers)]
    return [sign(identity(name), TaskRecord(definition=task)).canonical() for name in names]


def urls(task: Task) -> list[str]:
    return [entry.url for entry in task.servers]


def judge(
    task: Task, answers: list[bytes], policy: ClientPolicy | None = None, task_id: str | None = None
) -> list[int]:
    return agreed_task(task_id or task.task_id, urls(task), answers, policy or ClientPolicy())[1]


def understated(task: Task) -> Task:
    """Return the same task with half the noise, under the same promise."""
    mechanism = task.mechanism.model_copy(update={"sigma": task.mechanism.sigma // 2})
    return task.model_copy(update={"mechanism": mechanism})


async def refused(network: Network, error: type[LintraError], match: str | None = None, **options: object) -> None:
    """Open a client and require that it refuses, and that no upload was made."""
    with pytest.raises(error, match=match):
        async with network.client(**options):  # type: ignore[arg-type]
            raise AssertionError("the client opened")
    assert network.nothing_left()


# --- the same definition, from the right servers --------------------------------------------------------------


def test_an_honest_task_is_accepted_and_servers_are_found_by_the_key_that_signed() -> None:
    task = make_task()
    assert judge(task, bodies(task)) == [0, 1, 2]
    backwards = agreed_task(task.task_id, urls(task)[::-1], bodies(task)[::-1], ClientPolicy())
    assert backwards == (task, [2, 1, 0])


async def test_servers_that_hold_different_definitions_are_refused() -> None:
    network = Network(make_task())
    network.servers[2].definition = network.task.model_copy(update={"purpose": "something else"})
    await refused(network, TaskConflictError, "server-2.test")


async def test_a_definition_that_does_not_hash_to_the_given_identifier_is_refused() -> None:
    network = Network(make_task())
    for server in network.servers:
        server.definition = network.task.model_copy(update={"purpose": "something else"})
    await refused(network, InvalidMessageError, "asked for was")


async def test_an_answer_signed_by_nobody_of_the_task_is_refused() -> None:
    network = Network(make_task())
    network.servers[1].identity = identity("stranger")
    await refused(network, UnauthorizedError, "server-1.test")


def test_a_signature_over_other_bytes_is_refused() -> None:
    task = make_task()
    other = Signed[TaskRecord].from_canonical(bodies(task.model_copy(update={"salt": base64url(bytes(32))}))[1])
    record = Signed[TaskRecord].model_construct(message=TaskRecord(definition=task), signature=other.signature)
    with pytest.raises(UnauthorizedError):
        judge(task, [bodies(task)[0], record.canonical(), bodies(task)[2]])


def test_one_server_that_answers_at_two_urls_is_refused() -> None:
    task = make_task()
    with pytest.raises(TaskConflictError, match=r"\[0, 1, 0\]"):
        judge(task, bodies(task, ["server 0", "server 1", "server 0"]))


def test_servers_with_swapped_urls_are_refused() -> None:
    task = make_task()
    with pytest.raises(TaskConflictError, match="signed as server 1"):
        judge(task, bodies(task, ["server 1", "server 0", "server 2"]))


async def test_fewer_servers_than_the_task_has_are_refused() -> None:
    network = Network(make_task())
    await refused(network, TaskConflictError, "3 servers", servers=network.urls[:2])


async def test_a_url_that_the_task_does_not_have_is_refused_unless_the_caller_maps_it() -> None:
    network = Network(make_task())
    renamed = make_task(urls=[f"https://public-{index}.test" for index in range(3)])
    network.task = renamed
    for server in network.servers:
        server.task = server.definition = renamed
    addresses = [f"http://server-{index}.test" for index in range(3)]
    await refused(network, TaskConflictError, "public-0", servers=addresses)
    mapped = dict(zip(urls(renamed), addresses, strict=True))
    async with network.client(mapped) as client:  # type: ignore[arg-type]
        assert (await client.send([0, 0, 0])).servers == tuple(urls(renamed))


# --- the promise ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["sum", "osnap", "second_moment"])
async def test_a_promise_that_the_noise_does_not_keep_is_refused_before_anything_leaves(mechanism: str) -> None:
    network = Network(understated(make_task(mechanism)))
    await refused(network, FalseClaimError, "promised epsilon 1")


async def test_an_epsilon_below_what_the_parameters_give_is_refused() -> None:
    honest = make_task()
    claim = honest.claim.model_copy(update={"epsilon": "0.99"})
    await refused(Network(honest.model_copy(update={"claim": claim})), FalseClaimError, "0.99")


async def test_a_task_that_needs_features_of_another_version_is_refused() -> None:
    await refused(Network(make_task(client_auth="mtls", check=False)), UnsupportedFeatureError)


async def test_a_task_with_a_malformed_key_is_refused() -> None:
    honest = make_task()
    analyzer = honest.analyzer.model_copy(update={"sealing_key": "AAAA"})
    await refused(Network(honest.model_copy(update={"analyzer": analyzer})), InvalidTaskError, "analyzer")
    servers = (*honest.servers[:2], ServerEntry(url=honest.servers[2].url, identity_key="AAAA"))
    await refused(Network(honest.model_copy(update={"servers": servers})), InvalidTaskError, "server 2")


# --- the user's own policy ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (ClientPolicy(max_epsilon=0.5), "epsilon 1"),
        (ClientPolicy(max_delta=1e-9), "delta"),
        (ClientPolicy(min_servers=4), "3 servers"),
        (ClientPolicy(min_clients=9), "7 reports"),
        (ClientPolicy(require_hybrid=True), "x25519"),
        (ClientPolicy(authors=frozenset({identity("stranger").public_key})), "author"),
    ],
)
async def test_policy_refuses_a_valid_task(policy: ClientPolicy, reason: str) -> None:
    await refused(Network(make_task()), PolicyRefusedError, reason, policy=policy)


def test_policy_accepts_a_task_at_its_limits() -> None:
    task = make_task(suite="mlkem768-x25519")
    authors = frozenset({task.author_key})
    judge(
        task, bodies(task), ClientPolicy(1.0, 1e-6, min_servers=3, min_clients=7, require_hybrid=True, authors=authors)
    )


DAY = 86_400


@pytest.mark.parametrize(
    ("noise", "retention", "policy", "words"),
    [
        ("clients", 30 * DAY + 1, ClientPolicy(), r"2592001 s after the release; max_retention is 2592000 s here"),
        ("clients", 2**31 - 1, ClientPolicy(max_retention_of_rows=2**31), "max_retention is 2592000 s here"),
        ("clients", 1, ClientPolicy(max_retention=0), "max_retention is 0 s here"),
        (
            "servers",
            1,
            ClientPolicy(),
            r"1 s after the release, .* rows without noise; max_retention_of_rows is 0 s here",
        ),
        ("servers", DAY, ClientPolicy(max_retention=2**31), "max_retention_of_rows is 0 s here"),
        ("servers", DAY, ClientPolicy(max_retention_of_rows=DAY - 1), "max_retention_of_rows is 86399 s here"),
    ],
)
async def test_shares_that_are_kept_for_longer_than_the_owner_allows_are_not_sent(
    noise: str, retention: int, policy: ClientPolicy, words: str
) -> None:
    task = make_task("sum", min_clients=7, max_corrupt_clients=2, noise=noise, retention=retention)
    await refused(Network(task), PolicyRefusedError, words, policy=policy)


@pytest.mark.parametrize(
    ("noise", "retention", "policy"),
    [
        ("clients", 30 * DAY, ClientPolicy()),
        ("clients", 2**31 - 1, ClientPolicy(max_retention=2**31)),
        ("servers", 0, ClientPolicy()),
        ("servers", 60 * DAY, ClientPolicy(max_retention=0, max_retention_of_rows=60 * DAY)),
    ],
)
def test_shares_may_be_kept_for_as_long_as_the_owner_allows(noise: str, retention: int, policy: ClientPolicy) -> None:
    task = make_task("sum", min_clients=7, max_corrupt_clients=2, noise=noise, retention=retention)
    judge(task, bodies(task), policy)


# --- what servers may answer instead --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda: problem(UnknownTaskError()), UnknownTaskError),
        (lambda: httpx2.Response(200, content=b"{}"), UnsupportedMediaTypeError),
        (lambda: reply("keys", b"{}"), UnsupportedMediaTypeError),
        (lambda: reply("task", b"{}"), InvalidMessageError),
        (lambda: reply("task", b"\xff"), InvalidMessageError),
        (lambda: reply("task", b"[" * 100_000), InvalidMessageError),
        (lambda: httpx2.Response(302, headers={"location": "http://elsewhere.test"}), LintraError),
        (lambda: httpx2.Response(404, content=b"<html>"), LintraError),
        (lambda: httpx2.Response(404, content=b'{"type": 5, "detail": []}'), LintraError),
    ],
)
async def test_an_answer_that_is_no_definition_is_refused(
    answer: Callable[[], httpx2.Response], error: type[LintraError]
) -> None:
    network = Network(make_task())
    network.servers[1].around = lambda request, honest: answer()
    await refused(network, error)


async def test_an_endless_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lintra_client.sending.http.MAX_ANSWER_BYTES", 1000)
    await refused(Network(make_task()), InvalidMessageError, "longer than 1000 bytes")


async def test_a_servers_words_reach_the_user_short_and_without_control_characters() -> None:
    network = Network(make_task())
    network.servers[0].around = lambda request, honest: problem(UnknownTaskError("\x1b[2J" + "x" * 9999))
    with pytest.raises(UnknownTaskError) as caught:
        await network.client().open()
    assert "\x1b" not in caught.value.detail
    assert len(caught.value.detail) < 600


# --- keys -----------------------------------------------------------------------------------------------------


def entry(name: str, suite: str = "x25519", valid_from: int = 0, valid_until: int = 1000) -> SealingKeyEntry:
    key = known_key(name, suite)  # type: ignore[arg-type]
    return SealingKeyEntry(
        key_id=base64url(key.public_bytes[:8]),
        suite=key.suite,
        public_key=base64url(key.public_bytes),
        valid_from=valid_from,
        valid_until=valid_until,
    )


def key_list(*entries: SealingKeyEntry, owner: str = "server 0", signer: str = "server 0") -> bytes:
    return sign(identity(signer), KeyList(identity_key=identity(owner).public_key, keys=entries)).canonical()


def test_the_first_key_of_the_suite_that_is_valid_now_is_used() -> None:
    listed = key_list(
        entry("hybrid", "mlkem768-x25519"), entry("old", valid_until=100), entry("first"), entry("second")
    )
    key = sealing_key(make_task(), 0, listed, now=100 + CLOCK_SKEW)
    assert key.public_key == known_key("first").public_bytes


def test_a_list_without_a_valid_key_is_refused() -> None:
    for listed in (key_list(), key_list(entry("hybrid", "mlkem768-x25519")), key_list(entry("late", valid_from=999))):
        with pytest.raises(UnavailableError):
            sealing_key(make_task(), 0, listed, now=500)


def test_keys_that_the_server_did_not_sign_are_refused() -> None:
    with pytest.raises(UnauthorizedError):
        sealing_key(make_task(), 0, key_list(entry("swapped"), signer="stranger"), now=500)
    with pytest.raises(InvalidMessageError):
        sealing_key(make_task(), 0, key_list(entry("swapped"), owner="server 1"), now=500)


def test_a_key_or_identifier_of_another_length_is_refused() -> None:
    good = entry("first")
    for bad in ({"public_key": "AAAA"}, {"key_id": "AAAA"}):
        with pytest.raises(InvalidMessageError):
            sealing_key(make_task(), 0, key_list(good.model_copy(update=bad)), now=500)


async def test_keys_signed_by_somebody_else_are_refused_when_the_client_opens() -> None:
    network = Network(make_task())
    server = network.servers[1]
    stranger = identity("stranger")
    honest = server.key_list

    def swapped() -> Signed[KeyList]:
        return sign(stranger, honest().message)

    server.key_list = swapped  # type: ignore[method-assign]
    await refused(network, UnauthorizedError, "keys")


# --- everybody else invented ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "policy", "reason"),
    [
        ({}, ClientPolicy(), "which your own noise leaves. Use --trust-enrolment"),
        ({"noise": "both"}, ClientPolicy(max_epsilon_alone=2), "more than max_epsilon_alone 2"),
        ({"noise": "both", "claim": Claim(epsilon="1", epsilon_alone="5", delta="0.000001", min_clients=100)},
         ClientPolicy(max_epsilon=1), "epsilon is 5 at delta 1e-06, more than max_epsilon_alone 3"),
        ({"mechanism": "second_moment_wishart", "columns": 1}, ClientPolicy(), "alone: no bound"),
    ],
)  # fmt: skip
async def test_a_task_that_bounds_too_little_alone_is_refused(
    fields: dict[str, object], policy: ClientPolicy, reason: str
) -> None:
    task = make_task(**({"min_clients": 100} | fields))  # type: ignore[arg-type]
    await refused(Network(task), PolicyRefusedError, re.escape(reason), policy=policy)


@pytest.mark.parametrize(
    ("fields", "policy"),
    [
        ({}, ClientPolicy(trust_enrolment=True)),
        ({"noise": "both"}, ClientPolicy(max_epsilon=1)),
        ({"noise": "servers"}, ClientPolicy(max_epsilon=1, max_epsilon_alone=1)),
        ({"max_corrupt_clients": 99}, ClientPolicy(max_epsilon=1, max_epsilon_alone=1)),
        ({"min_clients": 5, "max_corrupt_clients": 1}, ClientPolicy(max_epsilon=1)),
    ],
)
def test_a_task_that_bounds_enough_alone_is_accepted(fields: dict[str, object], policy: ClientPolicy) -> None:
    task = make_task(**({"min_clients": 100} | fields))  # type: ignore[arg-type]
    judge(task, bodies(task), policy)


async def test_an_owner_who_wants_verified_reports_hears_why_a_task_has_none() -> None:
    policy = ClientPolicy(require_verified=True)
    await refused(Network(make_task()), PolicyRefusedError, "Not verified: the author", policy=policy)
    verified = make_task(verification="norm", max_rejected="0.1", min_clients=6)
    judge(verified, bodies(verified), policy)
