"""The loss of any one container at any moment loses no acknowledged report: every one of them, once in each phase.

Server a keeps its tables in PostgreSQL, so that its database is among those that are lost. Moments are drawn from a
seed, and every loss is a SIGKILL, as a power cut is for one container.
"""

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.containers import PATIENCE, Stack, lose
from support.containers import stack as stack  # the fixture

KINDS = ("server-a", "server-b", "server-c", "proxy-a", "proxy-b", "proxy-c", "analyzer", "console", "database-a")
SEED = int(os.environ.get("LINTRA_LOSSES_SEED", "16"))
"""Another seed draws other moments and another order."""
LONGEST_UPLOADING = 4.0
"""Seconds between a container's start and the next loss, at most."""
LONGEST_RELEASING = 3.0
"""Seconds from the request of a release to the loss, at most: about as long as a release takes on an idle machine."""

pytestmark = [pytest.mark.slow, pytest.mark.e2e]


@contextmanager
def uploading(stack: Stack, task: str, acknowledged: set[str]) -> Iterator[None]:
    """Send rows one by one for as long as the block takes, and collect the identifiers of all acknowledged reports."""
    with stack.inside("stream", task) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield
        assert process.poll() is None, "the clients gave up"
        out, _ = process.communicate("enough\n", timeout=PATIENCE)
    assert process.returncode == 0, out
    acknowledged.update(out.split())


def held(out: str) -> set[str]:
    """Return the identifiers of the reports that a release was said to hold."""
    return set(out.split())


def test_the_loss_of_any_one_container_while_reports_arrive_or_are_released_loses_none_that_was_acknowledged(
    stack: Stack,
) -> None:
    drawn = random.Random(SEED)
    stack = stack.having("--env-file", "deploy/config/compose/postgres.env", "--profile", "postgres")
    stack("build", "database-a")
    stack("up", "-d", "--no-build")
    stack.healthy(PATIENCE)
    assert len(stack.health()) == len(KINDS)

    task, acknowledged = stack.asked("open"), set[str]()
    with uploading(stack, task, acknowledged):
        for kind in drawn.sample(KINDS, len(KINDS)):
            time.sleep(drawn.uniform(0, LONGEST_UPLOADING))
            lose(stack, kind)
    stack.healthy(PATIENCE)
    process = stack.inside("holds", task)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out
    assert len(acknowledged) > len(KINDS)
    assert held(out) >= acknowledged

    for kind in drawn.sample(KINDS, len(KINDS)):
        with stack.inside("whole") as process:
            assert process.stdout is not None
            _, begun, sent, releasing = (process.stdout.readline() for _ in range(4))
            assert (begun, releasing) == ("begun\n", "releasing\n")
            time.sleep(drawn.uniform(0, LONGEST_RELEASING))
            lose(stack, kind)
            out = process.stdout.read()
        assert process.returncode == 0, (kind, out)
        assert held(out) >= set(sent.split()), kind
        stack.healthy(PATIENCE)
