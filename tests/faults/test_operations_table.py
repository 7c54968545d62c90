"""Every attack that was tried on the running service stands twice: refused with its rule on, at work with it off.

The table names both tests; those that fit nowhere else are below it.
"""

import ast
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from faults.test_attacks import HONEST, corrupt_request
from faults.test_overload import damage
from faults.test_restores import reach
from lintra_protocol import cli
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.errors import InvalidMessageError
from lintra_protocol.messages.documents import Inventory, Signed, inventory_of, sign
from lintra_protocol.rules import release as rules
from lintra_protocol.task import Task
from lintra_server import clock
from lintra_server.batches import gate
from lintra_server.batches.registry import RegisteredBatch
from lintra_server.storage.chains import Chains
from lintra_server.storage.store import Batch
from lintra_service import readiness
from support import make_task
from support.server_world import a_world, token

TESTS = Path(__file__).parents[1]
RESTORES, STRANGERS, OVERLOAD, HERE = (
    f"faults/{name}.py" for name in ("test_restores", "test_strangers", "test_overload", "test_operations_table")
)
CLOCK, SENDING = "unit/lintra_server/test_clock.py", "unit/lintra_client/sending/test_sending.py"
BOUNDS, PLAN = "unit/lintra_analysis/kinds/test_context.py", "unit/lintra_analysis/plan/test_baselines.py"
CENSUS = "unit/lintra_server/batches/test_census.py"

TABLE = {
    "a copy of the database is restored after the release": (
        f"{RESTORES}::test_a_database_copied_before_a_release_and_restored_after_it_is_refused_and_changes_nothing",
        f"{RESTORES}::test_with_the_rules_off_a_restored_copy_releases_twice_and_shows_one_report",
    ),
    "a copy is opened after the release, with the root key": (
        f"{RESTORES}::test_after_a_release_nothing_in_a_copy_opens_though_the_root_key_is_known[on]",
        f"{RESTORES}::test_after_a_release_nothing_in_a_copy_opens_though_the_root_key_is_known[off]",
    ),
    "an older copy is restored, the task registered again, recorded uploads sent again": (
        f"{RESTORES}::test_a_task_that_only_the_lost_part_knew_is_not_registered_again[on]",
        f"{RESTORES}::test_a_task_that_only_the_lost_part_knew_is_not_registered_again[off]",
    ),
    "the same within one time unit, with clients whose clocks run ahead": (
        f"{RESTORES}::test_a_task_that_took_reports_of_clocks_ahead_before_the_restore_is_not_registered_again[on]",
        f"{RESTORES}::test_a_task_that_took_reports_of_clocks_ahead_before_the_restore_is_not_registered_again[off]",
    ),
    "only the main file of the database is copied": (
        f"{RESTORES}::test_a_main_file_without_its_log_is_noticed_at_the_start",
        f"{HERE}::test_attack_without_notes_a_main_file_without_its_log_loses_reports_in_silence",
    ),
    "both folders are set back": (
        f"{RESTORES}::test_a_snapshot_of_both_folders_is_noticed_by_a_witness_and_by_nobody_else[on]",
        f"{RESTORES}::test_a_snapshot_of_both_folders_is_noticed_by_a_witness_and_by_nobody_else[off]",
    ),
    "one start with the clock 400 days ahead": (
        f"{CLOCK}::test_a_start_with_a_wrong_clock_destroys_nothing_and_refuses_no_report_for_good",
        f"{HERE}::test_attack_without_the_guard_one_start_with_a_clock_ahead_destroys_every_batch",
    ),
    "reports of strangers at one server only": (
        f"{STRANGERS}::test_reports_at_one_server_only_are_left_out_and_the_batch_is_released",
        f"{STRANGERS}::test_attack_counting_them_against_the_batch_loses_it_for_good",
    ),
    "junk reports take the places": (
        f"{STRANGERS}::test_strangers_cannot_take_places_and_are_refused_before_their_reports_are_read",
        f"{STRANGERS}::test_attack_without_tokens_junk_fills_the_task",
    ),
    "servers leave out all but a few reports": (
        f"{STRANGERS}::test_servers_cannot_be_let_to_leave_out_all_but_a_few",
        f"{STRANGERS}::test_attack_without_a_bound_others_leave_out_all_but_a_few_reports",
    ),
    "a plan with corrupt clients in crowded rows": (
        f"{PLAN}::test_a_plan_with_one_corrupt_client_in_twenty_holds_at_its_own_rows[on]",
        f"{PLAN}::test_a_plan_with_one_corrupt_client_in_twenty_holds_at_its_own_rows[off]",
    ),
    "a small epsilon beside a delta of 1 - 1e-14": (
        f"{STRANGERS}::test_a_small_epsilon_beside_a_delta_near_one_is_refused_by_server_and_client",
        f"{STRANGERS}::test_attack_without_a_delta_of_its_own_a_judge_accepts_a_promise_that_is_worth_nothing",
    ),
    "a server stores a report, answers 503, and is sent another": (
        f"{SENDING}::test_a_server_that_stores_and_denies_it_gets_the_same_report_again",
        f"{SENDING}::test_attack_without_ledger_and_outbox_every_call_makes_another_report",
    ),
    "one connection announces 64 MiB and sends 200 bytes": (
        f"{OVERLOAD}::test_a_connection_that_announces_much_takes_no_room_from_others[bytes that came]",
        f"{OVERLOAD}::test_a_connection_that_announces_much_takes_no_room_from_others[announced bytes]",
    ),
    "uploads fill all room": (
        f"{OVERLOAD}::test_uploads_that_fill_their_room_leave_analyzer_and_operators_theirs",
        f"{HERE}::test_attack_with_one_room_for_all_uploads_shut_out_the_analyzer",
    ),
    "silent connections": (
        f"{OVERLOAD}::test_silent_connections_are_closed_and_then_others_are_answered[in time]",
        f"{OVERLOAD}::test_silent_connections_are_closed_and_then_others_are_answered[whenever]",
    ),
    "half bodies at the analyzer": (
        f"{OVERLOAD}::test_half_bodies_of_strangers_take_nothing_of_the_analyzer[who has a token]",
        f"{OVERLOAD}::test_half_bodies_of_strangers_take_nothing_of_the_analyzer[anybody]",
    ),
    "ron_gauss with 30,000 columns": (
        f"{BOUNDS}::test_a_task_of_gigabytes_is_refused_before_they_are_allocated[ron_gauss, 30,000 columns]",
        f"{BOUNDS}::test_without_the_bound_memory_grows_with_what_was_asked_for",
    ),
    "registration by anybody": (
        f"{STRANGERS}::test_one_author_has_a_quota_of_tasks_and_memory_holds_a_few_of_them",
        f"{STRANGERS}::test_attack_without_quotas_tasks_of_strangers_grow_without_end",
    ),
    "a body shorter than announced": (
        f"{OVERLOAD}::test_a_channel_that_ends_early_without_saying_so_is_refused[compared]",
        f"{OVERLOAD}::test_a_channel_that_ends_early_without_saying_so_is_refused[not compared]",
    ),
    "identity key, database or log are lost": (
        f"{RESTORES}::test_a_lost_part_is_named_and_nothing_is_made_in_its_place",
        f"{RESTORES}::test_with_the_rule_off_a_lost_folder_becomes_a_new_server_that_registers_old_tasks",
    ),
    "a damaged page of the database": (
        f"{HERE}::test_a_damaged_page_is_not_ready_and_nothing_acknowledged_is_lost[on]",
        f"{HERE}::test_a_damaged_page_is_not_ready_and_nothing_acknowledged_is_lost[off]",
    ),
    "a full disk": (f"{HERE}::test_a_full_disk_is_not_ready[on]", f"{HERE}::test_a_full_disk_is_not_ready[off]"),
    "a full disk in the middle of a release": (
        "faults/test_full_disk.py::test_a_full_disk_stops_uploads_and_with_a_reserve_no_release[on]",
        "faults/test_full_disk.py::test_a_full_disk_stops_uploads_and_with_a_reserve_no_release[off]",
    ),
    "a cohort request that takes longer than the analyzer waits": (
        f"{HERE}::test_a_cohort_that_was_computed_once_is_answered_at_once[on]",
        f"{HERE}::test_a_cohort_that_was_computed_once_is_answered_at_once[off]",
    ),
    "polling tells when each report came": (
        f"{CENSUS}::test_polling_does_not_tell_when_a_report_came[on]",
        f"{CENSUS}::test_polling_does_not_tell_when_a_report_came[off]",
    ),
    "a server hides reports that it has counted": (
        f"{STRANGERS}::test_a_server_that_hides_a_report_it_has_counted_is_proven_to_lie",
        f"{HERE}::test_attack_without_a_census_a_server_hides_reports_unseen",
    ),
    "texts that steer a terminal": (
        f"{STRANGERS}::test_texts_that_could_steer_a_terminal_or_a_reader_are_no_purpose_name_or_unit",
        f"{HERE}::test_a_purpose_that_steers_a_terminal_reaches_it_only_with_both_rules_off[as it is]",
    ),
}


@pytest.mark.parametrize("row", TABLE)
def test_every_row_has_a_test_with_its_rule_on_and_one_with_it_off(row: str) -> None:
    on, off = TABLE[row]
    assert on != off
    for name in (on, off):
        path, _, test = name.partition("::")
        function, _, case = test.partition("[")
        source = (TESTS / path).read_text("utf-8")
        found = [node for node in ast.parse(source).body if getattr(node, "name", "") == function]
        assert found, f"{path} has no {function}"
        marks = [ast.unparse(mark) for mark in found[0].decorator_list]  # type: ignore[attr-defined]
        assert not any("skip" in mark or "xfail" in mark for mark in marks), name
        assert not case or any(repr(case.removesuffix("]")) in mark for mark in marks), f"{function} has no case {case}"


async def test_attack_without_notes_a_main_file_without_its_log_loses_reports_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unnoted(chains: Chains, batch: int) -> None:  # a batch ends where the database says that it does
        with chains._reading() as connection:
            chains._ends[batch] = chains.whole(connection, batch)

    monkeypatch.setattr(Chains, "_load", unnoted)
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        await world.upload(HONEST, world.reports(3))
        world.apps[HONEST].node.database.forget_log()
        await world.upload(HONEST, world.reports(9))
        data = world.settings[HONEST].data_dir
        main = (data / "lintra.sqlite").read_bytes()
        world.kill(HONEST)
        shutil.rmtree(data)
        data.mkdir(mode=0o700)
        (data / "lintra.sqlite").write_bytes(main)
        (data / "lintra.sqlite").chmod(0o600)
        world.start(HONEST)
        assert world.apps[HONEST].node.store.num_reports(1) == 3


async def test_attack_with_one_room_for_all_uploads_shut_out_the_analyzer(tmp_path: Path) -> None:
    async with a_world(tmp_path, num_servers=2, max_pending_bytes=1 << 16) as world:
        node = world.apps[0].node
        node.control = node.uploads
        with node.uploads.lease("a stranger") as lease:
            lease.take(1 << 16)
            assert token(await world.ask(0, "GET", "/batches")) == "overloaded"


@pytest.mark.parametrize("rule", [True, False], ids=["on", "off"])
async def test_a_damaged_page_is_not_ready_and_nothing_acknowledged_is_lost(tmp_path: Path, rule: bool) -> None:
    async with a_world(tmp_path, num_servers=2) as world:
        node = world.apps[0].node
        await world.upload(0, world.reports(40))
        node.database.forget_log()
        kept = (node.settings.data_dir / "lintra.sqlite").read_bytes()
        if not rule:  # a sign of life was all that was asked for
            node.readiness._checks = {}
        damage(world)
        refused = await world.post(0, await world.body(0, world.reports(1, "late")))
        assert refused.status_code == 503
        node.readiness.probe()
        if rule:
            with pytest.raises(Exception, match="damaged"):
                node.check()
        else:
            node.check()
        # From a copy of the sound file everything acknowledged is there.
        node.database.close()
        (node.settings.data_dir / "lintra.sqlite").write_bytes(kept)
        assert len(node.store.report_ids(1)) == 40


@pytest.mark.parametrize("rule", [True, False], ids=["on", "off"])
async def test_a_full_disk_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool) -> None:
    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    async with a_world(tmp_path, num_servers=2) as world:
        node = world.apps[0].node
        monkeypatch.setattr(readiness, "rewrite_block", full if rule else lambda _: None)
        monkeypatch.setattr(node.database, "touch", lambda: None)
        node.readiness.probe()
        if rule:
            with pytest.raises(Exception, match="No space left"):
                node.check()
        else:
            node.check()


@pytest.mark.parametrize("rule", [True, False], ids=["on", "off"])
async def test_a_cohort_that_was_computed_once_is_answered_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    computed = []
    compare = gate.missing_elsewhere

    def counted(*lists: object) -> object:
        computed.append(1)
        return compare(*lists)  # type: ignore[arg-type]

    monkeypatch.setattr(gate, "missing_elsewhere", counted)
    async with a_world(tmp_path, "sum") as world:
        own, ids = await reach(world, "closed")
        request = corrupt_request(world, own, ids, ids)
        if not rule:  # whoever asks again begins anew

            def forgetful(self: gate.Gate, held: RegisteredBatch) -> Batch:
                return replace(self._store.batch(held.number), cohort=None, state="closed")

            monkeypatch.setattr(gate.Gate, "_batch", forgetful)
        # The analyzer left before the first answer, each time.
        answers = [await world.freeze(HONEST, request) for _ in range(3)]
        if rule:
            assert {answer.status_code for answer in answers} == {200}
            assert len({answer.content for answer in answers}) == 1
            assert len(computed) == 1
        else:
            assert [answer.status_code for answer in answers] == [200, 503, 503]
            assert len(computed) == 3


async def test_attack_without_a_census_a_server_hides_reports_unseen(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        for server in (0, 1):
            await world.upload(server, world.reports(14))
        # An inventory without two reports, and the list that fits it, are all that anybody sees of that server.
        kept = ReportIds.of(list(world.apps[1].node.store.report_ids(1))[2:])
        hidden = sign(world.apps[1].node.identity, inventory_of(world.task, 0, 1, kept, bytes(32), 0, 2))
        honest = Signed[Inventory].from_canonical((await world.close_batch(0)).content)
        found = rules.verify_inventories(world.task, 0, (honest, hidden))
        rules.verify_list(found[1], kept)
        assert found[1].count == 12


async def test_attack_without_the_guard_one_start_with_a_clock_ahead_destroys_every_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        await world.upload_everywhere(world.reports(12))
        secrets = world.settings[HONEST].key_dir / "batches"
        before = set(secrets.iterdir())
        monkeypatch.setattr(clock.Clock, "_judged", lambda *_: "")
        monkeypatch.setattr(clock, "SETTLING_SECONDS", 0)
        world.kill(HONEST)
        world.clock.seconds += 400 * clock.DAY
        world.start(HONEST)
        assert not before & set(secrets.iterdir())
        world.kill(HONEST)
        world.clock.seconds -= 400 * clock.DAY  # right again, and too late
        world.start(HONEST)
        assert token(await world.close_batch(HONEST)) == "abandoned"


class Gullible(Task):
    """A definition whose purpose may be any text."""

    purpose: str


@pytest.mark.parametrize("escaping", [True, False], ids=["escaped", "as it is"])
@pytest.mark.parametrize("reading", [Task, Gullible], ids=["printable only", "any text"])
def test_a_purpose_that_steers_a_terminal_reaches_it_only_with_both_rules_off(
    reading: type[Task],
    escaping: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file, steering = tmp_path / "task.json", b"\x1b]0;another title\x07"
    file.write_bytes(make_task(purpose="PURPOSE").canonical().replace(b"PURPOSE", b"\\u001b]0;another title\\u0007"))
    monkeypatch.setattr(cli, "Task", reading)
    if not escaping:
        monkeypatch.setattr(cli, "printable", str)
    if reading is Task:
        with pytest.raises(InvalidMessageError, match="purpose: printable characters only"):
            cli.show(str(file))
    else:
        cli.show(str(file))
    assert (steering.decode() in capsys.readouterr().out) is (reading is Gullible and not escaping)
