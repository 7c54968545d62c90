"""Counts of an open batch change once in a time unit."""

from pathlib import Path

import pytest

from lintra_server.batches import census
from lintra_server.durability.notes import Notes
from support.server_world import PRECISION, a_world


@pytest.mark.parametrize("rule", [True, False], ids=["on", "off"])
async def test_polling_does_not_tell_when_a_report_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    async with a_world(tmp_path) as world:
        if not rule:  # every request looks anew
            monkeypatch.setattr(census.CensusTaker, "_last", lambda *_: None)
            monkeypatch.setattr(Notes, "tell", lambda *_: None)
        await world.upload(0, world.reports(2))

        async def polled() -> tuple[object, ...]:
            counters = (await world.ask(0, "GET", "/counters")).json()
            (batch,) = (await world.ask(0, "GET", "/batches")).json()["batches"]
            counted = (await world.ask(0, "GET", "/batches/0/census")).json()["message"]["count"]
            closing = (await world.close_batch(0)).json()["detail"]
            return counters["received"], counters["accepted"], batch["count"], counted, closing

        before = await polled()
        await world.upload(0, world.reports(3))
        assert (await polled() == before) == rule
        world.reopen(0)
        assert (await polled() == before) == rule
        world.clock.seconds += PRECISION
        assert (await polled())[1:4] == (3, 3, 3)


@pytest.mark.parametrize("rule", [True, False], ids=["on", "off"])
async def test_whether_a_batch_has_enough_changes_once_per_time_unit_also_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    async with a_world(tmp_path) as world:
        if not rule:  # every request looks anew
            monkeypatch.setattr(census.CensusTaker, "_last", lambda *_: None)
            monkeypatch.setattr(Notes, "tell", lambda *_: None)

        async def enough() -> tuple[int, bool]:
            (batch,) = (await world.ask(0, "GET", "/batches")).json()["batches"]
            (same,) = (await world.ask(0, "GET", "/batches/0")).json()["batches"]
            assert same == batch
            return batch["count"], batch["enough"]

        await world.upload(0, world.reports(11))
        assert await enough() == (11, False)
        # Whoever polls must not see when the twelfth report came.
        await world.upload(0, world.reports(12))
        assert await enough() == ((11, False) if rule else (12, True))
        world.reopen(0)
        world.clock.seconds += PRECISION - 1
        assert await enough() == ((11, False) if rule else (12, True))
        world.clock.seconds += 1
        assert await enough() == (12, True)
