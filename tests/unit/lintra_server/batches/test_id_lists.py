"""Lists of closed batches and trees over cohorts: files that are never trusted, and made again when they are needed."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.errors import InventoryMismatchError
from lintra_protocol.messages.inclusion import Absence, Inclusion
from lintra_server.batches.id_lists import roots_of
from lintra_service import mapped_lists
from support.server_world import BASE, a_world, text


async def test_of_a_report_that_was_left_out_the_server_proves_that_it_was(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(13)
        await world.upload_everywhere(reports[:-1])
        await world.upload(0, reports[-1:])  # at one server only
        request = await world.aggregate_request()
        cohort = request.cohorts[0].message
        for server in (0, 1):
            url = f"{BASE.format(world.task.task_id)}/inclusion/{text(reports[-1])}"
            answer = await world.http[server].get(url)
            assert answer.headers["content-type"].endswith("message=absence")
            found = Absence.from_canonical(answer.content)
            found.verify(cohort, reports[-1].report_id)
            with pytest.raises(InventoryMismatchError, match="holds this identifier"):
                found.verify(cohort, reports[0].report_id)


async def test_lists_and_trees_are_made_again_when_their_files_are_gone_or_were_changed(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(13)
        await world.upload_everywhere(reports[:-1])
        await world.upload(0, reports[-1:])
        request = await world.aggregate_request()
        cohort = request.cohorts[0].message
        folder = tmp_path / "server0" / "lists"
        url = f"{BASE.format(world.task.task_id)}/inclusion/"
        files = {path: path.read_bytes() for path in folder.iterdir()}
        assert sorted(path.suffix for path in files) == [".ids", ".tree"]
        damages: tuple[Callable[[Path, bytes], object], ...] = (
            lambda path, _: path.unlink(),
            lambda path, data: path.write_bytes(data[:-1] + bytes([data[-1] ^ 1])),
            lambda path, data: path.write_bytes(data[:-7]),
        )
        for damage in damages:
            for path, data in files.items():
                path.unlink(missing_ok=True)
                path.write_bytes(data)
                path.chmod(0o600)
                damage(path, data)
                world.reopen(0)
                for report in (reports[0], reports[-1]):
                    answer = await world.http[0].get(url + text(report))
                    kind = Absence if report is reports[-1] else Inclusion
                    kind.from_canonical(answer.content).verify(cohort, report.report_id)
                listed = await world.ask(0, "GET", "/batches/0/inventory/ids")
                assert ReportIds.parse(listed.content, 13) == ReportIds.of(each.report_id for each in reports)
        assert {path: path.read_bytes() for path in folder.iterdir()} == files


async def test_a_full_disk_keeps_no_list_and_no_batch_from_being_closed_and_frozen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with a_world(tmp_path) as world:
        reports = world.reports(13)
        await world.upload_everywhere(reports)
        monkeypatch.setattr(mapped_lists.tempfile, "mkstemp", full)
        request = await world.aggregate_request()
        answer = await world.http[0].get(f"{BASE.format(world.task.task_id)}/inclusion/{text(reports[3])}")
        Inclusion.from_canonical(answer.content).verify(request.cohorts[0].message, reports[3].report_id)
        assert not list((tmp_path / "server0" / "lists").iterdir())


def test_documents_that_somebody_edited_name_no_roots() -> None:
    good = b'{"message":{"root":"' + b"A" * 43 + b'"}}'
    assert roots_of([b"{", good, b"\xff", b'{"message":{"root":"?"}}', b"[]"]) == [bytes(32)]
