"""A task at N servers, each with reports filled directly into its store, so that only a release is left to be done."""

import secrets
import socket
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lintra_analyzer.storage.keys import AnalyzerKeys, load_keys
from lintra_protocol.crypto.randomness import bulk_system_randomness, keystream, system_randomness
from lintra_protocol.crypto.ring import IntArray, RingArray, ring_bytes, ring_from_bytes, to_ring
from lintra_protocol.crypto.sealing import HYBRID
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms import AnyMechanism, Osnap
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.messages.documents import Signed, TaskRecord, sign
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import AnalyzerEntry, ServerEntry, Task
from lintra_server.batches.registry import RegisteredBatch
from lintra_server.settings import Settings
from lintra_server.storage.store import StoredUpload
from lintra_server.web.app import create_app
from lintra_server.web.upload_route import UploadRoute
from scale.beside import BESIDE

COLUMNS, ROWS, SPARSITY = 10, 1024, 4
SMALLEST = 10_000
MISSING_EACH = 100
"""One report in so many is missing at one of the servers."""

_CHUNK = 1 << 16
_LOWEST_PORT, _NUM_PORTS = 20_000, 12_000


@dataclass(frozen=True)
class Collection:
    """Servers that hold one task's reports, stopped; and the analyzer's folder."""

    folder: Path
    task: Task
    num_reports: int

    @property
    def configs(self) -> list[Path]:
        """Return each server's settings file."""
        return [self.folder / f"server-{number}.toml" for number in range(self.task.num_servers)]

    @property
    def keys(self) -> AnalyzerKeys:
        """Return the analyzer's keys."""
        return load_keys(self.folder / "analyzer-keys", True, system_randomness)

    @classmethod
    def load(cls, folder: Path) -> "Collection":
        """Open what `collect` made."""
        record = Signed[TaskRecord].from_canonical((folder / "task.json").read_bytes())
        return cls(folder, record.message.definition, int((folder / "num_reports").read_text()))


def collect(folder: Path, num_reports: int, num_servers: int) -> Collection:
    """Make servers, register a task at them, and fill their stores: the same reports but for one in a hundred.

    A second task, like the first and empty, is for whatever is asked of a server beside the release.
    """
    folder.mkdir(parents=True)
    (folder / "analyzer-keys").mkdir(mode=0o700)
    (folder / "num_reports").write_text(str(num_reports))
    ports = free_ports(2 * num_servers)
    apps = [
        create_app(settings_file(folder, number, *ports[2 * number : 2 * number + 2])) for number in range(num_servers)
    ]
    keys = load_keys(folder / "analyzer-keys", True, system_randomness)
    task = _task(keys, apps, num_reports)
    record = sign(keys.author, TaskRecord(definition=task))
    (folder / "task.json").write_bytes(record.canonical())
    other = task.model_copy(update={"salt": base64url(system_randomness(32))})
    beside = sign(keys.author, TaskRecord(definition=other))
    (folder / BESIDE).write_bytes(beside.canonical())
    for number, app in enumerate(apps):
        app.node.registry.register(task.task_id, record)
        app.node.registry.register(other.task_id, beside)
        (folder / f"internal-{number}").write_text(str(ports[2 * number + 1]))
    held = [app.node.registry.find_batch(task.task_id) for app in apps]
    for start in range(0, num_reports, _CHUNK):
        _fill_chunk(apps, held, start, min(_CHUNK, num_reports - start))
    for app in apps:
        app.node.close()
    return Collection(folder, task, num_reports)


def settings_of(made: Collection, server: int) -> Settings:
    """Return the settings of a server that was filled."""
    return Settings.load(made.configs[server])


def rows_of(report_ids: npt.NDArray[np.uint8]) -> IntArray:
    """Return the noisy rows behind some reports, shape `(k, d)`: made from their identifiers, so that all know them."""
    return report_ids[:, :COLUMNS].astype(np.int64) - 128


def _fill_chunk(apps: list[UploadRoute], held: list[RegisteredBatch], start: int, count: int) -> None:
    seed = start.to_bytes(32, "big")
    report_ids = np.frombuffer(keystream(seed)(32 * count), np.uint8).reshape(count, 32)
    for app, task, shares in zip(apps, held, _shares(rows_of(report_ids), len(apps)), strict=True):
        numbers = start + np.arange(count)
        # Reports 0, 100, 200, .. are missing at servers 0, 1, 2, .. in turn.
        here = (numbers % MISSING_EACH != 0) | (numbers // MISSING_EACH % len(apps) != task.server)
        payloads = np.frombuffer(ring_bytes(shares), np.uint8).reshape(count, -1)[here]
        ids, shown = ([row.tobytes() for row in table] for table in (report_ids[here], payloads))
        app.node.store.add_reports([StoredUpload(task.number, ids, shown, task.task.max_clients)])


def _shares(rows: IntArray, num_servers: int) -> Iterator[RingArray]:
    random_bytes, last = bulk_system_randomness(), to_ring(rows).copy()
    for _ in range(num_servers - 1):
        share = ring_from_bytes(random_bytes(8 * rows.size)).reshape(rows.shape)
        last -= share
        yield share
    yield last


def settings_file(folder: Path, number: int, port: int, internal: int) -> Settings:
    """Write a server's settings into a folder, in which it keeps everything, and return them."""
    text = f"""
    public_url = "http://127.0.0.1:{port}"
    port = {port}
    internal_port = {internal}
    data_dir = "{folder / f"data-{number}"}"
    key_dir = "{folder / f"keys-{number}"}"
    create_keys = true
    log_level = "error"
    [policy]
    allowed_authors = "any"
    open = true
    """
    (folder / f"server-{number}.toml").write_text(text)
    return Settings.model_validate(tomllib.loads(text))


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens at, below those that the system gives to whoever connects."""
    found: list[int] = []
    while len(found) < count:
        port = _LOWEST_PORT + secrets.randbelow(_NUM_PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found += [port] if port not in found else []
    return found


def _task(keys: AnalyzerKeys, apps: list[UploadRoute], num_reports: int) -> Task:
    claim = Claim(epsilon="4", delta="0.000001", min_clients=max(num_reports * 9 // 10, 2))
    bare = Osnap(row_bound="1", fraction_bits=0, sigma=8, rows=ROWS, sparsity=SPARSITY)
    hour = int(time.time()) // 3600
    times = {"not_before": hour - 1, "not_after": hour + 24}
    return task_of(keys, apps, bare, claim, max(num_reports, SMALLEST), COLUMNS, **times)


def task_of(
    keys: AnalyzerKeys,
    apps: list[UploadRoute],
    bare: AnyMechanism,
    claim: Claim,
    most: int,
    num_columns: int,
    **more: Any,
) -> Task:
    """Return a task of some servers for at most so many clients, its mechanism calibrated."""
    return Task(
        salt=base64url(system_randomness(32)),
        purpose="benchmark",
        author_key=keys.author.public_key,
        servers=tuple(
            ServerEntry(url=app.node.settings.public_url, identity_key=app.node.identity.public_key) for app in apps
        ),
        analyzer=AnalyzerEntry(
            identity_key=keys.identity.public_key, sealing_key=base64url(keys.sealing[HYBRID].public_bytes)
        ),
        columns=tuple(Column(name=f"c{index}", lower="-1", upper="1") for index in range(num_columns)),
        mechanism=Measurement(bare, num_columns, Setting(), claim).calibrated(most).mechanism,
        claim=claim,
        max_clients=most,
        **more,
    )
