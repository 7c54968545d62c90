"""A list of identifiers comes in ranges, and a long difference goes in pieces: no message grows with the lists."""

import hashlib
import shutil

import httpx2
import pytest

from lintra_analyzer.exchange import collect, list_download
from lintra_protocol.cohort import differences
from lintra_protocol.cohort.differences import ListDifference, piece_hash, pieces_of
from lintra_protocol.cohort.report_ids import ReportIds, difference
from lintra_protocol.encoding.canonical import HASH_BYTES, base64url
from support.analyzer_world import Answer, Life

PIECE = 2 * HASH_BYTES
LIST = b"".join(sorted(hashlib.sha256(bytes([number])).digest() for number in range(7)))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ranges and pieces hold two identifiers, and no difference stand in a request."""
    monkeypatch.setattr(list_download, "RANGE_BYTES", PIECE)
    monkeypatch.setattr(differences, "PIECE_BYTES", PIECE)
    monkeypatch.setattr(collect, "INLINE_BYTES", 0)


async def differing(life: Life) -> str:
    """Have reports that stand at one server only."""
    task = await life.create()
    await life.upload(task, 15)
    for server in range(3):
        await life.upload(task, 2 + server, servers=(server,), label=f"only at {server}")
    return task.task_id


async def finish(life: Life, task_id: str) -> None:
    life.service.start_release(task_id)
    await life.service.jobs.finished(task_id)
    assert life.service.job(task_id).release_id is not None, life.service.job(task_id)


@pytest.mark.usefixtures("small")
async def test_lists_in_ranges_and_differences_in_pieces_freeze_the_cohort_that_whole_ones_do(life: Life) -> None:
    task_id = await differing(life)
    await life.service.census(task_id)
    await finish(life, task_id)
    # Seventeen to nineteen identifiers each, two in a range; after the census nothing has come, so each list is here.
    assert [[own for own, _, name in life.wires.log if name == "ids"].count(server) for server in range(3)] == [
        9,
        9,
        10,
    ]
    pieces = {(server, name) for server, method, name in life.wires.log if method == "PUT" and len(name) == 43}
    assert len({server for server, _ in pieces}) == 3
    # What the servers froze is what all of them hold.
    assert life.service.record(life.service.job(task_id).release_id or "").record.num_clients == 15
    for app in life.servers:
        assert list((app.node.settings.data_dir / "pieces").iterdir()) == []


@pytest.mark.usefixtures("small")
async def test_a_server_that_lost_the_pieces_is_sent_them_again(life: Life) -> None:
    task_id = await differing(life)
    lost = list[int]()

    def forgets(server: int, request: httpx2.Request, answer: Answer) -> Answer:
        if request.url.path.rpartition("/")[0].endswith("/pieces") and server == 1 and not lost:
            lost.append(server)
            for folder in (life.servers[1].node.settings.data_dir / "pieces").iterdir():
                shutil.rmtree(folder)
        return answer

    life.wires.fault = forgets
    await finish(life, task_id)
    put = [name for server, method, name in life.wires.log if (server, method) == (1, "PUT") and len(name) == 43]
    assert len(put) > len(set(put))


async def test_a_list_is_sent_once_whoever_signed_for_it_and_again_where_the_file_was_changed(life: Life) -> None:
    task = await life.create()
    await life.upload(task, 15)
    await life.service.census(task.task_id)
    sent = [server for server, _, name in life.wires.log if name == "ids"]
    assert len(sent) == len(set(sent)) <= 3  # all three are asked at once
    held = life.service.store.lists.get(task.task_id, 0, "census_ids", 0)
    assert held is not None
    path = life.folder / "analyzer" / "lists" / f"{base64url(held.root)}.ids"
    path.write_bytes(path.read_bytes()[::-1])
    await life.upload(task, 1, servers=(2,), label="only at 2")
    await finish(life, task.task_id)
    later = [server for server, _, name in life.wires.log if name == "ids"][len(sent) :]
    assert later == [0, 2]  # the list of server 1 is that of server 0


def test_the_pieces_of_a_difference_are_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "PIECE_BYTES", PIECE)
    ids = [LIST[start : start + 32] for start in range(0, len(LIST), 32)]
    own, other = ReportIds.of(ids[:4]), ReportIds.of(ids[2:])
    missing_bytes, pieces = pieces_of(ListDifference(1, *difference(own, other)))
    sent = list(pieces)
    assert [len(piece) for piece in sent] == [PIECE, 2 + 3 * HASH_BYTES - PIECE]
    assert len({piece_hash(piece) for piece in sent}) == 2
    whole = b"".join(sent)
    parsed = ListDifference.parse(1, whole[:missing_bytes], whole[missing_bytes:])
    assert parsed.rebuild(own) == other
