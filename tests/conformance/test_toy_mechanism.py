"""A new mechanism is a module and what it brings to each room: here all of it stands in this one file.

`first_column` releases the noisy total of the first column. Nothing of the product is changed for it; `added` puts it
where the product's own mechanisms stand, and then everything works: plan, task, client, three servers, release, reading
and both audits.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from math import isqrt
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pytest

from lintra_analysis.kinds.context import CalibrationContext
from lintra_analysis.kinds.decode import read
from lintra_analysis.kinds.kind import KINDS, Kind
from lintra_analysis.kinds.options import MechanismSpecification
from lintra_analysis.kinds.prediction import Expected
from lintra_analysis.kinds.released_parts import Earlier, scaled_columns
from lintra_analysis.plan.flags import PlanFlags
from lintra_analysis.releases.column_sums import Totals
from lintra_analysis.releases.release import Release
from lintra_audit.kinds.kind_audit import AUDITS, KindAudit, Planted
from lintra_audit.release.cases import case_of_task
from lintra_audit.release.run import audit_case
from lintra_audit.task.task import audit_task
from lintra_audit.trials.case import Case, make_case_task
from lintra_audit.trials.faults import FAULTS
from lintra_client.upload.client import Client
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidMessageError
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.layout import Block, Layout
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task
from lintra_protocol.transforms.ones import Ones
from support.analyzer_world import CLIENTS, NOW, clients, living
from support.kinds import added
from support.seeds import SEED

# --- protocol/mechanisms/first_column.py ----------------------------------------------------------------------


class FirstColumn(Mechanism):
    """The sum of the first column; a report is one word."""

    kind: Literal["first_column"] = "first_column"

    start_bits: ClassVar[int] = 24

    @property
    def num_rows(self) -> int:
        return 1

    def num_words(self, num_columns: int) -> int:
        return 1

    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        return Layout((Block("total", 1, self.sigma, isqrt(self.squared_person_bound), 2.0**-self.fraction_bits),))

    def encode_exactly(self, steps: IntArray) -> IntArray:
        return steps[:, :1]

    def public_matrix(self, num_clients: int, seed: bytes) -> Ones:
        return Ones(num_clients)

    def decode(self, sketch: IntArray, num_columns: int) -> FloatArray:
        total: FloatArray = sketch[0] * np.float64(2.0**-self.fraction_bits)
        return total

    def squared_distance(self, claim: Claim, num_columns: int) -> Fraction:
        return Fraction(4 if claim.neighbours == "replace-one" else 1) * self.squared_bound


# --- lintra_analysis/kinds/first_column.py ---------------------------------------------------------------------


class FirstColumnSpecification(MechanismSpecification):
    """The sum of the first column."""

    kind: Literal["first_column"]


def build(context: CalibrationContext[FirstColumnSpecification]) -> tuple[Claim, FirstColumn]:
    return context.measurement(FirstColumn.model_validate(context.uncalibrated("first_column")))


def predict(context: CalibrationContext[FirstColumnSpecification], mechanism: FirstColumn) -> Expected:
    sigma = mechanism.sigma * 2.0**-mechanism.fraction_bits
    return Expected(sigma, {"sum": math.sqrt(context.claim.min_clients) * sigma})


def decoded(task: Task, mechanism: FirstColumn, sketch: IntArray, row_counts: IntArray, earlier: Earlier) -> Release:
    num_clients = int(row_counts.sum())
    noise_sd = math.sqrt(num_clients) * mechanism.sigma * 2.0**-mechanism.fraction_bits
    values = mechanism.decode(sketch, task.num_columns)
    sums = Totals(scaled_columns(task)[:1], values, noise_sd, num_clients, float(fraction(mechanism.row_bound)))
    return Release(totals=sums)


KIND = Kind(FirstColumn, FirstColumnSpecification, build, predict, decoded)


# --- lintra_audit/kinds/first_column.py ------------------------------------------------------------------------


def cases() -> list[Case]:
    plain = FirstColumn(row_bound="1", fraction_bits=0, sigma=4)
    return [
        Case(
            "first-column",
            "first column, n = 4, d = 2",
            partial(make_case_task, plain, num_columns=2, min_clients=4),
            4,
        )
    ]


# --- what `added` stands for: a word in the list of mechanisms, and modules that are found by their name -------


@pytest.fixture(autouse=True)
def toy() -> Iterator[None]:
    fault = Planted("noise of nine tenths", FAULTS["sigma"], "first-column", frozenset({"noise law"}))
    brings = [
        (KINDS, KIND),
        (AUDITS, KindAudit(cases=cases, faults={"sigma": fault})),
    ]
    with added("first_column", FirstColumn, brings):
        yield


def made(min_clients: int = 12) -> Task:
    plain = FirstColumn(row_bound="1", fraction_bits=0, sigma=4)
    return make_case_task(plain, num_columns=3, min_clients=min_clients)


def test_it_is_planned_for() -> None:
    option = PlanFlags(columns=3, clients=1000).planned("first_column")
    assert option.mechanism.kind == "first_column"
    assert option.deviations["sum"] > 0
    assert option.report_bytes["uniform"] > 0


def test_its_tasks_are_read_from_bytes_and_checked() -> None:
    task = made()
    again = Task.from_canonical(task.canonical())
    assert again == task
    assert isinstance(again.mechanism, FirstColumn)
    again.check()


async def test_it_is_asked_for_sent_to_three_servers_released_and_read(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        task = await life.create("first_column")
        await life.upload(task)
        urls = [entry.url for entry in task.servers]
        async with Client(task.task_id, urls, ledger=None, transport=life.wires, now=lambda: NOW) as client:
            await client.send({"a": 0.25, "b": 0.5, "c": -0.5})
        record = life.service.record(await life.release(task)).record
        release = read(task, *life.service.archive.read(record))
    totals = release.totals
    assert totals is not None
    assert [column.name for column in totals.columns] == ["a"]
    assert record.num_clients == CLIENTS + 1
    truth = sum(row[0] for row, _ in clients(CLIENTS)) + 0.25
    # Six deviations of the noise that the release says it has.
    assert abs(float(totals.values[0]) - truth) < 6 * totals.noise_sd


def test_both_audits_know_it_and_less_noise_is_caught() -> None:
    (case,) = cases()
    assert audit_case(case, 4000, SEED).passed
    outcome = audit_case(case, 4000, SEED, AUDITS["first_column"].faults["sigma"].seams)
    assert "noise law" in {check.name for check in outcome.checks if not check.passed}
    assert audit_task(made(), 12, SEED).passed
    twin, _ = case_of_task(made(1000))
    assert twin.task.mechanism.kind == "first_column"


def test_a_kind_that_is_not_in_the_table_is_refused() -> None:
    data = made().canonical().replace(b'"first_column"', b'"third_column"')
    with pytest.raises(InvalidMessageError, match="mechanism"):
        Task.from_canonical(data)
