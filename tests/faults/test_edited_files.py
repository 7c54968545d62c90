"""Whoever can write to `data_dir` changes its files between the moment they are hashed and the moment they are used.

Nothing of that is frozen, proven or judged: what is used is a copy without a name. With copies in `data_dir`, which is
the rule left out, the same editor decides what is signed.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.messages.documents import Cohort, Signed
from lintra_protocol.messages.inclusion import Inclusion
from lintra_protocol.messages.verification import CheckShare
from lintra_server.batches import gate
from lintra_server.batches.verification_round import VerificationRound
from lintra_service.scratch import Scratch, ScratchFile
from support.checked_world import LEAST, check, check_shares, checks_request, hostile, judge, verified
from support.server_world import BASE, World, a_world, text

SUFFIXES = ("lists", "checks", "scratch")


def files(world: World) -> list[Path]:
    """Return the files of server 0 that an editor of `data_dir` can change: lists, trees, bodies, what is coming."""
    found = list[Path]()
    for name in SUFFIXES:
        with suppress(FileNotFoundError):
            found += (world.settings[0].data_dir / name).iterdir()
    return found


def edit(path: Path) -> None:
    """Make the first byte of a file smaller, or the last one another: a list stays sorted."""
    with suppress(OSError), path.open("r+b", buffering=0) as file:
        data = file.read()
        if data:
            at = 0 if data[0] else len(data) - 1
            os.pwrite(file.fileno(), bytes([data[at] // 2 if at == 0 else data[at] ^ 1]), at)


def leave_out_the_rule(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every copy of server 0 a file with a name in `data_dir`."""
    folder = world.settings[0].data_dir / "scratch"
    folder.mkdir(mode=0o700)

    def named(_: Scratch, _in_memory: bool) -> object:
        path = folder / os.urandom(8).hex()
        path.touch(mode=0o600)
        return path.open("w+b")

    monkeypatch.setattr(Scratch, "_unnamed", named)


def edited_at(world: World, monkeypatch: pytest.MonkeyPatch, where: object, name: str) -> Callable[[], int]:
    """Have every file edited when a function is called; return what tells how many files were."""
    original, count = getattr(where, name), list[Path]()

    def edited(*arguments: object, **named: object) -> object:
        count.extend(files(world))
        for path in files(world):
            edit(path)
        return original(*arguments, **named)

    monkeypatch.setattr(where, name, edited)
    return lambda: len(count)


@pytest.mark.parametrize("rule", [True, False], ids=["on", "off"])
async def test_a_list_that_is_edited_after_it_was_hashed_changes_no_cohort(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    async with a_world(tmp_path, num_servers=2) as world:
        reports = world.reports(14)
        await world.upload_everywhere(reports[1:])
        await world.upload(0, reports[:1])
        request = await world.cohort_request(0)
        expected = ReportIds.of(report.report_id for report in reports[1:])
        if not rule:
            leave_out_the_rule(world, monkeypatch)
        world.reopen(0)  # the list is read from its file again
        with monkeypatch.context() as patched:
            edited = edited_at(world, patched, gate, "check_cohort")  # between the lists' hashes and the cohort's root
            answer = await world.freeze(0, request)
        assert edited() > 0
        frozen = Signed[Cohort].from_canonical(answer.content).message
        assert (frozen.root == base64url(expected.root)) == rule
        if rule:
            proof = await world.http[0].get(f"{BASE.format(world.task.task_id)}/inclusion/{text(reports[3])}")
            Inclusion.from_canonical(proof.content).verify(frozen, reports[3].report_id)


@pytest.mark.parametrize("rule", [True, False], ids=["on", "off"])
async def test_a_check_share_that_is_edited_while_it_is_computed_is_signed_as_it_was_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    async with a_world(tmp_path, "sum", num_servers=2, change=verified) as world:
        await world.upload_everywhere(world.reports(LEAST))
        request = await checks_request(world)
        if not rule:
            leave_out_the_rule(world, monkeypatch)
        with monkeypatch.context() as patched:
            edited = edited_at(world, patched, ScratchFile, "pieces")  # between its last row and its hash
            answer = await check(world, 0, request)
        assert edited() > 0
        share = Signed[CheckShare].from_canonical(answer.content).message
        held = world.apps[0].node.registry.find_batch(world.task.task_id)
        again = world.apps[0].node.judge._compute(held, share.count, parse_base64url(share.check_seed), lambda _: None)
        assert (base64url(again) == share.body) == rule


async def test_bodies_that_are_edited_after_they_came_are_refused_and_judged_as_they_were_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_world(tmp_path, "sum", num_servers=2, change=verified) as world:
        await world.upload_everywhere([*world.reports(18), *hostile(world, 1)])
        shares, bodies = await check_shares(world)
        with monkeypatch.context() as patched:
            edited = edited_at(world, patched, VerificationRound, "_judged")
            refused = await judge(world, 0, shares, bodies)
        assert edited() > 0
        assert refused.json()["type"].endswith(":checks_mismatch")
        answer = await judge(world, 0, shares, bodies)
        assert answer.status_code == 200
        assert answer.json()["message"]["rejected"] == 1


EDITOR = """
import os, sys
from pathlib import Path
while True:
    for path in [each for name in ("lists", "checks") for each in (Path(sys.argv[1]) / name).iterdir()]:
        try:
            with path.open("r+b", buffering=0) as file:
                data = file.read()
                if data:
                    os.pwrite(file.fileno(), bytes([data[0] // 2]), 0)
                    file.truncate(len(data) // 2)
                    file.truncate(len(data))
        except OSError:
            pass
"""


@contextmanager
def an_editor(world: World) -> Iterator[None]:
    """Run a process that changes, cuts and lengthens all files of server 0, again and again."""
    process = subprocess.Popen([sys.executable, "-c", EDITOR, str(world.settings[0].data_dir)])
    try:
        yield
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


async def test_while_another_process_rewrites_the_files_every_answer_is_right_or_a_refusal(tmp_path: Path) -> None:
    async with a_world(tmp_path, num_servers=2) as world:
        reports = world.reports(14)
        await world.upload_everywhere(reports[1:])
        await world.upload(0, reports[:1])
        expected = base64url(ReportIds.of(report.report_id for report in reports[1:]).root)
        with an_editor(world):
            request = await world.cohort_request(0)
            world.reopen(0)
            frozen = Signed[Cohort].from_canonical((await world.freeze(0, request)).content).message
            assert frozen.root == expected
            for _ in range(10):
                world.reopen(0)
                for report in reports[1:4]:
                    url = f"{BASE.format(world.task.task_id)}/inclusion/{text(report)}"
                    proof = await world.http[0].get(url)
                    Inclusion.from_canonical(proof.content).verify(frozen, report.report_id)
                assert len(await world.ids(0)) == 14
