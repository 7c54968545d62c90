"""Rows of the analyzer's database as the rest of the analyzer knows them.

A row that this version cannot make sense of says so; it never keeps the rows beside it from being read.
"""

import json
from dataclasses import dataclass
from typing import Literal, get_args

from lintra_protocol.errors import InternalError
from lintra_protocol.http.problems import to_problem
from lintra_protocol.messages.documents import BATCH

EVERYBODY = "everybody"
"""The population of a task of which nothing else is said: whoever is in another one may be in it too."""

DocumentKind = Literal["inventory", "cohort", "check_share", "verdict", "sketch_share", "census", "first"]
Stage = Literal["inventory", "cohort", "checks", "verdict", "aggregate", "reconstruct", "released"]
JobState = Literal["running", "waiting", "failed", "merged", "released"]
Registration = Literal["pending", "accepted", "refused"]
Problem = dict[str, str | int | bool]


@dataclass(frozen=True)
class StoredTask:
    """A task as its author signed it, what the analyst had asked for, and whose rows it is about."""

    task_id: str
    record: bytes
    specification: bytes
    created_at: int
    population: str = EVERYBODY


@dataclass(frozen=True)
class StoredModel:
    """A model of several rounds, each a task; the analyzer makes them one after the other until it has ended."""

    task_id: str  #: of the first round; the model's name
    windows: int  #: how many windows, each with people of its own; 1 where the same people answer all rounds
    ended: str | None = None  #: why no further round is made


@dataclass(frozen=True)
class ServerState:
    """Whether one server took a task, and if not, in its own words why."""

    server: int
    state: Registration
    problem: Problem | None = None


@dataclass(frozen=True)
class Job:
    """How far the release of a task's batch is; `problem` says why it stands still."""

    task_id: str
    stage: Stage
    state: JobState
    problem: Problem | None = None
    release_id: str | None = None
    batch: int = BATCH


@dataclass(frozen=True)
class StoredRelease:
    """A release as its row holds it."""

    release_id: str
    task_id: str
    batch: int
    record: bytes


def job_of(task_id: str, stage: str, state: str, problem: str | None, release_id: str | None, batch: int) -> Job:
    """Return the job of a row; one of which this version cannot make anything has failed, and says so."""
    for known in (job for job in get_args(Stage) if job == stage):
        for understood in (job for job in get_args(JobState) if job == state):
            return Job(task_id, known, understood, _problem(problem), release_id, batch)
    return Job(task_id, "inventory", "failed", _unreadable(f"stage {stage!r}, state {state!r}"), release_id, batch)


def server_state_of(server: int, state: str, problem: str | None) -> ServerState:
    """Return what a row says of a server and a task."""
    for understood in (known for known in get_args(Registration) if known == state):
        return ServerState(server, understood, _problem(problem))
    return ServerState(server, "pending", _unreadable(f"state {state!r}"))


def _problem(text: str | None) -> Problem | None:
    try:
        found = None if text is None else json.loads(text)
    except ValueError:
        return _unreadable("no JSON")
    if found is not None and not isinstance(found, dict):
        return _unreadable("no JSON object")
    return found and {str(name): value for name, value in found.items() if isinstance(value, str | int)}


def _unreadable(why: str) -> Problem:
    detail = f"what is stored of it cannot be read ({why}); run `lintra analyzer doctor`"
    return dict(to_problem(InternalError(detail)))


def as_json(problem: Problem | None) -> str | None:
    """Return a problem as a row holds it."""
    return None if problem is None else json.dumps(problem)
