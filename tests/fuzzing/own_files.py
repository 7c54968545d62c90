"""Files that somebody may have changed or a disk may have damaged: they are read exactly or refused in words, too."""

import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pandas

from fuzzing.decoder import Decode, Decoder, UnlawfulError
from lintra_analysis.certificate.certificate import SignedRecord
from lintra_analysis.trial.files.table import read_table
from lintra_analyzer.settings import Settings as AnalyzerSettings
from lintra_analyzer.storage.access_tokens import AccessToken, Scope
from lintra_analyzer.storage.trusted_file import KEY_BYTES, Ticket, Trusted, encoded, read_trusted, write_trusted
from lintra_client.ledger.ledger import Ledger
from lintra_client.ledger.outbox import Outbox
from lintra_client.ledger.pseudonyms import Pseudonyms
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import InvalidMessageError, LedgerRefusedError
from lintra_protocol.privacy.composition import Spending
from lintra_server.durability.journal import Journal, JournalEntry
from lintra_server.durability.notes import CHAIN_BYTES, Notes
from lintra_server.settings import Settings as ServerSettings
from lintra_server.storage.key_folder import SEEN_FILE, last_seen
from lintra_server.storage.transition_log import Step
from lintra_service.secrets import write_secret
from lintra_service.settings import InvalidSettingsError

TASK, KEY = "A" * 43, bytes(32)
RECORDS = Path(__file__).parent.parent / "support" / "records_before_statements.json"


def _database(path: Path, read: Callable[[Path], object]) -> Decode:
    """Return what reads a database whose only file holds these bytes."""

    def decode(data: bytes) -> None:
        for end in ("", "-wal", "-shm"):
            path.with_name(path.name + end).unlink(missing_ok=True)
        path.write_bytes(data)
        read(path)

    return decode


def _bytes_of(path: Path) -> bytes:
    """Return a database as one file, without what its log held."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.read_bytes()


def _ledger(folder: Path) -> Decoder:
    path, price = folder / "ledger", Spending(mu_squared="0.05", slack="0", delta_coalition="0.0000001")
    path.unlink(missing_ok=True)
    with Ledger(path) as ledger:
        assert not ledger.charge(TASK, price, {bytes(32): "ann", bytes([1]) * 32: "bob"}, main=price)
        assert not ledger.charge("B" * 43, price, {bytes([2]) * 32: "ann"}, pilot=TASK)

    def read(file: Path) -> None:
        with Ledger(file) as found:
            found.entries()
            found.spent("ann")

    return Decoder(_database(path, read), [_bytes_of(path)], refusal=LedgerRefusedError)


def _outbox(folder: Path) -> Decoder:
    path = folder / "outbox"
    path.unlink(missing_ok=True)
    kept = Outbox(path, Pseudonyms(KEY))
    assert kept.keep(TASK, 0, "ann", bytes(32), {0: b"sealed", 1: b"for another"}, 10)
    kept.acknowledge([bytes(32)], 0, b"a receipt")
    kept.close()

    def read(file: Path) -> None:
        found = Outbox(file, Pseudonyms(KEY))
        try:
            found.find(TASK, 0, "ann")
            found.find_many(TASK, 0, ["ann", "bob"])
            found.expire(5)
        finally:
            found.close()

    return Decoder(_database(path, read), [_bytes_of(path)], refusal=LedgerRefusedError)


def _parquet(folder: Path) -> Decoder:
    path = folder / "rows.parquet"
    seeds = []
    for compression in (None, "snappy"):
        rows = {"a": [1.5, 2.5, None], "sex": ["f", "m", "f"], "n": [1, 2, 3]}
        pandas.DataFrame(rows).to_parquet(path, compression=compression)
        seeds.append(path.read_bytes())

    def decode(data: bytes) -> None:
        path.write_bytes(data)
        read_table(path)

    return Decoder(decode, seeds)


def _settings(path: Path, kind: type[ServerSettings] | type[AnalyzerSettings], *seeds: str) -> Decoder:
    def decode(data: bytes) -> None:
        path.write_bytes(data)
        kind.load(path)

    return Decoder(decode, [seed.encode() for seed in seeds], refusal=InvalidSettingsError)


def _step() -> Decoder:
    step = Step(3, "frozen", bytes(32), "open", {"state": "frozen", "share": b"bytes", "count": 7, "note": None})

    def decode(data: bytes) -> None:
        # Whatever the file holds: a line of the journal that names just these bytes.
        line = JournalEntry(1, 3, "frozen", bytes(32), hashlib.sha256(data).digest())
        found = Step.decode(data, line)
        if found is None:
            raise InvalidMessageError("no step")
        if Step.decode(found.encode(), _naming(line, found)) != found:
            raise UnlawfulError("a step is read otherwise than it is written")

    return Decoder(decode, [step.encode()], is_json=True)


def _naming(line: JournalEntry, step: Step) -> JournalEntry:
    return JournalEntry(line.number, line.start, line.state, line.task_id, hashlib.sha256(step.encode()).digest())


def _journal(folder: Path) -> Decoder:
    path = folder / "journal"
    path.unlink(missing_ok=True)
    journal = Journal(path, KEY)
    for number, state in enumerate(("started", "closed", "frozen"), 1):
        journal.append(JournalEntry(number, 1, state, bytes(32) if number > 1 else b"", bytes(32)))  # type: ignore[arg-type]
    journal.append(
        JournalEntry(4, 1, "opened", bytes(32), batch=2, facts={"place": 7, "ends": 9, "other": {"sha256": "A"}})
    )
    journal.close()

    def decode(data: bytes) -> bytes:
        path.write_bytes(data)
        found = Journal(path, KEY)
        found.close()
        left = path.read_bytes()
        if not data.startswith(left) or b"\n" in data[len(left) :]:
            raise UnlawfulError("a journal lost more than a torn last line")
        return data

    return Decoder(decode, [path.read_bytes()], refusal=InvalidSettingsError)


def _notes(folder: Path) -> Decoder:
    path = folder / "notes"
    path.unlink(missing_ok=True)
    notes = Notes(path)
    for number in range(3):
        for total in range(number + 1):
            notes.put(bytes([number + 1]) * 32, total, bytes([total]) * CHAIN_BYTES)
    notes.tell(bytes([2]) * 32, 7)
    notes.close()

    def decode(data: bytes) -> None:
        path.write_bytes(data)
        found = Notes(path)
        try:
            for name in found.names():
                if found.get(name) is None:
                    raise UnlawfulError("a batch has a slot and no note")
        finally:
            found.close()

    return Decoder(decode, [path.read_bytes()], refusal=InvalidSettingsError)


def _seen(folder: Path) -> Decoder:
    def decode(data: bytes) -> None:
        (folder / SEEN_FILE).write_bytes(data)
        if last_seen(folder) is None:
            raise InvalidMessageError("nothing that a server noted")

    return Decoder(decode, [b'{"allowance":3,"clock":1800000000}\n'], is_json=True)


def _record() -> Decoder:
    texts: dict[str, str] = json.loads(RECORDS.read_text("utf-8"))
    seeds = [text.encode() for text in texts.values() if text.startswith('{"record"')]
    return Decoder(lambda data: SignedRecord.from_canonical(data).canonical(), seeds, is_json=True)


def _trusted(folder: Path) -> Decoder:
    token = AccessToken("a" * 64, "Ada", "viewer", Scope(("t",), ("p",)), 1, 3, 2)
    ticket = {"b" * 64: Ticket("a" * 64, 5)}
    state = Trusted(7, {token.token_hash: token}, ticket, ticket, {"https://a.example": "K"}, {"K": 3})
    key = folder / "trusted.key"
    key.unlink(missing_ok=True)
    write_secret(key, base64url(bytes(KEY_BYTES)))

    def decode(data: bytes) -> bytes:
        # Whatever the file holds, its MAC is right: as if another version had written it.
        write_trusted(folder, bytes(KEY_BYTES), data)
        return encoded(read_trusted(folder))

    return Decoder(decode, [encoded(state)], is_json=True, refusal=InvalidSettingsError)


def own_files(folder: Path) -> dict[str, Decoder]:
    """Return the decoders of files that a party wrote itself, by name; they write what they are given to a folder."""
    server = "public_url = 'https://a.example'\ndata_dir = 'data'\nkey_dir = 'keys'\n[policy]\nmax_epsilon = 3\n"
    known = "[[servers]]\nurl = 'https://a.example'\n[[servers]]\nurl = 'https://b.example'\n"
    analyzer = f"data_dir = 'data'\nport = 8100\ntrust_on_first_use = true\n{known}"
    return {
        "a ledger": _ledger(folder),
        "an outbox": _outbox(folder),
        "a table in Parquet": _parquet(folder),
        "settings of a server": _settings(folder / "server.toml", ServerSettings, server),
        "settings of an analyzer": _settings(folder / "analyzer.toml", AnalyzerSettings, analyzer),
        "a step file": _step(),
        "a journal": _journal(folder),
        "where batches end": _notes(folder),
        "what a server saw last": _seen(folder),
        "a signed record": _record(),
        "whom an analyzer trusts": _trusted(folder),
    }
