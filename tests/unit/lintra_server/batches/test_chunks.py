"""Pieces of long differences: what a request means by them is what it would mean with the difference in it."""

from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest

from lintra_protocol.cohort import differences
from lintra_protocol.cohort.differences import ListDifference, piece_hash, pieces_of
from lintra_protocol.cohort.report_ids import ReportIds, difference
from lintra_protocol.encoding.canonical import HASH_BYTES, base64url
from lintra_protocol.errors import MessageTooLargeError, UnavailableError
from lintra_protocol.messages.documents import Cohort, CohortRequest, DifferenceInPieces, Signed
from lintra_server.batches import chunks
from lintra_service.scratch import Scratch
from support.server_world import World, a_world

PATH = "/batches/0/cohort"


async def put(world: World, piece: bytes, name: str | None = None) -> httpx2.Response:
    return await world.ask(0, "PUT", f"{PATH}/pieces/{quote(name or piece_hash(piece))}", piece, "piece")


async def differing(world: World) -> tuple[CohortRequest, DifferenceInPieces, list[bytes]]:
    """Return a request with the difference in it, and the same difference in pieces of 40 bytes."""
    reports = world.reports(16)
    await world.upload_everywhere(reports[3:])
    await world.upload(0, reports[:1])
    await world.upload(1, reports[1:3])
    request = await world.cohort_request(0)
    found = ListDifference(1, *difference(await world.ids(0), await world.ids(1)))
    missing_bytes, sent = pieces_of(found)
    listed = list(sent)
    names = tuple(map(piece_hash, listed))
    return request, DifferenceInPieces(server=1, missing_bytes=missing_bytes, pieces=names), listed


async def test_a_difference_in_pieces_freezes_the_same_cohort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "PIECE_BYTES", 40)
    async with a_world(tmp_path) as world:
        early = await put(world, b"x")
        assert early.json()["type"].endswith(":batch_open")
        request, in_pieces, listed = await differing(world)
        assert len(listed) == 2
        long = request.model_copy(update={"differences": (in_pieces, *request.differences[1:])})
        for piece in listed[:-1]:
            assert (await put(world, piece)).status_code == 200
        assert (await world.freeze(0, long)).json()["type"].endswith(":not_found")  # one piece is not here yet
        assert (await put(world, listed[-1])).status_code == 200
        assert (await put(world, listed[-1])).status_code == 200  # once more is harmless
        for wrong in (
            {"missing_bytes": in_pieces.missing_bytes + 1},
            {"missing_bytes": 2**40},
            {"pieces": in_pieces.pieces[::-1]},
            {"pieces": in_pieces.pieces * 2},
        ):
            changed = (in_pieces.model_copy(update=wrong), *request.differences[1:])
            answer = await world.freeze(0, request.model_copy(update={"differences": changed}))
            assert answer.json()["type"].rpartition(":")[2] in {"invalid_message", "inventory_mismatch"}, answer.text
        frozen = Signed[Cohort].from_canonical((await world.freeze(0, long)).content).message
        own, other = await world.ids(0), await world.ids(1)
        common = ReportIds.of(set(own) & set(other))
        assert (frozen.root, frozen.count) == (base64url(common.root), 13)
        # They are gone, and neither they nor the lists are needed for the same answer again.
        assert not list((world.settings[0].data_dir / "pieces").iterdir())
        assert (await put(world, listed[0])).status_code == 200
        assert not list((world.settings[0].data_dir / "pieces").iterdir())
        assert Signed[Cohort].from_canonical((await world.freeze(0, long)).content).message == frozen


async def test_pieces_are_bounded_named_by_their_hash_and_forgotten(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        await world.upload_everywhere(world.reports(13))
        await world.inventories()
        refusals = [
            (b"piece", base64url(bytes(32)), "invalid_message"),
            (b"", None, "invalid_message"),
            (b"piece", "..%2F..", "invalid_message"),
            (bytes(differences.PIECE_BYTES + 1), None, "message_too_large"),
        ]
        for piece, name, token in refusals:
            assert (await put(world, piece, name)).json()["type"].endswith(f":{token}"), name
        folder = world.settings[0].data_dir / "pieces"
        kept = chunks.PendingChunks(folder, Scratch(tmp_path / "scratch"), 0)
        kept.put(7, piece_hash(b"one"), b"one", 5)
        with pytest.raises(MessageTooLargeError, match="at most 5 bytes"):
            kept.put(7, piece_hash(b"two"), b"two", 5)
        full = chunks.PendingChunks(folder, Scratch(tmp_path / "scratch"), 2**62)
        with pytest.raises(UnavailableError, match="nearly full"):
            full.put(7, piece_hash(b"one"), b"one", 5)
        kept.put(7, piece_hash(b"one"), b"one", 5)
        kept.forget_old((folder / "7").stat().st_mtime + 1)
        assert (folder / "7").exists()
        kept.forget_old((folder / "7").stat().st_mtime + chunks.KEPT_SECONDS + 1)
        assert not (folder / "7").exists()
        assert (await put(world, b"piece")).status_code == 200
        world.reopen(0)
        assert not list(folder.iterdir())


async def test_a_list_comes_in_ranges_of_whole_identifiers(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        await world.upload_everywhere(world.reports(13))
        await world.inventories()
        whole = await world.ask(0, "GET", "/batches/0/inventory/ids")
        assert whole.headers["etag"] == f'"{base64url((await world.ids(0)).root)}"'
        size = 13 * HASH_BYTES

        async def part(asked: str, **headers: str) -> httpx2.Response:
            return await world.ask(0, "GET", "/batches/0/inventory/ids", headers={"range": asked, **headers})

        for asked, start, stop in (("bytes=0-31", 0, 32), ("bytes=64-", 64, size), ("bytes=384-9999", 384, size)):
            answer = await part(asked)
            assert answer.status_code == 206
            assert answer.headers["content-range"] == f"bytes {start}-{stop - 1}/{size}"
            assert answer.content == whole.content[start:stop]
        same = {"if-range": whole.headers["etag"]}
        assert (await part("bytes=32-63", **same)).content == whole.content[32:64]
        for asked, headers in (
            ("bytes=1-31", {}), ("bytes=0-30", {}), ("bytes=416-", {}), ("bytes=64-31", {}), ("ids=0-31", {}),
            ("bytes=0-31,64-95", {}), ("bytes=-32", {}), ("bytes=0-31", {"if-range": '"another"'}),
        ):  # fmt: skip
            answer = await part(asked, **headers)
            assert (answer.status_code, answer.content) == (200, whole.content)
