"""The journal's last line: cut off if a crash tore it, kept and refused if it was written whole."""

from pathlib import Path

import pytest

from lintra_protocol.encoding.canonical import base64url, canonical_json
from lintra_server.durability.journal import DamagedJournalError, Journal, JournalEntry, UnknownLineError

KEY = bytes(32)


def test_a_last_line_that_a_later_version_wrote_is_refused_and_not_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path, KEY)
    journal.append(JournalEntry(1, 1, "started"))
    later = canonical_json({"line": 2, "start": 1, "state": "unheard of", "task": "", "step": ""})
    mac = journal._mac(journal.head.digest, later)
    journal.close()
    written = path.read_bytes() + later + b" " + base64url(mac).encode() + b"\n"
    path.write_bytes(written)
    with pytest.raises(UnknownLineError, match="line 2: another version of this software wrote it"):
        Journal(path, KEY)
    assert path.read_bytes() == written


def test_a_torn_last_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path, KEY)
    journal.append(JournalEntry(1, 1, "started"))
    whole = path.read_bytes()
    journal.append(JournalEntry(2, 2, "started"))
    journal.close()
    path.write_bytes(path.read_bytes()[:-9])
    journal = Journal(path, KEY)
    assert journal.head.length == 1
    journal.close()
    assert path.read_bytes() == whole


def written(path: Path) -> bytes:
    journal = Journal(path, KEY)
    journal.append(JournalEntry(1, 1, "started"))
    journal.append(JournalEntry(2, 2, "started"))
    journal.close()
    return path.read_bytes()


def test_a_bit_that_flips_in_a_whole_last_line_is_refused_wherever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    whole = written(path)
    first = whole.index(b"\n") + 1
    for place in (first, first + 30, len(whole) - 20, len(whole) - 2, len(whole) - 1):
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(DamagedJournalError, match="line 2"):
            Journal(path, KEY)
        assert path.read_bytes() == bytes(changed)


def test_a_last_line_is_cut_off_wherever_a_crash_tore_it(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    whole = written(path)
    first = whole.index(b"\n") + 1
    for end in range(first + 1, len(whole)):
        path.write_bytes(whole[:end])
        journal = Journal(path, KEY)
        journal.close()
        assert path.read_bytes() == whole[:first]
