"""What a server costs: an upload beside the HPKE opening in it, a release beside the reading in it, and its memory.

    python benchmarks/bench_server.py [--write]

All ratios are of two measurements in this run. CPU time is that of the process; times of one machine say little,
ratios more.
"""

import asyncio
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import structlog
from showing import Shown, load, number, parser, show
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lintra_protocol.cohort.merkle import merkle_root
from lintra_protocol.cohort.report_ids import ReportIds, intersection
from lintra_protocol.crypto.randomness import bulk_system_randomness, system_randomness
from lintra_protocol.crypto.sealing import HYBRID, SealingKey
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.crypto.tokens import SERIAL_BYTES, Admission
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.fields.schema import Column
from lintra_protocol.http.requests import media_type
from lintra_protocol.mechanisms import AnyMechanism, Osnap, SecondMoment
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.messages.documents import TaskRecord, sign
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.report.report import make_reports, seal_block
from lintra_protocol.report.upload import MAX_REPORTS, SealedBlock, decode_upload, encode_upload, upload_bytes
from lintra_protocol.report.wire import block_context
from lintra_protocol.task import AnalyzerEntry, ServerEntry, Task
from lintra_server.batches.executor import InProcessExecutor, ReleaseRequest, sketch_share
from lintra_server.batches.merged_batches import ranked
from lintra_server.batches.registry import RegisteredBatch
from lintra_server.batches.report_decryption import open_blocks
from lintra_server.batches.transform import add_reports
from lintra_server.settings import Settings
from lintra_server.storage.store import StoredUpload
from lintra_server.web.app import create_app
from lintra_server.web.upload_route import UploadRoute

NUM_COLUMNS = 12
UPLOADS = 24
SINGLES, ROUNDS = 600, 5
CONNECTIONS = 64
STORED = 200_000
TOKEN_GROUPS = 120


def quiet() -> None:
    """Log nothing; loggers are kept once they are made, as `lintra_service.logs` has it."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50), cache_logger_on_first_use=True)


def server(folder: Path, mechanism: AnyMechanism, max_clients: int = 1_000_000) -> tuple[UploadRoute, RegisteredBatch]:
    """Return a server that holds one task of `NUM_COLUMNS` columns."""
    app = create_app(
        Settings.model_validate(
            {
                "public_url": "http://127.0.0.1:1",
                "data_dir": folder / "data",
                "key_dir": folder / "keys",
                "create_keys": True,
                "policy": {"allowed_authors": "any", "open": True},
            }
        )
    )
    author, other, analyzer = (SigningKey.generate(system_randomness) for _ in range(3))
    claim = Claim(epsilon="1", delta="0.000001", min_clients=10_000)
    hour = int(time.time()) // 3600
    sealing = SealingKey.generate(HYBRID, system_randomness)
    task = Task(
        salt=base64url(bytes(32)),
        purpose="benchmark",
        author_key=author.public_key,
        servers=(
            ServerEntry(url="http://127.0.0.1:1", identity_key=app.node.identity.public_key),
            ServerEntry(url="http://127.0.0.1:2", identity_key=other.public_key),
        ),
        analyzer=AnalyzerEntry(identity_key=analyzer.public_key, sealing_key=base64url(sealing.public_bytes)),
        columns=tuple(Column(name=f"c{index}", lower="-1", upper="1") for index in range(NUM_COLUMNS)),
        mechanism=Measurement(mechanism, NUM_COLUMNS, Setting(), claim).calibrated(max_clients).mechanism,
        claim=claim,
        max_clients=max_clients,
        not_before=hour - 1,
        not_after=hour + 24,
    )
    app.node.registry.register(task.task_id, sign(author, TaskRecord(definition=task)))
    return app, app.node.registry.find_batch(task.task_id)


def sealed_uploads(app: UploadRoute, held: RegisteredBatch, count: int, together: int = MAX_REPORTS) -> list[bytes]:
    """Return the bodies of `count` uploads of one block of fresh reports each."""
    key_id, key = next((key_id, key) for key_id, key in app.node.keys.active().items() if key.suite == HYBRID)
    task, random_bytes = held.task, bulk_system_randomness()
    rows = np.zeros((together, task.num_words), np.int64)
    return [
        encode_upload(
            [seal_block(task, 0, key_id, key.public_bytes, make_reports(task, rows, task.not_before, random_bytes))]
        )
        for _ in range(count)
    ]


async def post(app: ASGIApp, task_id: str, body: bytes) -> None:
    """Send one upload through the ASGI door."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = {"content-type": media_type("reports"), "content-length": str(len(body))}
    scope = {
        "type": "http",
        "method": "POST",
        "path": f"/v1/tasks/{task_id}/reports",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    await app(scope, receive, send)
    assert sent[0]["status"] == 200, sent
    assert b'"failures":[]' in sent[1]["body"]


async def post_all(app: ASGIApp, held: RegisteredBatch, bodies: list[bytes]) -> None:
    """Send uploads from `CONNECTIONS` senders at once."""

    async def sender(number: int) -> None:
        for body in bodies[number::CONNECTIONS]:
            await post(app, held.task.task_id, body)

    await asyncio.gather(*(sender(number) for number in range(CONNECTIONS)))


def cpu(work: Callable[..., object], *arguments: object) -> float:
    """Return the CPU seconds of one call, in all threads."""
    started = time.process_time()
    work(*arguments)
    return time.process_time() - started


def opened(held: RegisteredBatch, app: UploadRoute, body: bytes) -> float:
    """Return the CPU seconds in which an upload is cut, opened and checked, without looking anything up."""
    return cpu(lambda: open_blocks(held, decode_upload(body, held.task, 0), app.node.keys.find, set()))


def hpke(held: RegisteredBatch, app: UploadRoute, body: bytes) -> float:
    """Return the CPU seconds in which the seals of an upload are opened, and nothing else."""
    blocks = decode_upload(body, held.task, 0)

    def context(block: SealedBlock) -> bytes:
        return block_context(held.task.id_bytes, 0, block.key_id, block.headers)

    messages = [(app.node.keys.find(block.key_id), block.sealed, context(block)) for block in blocks]
    return cpu(lambda: [key.open(sealed, info) for key, sealed, info in messages])


class Bare:
    """Does for an upload what no server can leave out: reads it, opens its seal, signs and answers."""

    def __init__(self, app: UploadRoute, held: RegisteredBatch, bodies: list[bytes]) -> None:
        self._identity = app.node.identity
        self._messages: dict[bytes, tuple[SealingKey, bytes, bytes]] = {}
        for body in bodies:
            (block,) = decode_upload(body, held.task, 0)
            info = block_context(held.task.id_bytes, 0, block.key_id, block.headers)
            self._messages[body] = app.node.keys.find(block.key_id), block.sealed, info

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one upload."""
        del scope
        key, sealed, info = self._messages[(await receive())["body"]]
        key.open(sealed, info)
        signature = self._identity.sign("receipt", bytes(200))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b'"failures":[]' + signature.encode()})


def bulk(blocks: int = UPLOADS) -> dict[str, float]:
    """Return microseconds of CPU a report of uploads of one whole block: new, repeated, in memory, and HPKE alone.

    All come one after the other in one event loop that goes on, as a server's does.
    """
    with tempfile.TemporaryDirectory() as folder:
        app, held = server(Path(folder), Osnap(row_bound="1", fraction_bits=0, sigma=4, rows=256))
        found: dict[str, list[float]] = {"new": [], "repeated": [], "opened and checked": [], "hpke": []}

        async def measure() -> None:
            for body in sealed_uploads(app, held, blocks):
                found["hpke"].append(hpke(held, app, body))
                found["opened and checked"].append(opened(held, app, body))
                for name in ("new", "repeated"):
                    started = time.process_time()
                    await post(app, held.task.task_id, body)
                    found[name].append(time.process_time() - started)

        asyncio.run(measure())
        app.node.close()
    micros = {name: 1e6 * statistics.median(figures) / MAX_REPORTS for name, figures in found.items()}
    return micros | {"bytes": upload_bytes(held.task, 0, 1, MAX_REPORTS) / MAX_REPORTS}


def singles(count: int = SINGLES, rounds: int = ROUNDS) -> dict[str, float]:
    """Return microseconds of CPU of one upload of one report, `CONNECTIONS` at a time: the middle of some rounds.

    Beside it what no server can leave out (see `Bare`), by the same senders, and the HPKE opening alone; `openings` is
    the middle of the rounds' ratios of the two, which a machine that changes its speed leaves nearly as it is.
    """
    with tempfile.TemporaryDirectory() as folder:
        app, held = server(Path(folder), Osnap(row_bound="1", fraction_bits=0, sigma=4, rows=256))
        found: dict[str, list[float]] = {"new": [], "repeated": [], "bare": [], "hpke": []}
        with asyncio.Runner() as runner:
            runner.run(post_all(app, held, sealed_uploads(app, held, CONNECTIONS, 1)))
            for _ in range(rounds):
                bodies = sealed_uploads(app, held, count, 1)
                bare = Bare(app, held, bodies)
                found["hpke"].append(sum(hpke(held, app, body) for body in bodies) / count)
                found["bare"].append(cpu(runner.run, post_all(bare, held, bodies)) / count)
                found["new"].append(cpu(runner.run, post_all(app, held, bodies)) / count)
                found["repeated"].append(cpu(runner.run, post_all(app, held, bodies)) / count)
        app.node.close()
    micros = {name: 1e6 * statistics.median(figures) for name, figures in found.items()}
    ratios = [new / hpke for new, hpke in zip(found["new"], found["hpke"], strict=True)]
    return micros | {"openings": statistics.median(ratios)}


Line = tuple[str, float, float | None, str, str]
"""What, CPU time, its floor, the unit of both, and a remark."""


def uploads() -> list[Line]:
    """Return what uploads through the ASGI door cost, durable: in bulk, single and repeated, beside their floors."""
    many, one = bulk(), singles()
    return [
        (
            f"a report in an upload of {MAX_REPORTS}, stored and answered",
            many["new"],
            many["hpke"],
            "us",
            f"its part of the HPKE opening; {many['bytes']:.0f} bytes a report, d = {NUM_COLUMNS}, hybrid",
        ),
        ("the same, cut, opened and checked only", many["opened and checked"], many["hpke"], "us", "the same"),
        ("the same report again", many["repeated"], None, "us", ""),
        (
            f"an upload of one report, {CONNECTIONS} at a time",
            one["new"],
            one["bare"],
            "us",
            f"opening, signing, answering; {one['openings']:.2f} times the HPKE opening of {one['hpke']:.0f} us",
        ),
        ("the same report again", one["repeated"], one["bare"], "us", "the same"),
    ]


def token_cost(groups: int = TOKEN_GROUPS) -> dict[str, float]:
    """Return microseconds of CPU a report in bulk: a token's check, and storing without and with one, in turns."""
    random_bytes = bulk_system_randomness()
    with tempfile.TemporaryDirectory() as folder:
        app, held = server(Path(folder), Osnap(row_bound="1", fraction_bits=0, sigma=4, rows=256))
        store, size = app.node.store, 8 * held.task.num_words
        admission = Admission(random_bytes(32), held.task.id_bytes)
        seconds: dict[str, list[float]] = {"check": [], "without": [], "with": []}
        for _ in range(groups):
            serials = [random_bytes(SERIAL_BYTES) for _ in range(MAX_REPORTS)]
            passes = [serial + admission.mac(serial) for serial in serials]
            seconds["check"].append(cpu(lambda passes: [admission.require(each) for each in passes], passes))
            for name, used in (("without", []), ("with", serials)):
                ids = [random_bytes(32) for _ in range(MAX_REPORTS)]
                upload = StoredUpload(
                    held.number, ids, [random_bytes(size) for _ in ids], held.task.max_clients, None, used
                )
                seconds[name].append(cpu(store.add_reports, [upload]))
        app.node.close()
    return {name: 1e6 * statistics.median(figures) / MAX_REPORTS for name, figures in seconds.items()}


def tokens() -> list[Line]:
    """Return what a token costs a report in bulk."""
    found = token_cost()
    check, without, stored = found["check"], found["without"], found["with"]
    more = check + stored - without
    said = f"its check; storing takes {stored / without:.2f} times {without:.1f} us, what it takes without a token"
    return [(f"a token more, a report in uploads of {MAX_REPORTS}", more, check, "us", said)]


def release() -> list[Line]:
    """Measure the adding up of many second-moment reports: beside decrypting their shares alone, and memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder:
        app, held = server(Path(folder), SecondMoment(row_bound="1", fraction_bits=0, sigma=4))
        random_bytes, size = bulk_system_randomness(), 8 * held.task.num_words
        store_seconds = 0.0
        for _ in range(STORED // 2000):
            ids = [random_bytes(32) for _ in range(2000)]
            upload = StoredUpload(held.number, ids, [random_bytes(size) for _ in ids], held.task.max_clients)
            store_seconds += cpu(app.node.store.add_reports, [upload])
        matrix = held.task.mechanism.public_matrix(STORED, bytes(32))
        store = app.node.store
        started = time.process_time()
        ((ranks, stored),) = ranked(store, [held.number])
        sketch_share(ReleaseRequest(held.task, 0, matrix, bytes(32), held.number, ranks, stored), InProcessExecutor())
        seconds = time.process_time() - started
        reading = cpu(
            lambda: sum(
                len(payloads) for _, payloads in store.segments(held.number, store.held(held.number)[1]).payloads()
            )
        )
        listing = cpu(store.report_ids, held.number)
        app.node.close()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    memory = f"peak memory {after / 1024:.0f} MiB, {(after - before) / 1024:.0f} MiB of it by this measurement"
    words = f"{STORED:,} reports of {held.task.num_words} words"
    return [
        (f"release of {words}", seconds, reading, "s", f"reading and decrypting their shares; {memory}"),
        (f"listing their {STORED:,} identifiers", listing, None, "s", ""),
        ("storing them, 2,000 at a time, a report", 1e6 * store_seconds / STORED, None, "us", ""),
    ]


def transform() -> list[Line]:
    """Measure the sparse product, in blocks as a release does it, beside the reading that it cannot avoid."""
    num_reports, block = 1_000_000, 100_000
    rng = np.random.default_rng(1)
    shares = rng.integers(0, 2**64, (num_reports, 10), np.uint64)
    ranks = np.arange(num_reports)
    matrix = Osnap(row_bound="1", fraction_bits=0, sigma=4, rows=256).public_matrix(num_reports, bytes(32))
    sketch = np.zeros((256, 10), np.uint64)

    def in_blocks() -> None:
        for start in range(0, num_reports, block):
            add_reports(matrix, sketch, ranks[start : start + block], shares[start : start + block])

    reading = min(cpu(np.sum, shares) for _ in range(15))
    product = min(cpu(in_blocks) for _ in range(15))
    plain = min(cpu(matrix.add_reports, sketch, ranks, shares) for _ in range(3))
    said = f"one read of the shares; the plain form takes {plain / product:.1f} times the product"
    return [(f"transform of {num_reports:,} x 10 to 256 rows", 1e3 * product, 1e3 * reading, "ms", said)]


def lists() -> list[Line]:
    """Measure what a cohort costs: checking, hashing, comparing lists, beside the same with sets of bytes."""
    num_reports = 1_000_000
    data = ReportIds.of(system_randomness(32) for _ in range(num_reports)).encode()
    whole = ReportIds.parse(data, num_reports)
    part = whole.where(np.arange(num_reports) % 100 > 0)
    parse = min(cpu(ReportIds.parse, data, num_reports) for _ in range(3))
    root = min(cpu(merkle_root, whole.array) for _ in range(3))
    common = min(cpu(intersection, [whole, part]) for _ in range(3))
    first, second = list(whole), list(part)
    sets = min(cpu(lambda: sorted(set(first) & set(second))) for _ in range(3))
    return [
        (f"a list of {num_reports:,}: its order checked", 1e3 * parse, None, "ms", ""),
        ("its tree", 1e3 * root, None, "ms", ""),
        ("what it shares with another", 1e3 * common, None, "ms", f"sets of bytes take {sets / common:.1f} times that"),
    ]


def table() -> Shown:
    """Measure every line, and return them with ratios first."""
    busy = load()
    # The release comes first: the peak of the memory is that of the whole process.
    lines = [*release(), *transform(), *lists(), *uploads(), *tokens()]
    return Shown(
        "server-times",
        "CPU time of a server",
        ("what", "times its floor", "CPU time", "floor", "which is"),
        tuple(
            (what, took / floor if floor else None, f"{number(took)} {unit}", floor and f"{number(floor)} {unit}", said)
            for what, took, floor, unit, said in lines
        ),
        busy,
    )


def main() -> None:
    """Show it."""
    asked = parser(__doc__, 1, 1).parse_args()
    quiet()
    show({"server-times": table}, asked)


if __name__ == "__main__":
    main()
