"""A server in this process: its real parts on real folders, without a socket; deterministic from the seed.

Uploads go through the real ASGI function for uploads, whole bursts of them into one commit of the real writer; the
analyst's questions go to the gate itself.
"""

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.types import Message

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.errors import LintraError
from lintra_protocol.http.problems import STATUS
from lintra_protocol.http.requests import media_type
from lintra_protocol.messages.documents import (
    AggregateRequest,
    CohortRequest,
    KeyList,
    Registration,
    Signed,
    TaskRecord,
)
from lintra_protocol.rules.verification import ChecksRequest, VerifiedAggregateRequest
from lintra_server.batches.registry import RegisteredBatch
from lintra_server.node import Node, new_clock
from lintra_server.operations.backup import back_up
from lintra_server.operations.losses import batch_named, begun
from lintra_server.operations.restore import Restored, put_database, restore
from lintra_server.settings import RegistrationPolicy, Settings
from lintra_server.storage.segments import SegmentTable, StoredSegments
from lintra_server.storage.server_resources import database_path, lock_folders
from lintra_server.storage.store import NonceLabel
from lintra_server.web.upload_route import UploadRoute
from simulation.books import LOST, Answer
from simulation.reading import Snapshot, read_database
from simulation.trouble import CrashError, Trouble
from simulation.verified import judged_inside
from support.server_world import url

SPINS = 400
"""Turns of the loop that a burst may take to reach the writer."""


class Times:
    """The clocks of a machine, which stand until they are moved."""

    def __init__(self, wall: float) -> None:
        self.wall = wall
        self.running = 1000.0

    def pass_(self, seconds: float) -> None:
        self.wall += seconds
        self.running += seconds


class InLine(Executor):
    """Does what it is given at once, so that nothing depends on how threads are scheduled."""

    def submit(self, function, /, *arguments, **options):  # type: ignore[no-untyped-def, override]
        future: Future[object] = Future()
        try:
            future.set_result(function(*arguments, **options))
        except BaseException as error:
            future.set_exception(error)
        return future


def settings_of(folder: Path, number: int, witness: Path | None) -> Settings:
    """Return the settings of a server below a folder."""
    return Settings.model_validate(
        {
            "public_url": url(number),
            "data_dir": folder / f"data{number}",
            "key_dir": folder / f"keys{number}",
            "witness_dir": witness,
            "create_keys": True,
            "min_free_bytes": 0,
            "reserve_bytes": 0,
            "policy": RegistrationPolicy(allowed_authors="any", open=True, max_tasks=100_000),
        }
    )


@dataclass
class InsideServer:
    """One server's folders, and its process while it runs.

    Attributes:
        offset: by how many seconds its clock is wrong.
        set_back: whether its database was set back beneath it.
        cut_off: whether its database does not answer.
        meanwhile: what happens in the middle of the next closing or release.
        before_restoring: what happens when a backup is in place and the restore has not begun.
        has_manifests: whether a backup has a manifest.
        elsewhere: the database that is read and written past the server, if it is not the server's own.
    """

    settings: Settings
    times: Times
    random_bytes: RandomBytes
    trouble: Trouble
    offset: float = 0.0
    set_back: bool = False
    cut_off: bool = False
    halts: list[str] = field(default_factory=list)
    front: UploadRoute | None = None
    identity: SigningKey | None = field(default=None, repr=False)
    meanwhile: Callable[[], Coroutine[object, object, None]] | None = field(default=None, repr=False)
    before_restoring: Callable[[], None] | None = field(default=None, repr=False)
    has_manifests: bool = True
    elsewhere: Path | None = None
    known_list: bytes = b""
    known_key: tuple[bytes, bytes] = (b"", b"")

    @property
    def node(self) -> Node:
        if self.front is None:
            raise RuntimeError("the server does not run")
        return self.front.node

    @property
    def is_up(self) -> bool:
        return self.front is not None

    @property
    def database(self) -> Path:
        return database_path(self.settings)

    @property
    def data_dir(self) -> Path:
        return self.settings.data_dir

    @property
    def key_dir(self) -> Path:
        return self.settings.key_dir

    def wall(self) -> float:
        return self.times.wall + self.offset

    def open(self) -> None:
        """Make what its database needs."""

    def close(self) -> None:
        """End what its database needed."""

    # --- its life --------------------------------------------------------------------------------------------

    def new_node(self, settings: Settings | None = None) -> Node:
        """Start a process on the folders; it raises what the command prints."""
        return Node(settings or self.settings, self.random_bytes, self.wall, lambda: self.times.running, self.halt)

    def halt(self, reason: str) -> None:
        """End the process without another write: whatever its threads still try fails until it is killed."""
        self.halts.append(reason)
        self.trouble.arm("crash")
        self.trouble.fired = True

    def start(self) -> None:
        """Start the server (see `new_node` for errors)."""
        self.halts.clear()
        node = self.new_node()
        node.intake._openers.shutdown()
        node.intake._openers = InLine()  # type: ignore[assignment]
        self.front = UploadRoute(node, _nothing_else)
        self.identity = node.identity

    def kill(self) -> None:
        """End the process as SIGKILL does: nothing more is written, only its locks go."""
        node = self.node
        self.front = None
        self.trouble.arm("crash")
        self.trouble.fired = True
        node._stopping.set()
        node._notes.join()
        node.writer.close()
        with suppress(CrashError):  # nothing is synchronised any more
            node._parts.close()
        self.trouble.disarm()

    def terminate(self) -> None:
        """End the process as SIGTERM does."""
        node = self.node
        self.front = None
        node.close()

    def note(self) -> None:
        """Let a second pass, in which the server notes what it holds."""
        self.node.note()

    def upkeep(self) -> None:
        """Let an hour's upkeep come, and a second pass."""
        self.node.maintain()
        self.note()

    # --- requests --------------------------------------------------------------------------------------------

    async def upload(self, requests: Sequence[tuple[str, bytes]]) -> list[Answer]:
        """Send some uploads at the same moment; they reach the writer as one group."""
        changed = self.node.writer._changed
        changed.acquire()  # the writer sleeps until all of them have come
        try:
            asked = [asyncio.ensure_future(self._upload(task, body)) for task, body in requests]
            for _ in range(SPINS):
                await asyncio.sleep(0)
                if len(self.node.writer._waiting) == sum(not each.done() for each in asked):
                    break
        finally:
            changed.release()
        return list(await asyncio.gather(*asked))

    async def _upload(self, task_id: str, body: bytes) -> Answer:
        sent: list[Message] = []
        parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            return parts.pop()

        async def send(message: Message) -> None:
            sent.append(message)

        headers = [(b"content-type", media_type("reports").encode()), (b"content-length", str(len(body)).encode())]
        scope = {
            "type": "http", "method": "POST", "path": f"/v1/tasks/{task_id}/reports", "headers": headers,
            "query_string": b"", "client": ("192.0.2.1", 1), "http_version": "1.1", "scheme": "https",
            "server": ("localhost", 1),
        }  # fmt: skip
        if self.front is None:
            return LOST
        await self.front(scope, receive, send)
        content = b"".join(message.get("body", b"") for message in sent[1:])
        return answer_of(sent[0]["status"], content)

    async def ask(self, task_id: str, name: str, body: bytes = b"", batch: int = 0) -> Answer:
        """Ask the gate, the census taker or the registry, in a thread as the application does."""
        node, meanwhile = self.node, self.meanwhile
        self.meanwhile = None
        if meanwhile is not None:
            loop, wrapped_nonce, segments = asyncio.get_running_loop(), node.store.wrapped_nonce, node.store.segments

            def once(task: int, nonce: bytes, label: NonceLabel = "nonce") -> bytes:
                if label == "nonce":  # the list of an inventory was read, nothing is written yet
                    asyncio.run_coroutine_threadsafe(meanwhile(), loop).result()
                return wrapped_nonce(task, nonce, label)

            def read(batch: int, table: SegmentTable) -> StoredSegments:
                asyncio.run_coroutine_threadsafe(meanwhile(), loop).result()  # marks were checked, nothing is opened
                return segments(batch, table)

            node.store.wrapped_nonce = once  # type: ignore[method-assign]
            node.store.segments = read  # type: ignore[method-assign]
        try:
            return await asyncio.to_thread(self._asked, node, task_id, name, body, batch)
        finally:
            for patched in ("wrapped_nonce", "segments"):
                node.store.__dict__.pop(patched, None)

    def _asked(self, node: Node, task_id: str, name: str, body: bytes, batch: int) -> Answer:
        try:
            if name == "register":
                return self._register(node, task_id, body)
            if name == "definition":
                found = node.registry.find(task_id)
                return Answer(200, body=found.record + (found.token_key or b""))
            if name == "inventory" and body:  # of windows that are merged, as the application reads from the query
                node.registry.open_group(node.registry.find(task_id), batch, int(body))
            held = node.registry.find_batch(task_id, batch)
            return Answer(200, body=_QUESTIONS[name](node, held, body))
        except LintraError as error:
            return Answer(STATUS[type(error)], error.token, error.detail.encode())
        except Exception as error:  # what the application answers with 500
            return Answer(500, f"internal_error ({type(error).__name__}: {error})")

    def _register(self, node: Node, task_id: str, body: bytes) -> Answer:
        if b'"token_key"' in body:
            registration = Registration.from_canonical(body)
            sealed = parse_base64url(registration.key_id), parse_base64url(registration.token_key)
            _, created = node.registry.register(task_id, registration.record, sealed)
        else:
            _, created = node.registry.register(task_id, Signed[TaskRecord].from_canonical(body))
        return Answer(201 if created else 200)

    def sealing_key(self) -> tuple[bytes, bytes]:
        """Return identifier and public key of what a server's messages are sealed to, of the classical suite."""
        listed = self.node.keys.signed_list
        if listed != self.known_list:
            self.known_list = listed
            for key in Signed[KeyList].from_canonical(listed).message.keys:
                if key.suite == "x25519":
                    self.known_key = parse_base64url(key.key_id), parse_base64url(key.public_key)
        return self.known_key  # with a wrong clock a server offers none; clients remember the last

    # --- what an operator does ---------------------------------------------------------------------------------

    def restore(self, backup: Path | None, *, journal_lost: bool = False, never_copied: bool = False) -> Restored:
        """Run what `lintra server restore` runs, while the server is stopped."""
        folder = lock_folders(self.settings, self.random_bytes)
        try:
            if backup is not None:
                self.put_back(backup)
            if self.before_restoring is not None:
                self.before_restoring()
            clock = new_clock(self.settings, folder, self.wall, lambda: self.times.running)
            return restore(
                self.settings, self.random_bytes, folder, clock, journal_lost=journal_lost, never_copied=never_copied
            )
        finally:
            folder.close()

    def accept_loss(self, task_id: str, batch: int) -> int:
        """Run what `lintra server accept-loss` runs, while the server is stopped; return how many reports are lost."""
        folder = lock_folders(self.settings, self.random_bytes)
        try:
            with begun(self.settings, self.random_bytes, folder) as server:
                loss = server.loss(batch_named(task_id, batch))
                server.accept(loss)
                return loss.lost
        finally:
            folder.close()

    def abandon(self, task_id: str, batch: int) -> None:
        """Run what `lintra server abandon` runs, while the server is stopped."""
        folder = lock_folders(self.settings, self.random_bytes)
        try:
            with begun(self.settings, self.random_bytes, folder) as server:
                server.abandon(server.given_up(batch_named(task_id, batch)))
        finally:
            folder.close()

    def held(self) -> Snapshot:
        """Return what the database holds, read past the server."""
        return read_database(self.database, self.key_dir / "journal")

    def back_up(self, folder: Path) -> Snapshot:
        """Copy the database while the server runs, as `lintra server backup` does; return what the copy holds."""
        list(back_up(self.settings, folder))
        return read_database(folder / self.database.name, self.key_dir / "journal")

    def past(self, statement: str, values: Sequence[object] = ()) -> list[dict[str, Any]]:
        """Run a statement on the database past the server; return its rows."""
        with self._past() as connection:
            cursor = connection.execute(statement, values)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def past_at_once(self, statements: Sequence[tuple[str, Sequence[object]]]) -> None:
        """Run statements in one transaction past the server."""
        with self._past() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                for statement, values in statements:
                    connection.execute(statement, values)
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def _past(self) -> closing[sqlite3.Connection]:
        return closing(sqlite3.connect(self.elsewhere or self.database, timeout=30, isolation_level=None))

    @contextmanager
    def looking_at(self, backup: Path) -> Iterator[Path]:
        """Read and write the database of a backup past the server, and not its own; give that database."""
        self.elsewhere = backup / self.database.name
        try:
            yield self.elsewhere
        finally:
            self.elsewhere = None

    def save(self, folder: Path) -> None:
        """Copy everything that the stopped server stored."""
        for number, stored in enumerate(self._folders()):
            shutil.copytree(stored, folder / str(number))

    def load(self, folder: Path) -> None:
        """Put back what `save` copied, while the server is stopped."""
        for number, stored in enumerate(self._folders()):
            shutil.rmtree(stored)
            shutil.copytree(folder / str(number), stored)

    def _folders(self) -> list[Path]:
        folders = (self.data_dir, self.key_dir, self.settings.witness_dir)
        return [folder for folder in folders if folder is not None]

    untrigger = "DROP TRIGGER IF EXISTS planted"

    def triggers(self, place: int) -> dict[str, list[str]]:
        """Return statements that plant triggers which act on one batch."""
        rows = f"AFTER INSERT ON segments WHEN NEW.key >> 32 = {place}"
        steps = f"AFTER UPDATE ON batches WHEN NEW.batch = {place}"
        made = {
            "no row stays": f"{rows} BEGIN DELETE FROM segments WHERE key = NEW.key; END",
            "no row is written": f"{rows.replace('AFTER', 'BEFORE')} BEGIN SELECT RAISE(IGNORE); END",
            "identifiers change": f"{rows} BEGIN UPDATE segments SET ids = zeroblob(32) WHERE key = NEW.key; END",
            "it stays open": f"{steps} BEGIN UPDATE batches SET state = 'open' WHERE batch = NEW.batch; END",
            "no inventory": f"{steps} BEGIN UPDATE batches SET inventory = NULL WHERE batch = NEW.batch; END",
        }
        return {name: [f"CREATE TRIGGER IF NOT EXISTS planted {text}"] for name, text in made.items()}

    def fall_back(self, backup: Path) -> None:
        """Set the database back beneath the running server, as a failover to a late replica does."""
        with (
            closing(sqlite3.connect(backup / self.database.name)) as old,
            closing(sqlite3.connect(self.database, timeout=30)) as live,
        ):
            old.backup(live)

    def put_back(self, backup: Path) -> None:
        """Put the database of a backup in place, as the restore command does."""
        put_database(self.settings, backup)

    def put_raw(self, backup: Path) -> None:
        """Put an old database in place without telling anybody, while the server is stopped."""
        for path in self.data_dir.glob("lintra.sqlite*"):
            path.unlink()
        shutil.copy2(backup / self.database.name, self.database)

    def files(self) -> dict[str, bytes]:
        """Return every file that a refused start must not change."""
        return {
            str(path.relative_to(self.key_dir)): path.read_bytes()
            for path in self.key_dir.rglob("*")
            if path.is_file() and path.name not in ("lock", ".probe")
        }


async def _nothing_else(scope: object, receive: object, send: object) -> None:
    raise RuntimeError("only uploads are sent here")


def answer_of(status: int, content: bytes) -> Answer:
    """Return what a status and a body say."""
    if status in (200, 201, 202):
        return Answer(status, body=content)
    return Answer(status, str(json.loads(content)["type"]).removeprefix("urn:lintra:problem:"), content)


def release_of(body: bytes) -> type[AggregateRequest] | type[VerifiedAggregateRequest]:
    """Return what a request for a release is, by its first letters."""
    return VerifiedAggregateRequest if body.startswith(b'{"verdicts"') else AggregateRequest


Question = Callable[[Node, RegisteredBatch, bytes], bytes]
_QUESTIONS: dict[str, Question] = {
    "census": lambda node, held, _: node.census.take(held),
    "census ids": lambda node, held, _: node.census.ids(held).encode(),
    "inventory": lambda node, held, body: node.gate.close(held, int(body) if body else None),
    "ids": lambda node, held, _: node.gate.inventory_ids(held).encode(),
    "cohort": lambda node, held, body: node.gate.freeze(held, CohortRequest.from_canonical(body)),
    "checks": lambda node, held, body: node.judge.check(held, ChecksRequest.from_canonical(body)),
    "checks body": lambda node, held, _: b"".join(node.judge.body(held)[1]),
    "verdict": judged_inside,
    "aggregate": lambda node, held, body: node.gate.release(held, release_of(body).from_canonical(body)),
    "aggregate again": lambda node, held, _: node.gate.aggregate(held),
}
