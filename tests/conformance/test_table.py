"""A mechanism brings everything or does not pass: one row a kind, one column for each thing that it must bring.

A missing cell fails with its name. A cell may be left out only where the mechanism's page says so, in a sentence that
begins with "Does not apply" and the name of the cell.
"""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import fields as dataclass_fields
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from lintra_analysis.kinds.decode import read
from lintra_analysis.kinds.kind import KINDS
from lintra_analysis.kinds.planned import PlannedMechanism
from lintra_analysis.kinds.released_parts import number_of_rows
from lintra_analysis.plan.flags import PlanFlags
from lintra_analysis.trial.error_forecast import foresee
from lintra_audit.kinds.kind_audit import AUDITS
from lintra_audit.release.run import audit_case
from lintra_audit.task.cli import audit_matrix, audit_task
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidMessageError
from lintra_protocol.mechanisms import MECHANISMS, Mechanism
from lintra_protocol.task import Task
from support import source
from support.analyzer_world import CLIENTS, Life, living
from support.conformance import conformance
from support.kinds import added
from support.measured import clip_steps, clip_words, layout_of, measurement_of
from support.seeds import SEED
from support.tasks import make_task

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
from making.mechanism_table import MARK, mechanism_table  # noqa: E402

TRIALS = 2000
"""Runs of each world in which a planted fault must be caught; a check raises a false alarm below 0.2 %."""


def page_of(kind: str) -> str:
    path = ROOT / "docs/reference/mechanisms" / f"{kind}.md"
    assert path.exists(), f"docs/reference/mechanisms/{kind}.md is missing"
    return path.read_text("utf-8")


@cache
def vectors() -> list[dict[str, object]]:
    return json.loads((ROOT / "tests/vectors/release.json").read_text("ascii"))


def of_vectors(kind: str) -> None:
    """Fixed rows make fixed sketches, and fixed sketches fixed numbers."""
    found = {v["operation"] for v in vectors() if v["input"].get("mechanism", {}).get("kind") == kind}  # type: ignore[attr-defined]
    assert found == {"sketch", "decode"}, f"tests/vectors/release.json has {sorted(found)} of {kind}"


def of_privacy(kind: str) -> None:
    """The statement keeps the claim that the noise was calibrated for, and with less noise it does not."""
    task = make_task(kind, min_clients=600)
    statement = task.privacy(600)
    statement.require(task.claim)
    assert 0 < statement.mu < np.inf
    less = task.mechanism.model_copy(update={"sigma": task.mechanism.sigma * 9 // 10})
    assert measurement_of(less, 3, task.claim).privacy(600).epsilon > statement.epsilon


FLAGS = PlanFlags(columns=3, clients=2000, epsilon="2", delta="0.00001", corrupt=0, rows=4, noise="clients")


@cache
def planned(kind: str) -> PlannedMechanism:
    return FLAGS.planned(kind)


def required(kind: str) -> list[str]:
    """Return the options that whoever asks for a kind must say, and that no flag of a plan sets."""
    spec = KINDS[kind].spec
    fields = {} if spec is None else spec.model_fields
    flags = {one.name for one in dataclass_fields(PlanFlags)} | {"entry_bound"}
    return [name for name, one in fields.items() if one.is_required() and name not in flags | {"kind"}]


def of_plan(kind: str) -> None:
    """The plan has the error of the release and the bytes of a report."""
    assert not required(kind), f"an option without a default or a flag of `lintra plan`: {required(kind)}"
    option = planned(kind)
    assert option.mechanism.kind == kind
    assert option.deviations, "no deviation of any released number"
    assert min(option.deviations.values()) > 0
    assert min(option.report_bytes.values()) > 8 * layout_of(option.mechanism, 3).num_noised


def of_reading(kind: str) -> None:
    """Released integers become a release with columns or a table that estimators read."""
    task = make_task(kind, min_clients=max(60, conformance(kind).clients))
    matrix = task.mechanism.public_matrix(task.claim.min_clients, bytes(32))
    sketch = np.full((matrix.rows, task.sketch_words), 2**20, np.int64)
    release = read(task, sketch, matrix.row_counts())
    names, values = release.table()
    assert len(names) == values.size > 0 or values.ndim == 2


def of_asking(kind: str) -> None:
    """An analyst can ask for it in a few lines."""
    described = KINDS[kind]
    assert described.mechanism is MECHANISMS[kind]
    assert described.spec is not None, "nothing is asked for"
    assert described.spec.model_fields["kind"].annotation == Literal[kind]


def of_audit_of_the_release(kind: str) -> None:
    """At least one planted mistake is caught by a check that it names; tests/statistical runs all, and none."""
    audit = AUDITS[kind]
    cases = {case.name: case for case in audit.cases()}
    assert cases, "no case"
    assert {case.task.mechanism.kind for case in cases.values()} == {kind}
    assert audit.faults, "no planted fault"
    shown = min(audit.faults.values(), key=lambda planted: cases[planted.case].num_clients)
    outcome = audit_case(cases[shown.case], TRIALS, SEED, shown.seams)
    failed = {check.name for check in outcome.checks if not check.passed}
    assert failed & shown.caught_by, f"{shown.about}: not caught"


def of_audit_of_the_task(kind: str) -> None:
    """Its promise is recomputed by another route, and one for half of the noise is refuted."""
    task = make_task(kind, min_clients=max(60, conformance(kind).clients))
    assert audit_task(task, task.claim.min_clients, SEED).passed, "the true promise fails"
    less = task.mechanism.model_copy(update={"sigma": task.mechanism.sigma // 3})
    boast = task.model_copy(update={"mechanism": less})
    matrix = less.public_matrix(task.claim.min_clients, bytes(32))
    assert not audit_matrix(boast, matrix).passed, "a third of the noise passes"


@cache
def counting_vectors() -> set[str]:
    """Return the kinds whose vectors have a clip counter."""
    files = ((ROOT / "tests/vectors" / f"{name}.json") for name in ("encoding", "joint", "centred", "release"))
    given = [vector["input"].get("mechanism", {}) for file in files for vector in json.loads(file.read_text("ascii"))]
    return {mechanism["kind"] for mechanism in given if "clip_count_weight" in mechanism}


def of_clip_counter(kind: str) -> None:
    """Clipped rows can be counted: paid for in the claim, planned, read, in vectors, and checked by the audit."""
    assert "clip counter" in MECHANISMS[kind].allows, "it cannot count"
    option, claim = planned(kind), FLAGS.context(kind).claim
    assert option.deviations["clipped rows"] > 0, "it is not planned"
    counting = option.mechanism
    bare = counting.model_copy(update={"clip_count_weight": "0"})
    free, paid = (measurement_of(one, 3, claim).privacy(claim.min_clients).mu for one in (bare, counting))
    assert 1.01 < paid / free < 1.02, "the claim does not pay for it"
    task = make_task(counting, check=False)
    matrix = counting.public_matrix(claim.min_clients, bytes(32))
    sketch = np.full((matrix.rows, task.sketch_words), 2**20, np.int64)
    clipped = read(task, sketch, matrix.row_counts()).clipped
    assert clipped is not None, "it is not read"
    assert clipped.estimate == 2**20 / clip_steps(counting)
    assert kind in counting_vectors(), "no vectors"
    faults = [fault for name, fault in AUDITS[kind].faults.items() if name.startswith("free-clip-count")]
    cases = {case.name: case.task.mechanism for case in AUDITS[kind].cases()}
    assert any(clip_words(cases[fault.case]) for fault in faults), "no count that is not paid for is planted"


@cache
def contributed_vectors() -> set[str]:
    """Return the kinds whose vectors have contributions of organisations."""
    given = json.loads((ROOT / "tests/vectors/organisations.json").read_text("ascii"))
    return {vector["input"]["mechanism"]["kind"] for vector in given if vector["operation"].endswith("contribution")}


def of_contributors(kind: str) -> None:
    """Organisations can contribute: in vectors, asked for, planned, read by rows, and audited."""
    assert "contributors" in MECHANISMS[kind].allows, "organisations cannot contribute"
    assert kind in contributed_vectors(), "no vectors"
    specification = KINDS[kind].spec
    assert specification is not None
    asked = {
        "purpose": "a test",
        "columns": [{"name": name, "lower": -1, "upper": 1} for name in "abc"],
        "mechanism": {"kind": kind},
        "row_bound": 1 if specification.takes_norm else None,
        "epsilon": 1,
        "min_clients": 3,
        "max_clients": 3,
        "contributors": {"rows_per_person": 1, "max_rows": 1000},
    }
    task = foresee(asked, None, None, 10**9, source(kind), 400).task
    rows = np.zeros((250, 3))
    reports = [task.encode_contribution(rows, np.arange(250), source(f"{kind} {k}")) for k in range(3)]
    sketch, row_counts = np.sum(reports, axis=0)[np.newaxis], np.array([3])
    assert read(task, sketch, row_counts).table()[1].size > 0, "it is not read"
    assert number_of_rows(task, sketch, row_counts) == 750, "reports are taken for rows"
    audit = AUDITS[kind].organisations
    assert audit is not None, "no audit"
    cases = {case.name: case for case in audit.cases()}
    (shown,) = (planted for name, planted in audit.faults.items() if name.startswith("one-place"))
    outcome = audit_case(cases[shown.case], TRIALS, SEED, shown.seams)
    assert {check.name for check in outcome.checks if not check.passed} >= shown.caught_by, f"{shown.about}: not caught"


def of_page(kind: str) -> None:
    """Its page names every field."""
    page = page_of(kind)
    assert page.startswith(f"# `{kind}`")
    for field in MECHANISMS[kind].model_fields:
        assert f"`{field}`" in page, f"the page does not name {field}"


def of_papers(kind: str) -> None:
    """The page of the papers has a line of it, made from the header of its own page."""
    assert MARK in (ROOT / "docs/explanation/papers.md").read_text("utf-8")
    assert f"`mechanisms/{kind}.py`" in mechanism_table()


CELLS: dict[str, Callable[[str], None]] = {
    "vectors": of_vectors,
    "privacy statement": of_privacy,
    "plan": of_plan,
    "reading": of_reading,
    "asking": of_asking,
    "audit of the release": of_audit_of_the_release,
    "audit of the task": of_audit_of_the_task,
    "clip counter": of_clip_counter,
    "contributors": of_contributors,
    "page": of_page,
    "line in docs/explanation/papers.md": of_papers,
}


def left_out(kind: str, cell: str) -> str | None:
    """Return the sentence of a mechanism's page that says why a cell does not apply to it, if there is one."""
    path = ROOT / "docs/reference/mechanisms" / f"{kind}.md"
    if not path.exists():
        return None
    found = re.search(rf"Does not apply: {re.escape(cell)}\. [^.]{{20,}}\.", path.read_text("utf-8"))
    return found and found[0]


def fill(kind: str, cell: str) -> None:
    """Check one cell of the table; a cell that is not filled fails with its name."""
    try:
        CELLS[cell](kind)
    except Exception as error:
        if left_out(kind, cell):
            return
        pytest.fail(f"{kind}: the cell {cell!r} is missing: {error}")
    assert not left_out(kind, cell), f"{kind}: the page says that the cell {cell!r} does not apply, but it is filled"


def cells() -> list[object]:
    """Return every kind with every cell; audits of large cohorts are for the long tests."""
    every = [(kind, cell) for kind in sorted(MECHANISMS) for cell in CELLS]
    slow = {(kind, cell) for kind, cell in every if cell in conformance(kind).slow}
    return [pytest.param(*both, marks=[pytest.mark.slow] * (both in slow)) for both in every]


def test_every_room_knows_every_mechanism() -> None:
    for table in (KINDS, AUDITS):
        assert set(table.all()) == set(MECHANISMS)
    assert all(audit.cases and audit.faults for audit in AUDITS.all().values())


@pytest.mark.parametrize(("kind", "cell"), cells())
@pytest.mark.grid(3)
def test_a_mechanism_fills_every_cell_of_the_table(kind: str, cell: str) -> None:
    fill(kind, cell)


class Bare(MECHANISMS["sum"]):  # type: ignore[name-defined, misc]
    """A mechanism that brings nothing."""

    kind: Literal["bare"] = "bare"


@pytest.mark.parametrize("cell", sorted(set(CELLS) - {"privacy statement"}))
def test_a_mechanism_that_brings_nothing_fails_with_the_name_of_each_cell(cell: str) -> None:
    with added("bare", Bare, []), pytest.raises(pytest.fail.Exception, match=f"bare: the cell '{cell}' is missing"):
        fill("bare", cell)


# --- one end-to-end release of each ---------------------------------------------------------------------------


async def run(life: Life, kind: str) -> str:
    """Return the release of a task as tests/kinds asks for it; of two rounds that of the second."""
    held = conformance(kind)
    count = held.run_clients or CLIENTS
    task = await life.create(mechanism=dict(held.run), **held.task)
    await life.upload(task, count)
    release = await life.release(task)
    if not held.second_round:
        return release
    async with life.rest() as rest:
        answer = await rest.post(f"/v1/tasks/{task.task_id}/second-round", json={})
    second = life.service.task(answer.json()["task_id"])
    await life.upload(second, count)
    return await life.release(second)


@pytest.mark.parametrize(
    "kind",
    # The quick tests have releases of most kinds elsewhere, in tests/unit/lintra_analyzer.
    [pytest.param(kind, marks=[pytest.mark.slow] * ("run" in conformance(kind).slow)) for kind in sorted(MECHANISMS)],
)
async def test_it_is_asked_for_sent_to_three_servers_released_and_read(kind: str, tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        release_id = await run(life, kind)
        record = life.service.record(release_id).record
        task = life.service.task(record.task_id)
        sketch, _ = life.service.archive.read(record)
        assert task.mechanism.kind == kind
        ideal = life.ideal(task, record.num_clients).values
        release = measurement_of(task, task.num_columns).decode(sketch)
    np.testing.assert_allclose(released(release), released(ideal), rtol=1e-12)


def released(values: FloatArray) -> FloatArray:
    return np.asarray(values).ravel()


def test_what_was_added_for_a_test_is_gone_afterwards() -> None:
    with added("bare", Bare, []):
        data = make_task("sum").canonical().replace(b'"kind":"sum"', b'"kind":"bare"')
        assert Task.from_canonical(data).mechanism.kind == "bare"
    assert "bare" not in MECHANISMS
    with pytest.raises(InvalidMessageError, match="mechanism"):
        Task.from_canonical(data)


def test_a_mechanism_is_no_more_than_its_own_rooms_know() -> None:
    """Nothing but the tables knows the kinds: no module of the analyst's side asks which class a mechanism is."""
    classes = {member.__name__ for member in MECHANISMS.values()} | {Mechanism.__name__}
    asks = re.compile(rf"isinstance\([^)]*\b({'|'.join(classes)})\b")
    files = sorted((ROOT / "analyzer").rglob("*.py"))
    assert [f.name for f in files if asks.search(f.read_text("utf-8"))] == []
