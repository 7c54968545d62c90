"""CPU time that a client spends on a row: alone, in bulk, and in bare seals, which are the floor.

    python benchmarks/bench_client.py [--write]

N = 3 servers, d = 12 columns, the mechanism `sum`. The servers are functions behind the HTTP transport that sign a
receipt without opening anything; their own time is subtracted. Medians of CPU time over repeated runs.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2
import numpy as np
from showing import Cell, Shown, load, parser, runs_of, show

from lintra_client import Client, ClientPolicy
from lintra_client.ledger.ledger import Ledger
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.sealing import SealingKey, SuiteName, seal
from lintra_protocol.crypto.signing import SigningKey, verify
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.fields.schema import Column
from lintra_protocol.http.requests import MessageName, media_type
from lintra_protocol.mechanisms import Sum
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.messages.documents import (
    KeyList,
    Receipt,
    SealingKeyEntry,
    TaskRecord,
    UploadAnswer,
    receipt_hash,
    sign,
)
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.report.upload import MAX_REPORTS, decode_upload
from lintra_protocol.task import AnalyzerEntry, ServerEntry, Task

SERVERS, COLUMNS, BULK, SINGLE, REPEATS = 3, 12, 2048, 200, 5
SEED = bytes(32)
SUITES: tuple[SuiteName, ...] = ("mlkem768-x25519", "x25519")


class Servers(httpx2.MockTransport):
    """N servers that answer at once, and count their own CPU seconds in `spent`."""

    def __init__(self, suite: SuiteName) -> None:
        self.identities = [SigningKey.generate(expand(SEED, f"identity {index}")) for index in range(SERVERS)]
        self.keys = [SealingKey.generate(suite, expand(SEED, f"sealing {index}")) for index in range(SERVERS)]
        self.task = make_task(suite, self.identities, self.keys[0])
        self.spent = 0.0
        super().__init__(self._timed)

    def _timed(self, request: httpx2.Request) -> httpx2.Response:
        started = time.process_time()
        name, body = self._answer(request)
        response = httpx2.Response(200, content=body, headers={"content-type": media_type(name)})
        self.spent += time.process_time() - started
        return response

    def _answer(self, request: httpx2.Request) -> tuple[MessageName, bytes]:
        index = int(request.url.host.removeprefix("server-"))
        identity, key = self.identities[index], self.keys[index]
        if request.url.path == "/v1/keys":
            public_key = base64url(key.public_bytes)
            entry = SealingKeyEntry(
                key_id=base64url(bytes(8)), suite=key.suite, public_key=public_key, valid_from=0, valid_until=2**40
            )
            return "keys", sign(identity, KeyList(identity_key=identity.public_key, keys=(entry,))).canonical()
        if request.method == "GET":
            return "task", sign(identity, TaskRecord(definition=self.task)).canonical()
        known = [each for block in decode_upload(request.content, self.task, index) for each in block.report_ids]
        receipt = Receipt(task_id=self.task.task_id, server=index, count=len(known), reports=receipt_hash(known))
        return "upload-answer", UploadAnswer(failures=(), receipt=sign(identity, receipt)).canonical()


TRUSTING = ClientPolicy(trust_enrolment=True)
"""The tasks here are about time; nobody is invented."""


def make_task(suite: SuiteName, identities: list[SigningKey], sealing_key: SealingKey) -> Task:
    claim = Claim(epsilon="1", delta="0.000001", min_clients=1000)
    bare = Sum(row_bound="1", fraction_bits=0, sigma=4)
    mechanism = Measurement(bare, COLUMNS, Setting(), claim).calibrated(1_000_000).mechanism
    servers = [
        ServerEntry(url=f"http://server-{index}", identity_key=each.public_key) for index, each in enumerate(identities)
    ]
    return Task(
        salt=base64url(SEED),
        purpose="a benchmark",
        author_key=identities[0].public_key,
        servers=tuple(servers),
        analyzer=AnalyzerEntry(identity_key=identities[0].public_key, sealing_key=base64url(sealing_key.public_bytes)),
        columns=tuple(Column(name=f"column {index}", lower="-1", upper="1") for index in range(COLUMNS)),
        mechanism=mechanism,
        claim=claim,
        max_clients=1_000_000,
        not_before=0,
        not_after=2**40,
        suite=suite,
    )


async def cpu_per_row(servers: Servers, count: int, repeats: int, work: Callable[[], Awaitable[object]]) -> float:
    """Return the median CPU milliseconds per row of `work` on `count` rows, without the servers' share."""
    seconds = []
    for _ in range(repeats):
        started, servers.spent = time.process_time(), 0.0
        await work()
        seconds.append(time.process_time() - started - servers.spent)
    return statistics.median(seconds) / count * 1e3


async def costs(suite: SuiteName, bulk: int = BULK, single: int = SINGLE, repeats: int = REPEATS) -> dict[str, float]:
    """Return CPU milliseconds per row: alone and in bulk, and the seals and signatures that each cannot do without."""
    servers = Servers(suite)
    rows = np.random.default_rng(1).uniform(-0.3, 0.3, (bulk, COLUMNS))
    urls = [entry.url for entry in servers.task.servers]
    public_keys = [key.public_bytes for key in servers.keys]
    signed = [(key.public_key, key.sign("receipt", bytes(200))) for key in servers.identities]
    share = 33 + 8 * COLUMNS

    async def bare_alone() -> None:
        for _ in range(single):
            for public_key, (identity, signature) in zip(public_keys, signed, strict=True):
                seal(bytes(share), suite, public_key, bytes(80))
                verify(identity, signature, "receipt", bytes(200))

    async def bare_requests() -> None:
        for _ in range(single):
            for url in urls:
                await http.get(f"{url}/v1/keys")

    async def bare_seals_of_blocks() -> None:
        for _ in range(bulk // MAX_REPORTS):
            for public_key in public_keys:
                seal(bytes(MAX_REPORTS * share), suite, public_key, bytes(80))

    names = [column.name for column in servers.task.columns]
    named = [dict(zip(names, row, strict=True)) for row in rows.tolist()]
    with tempfile.TemporaryDirectory() as folder:
        kept = Ledger(Path(folder) / "ledger.sqlite")
        async with (
            Client(servers.task.task_id, urls, policy=TRUSTING, ledger=None, transport=servers) as client,
            Client(servers.task.task_id, urls, policy=TRUSTING, ledger=kept, transport=servers) as careful,
            httpx2.AsyncClient(transport=servers) as http,
        ):
            sources = iter(range(10**9))

            async def one_by_one() -> None:
                for row in rows[:single]:
                    await client.send(row)

            async def charged() -> None:
                for row in rows[:single]:
                    await careful.send(row, source=f"source {next(sources)}")

            return {
                "bare seals, blocks": await cpu_per_row(servers, bulk, repeats, bare_seals_of_blocks),
                "bulk, array": await cpu_per_row(servers, bulk, repeats, lambda: client.send_many(rows)),
                "bulk, mappings": await cpu_per_row(servers, bulk, repeats, lambda: client.send_many(named)),
                "bare seals and receipts, alone": await cpu_per_row(servers, single, repeats, bare_alone),
                "bare requests, alone": await cpu_per_row(servers, single, repeats, bare_requests),
                "one row at a time": await cpu_per_row(servers, single, repeats, one_by_one),
                "the same, charged to a ledger": await cpu_per_row(servers, single, repeats, charged),
            }


FLOORS = {
    "bulk, array": ("bare seals, blocks",),
    "bulk, mappings": ("bare seals, blocks",),
    "one row at a time": ("bare seals and receipts, alone", "bare requests, alone"),
    "the same, charged to a ledger": ("bare seals and receipts, alone", "bare requests, alone"),
}
"""What each way of sending cannot do without."""


def table(bulk: int, single: int, repeats: int) -> Shown:
    """Return what a row costs in both suites, ratios first."""
    busy = load()
    found = {suite: asyncio.run(costs(suite, bulk, single, repeats)) for suite in SUITES}

    def cells(what: str) -> list[Cell]:
        line: list[Cell] = [what]
        for suite in SUITES:
            floor = sum(found[suite][name] for name in FLOORS.get(what, ()))
            line += [found[suite][what] / floor if floor else None, f"{found[suite][what]:.3g} ms"]
        return line

    return Shown(
        "client-times",
        "CPU time that a client spends on a row",
        ("how rows are sent", *(head for suite in SUITES for head in (f"{suite}: times its floor", "CPU time"))),
        tuple(tuple(cells(what)) for what in found[SUITES[0]]),
        f"N = {SERVERS} servers, {COLUMNS} columns, {bulk:,} rows in bulk and {single} alone; medians of {repeats} "
        f"rounds. The floor in bulk is the bare seals of blocks; alone it is bare seals, verified receipts and bare "
        f"requests, all three. {busy}",
    )


def main() -> None:
    """Show it for both suites."""
    options = parser(__doc__, REPEATS, REPEATS)
    options.add_argument("--single", type=int, default=SINGLE, help="rows that are sent one by one")
    asked = options.parse_args()
    show({"client-times": lambda: table(BULK, asked.single, runs_of(asked))}, asked)


if __name__ == "__main__":
    main()
