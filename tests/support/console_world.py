"""An analyzer with a task in every state and a release of every kind of mechanism, all made by the product itself."""

from dataclasses import dataclass, field

import httpx2
import numpy as np
import pytest

from lintra_client import Client
from lintra_protocol.ideal import client_report
from lintra_protocol.task import Task
from support import analyzer_world
from support.analyzer_world import CLIENTS, NOW, Answer, Life, clients, seeded, server_url, specification
from support.checked_world import hostile
from support.example_releases import SENSORS, WAVE, example_releases, sensors

MINUTE = 60
ORGANISATIONS = 5
NEWTON = {
    "mechanism": {"kind": "newton_step", "rounds": 2, "intercept": 1, "target": "c"},
    "row_bound": 2,
    "epsilon": 10,
    "min_clients": CLIENTS,
}
WINDOWS = {"window_seconds": 5 * MINUTE, "grace_seconds": MINUTE, "max_windows": 8, "max_merge": 2}


@dataclass
class Furnished:
    """What stands in the analyzer.

    Attributes:
        tasks: identifiers by the state that they are in.
        releases: identifiers by the mechanism, or by what is special about them.
    """

    tasks: dict[str, str] = field(default_factory=dict)
    releases: dict[str, str] = field(default_factory=dict)


async def furnish(life: Life, clock: pytest.MonkeyPatch) -> Furnished:
    """Make all of it; `clock` moves the time on, and back at its own end."""
    found = Furnished()
    found.tasks["windows"], found.tasks["stream"], found.releases["window"] = await _windows(life, clock)
    examples = await example_releases(life)
    names = {"second_moment": "flights", "histogram": "ages", "binary": "smokers", "wide": "sensors"}
    found.releases |= {name: examples[example] for name, example in names.items()}
    cells = await life.create("histogram_laplace", purpose="Cells, pure", row_bound=None, min_clients=CLIENTS)
    found.releases["histogram_laplace"] = await _released(life, cells)
    found.releases["survival"] = await _survival(life)
    found.releases["newton_step"] = await _released(life, await life.create(purpose="A Newton step", **NEWTON))
    for kind in ("sum", "sum_laplace", "osnap", "second_moment_wishart"):
        found.releases[kind] = await _released(life, await life.create(kind, purpose=f"A {kind}", min_clients=CLIENTS))
    published = {"kind": "osnap_published", "rows": 2, "entry_bound": 1, "published_epsilon": 1}
    task = await life.create(mechanism=published, row_bound=None, min_clients=250)
    found.releases["osnap_published"] = await _released(life, task, 256)
    found.releases["range_finder"], found.releases["two rounds"] = await _two_rounds(
        life, {"columns": SENSORS, "mechanism": WAVE | {"rounds": 2, "rank": 8}, "row_bound": 1.7, "epsilon": 10}
    )
    found.releases["ron_gauss"], found.releases["ron_gauss_centred"] = await _two_rounds(
        life, {"mechanism": {"kind": "ron_gauss", "bins": 4, "rounds": 2}, "epsilon": 10}, {"row_bound": 2}
    )
    found.releases["verified"] = await _verified(life)
    found.releases["organisations"] = await _organisations(life)
    found.tasks |= await _tasks(life)
    return found


async def _released(life: Life, task: Task, count: int = CLIENTS) -> str:
    await life.upload(task, count)
    return await life.release(task)


async def _survival(life: Life) -> str:
    """Release cells of a time crossed with an event and a group."""
    told = [{"name": name, "kind": "boolean"} for name in ("b", "c")]
    mechanism = {"kind": "histogram", "cells": 4, "survival": {"time": "a", "event": "b", "end": 0.5}}
    columns = [{"name": "a", "lower": -1, "upper": 1}, *told]
    task = await life.create(
        purpose="How long?", columns=columns, mechanism=mechanism, row_bound=None, min_clients=CLIENTS
    )
    numbers = np.random.default_rng(5).uniform(-1, 1, (CLIENTS, 3))
    rows = np.column_stack([numbers[:, :1], numbers[:, 1:] > 0])
    await life.upload(task, rows=[(row, seeded(f"survival {place}")) for place, row in enumerate(rows)])
    return await life.release(task)


async def _windows(life: Life, clock: pytest.MonkeyPatch) -> tuple[str, str, str]:
    """Release some windows of a task: one of its own, two together, and one that will never be; and two of a stream."""
    asked = {
        "windows": WINDOWS,
        "reports_per_source": 3,
        "time_precision": MINUTE,
        "max_corrupt_clients": 1,
        "epsilon": 1,
    }
    task = await life.create("sum", purpose="How many steps a week?", **asked)
    plain = {name: value for name, value in WINDOWS.items() if name != "max_merge"}
    streaming = {"windows": plain | {"stream": {}}, "reports_per_source": 1, "time_precision": MINUTE, "epsilon": 1}
    stream = await life.create("sum", purpose="How much sleep a week?", noise="servers", **streaming)
    for window, count in enumerate((CLIENTS, 8, CLIENTS, 0, 3)):
        clock.setattr(analyzer_world, "NOW", NOW + 5 * window * MINUTE)
        if count:
            await life.upload(task, count, label=f"window {window}", batch=window)
        if count == CLIENTS:
            await life.upload(stream, count, label=f"stream {window}", batch=window)
    clock.setattr(analyzer_world, "NOW", NOW + 5 * 6 * MINUTE + 2 * MINUTE)
    while started := life.service.schedule.look():
        for job in started:
            await life.service.jobs.finished(job.task_id, job.batch)
    (first, *_) = [each.release_id for each in life.service.windows(task.task_id, 0, 9) if each.release_id]
    return task.task_id, stream.task_id, first


async def _two_rounds(life: Life, asked: dict[str, object], second: dict[str, object] | None = None) -> tuple[str, str]:
    """Release the first task of two rounds, and the second that follows it."""
    many = asked.get("columns") is SENSORS
    rows = [(row, seeded(f"wide {number}")) for number, row in enumerate(sensors()[:CLIENTS])] if many else None
    first = await life.create(**asked)
    await life.upload(first, rows=rows)
    releases = [await life.release(first)]
    async with life.rest() as rest:
        made = await rest.post(f"/v1/tasks/{first.task_id}/second-round", json=second or {})
    assert made.status_code == 201, made.text
    follows = life.service.task(made.json()["task_id"])
    await life.upload(follows, rows=rows)
    return releases[0], await life.release(follows)


async def _verified(life: Life) -> str:
    """Release a verified task in which two clients cheat."""
    task = await life.create("sum", verification="norm", max_clients=100, purpose="Verified, and two cheat")
    honest = [client_report(task, row, task.not_before, rng) for row, rng in clients(36)]
    await life.send(task, [*honest, *hostile(task, 2)])
    return await life.release(task)


async def _organisations(life: Life) -> str:
    """Release what five organisations send, one report each."""
    asked = {"min_clients": ORGANISATIONS, "max_clients": ORGANISATIONS, "max_missing": None}
    who = {"contributors": {"rows_per_person": 3, "max_rows": 500}}
    task = await life.create("second_moment", purpose="Five hospitals", **asked, **who)
    urls = [server_url(server) for server in range(3)]
    for number in range(ORGANISATIONS):
        rows = np.random.default_rng(number).uniform(-1, 1, (60, 3))
        persons = [f"person {place // 3} of {number}" for place in range(len(rows))]
        now = analyzer_world.NOW
        async with Client(task.task_id, urls, now=lambda now=now: now, transport=life.wires, ledger=None) as one:  # type: ignore[misc]
            await one.contribute(rows, person=persons, random_bytes=seeded(f"organisation {number}"))
    return await life.release(task)


async def _tasks(life: Life) -> dict[str, str]:
    """Make tasks that are not released: one collects, one lacks reports, and one server does not know the last."""
    collecting = await life.create("second_moment", purpose="It still collects", client_auth="token")
    waiting = await life.create("sum", purpose="It lacks reports")
    await life.upload(waiting, 5)
    await life.upload(waiting, 2, servers=(0,), label="late")
    life.service.start_release(waiting.task_id)
    await life.service.jobs.finished(waiting.task_id)

    def away(server: int, request: httpx2.Request, answer: Answer) -> Answer:
        if server == 1:
            raise httpx2.ConnectError("gone", request=request)
        return answer

    life.wires.fault = away
    async with life.rest() as rest:
        await rest.post("/v1/tasks", json=specification("sum", purpose="A server does not know it"))
    life.wires.fault = None
    (unknown,) = [one.task_id for one in life.service.store.tasks() if "does not know" in one.specification.decode()]
    return {"collecting": collecting.task_id, "waiting": waiting.task_id, "not registered": unknown}
