"""A disk that fails while a task is registered: nobody hears of a task of which nobody knows whether it is there."""

import errno
import os
from contextlib import closing
from pathlib import Path

import pytest

from support.server_world import new_world


async def test_a_registration_of_which_nobody_knows_whether_it_has_its_line_ends_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(new_world(tmp_path, "sum")) as world:
        journal, synchronised = world.apps[0].node.stepper._journal, os.fsync

        def fail(descriptor: int) -> None:
            if descriptor == journal._file:
                raise OSError(errno.EIO, "the disk fails")
            synchronised(descriptor)

        monkeypatch.setattr(os, "fsync", fail)
        assert (await world.register(0)).status_code == 503
        assert "could not be synchronised" in world.halts[0]
        monkeypatch.undo()
        world.kill(0)
        world.start(0)
        assert (await world.register(0)).status_code in (200, 201)
        assert (await world.upload(0, world.reports(3))).failures == ()
