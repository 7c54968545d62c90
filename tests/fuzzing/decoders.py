"""Everything that reads a stranger's bytes, each with inputs that are good."""

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from fuzzing.decoder import Decode, Decoder, UnlawfulError
from fuzzing.own_files import own_files
from lintra_analysis.certificate.certificate import ReleaseRecord, numbers_in, values_hash
from lintra_analysis.trial.files.table import Readings, read_table
from lintra_analyzer.exchange.servers import parse_problem
from lintra_analyzer.web.analyses import parse_request
from lintra_client.organisations.mapping import FileMapping
from lintra_client.organisations.sent_table import read_sent
from lintra_client.organisations.sent_table import read_table as read_sent_table
from lintra_protocol.cohort.report_ids import ReportIds, decode_positions, encode_positions
from lintra_protocol.crypto.randomness import derive_seed, expand
from lintra_protocol.crypto.sealing import SealingKey, seal
from lintra_protocol.crypto.tokens import Admission, Token, derived_keys, make_token
from lintra_protocol.encoding.canonical import base64url, canonical_json, parse_base64url, parse_canonical_json
from lintra_protocol.encoding.documents import Frozen
from lintra_protocol.errors import LintraError
from lintra_protocol.http import problems
from lintra_protocol.http.requests import sign_request, verify_request
from lintra_protocol.messages.documents import (
    AggregateRequest,
    BatchStatus,
    Census,
    Cohort,
    CohortRequest,
    Counters,
    Difference,
    DifferenceInPieces,
    Inventory,
    KeyList,
    Progress,
    Receipt,
    Registration,
    SealingKeyEntry,
    Signed,
    SketchShareRecord,
    TaskRecord,
    UploadAnswer,
    census_of,
    inventory_of,
    receipt_hash,
    sign,
)
from lintra_protocol.messages.inclusion import Absence, Inclusion, ShownLeaf
from lintra_protocol.report.report import Report, make_reports, open_block, seal_block, share_words
from lintra_protocol.report.upload import SealedBlock, decode_passes, decode_upload, encode_upload
from lintra_protocol.report.wire import (
    block_context,
    commitments_to,
    decode_sealed_document,
    encode_header,
    encode_sealed_document,
    share_bytes,
)
from lintra_protocol.task import Task
from support.seeds import SEED, identity
from support.tasks import make_task

NOW, URL = 1_800_000_000, "https://server.example/v1/tasks/x/batches/0/cohort"
NUM_SERVERS = 3

# --- the parties of the seeds ------------------------------------------------------------------------------------

PLAIN = make_task("osnap", num_servers=NUM_SERVERS)
SEEDED = make_task("sum", num_servers=NUM_SERVERS, share_form="seeded")
VERIFIED = make_task("sum", num_servers=NUM_SERVERS, verification="norm", max_rejected="0.1", share_form="seeded")
ADMITTED = make_task("sum", num_servers=NUM_SERVERS, client_auth="token", token_keys=("A" * 43,) * NUM_SERVERS)
KEY = identity("server 0")
TOKEN_KEYS = derived_keys(bytes(32), [entry.identity_key for entry in PLAIN.servers])
SEALING = SealingKey.generate(PLAIN.suite, expand(derive_seed(SEED, "fuzzing"), "sealing key"))
IDS = ReportIds.of(derive_seed(SEED, "report", number.to_bytes(2, "big")) for number in range(5))
FEWER = ReportIds.of(IDS[1:4])


def random_bytes(label: str) -> Callable[[int], bytes]:
    return expand(derive_seed(SEED, "fuzzing"), label)


def reports_of(task: Task, count: int) -> list[Report]:
    rows = task.encode(np.full((count, len(task.columns)), 0.25), random_bytes("row"))
    return make_reports(task, rows, task.not_before, random_bytes("report"))


def sealed_block(task: Task, count: int = 1) -> SealedBlock:
    return seal_block(task, 0, bytes(8), SEALING.public_bytes, reports_of(task, count))


# --- the decoders ------------------------------------------------------------------------------------------------


def _upload(task: Task, *counts: int, passes: Sequence[bytes] = ()) -> Decoder:
    """Return the decoder of uploads; the good one has blocks of so many reports."""
    blocks = [replace(sealed_block(task, count), passes=tuple(passes[:count])) for count in counts]
    return Decoder(lambda data: encode_upload(decode_upload(data, task, 0)), [encode_upload(blocks)])


def _block(task: Task, count: int) -> Decoder:
    """Return the decoder of a block as it arrives, headers in the open and seal: opened, or refused for a reason."""

    def decode(data: bytes) -> bytes:
        (block,) = decode_upload(b"\0\1" + data, task, 0)
        found = open_block(task, 0, block, lambda _: SEALING)
        if [each for each in found if isinstance(each, LintraError)]:
            raise UnlawfulError("what was sealed whole is refused in parts")
        return encode_upload([block])[2:]

    return Decoder(decode, [encode_upload([sealed_block(task, count)])[2:]])


def _shares(task: Task, server: int, count: int) -> Decoder:
    """Return the decoder of what a client sealed, and committed to: anything may stand in there."""
    size = share_bytes(task, server)

    def decode(data: bytes) -> bytes:
        rows = np.frombuffer(data.ljust(count * size, b"\0")[: count * size], np.uint8).reshape(count, size)
        of_server = commitments_to(task.id_bytes, server, rows)
        around = [[bytes(32)] * server + [each] + [bytes(32)] * (NUM_SERVERS - 1 - server) for each in of_server]
        headers = tuple(encode_header(task.id_bytes, task.not_before, each) for each in around)
        info = block_context(task.id_bytes, server, bytes(8), headers)
        sealed = SealedBlock(headers, bytes(8), seal(data, task.suite, SEALING.public_bytes, info))
        again = []
        for share, payload in zip(rows, open_block(task, server, sealed, lambda _: SEALING), strict=True):
            if isinstance(payload, LintraError):
                raise payload
            words = share_words(task, server, payload)
            if words.dtype != np.uint64 or words.shape != (task.num_words,):
                raise UnlawfulError("a share has other words than its task")
            again.append(share.tobytes()[: size - len(payload)] + payload)
        return b"".join(again)

    return Decoder(decode, [b"".join(report.shares[server] for report in reports_of(task, count))])


def _document(kind: type[Frozen], *seeds: Frozen) -> Decoder:
    return Decoder(lambda data: kind.from_canonical(data).canonical(), [seed.canonical() for seed in seeds], True)


def _difference() -> Decoder:
    def decode(data: bytes) -> bytes:
        read = Difference.from_canonical(data)
        rebuilt = read.rebuild(IDS)
        return Difference.between(read.server, IDS, rebuilt).canonical()

    return Decoder(decode, [Difference.between(1, IDS, FEWER).canonical()], True)


def _request_signature() -> Decoder:
    names = ("content-digest", "signature-input", "signature")

    def decode(data: bytes) -> None:
        lines = data.decode("latin-1").split("\n")
        headers = dict(zip(names, lines, strict=False))
        verify_request(KEY.public_key, "PUT", URL, headers, NOW)

    signed = sign_request(KEY, "PUT", URL, b"body", NOW, bytes(16))
    return Decoder(decode, ["\n".join(signed[name] for name in names).encode()])


def _archive() -> Decoder:
    sketch, counts = np.arange(6, dtype=np.int64).reshape(2, 3), np.array([3, 4], np.int64)
    record = ReleaseRecord.model_construct(
        rows=2, words=3, values=values_hash(sketch), batch=0, task_id="", kind="release"
    )
    stored, small = io.BytesIO(), io.BytesIO()
    np.savez(stored, sketch=sketch, row_counts=counts, values=sketch / 2)
    np.savez_compressed(small, sketch=sketch, row_counts=counts)

    def decode(data: bytes) -> None:
        numbers_in(record, data)

    return Decoder(decode, [stored.getvalue(), small.getvalue()])


def _file(path: Path, read: Callable[[Path], object]) -> Decode:
    def decode(data: bytes) -> None:
        path.write_bytes(data)
        read(path)

    return decode


def _csv(path: Path) -> dict[str, Decoder]:
    seeds = [
        b"a,b,c\n1,2,3\n0.5,,x\n",
        '\ufeffa,b,c\r\n"1","2,5","3\n4"\r\n'.encode(),
        b"who,a,b,c\nann,1,2,3\nbob,4,5,6\n",
    ]
    rows = [b"a,b,c\n1,2,3\n0.5,,n/a\n", '\ufeffa;b;c\r\n"1";"2,5";"3 000"\r\n'.encode()]
    columns, guess = PLAIN.columns, Readings(guess=True)
    return {
        "rows of a file": Decoder(_file(path, lambda file: read_sent(columns, read_sent_table(file))), rows),
        "a mapping of a file": Decoder(_file(path, FileMapping.from_file), [MAPPING]),
        "a table that is tried": Decoder(_file(path, partial(read_table, readings=guess)), [seeds[0], seeds[2]]),
    }


MAPPING = canonical_json({"rename": {"A": "a"}, "columns": True, "readings": {}, "others": {}, "same_persons": True})


def _token() -> Decoder:
    token = make_token(TOKEN_KEYS, PLAIN.id_bytes, random_bytes("token"))

    def decode(data: bytes) -> bytes | None:
        text = data.decode("utf-8", "surrogateescape")
        spelled = Token.parse(text, NUM_SERVERS).spelled()
        return data if spelled == text.strip() else spelled.encode()

    return Decoder(decode, [token.spelled().encode()])


def _pass() -> Decoder:
    token, admission = (
        make_token(TOKEN_KEYS, PLAIN.id_bytes, random_bytes("token")),
        Admission(TOKEN_KEYS[0], PLAIN.id_bytes),
    )

    def decode(data: bytes) -> bytes:
        return b"".join(admission.require(each) + each[16:] for each in decode_passes(b"\0\1" + data))

    return Decoder(decode, [token.pass_for(0)])


def _base64url() -> Decoder:
    def decode(data: bytes) -> bytes:
        return base64url(parse_base64url(data.decode("latin-1"))).encode()

    return Decoder(decode, [base64url(bytes(range(20))).encode()])


def _messages() -> dict[str, Decoder]:
    key32 = base64url(bytes(32))
    inventory = sign(KEY, inventory_of(PLAIN, 0, 0, IDS, bytes(32), 7, 1))
    cohort = Cohort(
        task_id=PLAIN.task_id, batch=0, server=0, count=5, root=key32, inventories=key32, nonce=key32, start=1
    )
    share = SketchShareRecord(
        task_id=PLAIN.task_id,
        batch=0,
        server=0,
        cohort_root=key32,
        num_clients=5,
        seed=key32,
        rows=2,
        words=3,
        sealed=key32,
    )
    receipt = sign(KEY, Receipt(task_id=PLAIN.task_id, server=0, count=2, reports=receipt_hash(IDS[:2])))
    entry = SealingKeyEntry(
        key_id=base64url(bytes(8)),
        suite=PLAIN.suite,
        public_key=base64url(SEALING.public_bytes),
        valid_from=1,
        valid_until=2,
    )
    record = sign(identity("author"), TaskRecord(definition=PLAIN))
    registration = Registration(record=record, key_id=base64url(bytes(8)), token_key=base64url(bytes(80)))
    asked = CohortRequest(inventories=(inventory,), differences=(Difference.between(1, IDS, FEWER),))
    in_pieces = DifferenceInPieces(server=1, missing_bytes=3, pieces=(key32,))
    return {
        "a signed key list": _document(Signed[KeyList], sign(KEY, KeyList(identity_key=KEY.public_key, keys=(entry,)))),
        "a signed task": _document(Signed[TaskRecord], record),
        "a signed receipt": _document(Signed[Receipt], receipt),
        "a signed inventory": _document(Signed[Inventory], inventory),
        "a signed census": _document(Signed[Census], sign(KEY, census_of(PLAIN, 0, 0, IDS, 7, 1))),
        "a signed cohort": _document(Signed[Cohort], sign(KEY, cohort)),
        "a signed sketch share": _document(Signed[SketchShareRecord], sign(KEY, share)),
        "a registration": _document(Registration, registration),
        "a cohort request": _document(CohortRequest, asked, asked.model_copy(update={"differences": (in_pieces,)})),
        "an aggregate request": _document(AggregateRequest, AggregateRequest(cohorts=(sign(KEY, cohort),))),
        "an upload's answer": _document(UploadAnswer, UploadAnswer(failures=(), receipt=receipt)),
        "counters": _document(Counters, Counters(received=3, accepted=1, repeated=1, refused={"batch_closed": 1})),
        "a batch's state": _document(BatchStatus, BatchStatus(batch=0, state="open", count=3, enough=False)),
        "a step under way": _document(Progress, Progress(step="cohort", seconds=9, thousandths=500)),
        "a proof of inclusion": _document(
            Inclusion, Inclusion(root=key32, count=5, leaf=0, leaf_ids=base64url(IDS.encode()), siblings=())
        ),
        "a proof of absence": _document(
            Absence,
            Absence(
                root=key32, count=5, leaves=(ShownLeaf(leaf=0, leaf_ids=base64url(IDS.encode()), siblings=(key32,)),)
            ),
        ),
    }


def _task() -> Decoder:
    def decode(data: bytes) -> bytes:
        task = Task.from_canonical(data)
        task.check()
        return task.canonical()

    return Decoder(decode, [PLAIN.canonical(), SEEDED.canonical(), make_task("histogram").canonical()], is_json=True)


def _problem() -> Decoder:
    seed = b'{"detail":"x","retryable":false,"status":409,"title":"t","type":"urn:lintra:problem:batch_closed"}'

    def decode(data: bytes) -> None:
        problems.from_problem(parse_problem(data))

    return Decoder(decode, [seed], is_json=True)


def _analysis() -> Decoder:
    def decode(data: bytes) -> None:
        parse_request(data)

    seeds = [b'{"kind":"regression","target":"a"}', b'{"components":2,"kind":"pca"}']
    return Decoder(decode, seeds, is_json=True)


def decoders(folder: Path) -> dict[str, Decoder]:
    """Return every decoder by name; those of files write what they are given to a folder."""
    sealed_document = encode_sealed_document(b'{"a":1}', bytes(20))
    places, texts = encode_positions(np.array([0, 3, 200, 70_000])), [PLAIN.canonical(), b'{"a":[1,null,"\xc3\xa9"]}']
    return {
        "an upload": _upload(PLAIN, 1, 3, 1),
        "an upload of seeds": _upload(SEEDED, 2),
        "an upload with tokens": _upload(ADMITTED, 2, 1, passes=[bytes(32), b"x" * 32]),
        "a block": _block(PLAIN, 3),
        "a block of one": _block(SEEDED, 1),
        "a share of words": _shares(PLAIN, 0, 1),
        "shares of seeds": _shares(SEEDED, 0, 2),
        "the last shares of seeded reports": _shares(SEEDED, NUM_SERVERS - 1, 3),
        "shares of a proof's seed": _shares(VERIFIED, 0, 2),
        "shares of words and proofs": _shares(VERIFIED, NUM_SERVERS - 1, 2),
        "a sealed document": Decoder(
            lambda data: encode_sealed_document(*decode_sealed_document(data)), [sealed_document]
        ),
        "a list of identifiers": Decoder(lambda data: ReportIds.parse(data, 100).encode(), [IDS.encode(), b""]),
        "positions": Decoder(lambda data: encode_positions(decode_positions(data)), [places, b""]),
        "a difference of lists": _difference(),
        "canonical JSON": Decoder(lambda data: canonical_json(parse_canonical_json(data)), texts, is_json=True),
        "base64url": _base64url(),
        "a token": _token(),
        "passes": _pass(),
        "a request's signature": _request_signature(),
        "a task": _task(),
        "an archived release": _archive(),
        "a problem document": _problem(),
        "an analysis that is asked for": _analysis(),
        **_messages(),
        **_csv(folder / "rows.csv"),
        **own_files(folder),
    }
