"""The journal's last line: cut off if a crash tore it, kept and refused if somebody wrote it on purpose."""

from pathlib import Path

import pytest

from lintra_protocol.canonical import base64url, canonical_json
from lintra_server.journal import DamagedJournalError, Journal, Line

KEY = bytes(32)


def test_a_last_line_that_a_later_version_wrote_is_refused_and_not_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path, KEY)
    journal.append(Line(1, 1, "started"))
    later = canonical_json({"line": 2, "start": 1, "state": "unheard of", "task": "", "step": ""})
    mac = journal._mac(journal.head.digest, later)
    journal.close()
    written = path.read_bytes() + later + b" " + base64url(mac).encode() + b"\n"
    path.write_bytes(written)
    with pytest.raises(DamagedJournalError, match="line 2"):
        Journal(path, KEY)
    assert path.read_bytes() == written


def test_a_torn_last_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path, KEY)
    journal.append(Line(1, 1, "started"))
    whole = path.read_bytes()
    journal.append(Line(2, 2, "started"))
    journal.close()
    path.write_bytes(path.read_bytes()[:-9])
    journal = Journal(path, KEY)
    assert journal.head.length == 1
    journal.close()
    assert path.read_bytes() == whole
